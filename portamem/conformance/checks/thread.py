# SPDX-License-Identifier: MIT
"""Shows the clauses of threads: many at once, and races that must end in order."""

from __future__ import annotations

import random
import sys
import threading
from functools import partial
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kinds import KINDS
from portamem.conformance.kit.memory import overlapping, pattern
from portamem.conformance.kit.outcome import NotShown
from portamem.conformance.kit.threads import in_threads, on_a_thread
from portamem.errors import Error

THREADS = 8
TURNS = 20


@check("THREAD-01")
def each_thread_on_its_own_stream(env: Env, resource: Any) -> None:
    def work(number: int) -> None:
        chance = random.Random(number)
        with env.pm.Stream(env.device) as stream:
            for turn in range(TURNS):
                data = pattern(chance.randrange(1, 20_000), seed=number * TURNS + turn)
                out = bytearray(len(data))
                with resource.allocate(len(data), stream=stream) as buf:
                    env.pm.copy(buf, data, stream=stream)
                    env.pm.copy(out, buf, stream=stream)
                    stream.synchronize()
                    expect_bytes(bytes(out), data, f"thread {number}, turn {turn}")

    in_threads(work, THREADS)
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("THREAD-02")
def threads_do_not_write_into_each_other(env: Env, resource: Any) -> None:
    live: list[tuple[Any, int]] = []

    def work(number: int) -> None:
        stream = env.device.per_thread_stream
        for turn in range(TURNS):
            value = (number * TURNS + turn) % 256
            buf = env.allocate(resource, 100 + 700 * (turn % 5))
            buf.fill(value, stream=stream).synchronize()
            if turn % 2:
                live.append((buf, value))
            else:
                expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, f"memory of thread {number}")
                buf.close()

    in_threads(work, THREADS)
    expect_equal(overlapping(buf for buf, _ in live), [], "the list of overlapping buffers")
    for buf, value in live:
        expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, "memory that a thread filled")
        buf.close()


@check("THREAD-03")
def all_threads_on_one_stream(env: Env) -> None:
    plain = env.resource("device")
    for stream in (env.stream(), env.device.default_stream):

        def work(number: int, stream: Any = stream) -> None:
            for _ in range(TURNS):
                with plain.allocate(4096) as buf:
                    buf.fill(number, stream=stream).synchronize()
                    expect_bytes(env.read(buf), bytes([number]) * 4096, f"memory of thread {number}")

        in_threads(work, THREADS)


