# SPDX-License-Identifier: MIT
"""Shows what becomes of failures: the CPU runtime is told which of its calls fails."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kinds import freeing_call
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.outcome import Failed
from portamem.enums import MemoryAdvice
from portamem.errors import Error, OutOfMemoryError

NBYTES = 4096
DATA = pattern(NBYTES)
CODES = (2, 999)


@contextmanager
def failing(env: Env, call: str | None, nth: int, code: int) -> Iterator[None]:
    """The n-th call of a name, or of any, fails in the block."""
    # Garbage of earlier checks is not collected meanwhile: what it gives back are calls as well, and one would fail.
    collects = gc.isenabled()
    gc.disable()
    env.pm.knobs.fail_call(call, nth, code)
    try:
        yield
    finally:
        env.pm.knobs.reset()
        if collects:
            gc.enable()


def _plain(env: Env, stream: Any) -> None:
    with env.pm.DeviceMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf:
        env.write(buf, DATA)
        expect_bytes(env.read(buf), DATA, "plain memory")


def _pooled(env: Env, stream: Any) -> None:
    with env.pm.AsyncMemoryResource(env.device) as pool, pool.allocate(NBYTES, stream=stream) as buf:
        env.pm.copy(buf, DATA, stream=stream).synchronize()
        expect_bytes(env.read(buf), DATA, "memory of a pool")
        pool.trim()
        expect(pool.reserved >= pool.used >= NBYTES, "a pool's figures")
        pool.reset_high()


def _pinned(env: Env, stream: Any) -> None:
    with env.pm.PinnedMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf:
        buf.fill(1, stream=stream).synchronize()
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), b"\x01" * NBYTES, "pinned memory")


def _managed(env: Env, stream: Any) -> None:
    with env.pm.ManagedMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf:
        buf.advise(MemoryAdvice.READ_MOSTLY)
        buf.prefetch(env.device, stream=stream)
        buf.prefetch("host")
        buf.fill(2)
        expect_bytes(env.read(buf), b"\x02" * NBYTES, "managed memory")


def _system(env: Env, stream: Any) -> None:
    with env.pm.SystemMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf:
        buf.fill(3, stream=stream).synchronize()
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "system memory")


def _pitched(env: Env, stream: Any) -> None:
    with env.pm.DeviceMemoryResource(env.device) as resource, resource.allocate_pitched(100, 8) as buf:
        out = bytearray(800)
        env.pm.fill_2d(buf, 2, stream=stream)
        env.pm.copy_2d(out, buf, stream=stream).synchronize()
        expect_bytes(bytes(out), b"\x02" * 800, "rows of pitched memory")


def _registered(env: Env, stream: Any) -> None:
    with (
        env.pm.HostRegistration(bytearray(DATA)) as memory,
        env.pm.DeviceMemoryResource(env.device) as resource,
        resource.allocate(NBYTES) as buf,
    ):
        buf.copy_from(memory, stream=stream).synchronize()
        expect_bytes(env.read(buf), DATA, "memory that was copied from registered memory")


def _two_streams(env: Env, stream: Any) -> None:
    with (
        env.pm.Stream(env.device) as other,
        env.pm.Event(env.device) as event,
        env.pm.AsyncMemoryResource(env.device) as pool,
        pool.allocate(NBYTES, stream=stream) as buf,
    ):
        stream.record(event)
        other.wait(event)
        buf.record_stream(other)
        buf.fill(1, stream=other)
        stream.wait(other)
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "memory that two streams use")


def _parts(env: Env, stream: Any) -> None:
    with env.pm.DeviceMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf, env.pm.using(resource):
        with buf[16:32] as part:
            part.fill(4, stream=stream).synchronize()
        with env.pm.zeros((16, 16), "float32") as view, env.pm.asarray(bytes(64)) as again:
            expect_bytes(env.read(view.buffer) + env.read(again.buffer), bytes(1024 + 64), "memory of zeros")


def _captured(env: Env, stream: Any) -> None:
    with env.pm.Stream(env.device) as own:
        own.begin_capture()
        with env.pm.DeviceMemoryResource(env.device) as resource, resource.allocate(NBYTES) as buf:
            expect_equal(env.pm.pointer_info(buf).kind, "device", "the kind of device memory")
        own.end_capture()


SCENES = (_plain, _pooled, _pinned, _managed, _system, _pitched, _registered, _two_streams, _parts, _captured)


def _is_still_armed(env: Env) -> bool:
    """True where the failure is still to come. It makes more calls than two runs of one scene differ by."""
    try:
        for _ in range(500):
            env.device.memory_info()
    except Error:
        return True
    return False


@check("ERROR-10", backends=("host",))
def whatever_call_fails(env: Env) -> None:
    for scene in SCENES:
        scene(env, env.device.default_stream)  # makes the objects that are made once for the process
        for code in CODES:
            _fail_each_call(env, scene, code)


def _fail_each_call(env: Env, scene: Callable[[Env, Any], None], code: int) -> None:
    """Fails the first call of a scene, then the second, and so on until the scene runs through."""
    held = env._held()
    for nth in range(1, 400):
        where = f"{scene.__name__[1:]}, call {nth} answers {code}"
        env.goes_on()
        with env.pm.Stream(env.device) as stream:
            with failing(env, None, nth, code):
                try:
                    scene(env, stream)
                    ended = _is_still_armed(env)
                except Error as error:
                    ended = False
                    expect_equal(error.code, code, f"{where}: the code of {error}")
                    expect(error.call and error.call in str(error), f"{where}: no call in {error}")
                    expect((code == 2) == isinstance(error, OutOfMemoryError), f"{where}: {type(error).__name__}")
                except Exception as error:
                    raise Failed(f"{where}: {type(error).__name__}: {error}") from error
            stream.synchronize()
        scene(env, env.device.default_stream)
        if ended:
            expect(nth > 3, f"{where}: there were hardly any calls")
            break
        if env._held() != held:
            gc.collect()
        expect(eventually(lambda: env._held() == held), f"{where}: {held} bytes before, {env._held()} after")
    else:
        raise Failed(f"{scene.__name__[1:]} never ran through")


@check("ERROR-10", backends=("host",), own_process=True)
def pages_that_cannot_be_registered(env: Env) -> None:
    nbytes, turns = 64 * MIB, 4
    for call in ("HostRegister", "HostGetDevicePointer"):
        most = _resident() + 2 * nbytes
        for turn in range(turns):
            with env.pm.PrefaultedPinnedMemoryResource(env.device) as resource:
                with failing(env, call, 1, 2):
                    buf = resource.allocate(nbytes)
                with buf, memoryview(buf) as seen:
                    seen[:16] = seen[-16:] = bytes([turn]) * 16
                    buf.fill(turn + 1)
                    expect_equal({seen[0], seen[-1]}, {turn + 1}, f"memory of a resource whose {call} failed")
                expect_equal(resource.live_bytes, 0, "live bytes")
        expect(_shrinks_to(most), f"{turns} times {nbytes} bytes stay, where {call} failed")


def _shrinks_to(nbytes: int) -> bool:
    """True once this process has no more memory than that. portamem's thread may still have to free some."""
    return eventually(lambda: _resident() <= nbytes)


