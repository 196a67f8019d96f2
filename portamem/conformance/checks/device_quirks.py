# SPDX-License-Identifier: MIT
"""Shows the clauses of quirks: known faults of runtimes, and what portamem does about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern

OWN_STREAM, TINY, BRIDGED = "free_on_other_stream", "tiny_pool_allocation", "pinned_flags_drop_coherence"
DIRECTION = "pitched_copy_direction"
POLICIES = {"free_on_allocating_stream", "at_least_eight_bytes", "explicit_copy_kind", "bridged", "report"}


@contextmanager
def switched(env: Env, name: str, on: bool | None) -> Iterator[None]:
    """Switches a quirk for a block, and then back to what it was, by the environment perhaps."""
    before = env.pm.set_quirk(name, on)
    try:
        yield
    finally:
        env.pm.set_quirk(name, before)


@contextmanager
def as_the_table_says(env: Env) -> Iterator[None]:
    """Switches no quirk for a block, whatever the environment says."""
    with ExitStack() as block:
        for quirk in env.device.quirks:
            if quirk.policy != "bridged":
                block.enter_context(switched(env, quirk.name, None))
        yield


def active(device: Any, name: str) -> list[bool]:
    return [quirk.is_active for quirk in device.quirks if quirk.name == name]


@check("DEVICE-18")
def told_whole(env: Env) -> None:
    with switched(env, OWN_STREAM, True), switched(env, TINY, True):
        found = env.device.quirks
        expect({OWN_STREAM, TINY} <= {quirk.name for quirk in found}, "what was switched on is not told")
        for quirk in found:
            expect(quirk.policy in POLICIES, f"the policy of {quirk.name} is {quirk.policy!r}")
            expect("#" in quirk.thread and quirk.about, f"{quirk.name} has no thread, or is about nothing")
            expect(quirk.name in repr(quirk), f"{quirk.name} is not in {quirk!r}")
            fields = ("name", "policy", "is_active", "about", "thread")
            expect_equal(quirk.as_dict(), {name: getattr(quirk, name) for name in fields}, "as_dict")
        policies = {quirk.name: quirk.policy for quirk in found}
        expect_equal(policies[OWN_STREAM], "free_on_allocating_stream", f"the policy of {OWN_STREAM}")
        expect_equal(policies[TINY], "at_least_eight_bytes", f"the policy of {TINY}")
    with switched(env, DIRECTION, True):
        told = [quirk.policy for quirk in env.device.quirks if quirk.name == DIRECTION]
        expect_equal(told, ["explicit_copy_kind"], f"the policy of {DIRECTION}")


@check("DEVICE-19")
def switches(env: Env) -> None:
    for device in env.pm.devices():
        for name in (OWN_STREAM, TINY):
            with switched(env, name, None):
                from_table = active(device, name)
                with switched(env, name, True):
                    expect_equal(active(device, name), [True], f"{name}, switched on")
                with switched(env, name, False):
                    expect_equal(active(device, name), [False] * len(from_table), f"{name}, switched off")
                    told = [repr(quirk) for quirk in device.quirks if quirk.name == name]
                    expect(all("off" in each for each in told), f"{told} does not say that it is off")
                expect_equal(active(device, name), from_table, f"{name}, left to the table")
                before = [env.pm.set_quirk(name, on) for on in (True, False, None)]
                expect_equal(before, [None, True, False], f"how {name} was switched before")
    with refused(ValueError, saying=OWN_STREAM):
        env.pm.set_quirk("no_such_quirk", True)
    for on in (True, False, None):
        with refused(ValueError, saying="cannot be switched"):
            env.pm.set_quirk(BRIDGED, on)
    for wrong in (1, "off", 0.0):
        with refused(TypeError, saying="True, False or None"):
            env.pm.set_quirk(OWN_STREAM, wrong)


TELL = "print(*(f'{quirk.name}={quirk.is_active}' for quirk in pm.Device(0).quirks))"


@check("DEVICE-20")
def by_environment(env: Env) -> None:
    found = env.output(TELL, PORTAMEM_QUIRKS=f"{OWN_STREAM}=on,,{TINY}=off").split()
    expect(f"{OWN_STREAM}=True" in found and f"{TINY}=True" not in found, f"with the first on, the second off: {found}")
    found = env.output(TELL, PORTAMEM_QUIRKS=f"{TINY}=on").split()
    expect(f"{TINY}=True" in found, f"with the second on: {found}")
    found = env.output(TELL, PORTAMEM_QUIRKS="").split()
    expect_equal(found, env.output(TELL, PORTAMEM_QUIRKS=None).split(), "the quirks where nothing is switched")
    for word, on in (("on", True), ("off", False)):
        found = env.output(f"print(pm.set_quirk('{OWN_STREAM}', None))", PORTAMEM_QUIRKS=f"{OWN_STREAM}={word}").split()
        expect_equal(found, [str(on)], f"how {OWN_STREAM} was switched by the environment")


@check("DEVICE-20")
def an_environment_that_cannot_be_read(env: Env) -> None:
    uses = ["pm.Device(0).quirks", "pm.copy_2d(bytearray(4), bytes(4), width=2, height=2)"]
    if env.device.capabilities.memory_pools:
        uses.append("pm.AsyncMemoryResource(0)")
    for text in ("no_such=off", OWN_STREAM, f"{OWN_STREAM}=maybe", f"{BRIDGED}=off"):
        for use in uses if text == "no_such=off" else uses[:1]:
            ended = env.run(use, PORTAMEM_QUIRKS=text)
            expect_equal(ended.status, 1, f"the exit status with PORTAMEM_QUIRKS={text}")
            expect(f"ValueError: PORTAMEM_QUIRKS={text}" in ended.stderr, f"it said {ended.stderr!r}")


@check("DEVICE-21")
def on_the_allocating_stream(env: Env) -> None:
    stream, other = env.stream(), env.stream()
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    with switched(env, OWN_STREAM, True), env.pm.AsyncMemoryResource(env.device) as pool:
        buf = pool.allocate(MIB, stream=stream)
        buf.fill(1, stream=stream)
        stream.synchronize()
        held = env.latch(other)
        buf.close(stream=other)
        expect(not stream.query(), "the free does not wait for the stream that was named")
        held.release()
        stream.synchronize()
        expect_equal(pool.used, 0, "what the pool has out")
        with pool.allocate(MIB, stream=stream) as again:
            env.write(again, pattern(MIB))
            expect_bytes(env.read(again), pattern(MIB), "memory that was taken again")
        short = env.stream()
        buf = pool.allocate(MIB, stream=short)
        buf.fill(3, stream=short)
        short.close()
        buf.close(stream=other)
        other.synchronize()
        expect(eventually(lambda: pool.used == 0), "memory of a stream that is gone stays out")
        stream.synchronize()


@check("DEVICE-21")
def a_pool_made_before(env: Env) -> None:
    stream, other = env.stream(), env.stream()
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    with switched(env, OWN_STREAM, False), env.pm.AsyncMemoryResource(env.device) as pool:
        env.pm.set_quirk(OWN_STREAM, True)
        buf = pool.allocate(MIB, stream=stream)
        stream.synchronize()
        held = env.latch(other)
        buf.close(stream=other)
        expect(eventually(stream.query), "the free waits for the stream that was named, by a switch that came later")
        expect(not other.query(), "the stream was not held")
        held.release()
        other.synchronize()


@check("DEVICE-22")
def tiny_requests(env: Env) -> None:
    stream = env.stream()
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    with switched(env, TINY, True), env.pm.AsyncMemoryResource(env.device) as pool:
        for nbytes in (1, 2, 7, 8, 9, 100):
            with pool.allocate(nbytes, stream=stream) as buf:
                expect_equal((buf.nbytes, pool.live_bytes), (nbytes, nbytes), "the size of the buffer")
                expect(pool.used >= max(nbytes, 8), f"{nbytes} bytes took {pool.used} of the pool")
                env.write(buf, pattern(nbytes))
                expect_bytes(env.read(buf), pattern(nbytes), f"a buffer of {nbytes} bytes")
            stream.synchronize()


WIDTH, ROWS, PITCH = 48, 64, 64
IMAGE = ROWS * PITCH
SHAPE = {"width": WIDTH, "height": ROWS, "dst_pitch": PITCH, "src_pitch": PITCH}


def in_rows(below: bytes, above: bytes) -> bytes:
    """An image with the rows of another one; what is between the rows stays."""
    return b"".join(above[row * PITCH :][:WIDTH] + below[row * PITCH + WIDTH :][: PITCH - WIDTH] for row in range(ROWS))


@check("DEVICE-29")
def rows_both_ways(env: Env, resource: Any) -> None:
    stream, begin, end = env.stream(), pattern(IMAGE, 1), pattern(IMAGE, 2)
    with (
        switched(env, DIRECTION, True),
        env.allocate(resource, 4 * IMAGE) as whole,
        env.resource("device").allocate(4 * IMAGE) as far,
        env.resource("pinned").allocate(4 * IMAGE) as near,
    ):
        for other in (far, near):
            for offset, on in ((0, None), (2 * IMAGE, stream), (3 * IMAGE, None)):
                with whole[offset : offset + IMAGE] as ours, other[offset : offset + IMAGE] as theirs:
                    env.write(theirs, begin)
                    env.write(ours, end)
                    env.pm.copy_2d(ours, theirs, **SHAPE, stream=on)
                    stream.synchronize()
                    expect_bytes(env.read(ours), in_rows(end, begin), f"rows {offset} bytes behind the beginning")
                    env.write(theirs, bytes(IMAGE))
                    env.pm.copy_3d(
                        theirs, ours, width=WIDTH, height=8, depth=8, dst_pitch=PITCH, src_pitch=PITCH, stream=on
                    )
                    stream.synchronize()
                    expect_bytes(env.read(theirs), in_rows(bytes(IMAGE), begin), "the same rows, in slices, back again")


@check("DEVICE-29")
def rows_of_what_others_own(env: Env) -> None:
    device = env.resource("device")
    with (
        switched(env, DIRECTION, True),
        device.allocate(IMAGE) as own,
        device.allocate(IMAGE) as lent,
        env.pm.Buffer.from_handle(lent.handle, IMAGE, device=env.device) as foreign,
    ):
        env.write(own, pattern(IMAGE))
        env.pm.copy_2d(foreign, own, **SHAPE)
        expect_bytes(env.read(lent)[:WIDTH], pattern(IMAGE)[:WIDTH], "the first row of another's device memory")
        env.write(own, bytes(IMAGE))
        env.pm.copy_2d(own, foreign, **SHAPE)
        expect_bytes(env.read(own)[:WIDTH], pattern(IMAGE)[:WIDTH], "the first row that came from it")
        out = bytearray(IMAGE)
        env.pm.copy_2d(out, foreign, **SHAPE)
        expect_bytes(bytes(out[:WIDTH]), pattern(IMAGE)[:WIDTH], "the first row in Python")
        env.pm.copy_2d(foreign, bytes(IMAGE), **SHAPE)
        expect_bytes(env.read(lent)[:WIDTH], bytes(WIDTH), "the first row from Python")
