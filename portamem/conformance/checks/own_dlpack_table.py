# SPDX-License-Identifier: MIT
"""Shows the clauses of producers that offer DLPack's C exchange table."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np

from portamem.conformance.checks.own_dlpack import NBYTES, types_of
from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import (
    CPU,
    Producer,
    TableProducer,
    Taken,
    allocated_by_table,
    lent_by_table,
    made_by_table,
    table_of,
    taken_by_table,
    with_table,
)
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import pattern


def _of(cls: Any, array: Any, **fields: Any) -> Any:
    return cls(array.ctypes.data, array.shape, memory=array, **fields)


@check("OWN-34")
def a_table_is_used(env: Env) -> None:
    array = np.arange(24, dtype=np.float32)
    theirs = _of(with_table(), array)
    view = env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (1, []), "calls of the table and of __dlpack__")
    expect_equal((view.handle, view.shape, view.dtype), (array.ctypes.data, (24,), "float32"), "the View")
    view.fill(0)
    expect(not array.any(), "a fill of the View is not seen by the producer")
    expect_equal(theirs.deleted, [], "calls of the deleter while the View lives")
    del view
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter")
    target = bytearray(96)
    with env.resource("pinned").allocate(96) as buffer:
        buffer.copy_from(_of(with_table(), np.full(24, 7, np.float32)))
        env.pm.copy(target, buffer)
    expect_equal(bytes(target), np.full(24, 7, np.float32).tobytes(), "what was copied from a producer with a table")


@check("OWN-34")
def the_producers_stream_is_waited_for(env: Env) -> None:
    kind = "device" if env.pm.backend != "host" else "pinned"
    stream, theirs_on = env.stream(), env.stream()
    with env.resource(kind).allocate(NBYTES) as buf, buf.view("float32", (32, 32)) as ours:
        cls = with_table()
        cls.on = theirs_on.handle
        device = ours.__dlpack_device__() if env.pm.backend != "host" else (1, 0)
        theirs = cls(buf.handle, (32, 32), memory=ours, device=device)
        with env.latch(theirs_on) as held:
            buf.fill(3, stream=theirs_on)
            if env.pm.backend != "host":  # the host's memory has no stream
                view = env.pm.from_dlpack(theirs, stream=stream)
                expect(not stream.query(), "the named stream does not wait for the producer's")
                del view
            held.release_soon()
            view = env.pm.from_dlpack(theirs)
            if env.pm.backend != "host":
                expect(theirs_on.query(), "without a stream the memory is not there on return")
            theirs_on.synchronize()
            expect_bytes(env.read(view), b"\x03" * NBYTES, "memory of a producer with a table")
            del view
            gc.collect()


@check("OWN-34")
def what_a_table_cannot_do_is_asked_of_the_object(env: Env) -> None:
    class NeedsGradients(TableProducer):
        requires_grad = True

    class Answers(TableProducer):
        requires_grad = False
        says = ""

        def is_conj(self) -> bool:
            return self.says == "conj"

        def is_neg(self) -> bool:
            return self.says == "neg"

    class Conjugate(Answers):
        says = "conj"

    class Negative(Answers):
        says = "neg"

    derived = type("Derived", (with_table(),), {})
    array = np.arange(24, dtype=np.float32)
    by_object = [with_table(cls) for cls in (NeedsGradients, Conjugate)]
    by_object += [derived, with_table(version=(2, 0)), with_table(from_object=None), with_table(current_stream=None)]
    for cls in by_object:
        theirs = _of(cls, array)
        view = env.pm.from_dlpack(theirs)
        expect_equal((theirs.table_calls, len(theirs.calls)), (0, 1), "calls of the table and of __dlpack__")
        expect_equal(view.handle, array.ctypes.data, "the View's address")
        del view
        gc.collect()
    theirs = _of(with_table(Negative), array)
    with refused(BufferError, saying="negative view"):
        env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (0, []), "calls for a negative view")
    theirs = _of(with_table(Answers), array)
    view = env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (1, []), "calls for an object that is nothing but its memory")
    del view
    gc.collect()


@check("OWN-34")
def a_table_that_fails(env: Env) -> None:
    array = np.frombuffer(pattern(96), np.float32).copy()
    theirs = _of(with_table(), array)
    theirs.gives_nothing = True
    with refused(BufferError, saying="no tensor"):
        env.pm.from_dlpack(theirs)
    theirs = _of(with_table(), array)
    theirs.fails = True
    view = env.pm.from_dlpack(theirs)
    expect_equal(
        (view.handle, len(theirs.calls)), (array.ctypes.data, 1), "what __dlpack__ gave after the table failed"
    )
    del view
    gc.collect()
    newer = _of(with_table(), array, version=(2, 0))
    with refused(BufferError, saying="DLPack 2.0"):
        env.pm.from_dlpack(newer)
    gc.collect()
    expect_equal(len(newer.deleted), 1, "calls of the deleter of what was refused")
    malformed = _of(with_table(), array, byte_offset=1)
    with refused(BufferError):
        env.pm.from_dlpack(malformed)
    gc.collect()
    expect_equal(len(malformed.deleted), 1, "calls of the deleter of what was malformed")


@check("OWN-35")
def a_table_gives_a_views_tensor(env: Env) -> None:
    table = table_of(env.pm.View)
    with env.resource("pinned").allocate(96) as buffer:
        env.write(buffer, pattern(96))
        view = buffer.view("float32", (4, 6))
        taken = taken_by_table(table, view)
        expect_equal((taken.managed.major, taken.shape, taken.strides), (1, (4, 6), (6, 1)), "the tensor")
        expect_equal(taken.tensor.data, buffer.handle, "its address")
        said = (taken.tensor.device.type, taken.tensor.device.id)
        expect_equal(said, view.__dlpack_device__(), "its device")
        lent = lent_by_table(table, view)
        shown = (lent.data, lent.ndim, lent.shape[:2], lent.strides[:2], lent.byte_offset)
        expect_equal(shown, (buffer.handle, 2, [4, 6], [6, 1], 0), "the tensor that is lent")
        view.close()
        expect_equal(buffer.exports, 1, "exports while the tensor lives")
        expect_equal(ctypes.string_at(taken.tensor.data, 96), pattern(96), "what the tensor shows")
        taken.delete()
        expect_equal(buffer.exports, 0, "exports after the deleter")
        with refused(ValueError, saying="closed"):
            taken_by_table(table, view)
        with refused(TypeError, saying="takes Views and Buffers"):
            taken_by_table(table, "neither")


@check("OWN-35")
def a_table_gives_a_buffers_tensor(env: Env) -> None:
    table = table_of(env.pm.Buffer)
    with env.resource("pinned").allocate(96) as buffer:
        env.write(buffer, pattern(96))
        for given in (buffer, buffer[16:48]):
            taken = taken_by_table(table, given)
            shown = (taken.tensor.data, taken.shape, taken.strides, taken.tensor.dtype.bits)
            expect_equal(shown, (given.handle, (given.nbytes,), (1,), 8), "the tensor")
            expect_equal(ctypes.string_at(taken.tensor.data, given.nbytes), env.read(given), "what it shows")
            lent = lent_by_table(table, given)
            shown = (lent.data, lent.ndim, lent.shape[:1], lent.strides[:1])
            expect_equal(shown, (given.handle, 1, [given.nbytes], [1]), "the tensor that is lent")
            with refused(BufferError):
                buffer.close()
            taken.delete()
        del given
        expect_equal(buffer.exports, 0, "exports after the deleters")
    with refused(ValueError, saying="closed"):
        taken_by_table(table, buffer)
    with refused(ValueError, saying="closed"):
        lent_by_table(table, buffer)


@check("OWN-35")
def a_table_orders_device_memory_before_the_default_stream(env: Env) -> None:
    stream, default = env.stream(), env.device.default_stream
    table = table_of(env.pm.View)
    handle = ctypes.c_void_p(1)
    expect_equal(table.current_stream(CPU, 0, ctypes.byref(handle)), 0, "the answer of current_stream")
    expect_equal(handle.value, None, "the stream that the table names")
    with env.resource("device").allocate(NBYTES) as buffer, buffer.view("float32") as view:
        if env.pm.backend == "host":  # memory that the CPU reaches is the CPU's there, which has no stream
            if not view.is_host_accessible:
                with refused(BufferError, saying="no device"):
                    taken_by_table(table, view)
            return
        with env.latch(stream) as held:
            buffer.fill(3, stream=stream)
            taken = taken_by_table(table, view)
            expect(not default.query(), "the default stream does not wait for the memory's work")
            held.release()
        default.synchronize()
        expect_bytes(env.read(view), b"\x03" * NBYTES, "the memory")
        taken.delete()


@check("OWN-35")
def a_table_makes_a_view(env: Env) -> None:
    table = table_of(env.pm.View)
    array = np.arange(24, dtype=np.float32)
    theirs = _of(Producer, array)
    view = made_by_table(table, ctypes.addressof(theirs.managed))
    expect_equal((view.handle, view.shape, view.dtype), (array.ctypes.data, (24,), "float32"), "the View")
    expect_equal(theirs.deleted, [], "calls of the deleter while the View lives")
    del view
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter")
    malformed = _of(Producer, array, byte_offset=1)
    with refused(BufferError):
        made_by_table(table, ctypes.addressof(malformed.managed))
    gc.collect()
    expect_equal(len(malformed.deleted), 1, "calls of the deleter of a tensor that was refused")


@check("OWN-35")
def a_table_allocates(env: Env) -> None:
    table = table_of(env.pm.View)

    def prototype(extents: tuple[int, ...], device: tuple[int, int] = (CPU, 0)) -> Any:
        shape = (ctypes.c_int64 * max(len(extents), 1))(*extents)
        tensor = dlpack.Tensor(None, dlpack.Device(*device), len(extents), dlpack.DataType(dlpack.FLOAT, 64, 1))
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        return tensor

    for extents, strides, with_gil in (((3, 5), (5, 1), False), ((), (), False), ((7,), (1,), True)):
        given = allocated_by_table(table, prototype(extents), with_gil=with_gil)
        if not isinstance(given, Taken):
            raise AssertionError(f"{extents}: {given}")
        expect_equal((given.shape, given.strides), (extents, strides), "the tensor")
        ctypes.memset(given.tensor.data, 7, 8)
        expect_equal(ctypes.string_at(given.tensor.data, 8), b"\x07" * 8, "its memory")
        given.delete()
    default = env.pm.default_resource(env.device)
    if env.pm.backend != "host":
        before = default.live_bytes
        given = allocated_by_table(table, prototype((512,), (types_of(env)["device"], env.ordinal)))
        if not isinstance(given, Taken):
            raise AssertionError(str(given))
        expect_equal(default.live_bytes, before + 4096, "live bytes of the current resource")
        given.delete()
        expect_soon(lambda: default.live_bytes, before, "live bytes after the deleter")
    for wrong, kind in (((-1,), "BufferError"), ((1 << 62, 1 << 62), "BufferError"), ((1 << 58,), "MemoryError")):
        answer = allocated_by_table(table, prototype(wrong))
        expect(isinstance(answer, tuple) and answer[0] == kind, f"{wrong} was answered {answer}")
    answer = allocated_by_table(table, prototype((4,), (4, 0)))
    expect(isinstance(answer, tuple) and "OpenCL" in answer[1], f"another kind of device was answered {answer}")


@check("OWN-35")
def a_table_lends_no_read_only_memory(env: Env) -> None:
    table = table_of(env.pm.View)
    theirs = _of(Producer, np.arange(24, dtype=np.float32), flags=dlpack.READ_ONLY)
    view = env.pm.from_dlpack(theirs)
    with refused(BufferError, saying="read-only"):
        lent_by_table(table, view)
    taken = taken_by_table(table, view)
    expect_equal(taken.managed.flags, dlpack.READ_ONLY, "the flags of its tensor")
    taken.delete()
    del view
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter")