def _resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _error_of(env: Env, call: str, fails: Callable[[], object]) -> Any:
    """Returns the error that an operation raises whose call fails.

    A thread of portamem's own that gives back what earlier work has left may meet the failure first, and calls again
    later; and a pool may be there already. Then the operation succeeds, and is tried once more.
    """
    for _ in range(100):
        env.device.synchronize()  # most of that is gone then
        with failing(env, call, 1, 999):
            try:
                fails()
            except Error as error:
                return error
    raise AssertionError(f"{call} failed, and nothing was raised")


@check("ERROR-11", backends=("host",))
def the_error_names_the_call(env: Env) -> None:
    pm, device, stream = env.pm, env.device, env.stream()
    plain, pool, event = env.resource("device"), env.resource("async"), pm.Event(device, timing=True)
    pools: list[Any] = []  # kept, as a pool that nothing uses any more is taken again rather than made
    with plain.allocate(64) as buf, env.resource("managed").allocate(64) as shared:
        calls: dict[str, Callable[[], object]] = {
            "Malloc": lambda: plain.allocate(16),
            "MallocPitch": lambda: plain.allocate_pitched(16, 2),
            "HostMalloc": lambda: pm.PinnedMemoryResource(device).allocate(16),
            "MallocManaged": lambda: pm.ManagedMemoryResource(device).allocate(16),
            "MallocFromPoolAsync": lambda: pool.allocate(16, stream=stream),
            "MemPoolCreate": lambda: pools.append(pm.AsyncMemoryResource(device)),
            "MemPoolSetAttribute": lambda: pool.reset_high(),
            "MemPoolGetAttribute": lambda: pool.used,
            "MemPoolTrimTo": lambda: pool.trim(),
            "MemPoolGetAccess": lambda: pool.access(device),
            "MemPoolSetAccess": lambda: pool.set_access(device, "read_write"),
            "StreamCreateWithPriority": lambda: pm.Stream(device),
            "StreamSynchronize": lambda: stream.synchronize(),
            "StreamQuery": lambda: stream.query(),
            "StreamWaitEvent": lambda: stream.wait(event),
            "StreamBeginCapture": lambda: stream.begin_capture(),
            "StreamIsCapturing": lambda: stream.capture_status,
            "EventCreateWithFlags": lambda: pm.Event(device),
            "EventRecord": lambda: stream.record(),
            "EventQuery": lambda: event.query(),
            "EventSynchronize": lambda: event.synchronize(),
            "EventElapsedTime": lambda: event.elapsed_time(event),
            "LaunchHostFunc": lambda: stream.launch_host_func(print),
            "MemcpyAsync": lambda: env.pm.copy(buf, bytes(64)),
            "Memcpy2DAsync": lambda: pm.copy_2d(buf, bytes(64), width=8, height=8, dst_pitch=8, src_pitch=8),
            "Memcpy3DAsync": lambda: pm.copy_3d(buf, bytes(64), width=4, height=4, depth=4),
            "MemsetAsync": lambda: buf.fill(1),
            "MemPrefetchAsync": lambda: shared.prefetch(device),
            "MemAdvise": lambda: shared.advise(MemoryAdvice.READ_MOSTLY),
            "DeviceSynchronize": lambda: device.synchronize(),
            "HostRegister": lambda: pm.HostRegistration(bytearray(64)),
            "MemGetInfo": lambda: device.memory_info(),
            "DeviceGetLimit": lambda: device.malloc_heap_size,
        }
        for call, fails in calls.items():
            error = _error_of(env, call, fails)
            expect(call in str(error), f"the message does not name {call}: {error}")
            known = (error.name, error.call, error.code, error.backend)
            expect_equal(known, ("Unknown", call, 999, "host"), "name, call, code and backend")
        buf.fill(9)
        expect_bytes(env.read(buf), b"\x09" * 64, "memory that was filled after all of these failures")
    event.close()


