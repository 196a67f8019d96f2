# SPDX-License-Identifier: MIT
"""Shows the clauses of sub-views, of exports in general, and of objects that keep each other alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from portamem.conformance.checks.free import interrupt
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import pattern

NBYTES = 4096


@check("OWN-01")
def slices_are_the_same_memory(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    keys = (slice(16, 48), slice(None), slice(None, 10), slice(-10, None), slice(100, 10_000), slice(48, 16))
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, data)
        for key in (*keys, slice(NBYTES, None), slice(0, 0)):
            start, stop, _ = key.indices(NBYTES)
            with buf[key] as part:
                expect_equal(
                    (buf.exports, part.exports, part.is_closed), (1, 0, False), "exports, of a part, is_closed"
                )
                expect_equal(part.nbytes, max(stop - start, 0), f"nbytes of {key}")
                expect(not part.nbytes or part.handle == buf.handle + start, f"{key} starts elsewhere")
                for name in ("kind", "device_id", "resource", "stream", "is_host_accessible", "is_device_accessible"):
                    expect_equal(getattr(part, name), getattr(buf, name), f"{name} of a part")
                expect_bytes(env.read(part), data[key], f"the bytes of {key}")
        with buf[100:200] as part, part[10:20] as inner:
            expect_equal(inner.handle, buf.handle + 110, "the address of a part of a part")
            inner.fill(9)
            part[90:100].fill(8)
        wanted = bytearray(data)
        wanted[110:120], wanted[190:200] = b"\x09" * 10, b"\x08" * 10
        expect_bytes(env.read(buf), bytes(wanted), "a buffer that was written through its parts")
        for wrong in (slice(None, None, 2), slice(None, None, -1)):
            with refused(ValueError, saying="step"):
                buf[wrong]
        for strange in (0, "a", (slice(1), slice(2)), None):
            with refused(TypeError):
                buf[strange]
        expect_equal(buf.exports, 0, "exports when all parts are closed")


@check("OWN-02")
def a_part_keeps_the_memory(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, NBYTES)
    env.write(buf, pattern(NBYTES))
    inner = buf[100:200][10:20]
    del buf
    gc.collect()
    expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes under a part")
    with env.allocate(resource, NBYTES) as intruder:
        intruder.fill(0xFF)
    expect_bytes(env.read(inner), pattern(NBYTES)[110:120], "a part whose buffer was dropped")
    inner.close()
    del inner
    gc.collect()
    expect_soon(
        lambda: (resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after the last part"
    )


@check("OWN-03")
def closing_under_an_export_is_refused(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        exports: list[Any] = [buf[:16], buf.view(), buf[16:32]]
        if buf.is_host_accessible:
            exports.append(memoryview(buf))
        expect_equal(buf.exports, len(exports), "exports")
        for number, export in reversed(list(enumerate(exports, start=1))):
            with refused(BufferError, saying=f"{number} export"):
                buf.close()
            expect(not buf.is_closed and buf.exports == number, "a refused close changed the buffer")
            buf.fill(number)
            expect_bytes(env.read(buf), bytes([number]) * NBYTES, "a buffer that refused to close")
            export.release() if isinstance(export, memoryview) else export.close()
        expect_equal(buf.exports, 0, "exports at the end")
        part = buf[:16]
        part.close()
        part.close()
        expect(part.is_closed and buf.exports == 0, "a part that was closed twice counts")


@check("OWN-04")
def an_exception_is_never_hidden(env: Env, resource: Any) -> None:
    with refused(KeyError, saying="mine"), env.allocate(resource, NBYTES) as buf:
        part = buf[:16]
        interrupt()
    expect_equal(resource.live_buffers, 1, "live buffers under an export")
    part.fill(1)
    expect_bytes(env.read(part), b"\x01" * 16, "the export")
    part.close()
    del part, buf
    gc.collect()
    expect_soon(lambda: resource.live_buffers, 0, "live buffers after the last export")
    buf = env.allocate(resource, NBYTES)
    with refused(BufferError, saying="export"), buf:
        part = buf[:16]
    expect(not buf.is_closed, "a refused end of a block closed the buffer")
    part.close()
    buf.close()


@check("OWN-05")
def a_resource_in_use_stays_open(env: Env, resource: Any) -> None:
    first, second = env.allocate(resource, 1000), env.allocate(resource, 24)
    with refused(BufferError, saying="2 live") as refusal:
        resource.close()
    expect("1024 bytes" in str(refusal.error), f"the bytes are not named: {refusal.error}")
    expect(not resource.is_closed, "a resource that refused is closed")
    with refused(KeyError, saying="mine"), resource:
        interrupt()
    with refused(BufferError, saying="2 live"), resource:
        pass
    first.fill(1)
    expect_bytes(env.read(first), b"\x01" * 1000, "a buffer whose resource refused to close")
    first.close()
    with env.allocate(resource, 16) as more:
        more.fill(2)
    second.close()
    with resource:
        pass
    expect(resource.is_closed, "an empty resource did not close")


@check("OWN-05")
def an_exception_closes_an_empty_resource(env: Env, resource: Any) -> None:
    with refused(KeyError, saying="mine"), resource:
        env.allocate(resource, 16).close()
        interrupt()
    expect(resource.is_closed, "the resource is open")


@check("OWN-06")
def a_buffer_keeps_its_resource(env: Env, resource: Any) -> None:
    kind = env.kind_of(resource)
    buf = env.allocate(kind.make(env.pm, env.device), NBYTES)  # of a resource that only the buffer holds
    gc.collect()
    expect_equal((buf.resource.live_buffers, buf.resource.is_closed), (1, False), "what the buffer's resource says")
    env.write(buf, pattern(NBYTES))
    expect_bytes(env.read(buf), pattern(NBYTES), "memory whose resource nobody else holds")
    kept = buf.resource
    buf.close()
    expect_equal((kept.live_buffers, resource.live_buffers), (0, 0), "live buffers of both resources")


@check("OWN-06")
def a_buffer_keeps_its_stream(env: Env, resource: Any) -> None:
    stream = env.pm.Stream(env.device)
    identity = stream.identity
    with resource.allocate(NBYTES, stream=stream) as buf:
        del stream
        gc.collect()
        expect_equal((buf.stream.identity, buf.stream.is_closed), (identity, False), "the stream of the buffer")
        buf.fill(5, stream=buf.stream)
        expect_bytes(env.read(buf), b"\x05" * NBYTES, "memory filled on the stream that it kept")
    gone = env.pm.Stream(env.device)
    buf = resource.allocate(NBYTES, stream=gone)
    buf.fill(6, stream=gone)
    gone.close()
    expect_bytes(env.read(buf), b"\x06" * NBYTES, "memory whose stream was closed")
    buf.close()
    expect_equal(resource.live_buffers, 0, "live buffers closed after their stream")


class _Owner:
    pass


class _ForeignStream:
    """A stream as another library has it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


