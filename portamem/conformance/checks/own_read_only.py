# SPDX-License-Identifier: MIT
"""Shows the clauses of memory that may be read only."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import Producer
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused

NBYTES = 96


def _frozen() -> Any:
    array = np.arange(24, dtype=np.float32)
    array.flags.writeable = False
    return array


def _producers(array: Any) -> list[Any]:
    """NumPy's own, one that says that it is read-only, and one of before version 1."""
    of = {"memory": array, "address": array.ctypes.data, "shape": array.shape}
    return [array, Producer(**of, flags=dlpack.READ_ONLY), Producer(**of, kind=dlpack.Legacy)]


@check("OWN-33")
def it_is_told_to_every_consumer(env: Env) -> None:
    array = _frozen()
    for theirs in _producers(array):
        view = env.pm.from_dlpack(theirs)
        for each in (view, view.buffer, view[2:], view.reshape(4, 6), view.buffer[8:], view.buffer.view("float32")):
            expect(each.readonly is True, f"{each!r} of {theirs!r} does not say that it is read-only")
            expect(memoryview(each).readonly, f"the buffer of {each!r} is writable")
        expect(not np.asarray(view).flags.writeable, "NumPy may write it")
        expect_equal(view.__array_interface__["data"], (array.ctypes.data, True), "its array interface")
        taken = dlpack.Taken(view.__dlpack__(max_version=(1, 0)))
        expect_equal(taken.managed.flags, dlpack.READ_ONLY, "the flags of its capsule")
        taken.delete()
        with refused(BufferError, saying="read-only"):
            view.__dlpack__()
        for max_version in (None, (1, 0)):
            taken = dlpack.Taken(view.__dlpack__(max_version=max_version, copy=True))
            expect_equal(getattr(taken.managed, "flags", 2), dlpack.IS_COPIED, "the flags of a copy")
            taken.delete()
        again = env.pm.from_dlpack(np.from_dlpack(view))
        expect(again.readonly, "it became writable on its way through NumPy")
        expect(np.array_equal(view.to_numpy(), array), "its numbers")
        del view, each, again
        gc.collect()


@check("OWN-33")
def nothing_is_written(env: Env) -> None:
    array = _frozen()
    wanted, stream = array.tobytes(), env.stream()
    with env.resource("pinned").allocate(NBYTES) as other:
        for theirs in _producers(array):
            view = env.pm.from_dlpack(theirs)
            for target in (view, view.buffer, view[:], view.buffer[0:NBYTES]):
                for on in (None, stream):
                    calls: tuple[Any, ...] = (
                        lambda at=target, on=on: at.fill(0, stream=on),
                        lambda at=target, on=on: at.copy_from(other, stream=on),
                        lambda at=target, on=on: env.pm.copy(at, other, stream=on),
                        lambda at=target, on=on: other.copy_to(at, stream=on),
                        lambda at=target, on=on: env.pm.copy_2d(at, other, width=8, height=12, stream=on),
                        lambda at=target, on=on: env.pm.copy_3d(at, other, width=8, height=12, depth=1, stream=on),
                    )
                    for call in calls:
                        with refused(ValueError, saying="read-only"):
                            call()
            other.copy_from(view)
            expect_bytes(env.read(other), wanted, "a copy from it")
            del view, target, calls, call  # before the producer goes
            gc.collect()
        for theirs in _producers(array):
            with refused(ValueError, saying="read-only"):
                env.pm.copy(theirs, other)
    expect_bytes(array.tobytes(), wanted, "the producer's memory")


@check("OWN-33")
def what_may_be_written_stays_so(env: Env) -> None:
    array = np.zeros(24, np.float32)
    for theirs in (array, Producer(array.ctypes.data, (24,), memory=array)):
        with env.pm.from_dlpack(theirs) as view:
            expect(not view.readonly and not view.buffer.readonly, "writable memory became read-only")
            expect_equal(view.__array_interface__["data"][1], False, "what its array interface says")
            view.fill(1)
        expect_bytes(array.tobytes(), b"\1" * NBYTES, "what was written")
        array[:] = 0

    class Old(Producer):
        """A producer of DLPack before version 1, with an array interface beside it that says more."""

        @property
        def __array_interface__(self) -> Any:
            return array.__array_interface__

    with env.pm.from_dlpack(Old(array.ctypes.data, (24,), memory=array, kind=dlpack.Legacy)) as view:
        expect(not view.readonly, "what the producer says by __array_interface__ was not heard")
        view.fill(2)
    expect_bytes(array.tobytes(), b"\2" * NBYTES, "what was written")
    with env.pm.Buffer.from_handle(array.ctypes.data, NBYTES, owner=array, readonly=True) as buf:
        expect(buf.readonly and memoryview(buf).readonly, "from_handle did not hear that it is read-only")
        with refused(ValueError, saying="read-only"):
            buf.fill(0)
