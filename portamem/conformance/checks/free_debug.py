# SPDX-License-Identifier: MIT
"""Shows the clause of redzones, in programs of their own: PORTAMEM_DEBUG is read once."""

from __future__ import annotations

import json

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal

# Every kind of resource in one process, since starting is most of what a process takes.
BESIDE = """
    import portamem
    from portamem.conformance.kit.kinds import KINDS

    device = pm.Device(0)
    stream = device.default_stream

    def peek(address, nbytes):
        out = bytearray(nbytes)
        pm.copy(out, pm.Buffer.from_handle(address, nbytes, device=device, stream=stream))
        return bytes(out)

    def poke(address, data):
        pm.copy(pm.Buffer.from_handle(address, len(data), device=device, stream=stream), data)

    def look(name, resource, nbytes):
        good, before, behind = (resource.allocate(nbytes, stream=stream) for _ in range(3))
        assert peek(good.handle, nbytes) == b"\\xa5" * nbytes, f"{name}: fresh memory"
        data = bytes(i % 251 for i in range(nbytes))
        for buf in (good, before, behind):
            poke(buf.handle, data)
        poke(before.handle - 2, b"x")
        poke(behind.handle + nbytes + 1, b"xyz")
        assert all(peek(buf.handle, nbytes) == data for buf in (good, before, behind)), f"{name}: memory inside"
        good.close()
        for buf, words in ((before, "byte 2 before its start"), (behind, "bytes 2 to 4 behind its end")):
            try:
                buf.close()
            except portamem.Error as error:
                assert error.name == "Corrupted", f"{name}: {error.name}"
                assert words in str(error) and f"of {nbytes} bytes" in str(error), f"{name}: {error}"
            else:
                raise AssertionError(f"{name}: a write beside a buffer was not found, {words}")
            buf.close()
        stream.synchronize()
        if name != "default":
            resource.close()

    seen = 0
    for name, kind in KINDS.items():
        kind = kind.on(direct_host_access=bool(device.capabilities.direct_host_access))
        if kind.needs(device.capabilities):
            look(name, kind.make(pm, device), 1000)
            seen += 1
    default = pm.current_resource(device)
    look("default", default, 1000)
    print(seen, default.live_buffers)
"""


@check("FREE-15")
def a_write_beside_a_buffer_is_found(env: Env) -> None:
    ended = env.run(BESIDE, PORTAMEM_DEBUG="1")
    expect_equal(ended.status, 0, f"the exit status, after {ended.stderr.strip()[-2000:]!r}")
    seen, left = map(int, ended.stdout.split())
    expect(seen > 5, f"{seen} kinds of resources were looked at")
    expect_equal(left, 0, "live buffers of the default")
    expect("portamem: debug: memory was written outside" in ended.stderr, f"it said {ended.stderr!r}")


# The turns go beyond the frees that debug mode remembers.
TWICE = """
    stream = pm.Stream(pm.Device(0))
    resource = pm.PoolMemoryResource(device=0)

    def turn(nbytes, turns):
        for _ in range(turns):
            where = resource.allocate(nbytes, stream=stream).release()
            resource.deallocate(where, nbytes, stream=stream)
        return where

    def twice(nbytes, turns):
        where = turn(nbytes, turns)
        try:
            resource.deallocate(where, nbytes, stream=stream)
        except ValueError as error:
            assert f"freed twice: {nbytes} bytes" in str(error), error
        else:
            raise AssertionError("freed twice")

    twice(1000, 4090)
    with resource.allocate(1000, stream=stream) as held:
        held.fill(7, stream=stream)
        twice(70000, 60)
        found = bytearray(1000)
        pm.copy(found, held)
        assert found == bytes([7]) * 1000
    twice(1000, 4200)
    stream.synchronize()
    resource.close()
    print("refused")
"""


@check("FREE-16")
def a_second_free_after_many(env: Env) -> None:
    expect_equal(env.output(TWICE, PORTAMEM_DEBUG="1").strip(), "refused", "what a program found that frees twice")


STILL_OUT = """
    stream = pm.Device(0).default_stream
    resource = pm.DeviceMemoryResource(0)
    for nbytes in (1000, 1001, 1002):
        where = resource.allocate(nbytes, stream=stream).release()
        pm.copy(pm.Buffer.from_handle(where + nbytes, 1, device=pm.Device(0), stream=stream), b"x")
    for call, nth in json.loads(sys.argv[1]):
        pm.knobs.fail_call(call, nth=nth, code=2)
"""


def _said_at_the_end(env: Env, *failing: tuple[str, int]) -> list[str]:
    ended = env.run(STILL_OUT, json.dumps(failing), PORTAMEM_DEBUG="1")
    expect_equal(ended.status, 0, f"the exit status, after {ended.stderr.strip()[-2000:]!r}")
    return [line for line in ended.stderr.splitlines() if "byte 1 behind its end" in line]


@check("FREE-17")
def what_is_out_at_the_end(env: Env) -> None:
    said = _said_at_the_end(env)
    for nbytes in (1000, 1001, 1002):
        expect(any(f"of {nbytes} bytes" in line for line in said), f"nothing is said of {nbytes} bytes: {said}")
    expect_equal(len(said), 3, "lines")


@check("FREE-17", backends=("host",))
def where_some_cannot_be_read(env: Env) -> None:
    for nth in (1, 2, 3):  # three times, a look at both sides
        expect_equal(len(_said_at_the_end(env, ("MemcpyAsync", nth))), 2, f"lines where read {nth} fails")