@check("THREAD-04")
def counters_stay_right(env: Env, resource: Any) -> None:
    held = env.pm.held(env.device), env.pm.held("host")
    made: list[Any] = []

    def allocate(number: int) -> None:
        for turn in range(TURNS):
            buf = env.allocate(resource, 100 + number)
            if turn % 2:
                made.append(buf)
            else:
                buf.close()

    in_threads(allocate, THREADS)
    expected = sum((100 + number) * (TURNS // 2) for number in range(THREADS))
    expect_equal((resource.live_buffers, resource.live_bytes), (len(made), expected), "live buffers and bytes")
    keeps = env.kind_of(resource).keeps
    now = env.pm.held(env.device), env.pm.held("host")
    if not keeps:
        expect_equal(sum(now) - sum(held), expected, "what portamem holds more than before")
    in_threads(lambda number: [buf.close() for buf in made[number::THREADS]], THREADS)
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")
    if not keeps:
        expect_equal((env.pm.held(env.device), env.pm.held("host")), held, "what portamem holds")


@check("THREAD-05")
def closing_against_copying(env: Env, resource: Any) -> None:
    data, refusals = pattern(4096), []
    for _ in range(TURNS):
        buf = env.allocate(resource, 4096)
        env.write(buf, data)

        def work(number: int, buf: Any = buf) -> None:
            try:
                if number == 0:
                    buf.close()
                elif number == 1:
                    expect_bytes(env.read(buf), data, "memory that was read while it was closed")
                else:
                    buf[:16].close()
            except (ValueError, BufferError) as refusal:
                refusals.append(str(refusal))

        in_threads(work, 4)
        buf.close()
    expect(all("closed" in text or "in use" in text for text in refusals), f"refusals are {set(refusals)}")
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


def _close(buf: Any, number: int) -> None:
    buf.close()


@check("THREAD-05")
def closing_against_closing(env: Env, resource: Any) -> None:
    for _ in range(TURNS):
        buf, neighbour = env.allocate(resource, 4096), env.allocate(resource, 4096)
        env.write(neighbour, b"\x33" * 4096)
        in_threads(partial(_close, buf), 4)
        expect(buf.is_closed, "memory is not closed after close")
        expect_equal(resource.live_buffers, 1, "the number of live buffers")
        expect_bytes(env.read(neighbour), b"\x33" * 4096, "other memory")
        neighbour.close()


@check("THREAD-05")
def closing_against_a_close_that_waits(env: Env, resource: Any) -> None:
    stream = env.stream()
    buf = resource.allocate(4096, stream=stream)
    with env.latch(stream) as held:
        buf.fill(1, stream=stream)
        threads = [threading.Thread(target=buf.close, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        held.release_soon(0.01)
        for thread in threads:
            thread.join(10)
        expect(not any(thread.is_alive() for thread in threads), "a close does not end")
    expect(buf.is_closed and resource.live_buffers == 0, "memory is not closed after close")


@check("THREAD-06")
def streams_come_and_go(env: Env, resource: Any) -> None:
    def work(number: int) -> None:
        for _ in range(TURNS):
            with env.pm.Stream(env.device) as stream, resource.allocate(1000, stream=stream) as buf:
                buf.fill(number, stream=stream)
                expect_bytes(env.read(buf), bytes([number]) * 1000, f"memory of thread {number}")

    in_threads(work, THREADS)
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("THREAD-06")
def closing_a_stream_against_frees_on_it(env: Env, resource: Any) -> None:
    for _ in range(TURNS):
        stream = env.pm.Stream(env.device)
        buffers = [resource.allocate(1000, stream=stream) for _ in range(3)]

        def work(number: int, stream: Any = stream, buffers: list[Any] = buffers) -> None:
            if number < 3:
                buffers[number].close()
            else:
                stream.close()

        in_threads(work, 4)
        expect(stream.is_closed and all(buf.is_closed for buf in buffers), "something is not closed after close")
    env.device.synchronize()
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("THREAD-07")
def errors_stay_with_their_thread(env: Env) -> None:
    plain = env.resource("device")

    def work(number: int) -> None:
        stream = env.device.per_thread_stream
        for turn in range(TURNS):
            if number % 2:
                with refused(Error, name="OutOfMemory"):
                    plain.allocate(2**50)
            else:
                with plain.allocate(256) as buf:
                    buf.fill(turn, stream=stream)
                    stream.synchronize()
                    expect_bytes(env.read(buf), bytes([turn]) * 256, f"memory of thread {number}")

    in_threads(work, THREADS)


@check("THREAD-10")
def host_functions_of_several_streams(env: Env) -> None:
    ran: dict[int, list[int]] = {number: [] for number in range(4)}

    def work(number: int) -> None:
        with env.pm.Stream(env.device) as stream:
            for turn in range(50):
                stream.launch_host_func(lambda turn=turn: ran[number].append(turn))
                if turn % 10 == 0:
                    stream.synchronize()
            stream.synchronize()

    in_threads(work, len(ran))
    expect_equal(ran, {number: list(range(50)) for number in ran}, "what ran")


@check("THREAD-10")
def events_count_their_references_right(env: Env) -> None:
    event, stop = env.pm.Event(env.device), threading.Event()
    before = sys.getrefcount(event)

    def work(number: int) -> None:
        if number == 0:
            while not stop.is_set():
                _ = [event] * 50
            return
        with env.pm.Stream(env.device) as stream:
            for _ in range(1000):
                stream.record(event)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join(30)
    stop.set()
    threads[0].join(30)
    expect(eventually(lambda: sys.getrefcount(event) == before), f"{sys.getrefcount(event)} references, not {before}")
    event.close()


def _use_everything(env: Env, device: Any, resource: Any) -> None:
    """One call of nearly everything, about one device."""
    pm = env.pm
    with pm.Stream(device) as stream, pm.Event(device, timing=True) as event:
        buf, other = (resource.allocate(4096, stream=stream) for _ in range(2))
        buf.fill(7, stream=stream)
        other.copy_from(buf, stream=stream)
        stream.record(event)
        stream.wait(event)
        stream.wait(device.default_stream)
        stream.synchronize()
        event.synchronize()
        stream.query()
        buf.fill(1)
        pm.pointer_info(buf)
        buf.close()
        other.close(stream=device.default_stream)
        stream.begin_capture()
        stream.end_capture()
        stream.launch_host_func(lambda: None)
        device.memory_info()
        device.synchronize()
        device.capabilities.as_dict()
        device.limit("malloc_heap_size")
        pm.current_resource(device)
        with refused(Error, ValueError):
            resource.allocate(2**50, stream=stream)


@check("THREAD-11")
def calls_about_another_device(env: Env) -> None:
    other, before = env.other_device, env.pm.Device.current()
    env.device.set_current()
    try:
        for name in ("device", "pinned", "managed", "async"):
            _use_everything(env, other, env.resource(name, other))
            expect_equal(env.pm.Device.current(), env.device, f"the current device after work with {name} memory")
        with env.pm.HostRegistration(bytearray(4096), device=other) as registration:
            expect(registration.device_handle != 0, "registered memory is at address 0")
        expect_equal(env.pm.Device.current(), env.device, "the current device after a registration")
    finally:
        before.set_current()


@check("THREAD-11")
def the_current_device_is_of_its_thread(env: Env) -> None:
    other, before = env.other_device, env.pm.Device.current()

    def work() -> Any:
        other.set_current()
        return env.pm.Device.current(), env.pm.Device()

    env.device.set_current()
    try:
        expect_equal(on_a_thread(work), (other, other), "the current device of a thread that has set it")
        expect_equal(env.pm.Device.current(), env.device, "this thread's current device")
    finally:
        before.set_current()


@check("THREAD-11")
def the_current_device_as_the_witness_sees_it(env: Env, witness: Any) -> None:
    capabilities = env.device.capabilities
    resources = [env.resource(name) for name, kind in KINDS.items() if kind.needs(capabilities)]

    def work() -> None:
        for resource in resources:
            before = witness.current_device()
            _use_everything(env, env.device, resource)
            expect_equal(witness.current_device(), before, f"the current device of a thread after {resource!r}")

    work()
    on_a_thread(work)


@check("THREAD-12", own_process=True, backends=("cuda", "hip"))
def no_context_on_another_device(env: Env, witness: Any) -> None:
    from portamem.conformance.witness import witness_for

    there = witness_for(env.pm.backend, env.other_device.ordinal)
    if there.has_context() is None:
        raise NotShown(f"{there.name} does not say whether there is a context")
    expect(not there.has_context(), "another device has a context before there was any work")
    for name in ("device", "pinned", "managed", "async"):
        _use_everything(env, env.device, env.resource(name))
        with env.allocate(env.resource(name), NBYTES) as buf:
            on_a_thread(partial(buf.fill, 1))
    env.other_device.capabilities.as_dict()
    expect(witness.has_context(), "a device has no context after work with it")
    expect(not there.has_context(), "another device has a context after work with one")
