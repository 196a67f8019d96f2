# SPDX-License-Identifier: MIT
"""Shows the clauses of copies and fills."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

import portamem
from portamem.conformance.kit import dlpack, kinds
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import Producer
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.no_bytes import no_bytes
from portamem.conformance.kit.outcome import NotShown, Unsupported
from portamem.errors import Error

NBYTES = 10_007


def _others(env: Env) -> list[Any]:
    """A resource of every kind of the runtime's that the device has."""
    found = []
    for name in (kind.name for kind in kinds.selected("every resource of the runtime")):
        try:
            found.append(env.resource(name))
        except Unsupported:
            continue
    return found


@check("COPY-01")
def between_every_two_kinds(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as ours:
        for seed, other in enumerate(_others(env)):
            data, back = pattern(NBYTES, seed), pattern(NBYTES, seed + 100)
            for on in (None, stream):
                with env.allocate(other, NBYTES) as theirs:
                    env.write(theirs, data)
                    ours.fill(0)
                    done = env.pm.copy(ours, theirs, stream=on)
                    if on is not None:
                        done.synchronize()
                    expect_bytes(env.read(ours), data, f"from {other.kind} to {resource.kind}")
                    env.write(ours, back)
                    done = env.pm.copy(theirs, ours, stream=on)
                    if on is not None:
                        done.synchronize()
                    expect_bytes(env.read(theirs), back, f"from {resource.kind} to {other.kind}")
                    expect_bytes(env.read(ours), back, f"{resource.kind} memory that was copied from")


@check("COPY-02")
def python_objects_are_ends(env: Env, resource: Any) -> None:
    data, stream = pattern(4096), env.stream()
    with env.allocate(resource, 4096) as buf:
        for on in (None, stream):
            sources = (data, bytearray(data), memoryview(data), np.frombuffer(data, np.float64), array("i", data))
            for source in sources:
                buf.fill(0)
                env.pm.copy(buf, source, stream=on)
                stream.synchronize()
                expect_bytes(env.read(buf), data, f"from a {type(source).__name__}")
            targets: tuple[Any, ...] = (bytearray(4096), np.zeros((8, 64), np.float64), array("d", bytes(4096)))
            for target in targets:
                done = env.pm.copy(target, buf, stream=on)
                if on is not None:
                    done.synchronize()
                expect_bytes(bytes(memoryview(target).cast("B")), data, f"to a {type(target).__name__}")
        numbers, out = np.arange(48, dtype=np.float32).reshape(2, 4, 6), np.zeros((6, 8), np.float32)
        with buf.view("float32", 48) as view:
            env.pm.copy(view, numbers)
            env.pm.copy(out, view)
        expect(np.array_equal(out.ravel(), numbers.ravel()), "arrays of other shapes have other numbers")


@check("COPY-02")
def arrays_without_a_buffer(env: Env, resource: Any) -> None:
    """NumPy gives no buffer of arrays of times. Other arrays have an array interface, or DLPack, and nothing else."""

    class Interface:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

    stream = env.stream()
    with env.allocate(resource, 64) as buf:
        for dtype in ("datetime64[ns]", "timedelta64[s]", [("when", "datetime64[D]"), ("what", "float64")]):
            times = np.frombuffer(pattern(64), np.uint8).view(dtype)
            for on in (None, stream):
                out = np.zeros_like(times)
                env.pm.copy(buf, times, stream=on)
                stream.synchronize()
                env.pm.copy(out, buf, stream=on)
                stream.synchronize()
                expect_bytes(out.tobytes(), pattern(64), f"an array of {dtype}, there and back")
        numbers, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
        env.pm.copy(buf, Interface(numbers))
        env.pm.copy(Interface(out), buf)
        expect(np.array_equal(out, numbers), "what went through __array_interface__")
        halves = Producer(numbers.ctypes.data, (32,), memory=numbers, dtype=(dlpack.BFLOAT, 16, 1))
        there = Producer(out.ctypes.data, (32,), memory=out, dtype=(dlpack.BFLOAT, 16, 1))
        out[:] = 0
        env.pm.copy(buf, halves, stream=stream).synchronize()
        env.pm.copy(there, buf)
        expect(np.array_equal(out, numbers), "what went through DLPack, of elements that have no name here")
    del halves, there


@check("COPY-02")
def between_two_python_objects(env: Env, resource: Any) -> None:
    data, target = pattern(4096), bytearray(4096)
    expect(env.pm.copy(target, data) is None, "a blocking copy answers an event")
    expect_bytes(bytes(target), data, "a bytearray")
    numbers = np.zeros(4096, np.uint8)
    env.pm.copy(numbers, data, stream=env.stream()).synchronize()
    expect_bytes(numbers.tobytes(), data, "an array, on a stream")
    with env.allocate(resource, 4096) as buf:
        env.pm.copy(buf, target)
        expect_bytes(env.read(buf), data, "what they became")


@check("COPY-03")
def three_spellings(env: Env, resource: Any) -> None:
    data, stream = pattern(NBYTES), env.stream()
    with env.allocate(resource, NBYTES) as src, env.allocate(resource, NBYTES) as dst:
        env.write(src, data)
        for number in range(3):
            for on in (None, stream):
                dst.fill(0)
                done = (
                    env.pm.copy(dst, src, stream=on)
                    if number == 0
                    else dst.copy_from(src, stream=on)
                    if number == 1
                    else src.copy_to(dst, stream=on)
                )
                if on is None:
                    expect(done is None, f"a blocking copy answers {done!r}")
                else:
                    expect(isinstance(done, env.pm.Event), f"a copy on a stream answers {done!r}")
                    done.synchronize()
                    expect(done.query() and done.is_done, "its event is not done after synchronize")
                expect_bytes(env.read(dst), data, "the target")
        expect(dst.fill(1) is None, "a blocking fill answers an event")
        expect(isinstance(dst.fill(1, stream=stream), env.pm.Event), "a fill on a stream answers no event")
        stream.synchronize()


@check("COPY-04")
def not_a_byte_more(env: Env, resource: Any) -> None:
    with env.allocate(resource, 4096) as buf, env.allocate(resource, 4096) as other:
        env.write(other, pattern(4096, 1))
        for start, stop in ((0, 1), (0, 4095), (1, 4096), (33, 67), (255, 258), (511, 1537), (4095, 4096), (7, 7)):
            wanted = bytearray(pattern(4096))
            env.write(buf, bytes(wanted))
            with buf[start:stop] as part, other[start:stop] as source:
                part.copy_from(source)
                wanted[start:stop] = pattern(4096, 1)[start:stop]
                expect_bytes(env.read(buf), bytes(wanted), f"a buffer into which {start}:{stop} was copied")
                part.copy_from(bytes(wanted[start:stop])[::-1])
                wanted[start:stop] = wanted[start:stop][::-1]
                expect_bytes(env.read(buf), bytes(wanted), f"a buffer into which bytes for {start}:{stop} were copied")
                part.fill(0xA5)
                wanted[start:stop] = b"\xa5" * (stop - start)
                expect_bytes(env.read(buf), bytes(wanted), f"a buffer in which {start}:{stop} was filled")
                out = bytearray(b"\x11" * (stop - start + 2))
                part.copy_to(memoryview(out)[1 : stop - start + 1])
                expect_bytes(
                    bytes(out), b"\x11" + b"\xa5" * (stop - start) + b"\x11", "bytes around a target in Python"
                )
        expect_bytes(env.read(other), pattern(4096, 1), "the source")


@check("COPY-05")
def sizes_must_be_equal_and_ends_apart(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, 4096) as buf, env.allocate(resource, 4097) as longer:
        env.write(buf, pattern(4096))
        longer.fill(0xEE)
        out = bytearray(4097)
        for on in (None, stream):
            for dst, src, message in (
                (buf, longer, "4097"),
                (longer, buf, "4096"),
                (buf, bytes(4095), "4095"),
                (buf, b"", "0 bytes"),
                (out, buf, "4097"),
            ):
                with refused(ValueError, saying=message) as refusal:
                    env.pm.copy(dst, src, stream=on)
                expect("does not fit" in str(refusal.error), f"it does not say that it does not fit: {refusal.error}")
            with buf[1:] as high, buf[:-1] as low, buf[:2049] as half, buf[2047:] as rest:
                for dst, src in ((buf, buf), (high, low), (low, high), (half, rest)):
                    if dst.nbytes == src.nbytes:
                        with refused(ValueError, saying="overlap"):
                            env.pm.copy(dst, src, stream=on)
        stream.synchronize()
        expect_bytes(env.read(buf), pattern(4096), "the buffer after refusals")
        expect_bytes(env.read(longer), b"\xee" * 4097, "the other one")
        expect_bytes(bytes(out), bytes(4097), "the bytearray")
        with buf[:2048] as low, buf[2048:] as high:
            env.pm.copy(high, low)
            expect_bytes(env.read(buf), pattern(4096)[:2048] * 2, "a half copied to the other that it touches")
            env.write(buf, pattern(4096))
            env.pm.copy(low, high, stream=stream).synchronize()
            expect_bytes(env.read(buf), pattern(4096)[2048:] * 2, "the same the other way round")
        expect_equal((buf.exports, longer.exports), (0, 0), "exports after refusals")


@check("COPY-06")
def what_is_no_end(env: Env, resource: Any) -> None:
    frozen = np.frombuffer(bytes(4096), np.uint8)
    sources: tuple[tuple[Any, type[Exception], str], ...] = (
        (42, TypeError, "source is a int"),
        ("text", TypeError, "source is a str"),
        (None, TypeError, "source is a NoneType"),
        *no_bytes("source"),
    )
    targets: tuple[tuple[Any, type[Exception], str], ...] = (
        (42, TypeError, "target is a int"),
        *no_bytes("target"),
        (bytes(4096), ValueError, "target is read-only"),
        (frozen, ValueError, "target is read-only"),
        (np.lib.stride_tricks.as_strided(np.zeros(64, np.uint8), (64, 64), (0, 1)), ValueError, "share memory"),
    )
    with env.allocate(resource, 4096) as buf:
        env.write(buf, pattern(4096))
        for source, error, message in sources:
            with refused(error, saying=message):
                env.pm.copy(buf, source)
        for target, error, message in targets:
            with refused(error, saying=message):
                env.pm.copy(target, buf)
        with refused(TypeError):
            env.pm.copy(buf, bytes(4096), stream=42)
        gaps = np.zeros(8192, np.uint8)[::2]
        with refused(ValueError, saying="neither end is C-contiguous"):
            env.pm.copy(gaps, gaps.copy()[::-1])
        expect_bytes(env.read(buf), pattern(4096), "the buffer after refusals")
        buf.copy_from(frozen)
        expect_bytes(env.read(buf), bytes(4096), "a buffer that was copied to from a read-only source")
        expect_equal(buf.exports, 0, "exports")


@check("COPY-11")
def many_megabytes(env: Env, resource: Any) -> None:
    nbytes = 16 * MIB + 1
    data, stream = pattern(nbytes), env.stream()
    with env.allocate(resource, nbytes) as buf, env.resource("pinned").allocate(nbytes) as pinned:
        env.pm.copy(buf, data, stream=stream).synchronize()
        pinned.copy_from(buf, stream=stream).synchronize()
        expect(bytes(memoryview(pinned)) == data, "pageable to the device and back to pinned memory: bytes differ")
        buf.fill(0)
        buf.copy_from(pinned)
        expect(env.read(buf) == data, "pinned to the device and back to pageable memory: bytes differ")


@check("COPY-11")
def many_megabytes_of_any_part(env: Env, resource: Any) -> None:
    """Lengths around the sizes at which a copy is divided, on a stream and without one."""
    room, stream = 18 * MIB, env.stream()
    data = np.frombuffer(pattern(room), np.uint8)
    with env.allocate(resource, room) as buf:
        for turn, nbytes in enumerate((4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 16 * MIB, 17 * MIB + 12_345)):
            on, at, start = stream if turn % 2 else None, 3 + 64 * turn, 1 + 7 * turn
            buf.fill(0xEE)
            back = np.zeros(nbytes + 2, np.uint8)
            with buf[at : at + nbytes] as part:
                part.copy_from(data[start : start + nbytes], stream=on)
                done = part.copy_to(back[1:-1], stream=on)
            if done is not None:
                done.synchronize()
            expect(bool((back[1:-1] == data[start : start + nbytes]).all()), f"{nbytes} bytes came back as others")
            expect_equal((int(back[0]), int(back[-1])), (0, 0), "the bytes beside the target")
            whole = np.frombuffer(env.read(buf), np.uint8)
            untouched = bool((whole[:at] == 0xEE).all() and (whole[at + nbytes :] == 0xEE).all())
            expect(untouched, f"a copy of {nbytes} bytes wrote beside its target")


@check("COPY-11")
def two_streams_take_turns(env: Env, resource: Any) -> None:
    """Chunks alternate between two streams and meet again at the end: the shape of an overlapped pipeline."""
    lanes, chunk = (env.stream(), env.stream()), 128 * KIB + 64
    data, pinned = pattern(8 * chunk), env.resource("pinned")
    with pinned.allocate(8 * chunk) as src, pinned.allocate(8 * chunk) as dst:
        with env.allocate(resource, 8 * chunk) as mid:
            env.write(src, data)
            for number in range(8):
                part, lane = slice(number * chunk, (number + 1) * chunk), lanes[number % 2]
                with src[part] as a, mid[part] as b, dst[part] as c:
                    b.copy_from(a, stream=lane)
                    c.copy_from(b, stream=lane)
            lanes[0].wait(lanes[1])
            lanes[0].synchronize()
        expect(env.read(dst) == data, "what came through differs")


@check("COPY-12")
def every_value(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, 1003) as buf:
        for value in (0, 1, 0x7F, 0x80, 255, np.uint8(200)):
            for on in (None, stream):
                env.write(buf, pattern(1003))
                done = buf.fill(value, stream=on)
                if on is not None:
                    done.synchronize()
                expect_bytes(env.read(buf), bytes([value]) * 1003, f"a fill with {value}")
        for wrong in (-1, 256, 1 << 70):
            with refused(ValueError, saying="0 to 255"):
                buf.fill(wrong)
        for strange in (1.0, "1", None, b"1", True):
            with refused(TypeError, saying="int"):
                buf.fill(strange)
        expect_bytes(env.read(buf), b"\xc8" * 1003, "the buffer after refusals")


@check("COPY-13")
def between_devices(env: Env, resource: Any) -> None:
    data, device, other = pattern(NBYTES), env.device, env.other_device
    kind = env.kind_of(resource)
    there = env.resource(kind.name, other)
    is_closed_to_others = resource.kind in ("async", "virtual")
    if is_closed_to_others:
        if not device.can_access_peer(other) or not other.can_access_peer(device):
            raise NotShown("the devices cannot reach each other's memory")
        resource.set_access(other, "read_write")
        there.set_access(device, "read_write")
    try:
        with env.allocate(resource, NBYTES) as src, env.allocate(there, NBYTES) as dst:
            for on in (None, env.stream(device), env.stream(other)):
                env.write(src, data)
                dst.fill(0)
                done = env.pm.copy(dst, src, stream=on)
                if on is not None:
                    done.synchronize()
                expect_bytes(env.read(dst), data, "memory of the other device")
                src.fill(0)
                done = env.pm.copy(src, dst, stream=on)
                if on is not None:
                    done.synchronize()
                expect_bytes(env.read(src), data, "what came back from the other device")
    finally:
        if is_closed_to_others:
            resource.set_access(other, "none")
            there.set_access(device, "none")


@check("COPY-20")
def far_beyond_an_allocation(env: Env, resource: Any) -> None:
    stream, nbytes = env.stream(), 64 * MIB
    # The other end is the host's: memory of the device that is where the wrong size reaches would make it right.
    pinned = env.resource("pinned")
    with ExitStack() as stack:
        buf = stack.enter_context(resource.allocate(4096))
        other = stack.enter_context(pinned.allocate(nbytes))
        while abs(other.handle - buf.handle) < nbytes:
            other = stack.enter_context(pinned.allocate(nbytes))
        env.write(buf, pattern(4096))
        other.fill(0xEE)
        with env.pm.Buffer.from_handle(buf.handle, nbytes, device=env.device) as wrong:
            calls: tuple[Callable[[], object], ...] = (
                lambda: env.pm.copy(wrong, other),
                lambda: env.pm.copy(other, wrong),
                lambda: env.pm.copy(wrong, other, stream=stream),
                lambda: wrong.fill(0),
                lambda: wrong.fill(0, stream=stream),
            )
            for call in calls:
                with refused(Error, name="InvalidValue"):
                    call()
            stream.synchronize()
        expect_bytes(env.read(buf), pattern(4096), "the memory after refusals")
        expect_bytes(env.read(other[:4096]), b"\xee" * 4096, "the other end")


def _copy_at(env: Env, address: int, end: bytes | bytearray) -> None:
    """Bytes to an address, or from it into a bytearray."""
    with env.pm.Buffer.from_handle(address, len(end), device=env.device) as wrong:
        wrong.copy_to(end) if isinstance(end, bytearray) else wrong.copy_from(end)


@check("COPY-20", backends=("host",))
def one_byte_beyond_an_allocation(env: Env, resource: Any) -> None:
    """Here every allocation is watched to the byte, memory of pools and the rest of a page too."""
    for owner in (resource, env.resource("async"), env.resource("pinned"), env.resource("managed")):
        with env.allocate(owner, 5000) as buf:
            env.write(buf, pattern(5000))
            for start, stop in ((0, 5001), (4999, 5001), (1, 5001)):
                with env.pm.Buffer.from_handle(buf.handle + start, stop - start, device=env.device) as wrong:
                    with refused(Error, name="InvalidValue"):
                        wrong.copy_from(b"\x01" * (stop - start))
                    with refused(Error, name="InvalidValue"):
                        wrong.copy_to(bytearray(stop - start))
            for end in (b"\x01" * 16, bytearray(16)):  # the rest of the page, where that can be read at all
                with refused(Error, ValueError):
                    _copy_at(env, buf.handle + 5000, end)
            with env.pm.Buffer.from_handle(buf.handle + 4999, 1, device=env.device) as last:
                last.copy_from(b"\x01")
            expect_bytes(env.read(buf), pattern(5000)[:-1] + b"\x01", f"{owner.kind} memory after refusals")


@check("COPY-18")
def registered_memory(env: Env) -> None:
    env.need(env.device.capabilities.host_register, "host_register")
    stream, memory = env.stream(), bytearray(NBYTES)
    with env.resource("device").allocate(NBYTES) as buf, env.pm.HostRegistration(memory) as registered:
        env.write(buf, pattern(NBYTES))
        held = env.latch(stream)
        done = env.pm.copy(registered, buf, stream=stream)
        expect(not done.query(), "a copy ran before the latch")
        held.release()
        done.synchronize()
        expect_bytes(bytes(memory), pattern(NBYTES), "registered memory that was copied to")
        buf.fill(0)
        env.pm.copy(buf, registered)
        expect_bytes(env.read(buf), pattern(NBYTES), "memory that was copied to from registered memory")
    for other in _others(env):
        target = bytearray(NBYTES)
        with env.allocate(other, NBYTES) as buf, env.pm.HostRegistration(target) as registered:
            env.write(buf, pattern(NBYTES, 1))
            env.pm.copy(registered, buf, stream=stream).synchronize()
            expect_bytes(bytes(target), pattern(NBYTES, 1), f"registered memory copied to from {other.kind} memory")


@check("COPY-19")
def memory_of_another_backend(env: Env) -> None:
    with env.resource("device").allocate(64) as buf:
        buf.fill(1)
        others = [name for name in ("cuda", "hip", "host") if name != env.pm.backend]
        others = [name for name in others if portamem.backends()[name].loadable]
        if not others or buf.is_host_accessible:
            raise NotShown("no other backend loads here, or the host reaches device memory")
        for name in others:
            other = getattr(portamem, name)
            for dst, src in ((buf, bytes(64)), (bytearray(64), buf)):
                with refused(TypeError, saying="host memory") as refusal:
                    other.copy(dst, src)
                text = str(refusal.error)
                expect(f"backend {env.pm.backend}" in text and name in text, f"the backends are not named: {text}")
        expect_bytes(env.read(buf), b"\x01" * 64, "the memory")
