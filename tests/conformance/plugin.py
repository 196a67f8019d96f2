"""A plugin whose checks go wrong on purpose: they die, hang, leak, lie. It adds kinds of resources of its own."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from portamem.conformance import Kind, register
from portamem.conformance.contract import alloc
from portamem.conformance.contract.clause import Defect
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.outcome import NotShown, NoWitness, Unsupported

register(
    Kind(
        "small pool",
        lambda pm, device: pm.AsyncMemoryResource(device, release_threshold=0),
        "async",
        stream_ordered=True,
    )
)


def wanted(name: str) -> bool:
    return name in os.environ.get("PLUGIN", "").split(",")


if wanted("classless kind"):
    register(Kind("classless", lambda pm, device: pm.StatisticsAdaptor(pm.DeviceMemoryResource(device)), "device"))

if wanted("broken kind"):

    class Overlapping:
        """A resource that hands out the same memory twice."""

        kind = "device"
        is_stream_ordered = False
        is_closed = False
        live_buffers = 0

        def __init__(self, pm: Any, device: Any) -> None:
            self._all = pm.DeviceMemoryResource(device)
            self._buf = self._all.allocate(4 << 20)
            self._pm = pm

        def allocate(self, nbytes: int, *, stream: Any = None) -> Any:
            return self._pm.Buffer.from_handle(self._buf.handle, nbytes, owner=self._buf)

        def close(self) -> None:
            self._buf.close()
            self._all.close()

    register(Kind("overlapping", Overlapping, "device"))

if wanted("death"):

    @check("ALLOC-01")
    def dies(env: Env, resource: Any) -> None:
        if resource.kind == "pinned":
            os.abort()


if wanted("quiet end"):

    @check("ALLOC-01", own_process=True)
    def ends(env: Env) -> None:
        os._exit(0)


if wanted("hang"):

    @check("ALLOC-01")
    def hangs(env: Env) -> None:
        time.sleep(1000)


if wanted("long way"):

    @check("ALLOC-01")
    def takes_its_time(env: Env) -> None:
        for _ in range(8):
            time.sleep(0.25)
            env.goes_on()
        expect(True, "never said")


if wanted("leak"):

    @check("ALLOC-01")
    def leaks(env: Env) -> None:
        env.resource("device").allocate(4096).release()


if wanted("failure"):

    @check("ALLOC-01")
    def fails(env: Env) -> None:
        expect_bytes(b"\x00\x01", b"\x00\x02", "here")


if wanted("known defect"):
    since, until = (tuple(map(int, bound.split("."))) for bound in os.environ["DEFECT_VERSIONS"].split())
    known = ("plugin.fails", "plugin.is_fine", "plugin.is_done_by_hand")
    forgets = Defect("portamem", "it forgets", "https://example.org/1", "seen in a dream", known, since, until)
    alloc.CLAUSES = tuple(
        replace(clause, defects=(forgets,)) if clause.id == "ALLOC-01" else clause for clause in alloc.CLAUSES
    )


if wanted("nothing wrong"):

    @check("ALLOC-01")
    def is_fine(env: Env) -> None:
        expect(True, "never said")


if wanted("nothing native"):

    @check("ALLOC-01")
    def is_done_by_hand(env: Env) -> None:
        env.emulated("done by hand")
        expect(True, "never said")


if wanted("error"):

    @check("ALLOC-01")
    def errs(env: Env) -> None:
        raise OSError("/home/somebody/secret.txt")


if wanted("no refusal"):

    @check("ALLOC-01")
    def refuses_nothing(env: Env) -> None:
        with refused(ValueError):
            pass


if wanted("shut latch"):

    @check("ALLOC-01")
    def waits_for_itself(env: Env) -> None:
        stream = env.stream()
        env.latch(stream)
        stream.synchronize()


if wanted("answers"):

    @check("ALLOC-02")
    def lacks(env: Env) -> None:
        raise Unsupported("wings: there are none")

    @check("ALLOC-03")
    def helps(env: Env) -> None:
        env.emulated("done by hand")
        env.note("a note")
        expect(True, "never said")
        expect_equal(1, 1, "one")

    @check("ALLOC-01")
    def sees_nothing(env: Env) -> None:
        raise NotShown("it is dark")


if wanted("no witness"):

    @check("ALLOC-01")
    def asks_nobody(env: Env) -> None:
        raise NoWitness("no witness: it has gone home")


if wanted("no order"):

    def _reads_what_is_written(env: Env) -> None:
        one, other = env.stream(), env.stream()
        with env.allocate(env.resource("device"), 4096, one) as buf:
            buf.fill(1, stream=other)
            buf.copy_to(bytearray(4096), stream=one)
            other.synchronize()

    @check("ALLOC-01")
    def forgets_an_event(env: Env) -> None:
        _reads_what_is_written(env)

    @check("ALLOC-02", unordered=True)
    def means_to(env: Env) -> None:
        _reads_what_is_written(env)
