# SPDX-License-Identifier: MIT
"""Shows the clauses of copies of host memory with strides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import Producer
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern

PARTS: dict[str, Callable[[Any], Any]] = {
    "every second row": lambda a: a[::2],
    "every third column": lambda a: a[:, ::3],
    "a part of each row": lambda a: a[:, 2:7],
    "transposed": lambda a: a.T,
    "reversed rows": lambda a: a[::-1],
    "reversed columns": lambda a: a[:, ::-1],
    "of three dimensions": lambda a: a.reshape(8, 4, 12)[1::2, :, ::5].transpose(2, 0, 1),
    "one element": lambda a: a[3:4, 5:6],
    "nothing": lambda a: a[:0, ::2],
}
TYPES = ("uint8", "int16", "float32", "complex128", "datetime64[s]", "S5", [("a", "u1"), ("b", "<f4")])


def _numbers(dtype: Any, seed: int) -> Any:
    """32 rows of 12 elements of any bytes."""
    itemsize = np.dtype(dtype).itemsize
    return np.frombuffer(pattern(384 * itemsize, seed), np.uint8).copy().view(dtype).reshape(32, 12)


def _same(seen: Any, wanted: Any) -> bool:
    return bool(np.ascontiguousarray(seen).tobytes() == np.ascontiguousarray(wanted).tobytes())


@check("COPY-29")
def elements_in_c_order(env: Env, resource: Any) -> None:
    stream = env.stream()
    for dtype in TYPES:
        for what, part_of in PARTS.items():
            said, numbers = f"{dtype} {what}", _numbers(dtype, 3)
            part = part_of(numbers)
            with env.allocate(resource, part.nbytes) as buf:
                for on in (None, stream):
                    buf.fill(0xEE)
                    source = numbers.copy()
                    done = buf.copy_from(part_of(source), stream=on)
                    expect_equal(done is None, on is None, f"the answer for {said}")
                    source[...] = _numbers(dtype, 4)
                    stream.synchronize()
                    expect_bytes(env.read(buf), np.ascontiguousarray(part).tobytes(), said)
                    target = _numbers(dtype, 5)
                    wanted = target.copy()
                    part_of(wanted)[...] = part
                    buf.copy_to(part_of(target), stream=on)
                    expect(_same(target, wanted), f"{said} as a target, or a byte beside it")


@check("COPY-29")
def other_protocols(env: Env, resource: Any) -> None:
    """Memory that is no NumPy array speaks other protocols."""
    numbers = np.arange(96, dtype=np.float32).reshape(8, 12)
    part = numbers[:, ::3]

    class Interface:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

    def producer(array: Any) -> Any:
        strides = tuple(stride // 4 for stride in array.strides)
        return Producer(array.ctypes.data, array.shape, strides=strides, memory=array)

    wraps: tuple[Callable[[Any], Any], ...] = (memoryview, Interface, producer)
    with env.allocate(resource, part.nbytes) as buf:
        for wrap in wraps:
            buf.fill(0)
            buf.copy_from(wrap(part))
            expect_bytes(env.read(buf), part.tobytes(), f"from a {wrap.__name__}")
            target = np.zeros_like(numbers)
            env.pm.copy(wrap(target[:, ::3]), buf)
            expect(np.array_equal(target[:, ::3], part), f"to a {wrap.__name__}")
            expect_equal(np.count_nonzero(target[:, 1::3]), 0, f"elements beside a {wrap.__name__}")


@check("COPY-29")
def padded_elements(env: Env, resource: Any) -> None:
    """An element of two padded lanes of four bits has two bytes."""
    memory = np.arange(16, dtype=np.uint8)
    pairs = Producer(
        memory.ctypes.data, (4,), strides=(2,), memory=memory, dtype=(dlpack.UINT, 4, 2), flags=dlpack.IS_PADDED
    )
    with env.allocate(resource, 8) as buf:
        buf.copy_from(pairs)
        expect_bytes(env.read(buf), bytes((0, 1, 4, 5, 8, 9, 12, 13)), "every second element")


@check("COPY-29")
def in_the_order_of_its_stream(env: Env, resource: Any) -> None:
    stream, numbers = env.stream(), _numbers("uint16", 7)
    with env.allocate(resource, numbers[::2].nbytes) as buf:
        wanted = np.ascontiguousarray(numbers[::2]).tobytes()
        buf.fill(1, stream=stream)
        done = buf.copy_from(numbers[::2], stream=stream)
        numbers[...] = 0
        done.synchronize()
        expect_bytes(env.read(buf), wanted, "a copy behind a fill, of a source that changes afterwards")
        buf.fill(9, stream=stream)
        target = np.zeros_like(numbers)
        buf.copy_to(target[::2], stream=stream)
        expect_bytes(target[::2].tobytes(), b"\x09" * buf.nbytes, "a copy to the host behind a fill")


@check("COPY-29")
def refusals(env: Env, resource: Any) -> None:
    numbers = _numbers("uint8", 1)
    frozen = _numbers("uint8", 2)
    frozen.flags.writeable = False
    with env.allocate(resource, 192) as buf:
        env.write(buf, pattern(192))
        for part in (numbers[::3], numbers[:, ::5]):
            with refused(ValueError, saying="does not fit"):
                buf.copy_from(part)
            with refused(ValueError, saying="does not fit"):
                buf.copy_to(part)
        with refused(ValueError, saying="target is read-only"):
            buf.copy_to(frozen[::2])
        expect_bytes(env.read(buf), pattern(192), "the buffer after refusals")
        buf.copy_from(frozen[::2])
        expect_bytes(env.read(buf), frozen[::2].tobytes(), "a read-only source")
        expect_equal(buf.exports, 0, "exports")


@check("COPY-30")
def many_megabytes_with_strides(env: Env, resource: Any) -> None:
    draw, stream = random.Random(11), env.stream()
    numbers = np.frombuffer(pattern(12 * MIB), np.uint32)
    step, end = draw.randrange(2, 4), draw.randrange(2000, 3000)
    parts: tuple[Callable[[Any], Any], ...] = (
        lambda a: a.reshape(-1, 1024)[::2],
        lambda a: a[::step],
        lambda a: a.reshape(-1, 3072)[:, 17:end],
        lambda a: a.reshape(1024, -1).T,
        lambda a: a[::-1],
    )
    for part_of in parts:
        part = part_of(numbers)
        with env.allocate(resource, part.nbytes) as buf:
            for on in (None, stream):
                buf.fill(0)
                buf.copy_from(part, stream=on)
                target = np.zeros_like(numbers)
                buf.copy_to(part_of(target), stream=on)
                expect(_same(part_of(target), part), f"{part.shape} by {part.strides}: elements differ")
                expect_equal(np.count_nonzero(target), np.count_nonzero(part), "elements that are not 0")


@check("COPY-30")
def many_megabytes_of_rows(env: Env, resource: Any) -> None:
    width, height, pitch = 12_000, 400, 12_288
    data = np.frombuffer(pattern(width * height), np.uint8).reshape(height, width)
    with env.allocate(resource, pitch * height) as buf:
        for on in (None, env.stream()):
            buf.fill(0xEE)
            env.pm.copy_2d(buf, data, width=width, height=height, dst_pitch=pitch, stream=on)
            back = np.zeros_like(data)
            done = env.pm.copy_2d(back, buf, width=width, height=height, src_pitch=pitch, stream=on)
            if done is not None:
                done.synchronize()
            expect(_same(back, data), "rows there and back differ")
            rows = np.frombuffer(env.read(buf), np.uint8).reshape(height, pitch)
            expect(bool((rows[:, width:] == 0xEE).all()), "the padding between rows changed")