@check("OWN-06")
def a_buffer_that_is_gone_keeps_nothing(env: Env) -> None:
    """The buffer may go in any way, and the stream may be any library's."""
    resource, pool, stream = env.resource("device"), env.resource("pool-device"), env.stream()
    ends: tuple[Callable[[Any], None], ...] = (
        lambda buf: buf.close(),
        lambda buf: None,
        lambda buf: buf.close(stream=stream),
    )
    beside = [pool.allocate(NBYTES, stream=stream) for _ in range(100)]  # objects of buffers may be used again
    for is_foreign, end in product((False, True), ends):
        owner: Any = _ForeignStream(stream.handle)
        alive = weakref.ref(owner)
        on = owner if is_foreign else env.pm.Stream.from_handle(stream.handle, device=env.device, owner=owner)
        buf = resource.allocate(NBYTES, stream=on)
        buf.fill(1, stream=stream)
        del owner, on
        gc.collect()
        expect(is_foreign or alive() is not None, "a buffer does not keep its stream")
        end(buf)
        del buf
        gc.collect()
        expect(eventually(partial(_is_gone, alive)), "what is left of a buffer keeps its stream")
    for buf in beside:
        buf.close()


def _is_gone(reference: weakref.ref[Any]) -> bool:
    return reference() is None


@check("OWN-07")
def memory_of_others(env: Env, resource: Any) -> None:
    owner = _Owner()
    alive = weakref.ref(owner)
    with env.allocate(resource, NBYTES) as buf:
        info = env.pm.pointer_info(buf)
        foreign = env.pm.Buffer.from_handle(buf.handle, buf.nbytes, owner=owner, device=buf.device)
        expect_equal(
            (foreign.kind, foreign.resource, foreign.nbytes), ("foreign", None, NBYTES), "what it says of itself"
        )
        expect(foreign.owner is owner, "the owner is another object")
        expect_equal(foreign.handle, buf.handle, "its address")
        expect_equal(foreign.is_device_accessible, buf.is_device_accessible, "is_device_accessible")
        expect_equal(foreign.is_host_accessible, info.host_pointer is not None, "is_host_accessible")
        expect_equal(foreign.device_id, buf.device_id, "device_id")
        foreign.fill(0x5A)
        expect_bytes(env.read(buf), b"\x5a" * NBYTES, "memory that was filled through a foreign buffer")
        with refused(ValueError, saying="not owned by this buffer"):
            foreign.release()
        part = foreign[:16]
        with refused(BufferError, saying="export"):
            foreign.close()
        part.close()
        del owner
        gc.collect()
        expect(alive() is not None, "the owner was not kept")
        foreign.close()
        gc.collect()
        expect(alive() is None, "the owner was kept after the buffer was closed")
        expect_equal(resource.live_buffers, 1, "live buffers: foreign memory was freed")
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory after its foreign buffer was closed")


