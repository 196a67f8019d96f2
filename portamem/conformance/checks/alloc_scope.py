# SPDX-License-Identifier: MIT
"""Shows the clauses of the current resource, and of what allocates from it."""

from __future__ import annotations

import threading
from array import array
from typing import Any

from portamem.conformance.checks.free import interrupt
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.errors import OutOfMemoryError


@check("ALLOC-19")
def scopes_nest_and_end(env: Env) -> None:
    outer, inner = env.resource("device"), env.resource("pinned")
    before = env.pm.current_resource(env.device)
    expect(before is env.pm.current_resource(env.device), "without a scope there are two resources")
    with env.pm.using(outer):
        with env.pm.using(inner):
            expect(env.pm.current_resource(env.device) is inner, "the inner scope does not count")
            view = env.pm.empty(16, "uint8", device=env.device)
        expect(env.pm.current_resource(env.device) is outer, "the inner scope did not end")
    with refused(KeyError, saying="mine"), env.pm.using(outer):
        interrupt()
    expect(env.pm.current_resource(env.device) is before, "a scope that an exception left did not end")
    expect(view.buffer.resource is inner, "memory did not come from the scope's resource")
    with env.pm.using(outer):
        view.fill(5)
        expect_bytes(env.read(view), b"\x05" * 16, "memory in another scope than its own")
        view.close()
    expect_soon(lambda: (outer.live_buffers, inner.live_buffers), (0, 0), "live buffers of both")


@check("ALLOC-19")
def a_scope_belongs_to_its_thread(env: Env) -> None:
    mine = env.resource("device")
    barrier, wrong = threading.Barrier(3), []

    def work() -> None:
        try:
            expect(env.pm.current_resource(env.device) is not mine, "another thread's scope counts here")
            with env.pm.DeviceMemoryResource(env.device) as own, env.pm.using(own):
                barrier.wait(10)
                for value in range(20):
                    with env.pm.empty(64, "uint8", device=env.device) as view:
                        expect(view.buffer.resource is own, "memory came from another thread's resource")
                        view.fill(value)
                        expect_bytes(env.read(view), bytes([value]) * 64, "memory of a thread's own resource")
                barrier.wait(10)
        except BaseException as error:  # told by the check's own thread
            wrong.append(error)
            barrier.abort()

    with env.pm.using(mine):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(env.pm.current_resource(env.device) is mine, "the scope was lost")
    for error in wrong:
        raise error


@check("ALLOC-19")
def a_scope_is_of_one_device(env: Env) -> None:
    resource = env.resource("device", env.other_device)
    before = env.pm.current_resource(env.device)
    with env.pm.using(resource):
        expect(env.pm.current_resource(env.other_device) is resource, "the scope does not count on its device")
        expect(env.pm.current_resource(env.device) is before, "the scope counts on another device")


@check("ALLOC-19")
def the_shared_resource_stays_open(env: Env) -> None:
    default = env.pm.current_resource(env.device)
    with refused(BufferError, saying="default resource"):
        default.close()
    with default:
        pass
    with env.pm.empty(16, "uint8", device=env.device) as view:
        expect(view.buffer.resource is default, "memory without a scope does not come from the shared resource")
        view.fill(1)
        expect_bytes(env.read(view), b"\x01" * 16, "memory of the shared resource")
    for wrong in (None, 42, "device"):
        with refused(TypeError, saying="resource"), env.pm.using(wrong):
            pass


@check("ALLOC-19")
def the_shared_resource_is_a_pool(env: Env) -> None:
    default, stream = env.pm.current_resource(env.device), env.stream()
    expect(isinstance(default, env.pm.PoolMemoryResource), f"the default is {default!r}")
    expect_equal((default.kind, default.device), ("device", env.device), "kind and device")
    expect(not default.is_host_accessible, "the host reaches memory that a stream gets again at once")
    with refused(BufferError, saying="default resource"):
        default.upstream.close()
    with env.pm.empty(64 * KIB, "uint8", device=env.device, stream=stream) as first:
        first.fill(1, stream=stream)
        where = first.buffer.handle
    with env.latch(stream):
        for value in range(20):
            again = env.pm.empty(64 * KIB, "uint8", device=env.device, stream=stream)
            expect_equal(again.buffer.handle, where, "the address of what the stream had freed, while it is behind")
            again.fill(value, stream=stream)
            if value < 19:
                again.close()
    expect_bytes(env.read(again), bytes([19]) * (64 * KIB), "memory that was freed and allocated 20 times")
    again.close()


def _kept(default: Any) -> int:
    stats = default.stats()
    return int(stats.reserved - stats.used)


