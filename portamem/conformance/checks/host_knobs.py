# SPDX-License-Identifier: MIT
"""Shows the clauses of the CPU runtime's knobs: capacity, copy delay, calls that fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from portamem import Error, OutOfMemoryError
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.together import together

PAGE = 4096
DELAY_US = 20_000


@contextmanager
def knobs(env: Env) -> Iterator[Any]:
    """The knobs, put back after a block."""
    try:
        yield env.pm.knobs
    finally:
        env.pm.knobs.reset()


def reserved(device: Any) -> int:
    info = device.memory_info()
    return int(info.total - info.free)


@check("HOST-06", own_process=True)
def capacity(env: Env) -> None:
    """The check has a process to itself: idle memory of pools that other checks have used would go to this one, beyond
    what it counts."""
    stream = env.stream()
    for name in ("device", "async"):
        resource = env.resource(name)
        env.device.synchronize()
        with knobs(env) as knob:
            knob.set_capacity(env.device, reserved(env.device) + 64 * MIB)
            live: list[Any] = []
            with refused(OutOfMemoryError):
                for _ in range(65):
                    live.append(env.allocate(resource, 4 * MIB, stream))
            expect(8 <= len(live) <= 16, f"{len(live)} times 4 MiB were taken of 64 MiB")
            if name == "device":
                expect_equal(len(live), 16, "the number of 4 MiB taken of 64 MiB")
            for seed, buf in enumerate(live):
                buf.fill(seed)
            live.pop(0).close()
            env.device.synchronize()
            live.append(env.allocate(resource, 4 * MIB, stream))
            live[-1].fill(0xEE)
            for seed, buf in enumerate(live[:-1], 1):
                expect(env.read(buf) == bytes([seed]) * (4 * MIB), "a buffer changed with one that was taken again")
            for buf in live:
                buf.close()
            env.device.synchronize()


@check("HOST-06")
def capacity_of_each(env: Env) -> None:
    other = env.other_device
    with knobs(env) as knob:
        total = other.memory_info().total
        knob.set_capacity(env.device, "8 MiB")
        expect_equal((env.device.memory_info().total, other.memory_info().total), (8 * MIB, total), "the totals")
        with env.pm.DeviceMemoryResource(env.device) as here, env.pm.DeviceMemoryResource(other) as there:
            with refused(OutOfMemoryError):
                here.allocate(16 * MIB)
            with there.allocate(16 * MIB) as buf:
                buf.fill(8)
                expect(env.read(buf) == b"\x08" * (16 * MIB), "memory of the device that has more holds something else")


@check("HOST-06")
def capacity_by_environment(env: Env) -> None:
    code = "print(*(device.memory_info().total for device in pm.devices()))"
    sizes = {"48MiB": 48 << 20, "3 GiB": 3 << 30, "1TiB": 1 << 40, "64KiB": 64 << 10, "5000": 5000, "6000B": 6000}
    told = together(lambda text: env.output(code, PORTAMEM_HOST_CAPACITY=text, PORTAMEM_HOST_DEVICES="2"), sizes)
    for text, said in told:
        expect_equal(said.split(), [str(sizes[text])] * 2, f"the totals with PORTAMEM_HOST_CAPACITY={text}")


@check("HOST-07")
def every_byte_is_counted(env: Env) -> None:
    device, resource = env.device, env.resource("device")
    device.synchronize()
    before = device.memory_info().free
    for nbytes in (1, PAGE, PAGE + 1, 8 * MIB):
        taken = -(-nbytes // PAGE) * PAGE
        with resource.allocate(nbytes) as buf:
            buf.fill(1)
            expect_equal(before - device.memory_info().free, taken, f"what {nbytes} bytes took")
        expect_equal(device.memory_info().free, before, "what is free afterwards")
    with resource.allocate_pitched(100, 10) as rows:
        expect_equal(before - device.memory_info().free, -(-rows.pitch * 10 // PAGE) * PAGE, "what ten rows took")
    expect_equal(device.memory_info().free, before, "what is free afterwards")


@check("HOST-08")
def what_is_where(env: Env) -> None:
    stream, pool, plain = env.stream(), env.resource("async"), env.resource("device")
    pool.allocate(16 * MIB, stream=stream).close()
    stream.synchronize()
    with plain.allocate(8 * MIB), knobs(env) as knob:
        knob.set_capacity(env.device, reserved(env.device) + 2 * MIB)
        total = env.device.memory_info().total
        with refused(OutOfMemoryError, name="OutOfMemory") as refusal:
            plain.allocate(total + MIB)
        error: Any = refusal.error
        expect(isinstance(error, MemoryError), "it is no MemoryError")
        expect_equal((error.asked, error.code, error.backend), (total + MIB, 2, "host"), "asked, code, backend")
        for figure in (total + MIB, total, "hold 8 MiB"):
            expect(str(figure) in str(error), f"{figure} is not in {error}")
        for word in (error.call, "asked", "hold", "others", "cache", "close"):
            expect(word in str(error), f"{word!r} is not in {error}")
        info = env.device.memory_info()
        figures = (info.held, info.free, total - info.free - info.held)
        expect_equal((error.used, error.free, error.used_by_others), figures, "used, free, used_by_others")


@check("HOST-08")
def what_pools_keep(env: Env) -> None:
    stream, pool, plain = env.stream(), env.resource("async"), env.resource("device")
    for trim in (True, False):
        pool.allocate(32 * MIB, stream=stream).close()
        stream.synchronize()
        expect(pool.reserved >= 32 * MIB, f"the pool keeps {pool.reserved} bytes")
        with knobs(env) as knob:
            knob.set_capacity(env.device, reserved(env.device) + MIB)
            if trim:
                pool.trim()
                expect_equal(pool.reserved, 0, "what the pool keeps once it is trimmed")
            with plain.allocate(16 * MIB) as buf:
                buf.fill(7)
                expect(env.read(buf) == b"\x07" * (16 * MIB), "memory that a pool had kept holds something else")


@check("HOST-09")
def copy_delay(env: Env) -> None:
    stream = env.stream()
    with env.allocate(env.resource("device"), 4096) as buf, env.allocate(env.resource("pinned"), 4096) as near:
        with knobs(env) as knob:
            knob.set_copy_delay(DELAY_US)
            for act in (
                lambda: env.write(buf, pattern(4096)),
                lambda: near.copy_from(buf, stream=stream).synchronize(),
                lambda: near.fill(0, stream=stream).synchronize(),
            ):
                begun = time.perf_counter()
                act()
                took = time.perf_counter() - begun
                expect(took >= DELAY_US / 1e6, f"with a delay of {DELAY_US} us it took {took * 1e6:.0f} us")
        expect_bytes(env.read(buf), pattern(4096), "memory that was written late")
        expect_bytes(env.read(near), bytes(4096), "memory that was filled late")
    timed = """
        import time
        with pm.DeviceMemoryResource(0) as resource, resource.allocate(16) as buf:
            begun = time.perf_counter()
            pm.copy(buf, bytes(16))
            print(time.perf_counter() - begun)
    """
    took = float(env.output(timed, PORTAMEM_HOST_COPY_DELAY="50000"))
    expect(took >= 0.05, f"with a delay of 50000 us by environment it took {took} s")


@check("HOST-10")
def a_call_that_fails(env: Env) -> None:
    resource = env.resource("device")
    with knobs(env) as knob:
        for code, name in ((2, "OutOfMemory"), (1, "InvalidValue"), (999, "Unknown")):
            before = env.device.memory_info()
            knob.fail_call("Malloc", nth=2, code=code)
            with resource.allocate(4096) as first:
                with refused(Error, name=name) as refusal:
                    resource.allocate(4096)
                error: Any = refusal.error
                expect_equal((error.code, error.call), (code, "Malloc"), "code and call")
                expect_equal(isinstance(error, OutOfMemoryError), code == 2, "its being out of memory")
                with resource.allocate(4096) as third:
                    env.write(third, pattern(4096))
                    env.write(first, pattern(4096, 1))
                    expect_bytes(env.read(third), pattern(4096), "memory that was taken after the failure")
            after = env.device.memory_info()
            expect_equal((after.free, after.held), (before.free, before.held), "free and held afterwards")
        knob.fail_call(None, nth=1, code=3)
        with refused(Error):
            env.device.synchronize()
        env.device.synchronize()
        knob.fail_call("Malloc", nth=0, code=2)
        resource.allocate(16).close()


FAILING = """
    import portamem
    resource = pm.DeviceMemoryResource(0)
    for _ in range(3):
        try:
            resource.allocate(16)
            print("taken")
        except portamem.OutOfMemoryError as error:
            print(error.call)
