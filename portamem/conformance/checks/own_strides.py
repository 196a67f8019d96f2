# SPDX-License-Identifier: MIT
"""Shows the clauses of Views with strides: parts, transposes, and strided memory of others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from portamem.conformance.kit import py_buffer
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import Taken
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern

NBYTES = 4096

PARTS: tuple[Any, ...] = (
    *((slice(None, None, 2),), (..., 1), (slice(1, 3), slice(None), slice(0, 5, 3)), (None, 2, ..., None), (), (...,)),
    *(
        (1, 2, 3),
        (slice(None), 3, slice(4, None)),
        (slice(2, 1), 1),
        (slice(0, 3, 2), slice(1, 2)),
        (0, None, slice(3)),
    ),
)


class _Wrong:
    def __index__(self) -> int:
        raise ZeroDivisionError


@check("OWN-09")
def parts_of_any_axis(env: Env, resource: Any) -> None:
    numbers = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    with env.allocate(resource, NBYTES) as buf, buf.view("int16", (3, 4, 5)) as view:
        view.copy_from(numbers)
        for key in PARTS:
            wanted = numbers[key]
            with view[key] as part, part.T as turned, part.transpose(*range(part.ndim)) as same:
                expect_equal((part.shape, turned.shape, same.shape), (wanted.shape, wanted.T.shape, wanted.shape), key)
                expect_equal(part.is_contiguous, wanted.flags.c_contiguous, f"whether [{key}] is contiguous")
                for shown, meant in ((part, wanted), (turned, wanted.T), (same, wanted)):
                    copied = shown.to_numpy()
                    expect(np.array_equal(copied, meant) and copied.flags.c_contiguous, f"[{key}] has other numbers")
        with view.transpose((1, -1, 0)) as turned, turned[1:, ::2] as part:
            expect_equal(turned.strides, (10, 2, 40), "strides of a transpose")
            expect(np.array_equal(part.to_numpy(), numbers.transpose(1, 2, 0)[1:, ::2]), "a part of a transpose")
        for axes in ((0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -4)):
            with refused(ValueError, saying="3 dimensions once"):
                view.transpose(*axes)
        for given in ("ab", (0, 1, 2.0), (0, True, 2)):
            with refused(TypeError, saying="axes"):
                view.transpose(given)
        with refused(ZeroDivisionError):
            view.transpose(0, 1, _Wrong())
        with view.transpose(np.array([2, 0, 1])) as turned, view.reshape(np.array([5, -1])) as flat:
            expect_equal((turned.shape, flat.shape), ((5, 3, 4), (5, 12)), "axes and a shape given as arrays")
        with view[:: sys.maxsize, ::2] as part:
            expect_equal((part.shape, part.strides[1:]), ((1, 2, 5), (20, 2)), "a part with a step beyond all memory")
            expect(np.array_equal(part.to_numpy(), numbers[::3, ::2]), "its numbers")


@check("OWN-09")
def views_with_strides(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, data)
        wanted = np.ndarray((3, 4), np.int32, data, 8, (64, 8))
        with env.pm.View(buf, "int32", (3, 4), offset=8, strides=(64, 8)) as view:
            said = (view.strides, view.nbytes, view.handle - buf.handle, view.is_contiguous)
            expect_equal(said, ((64, 8), 48, 8, False), "a View with strides")
            expect(np.array_equal(view.to_numpy(), wanted), "its numbers")
        with env.pm.View(buf, "int32", (4, 8), strides=(32, 4)) as view:
            expect(view.is_contiguous, "C order, said by strides, is C order")
        wrong: tuple[tuple[Any, Any, str], ...] = (
            ((4,), (3,), "multiple"),
            ((4,), (4, 4), "2 strides"),
            ((2, 2), (-4, 4), "negative"),
            ((1026, 2), (4, 4), "4108"),
            ((2, 2), (1 << 62, 4), ""),
            ((5, 2), (1 << 62, 4), "beyond any memory"),
            (None, (4,), "shape"),
        )
        for shape, strides, message in wrong:
            with refused(ValueError, saying=message):
                env.pm.View(buf, "int32", shape, strides=strides)
        expect_bytes(env.read(buf), data, "the memory")


@check("OWN-36")
def strides_go_out_and_come_in(env: Env, resource: Any) -> None:
    numbers = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    with env.allocate(resource, NBYTES) as buf, buf.view("int32", (3, 4, 5)) as view:
        view.copy_from(numbers)
        for key in ((slice(None, None, 2),), (slice(None), 1, slice(1, 5, 2)), (1, slice(1, 3), slice(3))):
            with view[key] as part, part.T as turned:
                for shown, wanted in ((part, numbers[key]), (turned, numbers[key].T)):
                    expect_equal(shown.strides, wanted.strides, f"the strides of [{key}]")
                    expect_equal(shown.__array_interface__["strides"], wanted.strides, "those of its array interface")
                    seen = memoryview(shown)
                    said = (seen.strides, seen.nbytes, seen.c_contiguous, seen.f_contiguous)
                    flags = wanted.flags
                    expect_equal(
                        said, (wanted.strides, wanted.nbytes, flags.c_contiguous, flags.f_contiguous), "buffer"
                    )
                    expect(np.array_equal(np.asarray(seen), wanted), "NumPy sees other numbers")
                    seen.release()
                    with env.pm.from_dlpack(np.asarray(shown)) as again:
                        expect_equal((again.shape, again.strides), (wanted.shape, wanted.strides), "in by DLPack")
                        expect(np.array_equal(again.to_numpy(), wanted), "numbers that came in by DLPack")
                    taken = Taken(shown.__dlpack__())
                    elements = tuple(stride // 4 for stride in wanted.strides)
                    expect_equal((taken.shape, taken.strides), (wanted.shape, elements), "out by DLPack")
                    taken.delete()
                    interface = getattr(shown, "__cuda_array_interface__", None)
                    if interface is not None:
                        expect_equal(interface["strides"], wanted.strides, "strides of its CUDA array interface")


@check("OWN-36")
def strided_memory_is_not_taken_for_whole(env: Env, resource: Any) -> None:
    numbers = np.arange(24, dtype=np.int32).reshape(4, 6)
    with env.allocate(resource, 96) as buf, buf.view("int32", (4, 6)) as view, view[:, ::2] as part:
        view.copy_from(numbers)
        same = np.zeros((4, 3), np.int32)
        uses: tuple[Callable[[], object], ...] = (
            lambda: part.fill(1),
            lambda: part.copy_from(same),
            lambda: part.copy_to(same),
            lambda: env.pm.copy(part, same),
            lambda: env.pm.copy(same, part),
            lambda: part.reshape(12),
        )
        for use in uses:
            with refused(ValueError, saying="C-contiguous"):
                use()
        with view[:, 1:] as closed:
            pass
        with refused(ValueError, saying="closed"):
            closed.fill(0)
        for order in (py_buffer.SIMPLE, py_buffer.ND, py_buffer.C_CONTIGUOUS, py_buffer.F_CONTIGUOUS):
            with refused(BufferError, saying="contiguous"), py_buffer.taken(part, order):
                pass
        expect(np.array_equal(view.to_numpy(), numbers) and not same.any(), "something was written")