@check("ALLOC-22")
def what_the_default_keeps_is_told(env: Env, resource: Any) -> None:
    env.empty_default()
    default, before = env.pm.current_resource(env.device), env.pm.held(env.device)
    with env.pm.empty(8 * MIB, "uint8", device=env.device) as view:
        view.fill(3)
        expect_equal(env.pm.held(env.device), before + 8 * MIB, "held with 8 MiB of the default out")
        expect_bytes(env.read(view), b"\x03" * (8 * MIB), "memory of the default")
    env.device.synchronize()
    expect_equal(env.pm.held(env.device), before, "held when they are back")
    expect(_kept(default) >= 8 * MIB, f"the default keeps {_kept(default)} bytes of 8 MiB")
    with refused(OutOfMemoryError, saying="default resource 8 MiB") as it:
        env.allocate(resource, 1 << 50)
    remedy = f"default_resource({env.device.ordinal}).trim()"
    expect(remedy in str(it.error), f"the text does not say what gives it back: {it.error}")
    default.trim()
    expect_equal(_kept(default), 0, "what a trimmed default keeps")
    with refused(OutOfMemoryError) as it:
        env.allocate(resource, 1 << 50)
    expect(remedy not in str(it.error), f"the text names what would not help: {it.error}")


@check("ALLOC-22", backends=("host",))
def another_resource_gets_what_the_default_keeps(env: Env, resource: Any) -> None:
    env.empty_default()
    default = env.pm.current_resource(env.device)
    with env.pm.empty(4 * KIB, "uint8", device=env.device) as live:
        env.write(live, pattern(4 * KIB))
        env.pm.empty(64 * MIB, "uint8", device=env.device).close()
        env.device.synchronize()
        if resource.kind == "async":
            resource.trim()
        info = env.device.memory_info()
        env.pm.knobs.set_capacity(env.device, info.total - info.free + 16 * MIB)
        try:
            with env.allocate(resource, 48 * MIB) as given:
                env.write(given, pattern(48 * MIB, 2))
                expect_bytes(env.read(given), pattern(48 * MIB, 2), "memory that the default had kept")
                expect_bytes(env.read(live), pattern(4 * KIB), "memory of the default that is out")
                expect(_kept(default) < 48 * MIB, f"the default still keeps {_kept(default)} bytes")
                with env.pm.zeros(4 * MIB, "uint8", device=env.device) as more:
                    expect_bytes(env.read(more), bytes(4 * MIB), "what the default gives afterwards")
        finally:
            env.pm.knobs.reset()


@check("ALLOC-20")
def empty_zeros_asarray(env: Env, resource: Any) -> None:
    stream = env.stream()
    numbers = array("i", range(-6, 6))
    with env.allocate(resource, 480) as dirt:
        dirt.fill(0xFF)
    for on in (None, stream):
        with (
            env.pm.empty((3, 4), "int16", resource=resource, stream=on) as empty,
            env.pm.zeros(60, "float64", resource=resource, stream=on) as zeros,
            env.pm.asarray(numbers, resource=resource, stream=on) as copied,
            env.pm.asarray(b"abc", resource=resource, stream=on) as text,
        ):
            stream.synchronize()
            for view in (empty, zeros, copied, text):
                expect(view.buffer.resource is resource, "the memory is another resource's")
            expect_equal((empty.shape, empty.dtype, empty.nbytes), ((3, 4), "int16", 24), "an empty array")
            expect_equal((zeros.shape, zeros.dtype), ((60,), "float64"), "zeros")
            expect_bytes(env.read(zeros), bytes(480), "zeros")
            expect_equal((copied.shape, copied.dtype), ((12,), "int32"), "a copied array")
            expect_bytes(env.read(copied), numbers.tobytes(), "a copied array")
            expect_equal((text.shape, text.dtype, env.read(text)), ((3,), "uint8", b"abc"), "copied bytes")
            empty.copy_from(pattern(24))
            expect_bytes(env.read(empty), pattern(24), "an array that was written")
            expect(env.pm.asarray(copied) is copied, "asarray of a View is another View")
    expect_soon(lambda: resource.live_buffers, 0, "live buffers")


@check("ALLOC-20")
def empty_memory_is_there_when_its_address_is_told(env: Env, resource: Any) -> None:
    if not resource.is_stream_ordered:
        expect(env.pm.empty(4096, "uint8", resource=resource).handle != 0, "the memory has no address")
        return
    default, other = env.device.default_stream, env.stream()
    resource.allocate(4096, stream=default).close()
    with env.latch(default) as held, env.pm.empty(4096, "uint8", resource=resource) as view:
        queued = view.fill(3, stream=other)
        expect(not queued.query(), "work on another stream ran before the memory was there")
        held.release_soon()
        expect(view.handle != 0, "the memory has no address")
        expect(default.query(), "the address was told before the memory was there")
        queued.synchronize()
        expect_bytes(env.read(view), b"\x03" * 4096, "the filled memory")


@check("ALLOC-20")
def the_memory_goes_with_the_last_part(env: Env, resource: Any) -> None:
    with env.pm.using(resource):
        view = env.pm.zeros(4096, "uint8", device=env.device)
    part = view[16:32]
    part.fill(7)
    view.close()
    expect_equal(resource.live_bytes, 4096, "live bytes while a part lives")
    expect_bytes(env.read(part), b"\x07" * 16, "the part")
    part.close()
    expect_soon(lambda: resource.live_bytes, 0, "live bytes after the last part")