"""


@check("HOST-10")
def a_call_that_fails_by_environment(env: Env) -> None:
    found = env.output(FAILING, PORTAMEM_HOST_FAIL="Malloc:2:2").split()
    expect_equal(found, ["taken", "Malloc", "taken"], "three allocations, of which the second is to fail")
    ended = env.run("print(pm.device_count())", PORTAMEM_HOST_FAIL="*:1:999")
    expect(ended.status == 1 and "999" in ended.stderr, f"where the first call is to fail it said {ended.stderr!r}")


RESET = """
    import portamem, time
    def look():
        resource = pm.DeviceMemoryResource(0)
        with resource.allocate(16) as buf:
            begun = time.perf_counter()
            pm.copy(buf, bytes(16))
            return pm.Device(0).memory_info().total, pm.Device(1).memory_info().total, time.perf_counter() - begun
    pm.knobs.set_capacity(0, "8 MiB")
    pm.knobs.set_capacity(1, "9 MiB")
    pm.knobs.set_copy_delay(10_000_000)
    pm.knobs.fail_call("Malloc", nth=1, code=2)
    pm.knobs.reset()
    print(json.dumps(look()))
"""


@check("HOST-11")
def reset(env: Env) -> None:
    settings = {"PORTAMEM_HOST_CAPACITY": "32MiB", "PORTAMEM_HOST_COPY_DELAY": "30000", "PORTAMEM_HOST_DEVICES": "2"}
    first, second, took = json.loads(env.output(RESET, **settings))
    expect_equal((first, second), (32 * MIB, 32 * MIB), "the capacities after a reset")
    expect(0.03 <= took < 10, f"a copy after a reset took {took} s, with 30000 us by environment")


@check("HOST-12")
def knobs_that_turn_nothing(env: Env) -> None:
    count = env.pm.device_count()
    with knobs(env) as knob:
        for wrong in (count, -1):
            with refused(ValueError):
                knob.set_capacity(wrong, "1 MiB")
        for size in (-1, "much"):
            with refused(ValueError):
                knob.set_capacity(0, size)
        with refused(TypeError):
            knob.set_capacity(0, 1.5)
        with refused(TypeError):
            knob.set_capacity("0", 1)
        for code in (0, -1, 1000):
            with refused(ValueError):
                knob.fail_call("Malloc", nth=1, code=code)
        with refused(ValueError):
            knob.set_copy_delay(-1)
        with refused(TypeError):
            knob.set_copy_delay("long")
        env.allocate(env.resource("device"), 16).close()


UNKNOWN = """
    for call, field in json.loads(sys.argv[1]):
        ordinal = pm.device_count() - 1
        pm.knobs.fail_call(call, nth=1, code=2)
        first = getattr(pm.Device(0).probe(), field)
        pm.knobs.reset()
        print(call, first, getattr(pm.Device(0).probe(), field), pm.held(0))
"""


@check("HOST-13")
def what_could_not_be_probed(env: Env) -> None:
    calls = (
        ("StreamCreateWithPriority", "stream_capture"),
        ("StreamBeginCapture", "stream_capture"),
        ("StreamEndCapture", "stream_capture"),
        ("MemPoolCreate", "pool_threshold_effective"),
        ("MallocFromPoolAsync", "pool_threshold_effective"),
        ("StreamSynchronize", "pool_threshold_effective"),
    )
    for (call, field), said in together(lambda one: env.output(UNKNOWN, json.dumps([one])), calls):
        expect_equal(said.split(), [call, "None", "True", "0"], f"{field} where {call} failed, again, and held")
