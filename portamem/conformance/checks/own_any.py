# SPDX-License-Identifier: MIT
"""Shows the clause of from_any: memory of any library as a View, where it lies."""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import numpy as np

from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused


@check("OWN-37")
def from_any_takes_everything(env: Env) -> None:
    take = env.pm.from_any
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
    with env.resource("pinned").allocate(96) as buf, buf.view("float32", (4, 6)) as view:
        expect(take(view) is view, "a View became another")
        with take(buf) as whole:
            expect_equal((whole.handle, whole.shape, whole.typestr), (buf.handle, (96,), "|u1"), "a Buffer")

    class Described:
        __array_interface__ = numbers.__array_interface__
        keeps = numbers

    produced = dlpack.Producer(numbers.ctypes.data, (24,), memory=numbers, dtype=(dlpack.FLOAT, 32, 1))
    buffer: Any = numbers
    data = bytearray(b"abcdefgh")
    cases: tuple[tuple[Any, int, tuple[int, ...], tuple[int, ...], bool], ...] = (
        (numbers, numbers.ctypes.data, (4, 6), (24, 4), False),
        (numbers[1:, ::2], numbers.ctypes.data + 24, (3, 3), (24, 8), False),
        (numbers.T, numbers.ctypes.data, (6, 4), (4, 24), False),
        (Described(), numbers.ctypes.data, (4, 6), (24, 4), False),
        (produced, numbers.ctypes.data, (24,), (4,), False),
        (memoryview(buffer), numbers.ctypes.data, (4, 6), (24, 4), False),
        (data, np.frombuffer(data, np.uint8).ctypes.data, (8,), (1,), False),
        (b"abcd", np.frombuffer(b"abcd", np.uint8).ctypes.data, (4,), (1,), True),
    )
    for theirs, address, shape, strides, readonly in cases:
        with take(theirs) as view:
            said = (view.handle, view.shape, view.strides, view.readonly)
            expect_equal(said, (address, shape, strides, readonly), f"a {type(theirs).__name__}")
    with take(data) as view:
        view.fill(0x62)
        with refused(BufferError):
            data.append(1)
    expect_equal(bytes(data), b"b" * 8, "memory that was written through it")
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    with take(fixed) as view, refused(ValueError, saying="read-only"):
        view.fill(0)
    kept = take(np.full(1000, 7.0))
    gc.collect()
    expect(bool((kept.to_numpy() == 7).all()), "an array that nobody else had was not kept")
    kept.close()

    class Masked:
        __array_interface__: ClassVar[dict[str, Any]] = {**numbers.__array_interface__, "mask": numbers}

    class Conjugate:
        """Its memory alone does not tell the values."""

        __array_interface__ = numbers.__array_interface__

        def __dlpack__(self, **_: object) -> object:
            raise BufferError("the conjugate bit is set")

        def __dlpack_device__(self) -> tuple[int, int]:
            return dlpack.CPU, 0

    gone = memoryview(bytearray(8))
    gone.release()
    masked = np.ma.masked_array(np.zeros(3), [False, True, False])
    wrong: tuple[tuple[Any, type[Exception], str], ...] = (
        ([1, 2], TypeError, "asarray"),
        (42, TypeError, "int"),
        (np.array([{}]), TypeError, "Python objects"),
        (np.zeros(2, "M8[s]"), ValueError, "element type"),
        (np.zeros(2, ">f4"), ValueError, "big-endian"),
        (numbers[::-1], ValueError, ""),
        (masked, ValueError, "mask"),
        (Masked(), ValueError, "mask"),
        (Conjugate(), BufferError, "conjugate"),
        (np.float32(3), TypeError, "scalar"),
        (np.frombuffer(bytearray(17), np.float32, 4, 1), ValueError, "multiple of 4"),
        (np.zeros(4, "u1,f4")["f1"], ValueError, ""),
        (gone, ValueError, "released"),
    )
    for theirs, error, message in wrong:
        with refused(error, saying=message):
            take(theirs)
    with refused(TypeError, saying="stream"):
        take(b"abcd", stream="nonsense")
