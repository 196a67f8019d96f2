# SPDX-License-Identifier: MIT
"""Shows the clauses of frees that are wrong: each is refused, and nothing has changed."""

from __future__ import annotations

import gc
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kinds import freeing_call
from portamem.conformance.kit.memory import pattern
from portamem.conformance.kit.outcome import Unsupported
from portamem.errors import Error

NBYTES = 4096
NEVER_GIVEN = 0x1000


def _stream(resource: Any) -> Any:
    return resource.device.default_stream if resource.is_stream_ordered else None


def _as_before(env: Env, resource: Any, keeper: Any) -> None:
    """One buffer is out, with what was written."""
    expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes after a refusal")
    expect_bytes(env.read(keeper), pattern(NBYTES), "live memory after a refusal")


@check("FREE-04")
def addresses_that_are_no_allocation(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as keeper:
        env.write(keeper, pattern(NBYTES))
        for address in (NEVER_GIVEN, keeper.handle + 256, keeper.handle + NBYTES - 1):
            with refused(Error, name="InvalidValue", saying="Free"):
                resource.deallocate(address, 16, stream=_stream(resource))
            _as_before(env, resource, keeper)
    expect_equal(resource.live_buffers, 0, "live buffers at the end")
    with refused(ValueError, saying="no live allocations"):  # as many are out as were before the refusals
        resource.deallocate(NEVER_GIVEN, 16, stream=_stream(resource))


@check("FREE-04")
def memory_of_python_objects_is_not_freed(env: Env, resource: Any) -> None:
    import ctypes

    theirs = (ctypes.c_char * 64).from_buffer(bytearray(b"\x07" * 64))
    with env.allocate(resource, NBYTES) as keeper:
        env.write(keeper, pattern(NBYTES))
        with refused(Error, name="InvalidValue"):
            resource.deallocate(ctypes.addressof(theirs), 64, stream=_stream(resource))
        _as_before(env, resource, keeper)
    expect_bytes(bytes(theirs), b"\x07" * 64, "the object's bytes")


@check("FREE-05")
def a_second_free_is_refused(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as keeper:
        env.write(keeper, pattern(NBYTES))
        address = env.allocate(resource, NBYTES).release()
        resource.deallocate(address, NBYTES)
        with refused(Error, name="InvalidValue") as refusal:
            resource.deallocate(address, NBYTES)
        error: Any = refusal.error
        expect_equal((error.code, error.backend), (1, env.pm.backend), "code and backend of the refusal")
        _as_before(env, resource, keeper)


@check("FREE-06")
def the_wrong_kind_of_free(env: Env) -> None:
    device, pinned = env.resource("device"), env.resource("pinned")
    with device.allocate(NBYTES) as one, pinned.allocate(NBYTES) as two:
        for resource, keeper, stranger in ((device, one, two), (pinned, two, one)):
            env.write(keeper, pattern(NBYTES))
            with refused(Error, name="InvalidValue"):
                resource.deallocate(stranger.handle, NBYTES)
            _as_before(env, resource, keeper)
            stranger.fill(3)
            expect_bytes(env.read(stranger), b"\x03" * NBYTES, "memory that was to be freed as another kind")


@check("FREE-07")
def what_cannot_be_its_own(env: Env, resource: Any) -> None:
    stream = _stream(resource)
    other = env.resource("device")
    with other.allocate(64) as stranger, env.allocate(resource, 0):
        words = "" if env.kind_of(resource).knows else "no live allocations"
        with refused(ValueError, saying=words):
            resource.deallocate(stranger.handle, 64, stream=stream)
        with refused(ValueError, saying=words):
            resource.deallocate(NEVER_GIVEN, 64, stream=stream)
        stranger.fill(1)
        expect_bytes(env.read(stranger), b"\x01" * 64, "memory of another resource")
    address = env.allocate(resource, NBYTES).release()
    for nbytes in (NBYTES + 1, 1 << 40):
        with refused(ValueError, saying=str(nbytes)):
            resource.deallocate(address, nbytes, stream=stream)
    expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes after refusals")
    with env.pm.Buffer.from_handle(address, NBYTES, device=resource.device) as again:
        env.write(again, pattern(NBYTES))
        expect_bytes(env.read(again), pattern(NBYTES), "memory of whose size too much was said")
    resource.deallocate(address, NBYTES, stream=stream)
    for wrong in (-1, 1 << 64):
        with refused(ValueError):
            resource.deallocate(wrong, 16, stream=stream)
    with refused(TypeError):
        resource.deallocate("0x1000", 16, stream=stream)


@check("FREE-07")
def null_is_nothing(env: Env, resource: Any) -> None:
    stream = _stream(resource)
    resource.deallocate(0, 0, stream=stream)
    with env.allocate(resource, NBYTES) as keeper:
        env.write(keeper, pattern(NBYTES))
        for nbytes in (0, 16):
            resource.deallocate(0, nbytes, stream=stream)
            _as_before(env, resource, keeper)
        with refused(BufferError, saying="1 live"):
            resource.close()
        empty = env.allocate(resource, 0)
        expect_equal((empty.release(), resource.live_buffers), (0, 2), "the address of nothing, and live buffers")
        resource.deallocate(0, 0, stream=stream)
        _as_before(env, resource, keeper)


@check("FREE-18")
def a_size_that_was_not_asked_for(env: Env, resource: Any) -> None:
    stream = _stream(resource)
    with env.allocate(resource, 4 * NBYTES) as keeper:
        env.write(keeper, pattern(4 * NBYTES))
        address = env.allocate(resource, NBYTES).release()
        for wrong in (1, 16, NBYTES // 2, NBYTES - 1, NBYTES + 1, 2 * NBYTES, 4 * NBYTES):
            with refused(ValueError, saying="give the size that was allocated"):
                resource.deallocate(address, wrong, stream=stream)
            counted = (resource.live_buffers, resource.live_bytes)
            expect_equal(counted, (2, 5 * NBYTES), f"live buffers and bytes after a free of {wrong} bytes")
        resource.deallocate(address, NBYTES, stream=stream)
        expect_equal((resource.live_buffers, resource.live_bytes), (1, 4 * NBYTES), "live buffers and bytes")
        expect_bytes(env.read(keeper), pattern(4 * NBYTES), "memory beside that whose size was wrong")


def _need_capture(env: Env) -> None:
    env.need(env.device.probe().stream_capture, "stream_capture")


def _is_taken(buf: Any) -> bool:
    try:
        buf.close()
    except ValueError:
        return False
    return True


@check("FREE-13")
def a_close_that_a_capture_refuses(env: Env, resource: Any) -> None:
    _need_capture(env)
    stream = env.stream()
    buf = resource.allocate(NBYTES, stream=stream)
    env.write(buf, pattern(NBYTES))
    stream.begin_capture()
    try:
        if env.kind_of(resource).keeps and _is_taken(buf):  # without a call of the runtime
            expect_equal((resource.live_buffers, stream.capture_status), (0, "active"), "live buffers and the capture")
            return
        for named in (None, stream):
            with refused(ValueError, saying="captur"):
                buf.close(stream=named)
            expect_equal((buf.is_closed, resource.live_buffers), (False, 1), "is_closed, and live buffers")
        expect_equal(stream.capture_status, "active", "the capture")
    finally:
        stream.end_capture()
    expect_bytes(env.read(buf), pattern(NBYTES), "memory whose close was refused")
    buf.close()
    expect_equal((buf.is_closed, resource.live_buffers), (True, 0), "is_closed, and live buffers")


@check("FREE-13", backends=("host",))
def a_close_that_the_runtime_refuses(env: Env, resource: Any) -> None:
    call = freeing_call(resource)
    if env.kind_of(resource).keeps:
        raise Unsupported("what keeps memory makes no call to take it back")
    if not call:
        raise Unsupported("system memory is freed by the C library, which never refuses")
    with env.allocate(resource, NBYTES) as keeper:
        env.write(keeper, pattern(NBYTES))
        buf = env.allocate(resource, NBYTES)
        env.write(buf, pattern(NBYTES, 1))
        env.pm.knobs.fail_call(call, 1, 1)
        try:
            with refused(Error, name="InvalidValue", saying=call):
                buf.close()
        finally:
            env.pm.knobs.reset()
        expect_equal((buf.is_closed, resource.live_buffers), (False, 2), "is_closed, and live buffers")
        expect_equal(resource.live_bytes, 2 * NBYTES, "live bytes")
        expect_bytes(env.read(buf), pattern(NBYTES, 1), "memory whose close the runtime refused")
        buf.close()
        _as_before(env, resource, keeper)


@check("FREE-14")
def what_cannot_go_back_now_goes_later(env: Env, resource: Any) -> None:
    _need_capture(env)
    stream = env.stream()
    buf = resource.allocate(NBYTES, stream=stream)
    buf.fill(1)
    stream.begin_capture()
    try:
        del buf
        gc.collect()
        if not env.kind_of(resource).keeps:
            expect_equal(resource.live_buffers, 1, "live buffers while a capture is in the way")
        expect_equal(stream.capture_status, "active", "the capture")
    finally:
        stream.end_capture()
    expect(eventually(lambda: resource.live_buffers == 0), "the memory never went back")
    with env.allocate(resource, NBYTES) as again:
        env.write(again, pattern(NBYTES))
        expect_bytes(env.read(again), pattern(NBYTES), "memory allocated afterwards")


@check("FREE-14")
def closing_the_resource_takes_it_back_at_once(env: Env, resource: Any) -> None:
    _need_capture(env)
    stream = env.stream()
    buffers = [resource.allocate(NBYTES, stream=stream) for _ in range(3)]
    for buf in buffers:
        buf.fill(1)
    expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")
    stream.begin_capture()
    try:
        del buf
        buffers.clear()
        gc.collect()
        if env.kind_of(resource).keeps:  # nothing may be out, but to give chunks back may have to wait
            try:
                resource.close()
            except (ValueError, BufferError):
                expect(not resource.is_closed, "a resource that refused to close is closed")
            expect_equal(stream.capture_status, "active", "the capture")
        else:
            with refused(BufferError, saying="3 live"):
                resource.close()
    finally:
        stream.end_capture()
    resource.close()
    expect_equal((resource.is_closed, resource.live_buffers), (True, 0), "is_closed, and live buffers")