@check("ERROR-11", backends=("host",))
def the_nth_failure(env: Env) -> None:
    plain = env.resource("device")
    with failing(env, "Malloc", 3, 2):
        live = [plain.allocate(64), plain.allocate(64)]
        with refused(OutOfMemoryError):
            plain.allocate(64)
        expect_equal((plain.live_buffers, plain.live_bytes), (2, 128), "live buffers and bytes")
        live.append(plain.allocate(64))
    for value, buf in enumerate(live):
        buf.fill(value)
        expect_bytes(env.read(buf), bytes([value]) * 64, "memory from around a failure")
        buf.close()


@check("ERROR-12", backends=("host",))
def a_free_that_fails(env: Env, resource: Any) -> None:
    call = freeing_call(resource)
    buf = env.allocate(resource, NBYTES)
    with failing(env, call, 1, 999), refused(Error, saying=call):
        buf.close()
    expect(not buf.is_closed, "memory whose free failed is closed")
    expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes")
    env.write(buf, DATA)
    expect_bytes(env.read(buf), DATA, "memory whose free failed")
    buf.close()
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")


@check("ERROR-12", backends=("host",))
def a_free_that_fails_of_what_is_forgotten(env: Env, resource: Any) -> None:
    for nth in (1, 2):
        buf = env.allocate(resource, NBYTES)
        with failing(env, freeing_call(resource), 1, 999):
            del buf
            gc.collect()
        expect(eventually(lambda: resource.live_buffers == 0), f"memory is not given back, turn {nth}")
    expect_equal(resource.live_bytes, 0, "live bytes")