@check("OWN-07")
def addresses_that_are_none(env: Env, resource: Any) -> None:
    make = env.pm.Buffer.from_handle
    with env.allocate(resource, 64) as buf:
        wrong: tuple[tuple[Any, Any], ...]
        wrong = ((0, 16), (-1, 1), (1 << 64, 1), (buf.handle, -1), (buf.handle, 1 << 63))
        for handle, nbytes in wrong:
            with refused(ValueError):
                make(handle, nbytes)
        strange: tuple[tuple[Any, Any], ...]
        strange = (("0x10", 1), (1.5, 1), (True, 1), (buf.handle, 1.5), (buf.handle, None))
        for address, size in strange:
            with refused(TypeError):
                make(address, size)
        with refused(ValueError, saying="cannot read it"):
            make(0x1000, 16)  # no page is there
        with make(0, 0) as nothing:
            expect_equal((nothing.handle, nothing.nbytes), (0, 0), "nothing as foreign memory")
            nothing.fill(1)
        stream = env.stream()
        with make(buf.handle, "64 B", device=buf.device, stream=stream) as foreign:
            expect_equal((foreign.nbytes, foreign.stream), (64, stream), "size and stream")
            foreign.fill(2)
        expect_bytes(env.read(buf), b"\x02" * 64, "memory filled through a foreign buffer")


@check("OWN-07")
def the_device_is_found(env: Env, resource: Any) -> None:
    other, kind = env.other_device, env.kind_of(resource)
    there = env.resource(kind.name, other)
    with env.allocate(there, NBYTES) as buf:
        with env.pm.Buffer.from_handle(buf.handle, NBYTES) as foreign:
            info = env.pm.pointer_info(buf)
            if info.kind == "device":
                expect_equal(foreign.device, other, "the device of memory for which none was named")
            expect_equal(foreign.device_id == -1, buf.device_id == -1, "whether it is host memory")
            foreign.fill(6)
        expect_bytes(env.read(buf), b"\x06" * NBYTES, "memory filled through a foreign buffer")


@check("OWN-08")
def the_owner_outlives_declared_work(env: Env) -> None:
    """Page-locked memory of a foreign owner is copied on a stream that a latch holds."""
    stream, pinned = env.stream(), env.resource("pinned")
    with env.resource("device").allocate(NBYTES) as target, pinned.allocate(NBYTES) as memory:
        for drop in (False, True):
            env.write(memory, pattern(NBYTES))
            owner = _Owner()
            alive = weakref.ref(owner)
            foreign = env.pm.Buffer.from_handle(memory.handle, NBYTES, owner=owner, device=env.device)
            del owner
            held = env.latch(stream)
            target.copy_from(foreign, stream=stream)
            if not drop:
                foreign.close()
            del foreign
            gc.collect()
            expect(alive() is not None, "the owner was let go while a copy from its memory was pending")
            held.release()
            stream.synchronize()
            expect(eventually(partial(_is_gone, alive)), "the owner was never let go")
            expect_bytes(env.read(target), pattern(NBYTES), "the target")


@check("OWN-32")
def objects_that_were_never_made(env: Env) -> None:
    pm = env.pm
    for cls in (pm.Buffer, pm.PitchedBuffer):
        with refused(TypeError, saying="from_handle"):
            cls()
    classes = (pm.DeviceMemoryResource, pm.Stream)
    for cls in (*classes, pm.View):
        with refused(TypeError, saying="__init__"):
            cls.__new__(cls)
    with refused(TypeError):
        object.__new__(pm.View)
    # The base that all modules made with pybind11 share still makes objects; portamem cannot close it.
    resource, stream = (cls.__mro__[-2].__new__(cls) for cls in classes)
    with refused(TypeError, saying="__init__"):
        resource.allocate(16)
    with env.resource("device").allocate(64) as buf:
        with refused(TypeError, saying="__init__"):
            env.resource("device").allocate(16, stream=stream)
        buf.fill(1)
        expect_bytes(env.read(buf), b"\x01" * 64, "memory after the refusals")