@check("ERROR-13", backends=("host",))
def an_exception_is_not_hidden(env: Env) -> None:
    pm, device, plain, stream = env.pm, env.device, env.resource("device"), env.stream()
    blocks: dict[str, Callable[[], Any]] = {
        "Free": lambda: plain.allocate(64),
        "FreeAsync": lambda: env.resource("async").allocate(64, stream=stream),
        "MemPoolDestroy": lambda: pm.AsyncMemoryResource(device),
        "StreamDestroy": lambda: pm.Stream(device),
        "HostUnregister": lambda: pm.HostRegistration(bytearray(64)),
    }
    for call, make in blocks.items():
        made = make()
        with failing(env, call, 1, 999), refused(KeyError, saying="mine"):
            _raise_in(made)
        with refused(KeyError, saying="mine"):  # a block of what is closed already, or goes later
            _raise_in(make())
        del made
    captured = pm.Stream(device)
    captured.begin_capture()
    with refused(KeyError, saying="mine"):
        _raise_in(captured)
    captured.end_capture()
    captured.close()
    with plain.allocate(64), refused(KeyError, saying="mine"):
        _raise_in(plain)
    expect(eventually(lambda: gc.collect() >= 0 and plain.live_buffers == 0), "memory is not given back")


def _raise_in(block: Any) -> None:
    with block:
        raise KeyError("mine")


@check("ERROR-08", backends=("host",))
def misuse_makes_no_runtime_call(env: Env) -> None:
    pm, device, plain, pool, stream = env.pm, env.device, env.resource("device"), env.resource("async"), env.stream()
    closed = pm.DeviceMemoryResource(env.device)
    closed.close()
    gone = plain.allocate(64)
    gone.close()
    dead = pm.Stream(env.device)
    dead.close()
    untimed = pm.Event(env.device)
    buf, other = plain.allocate(256), plain.allocate(64)
    whole = buf[:]
    rows = plain.allocate_pitched(16, 4)
    lent = pool.allocate(64, stream=stream)  # of a pool: on no machine the host's to read
    misuse: tuple[Callable[[], object], ...] = (
        lambda: plain.allocate(-1),
        lambda: plain.allocate("64 miles"),
        lambda: plain.allocate(2**64),
        lambda: plain.allocate(1.5),
        lambda: plain.allocate(16, stream=42),
        lambda: plain.allocate_pitched(-1, 4),
        lambda: closed.allocate(16),
        lambda: pool.allocate(16),
        lambda: pool.set_access(device, "write"),
        lambda: setattr(pool, "release_threshold", -1),
        lambda: pool.trim(-1),
        lambda: gone.fill(1),
        lambda: gone[:8],
        lambda: gone.view(),
        lambda: buf.close(),
        lambda: plain.close(),
        lambda: buf.fill(256),
        lambda: buf.fill(1.5),
        lambda: buf[::2],
        lambda: buf.view("no type"),
        lambda: buf.view("float64", 100),
        lambda: buf.view(offset=300),
        lambda: pm.copy(buf, other),
        lambda: pm.copy(buf[:128], buf[64:192]),
        lambda: pm.copy(buf, "text"),
        lambda: pm.copy_2d(buf, other, width=64, height=4, dst_pitch=32, src_pitch=64),
        lambda: pm.copy_2d(buf, other, width=64, height=5, dst_pitch=64, src_pitch=64),
        lambda: pm.copy_3d(buf, other, width=16, height=4, depth=4, dst_pitch=8),
        lambda: pm.copy_3d(buf, other, width=16, height=4, depth=5),
        lambda: pm.copy_3d(buf[:128], buf[32:160], width=4, height=4, depth=4),
        lambda: pm.fill_2d(rows, 300),
        lambda: memoryview(lent),
        lambda: buf.copy_from(other),
        lambda: dead.synchronize(),
        lambda: dead.record(),
        lambda: stream.begin_capture("local"),
        lambda: stream.launch_host_func(None),
        lambda: stream.wait(None),
        lambda: untimed.elapsed_time(untimed),
        lambda: pm.Event.from_handle(0),
        lambda: pm.Stream.wrap(7),
        lambda: device.limit("nonsense"),
        lambda: pm.PinnedMemoryResource(device, coherence="often"),
    )
    gc.collect()
    env.device.synchronize()
    with failing(env, None, 1, 999):
        for call in misuse:
            with refused(ValueError, TypeError, BufferError):
                call()
        with refused(Error, name="Unknown"):
            env.device.synchronize()
    for each in (whole, buf, other, rows, lent):
        each.close()
