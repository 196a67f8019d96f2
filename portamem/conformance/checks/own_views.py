# SPDX-License-Identifier: MIT
"""Shows the clauses of Views, of the Python buffer protocol and of the array interfaces."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np

from portamem.conformance.kit import py_buffer
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import pattern

NBYTES = 4096


@check("OWN-09")
def views_have_their_shape(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, data)
        with buf.view() as view:
            expect_equal((view.dtype, view.shape, view.strides, view.itemsize), ("uint8", (NBYTES,), (1,), 1), "bytes")
            expect_equal((view.ndim, view.size, view.nbytes, len(view)), (1, NBYTES, NBYTES, NBYTES), "its sizes")
            expect(view.buffer is buf and view.handle == buf.handle, "it is of another buffer")
            for name in ("backend", "device_id", "is_host_accessible", "is_device_accessible"):
                expect_equal(getattr(view, name), getattr(buf, name), name)
        with buf.view("int32", (3, 5), offset=64) as view:
            expect_equal((view.shape, view.strides, view.size, view.nbytes), ((3, 5), (20, 4), 15, 60), "its shape")
            expect_equal((view.handle - buf.handle, view.typestr), (64, "<i4"), "offset and typestr")
            expect_bytes(env.read(view), data[64:124], "its bytes")
            wanted = np.frombuffer(data, np.int32, 15, 64).reshape(3, 5)
            expect(np.array_equal(view.to_numpy(), wanted), "to_numpy has other numbers")
            expect("int32(3, 5)" in repr(view), f"repr does not say it: {view!r}")
        with buf.view("float64", offset=4000) as rest, env.pm.View(buf, "float64", 8, offset="1 KiB") as made:
            expect_equal(
                (rest.shape, made.shape, made.handle - buf.handle), ((12,), (8,), 1024), "the rest, and a View"
            )
            expect("float64(12,)" in repr(rest), f"repr does not say it: {rest!r}")
        with buf.view("float64", ()) as scalar, buf.view("float64", (0, 7)) as empty:
            expect_equal((scalar.ndim, scalar.size, scalar.nbytes), (0, 1, 8), "a scalar")
            expect_equal((empty.size, empty.nbytes, empty.to_numpy().shape), (0, 0, (0, 7)), "an empty View")
            expect("float64()" in repr(scalar), f"repr does not say it: {scalar!r}")
            with refused(TypeError):
                len(scalar)
            with refused(IndexError):
                scalar[0]


@check("OWN-09")
def parts_of_views(env: Env, resource: Any) -> None:
    numbers = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    with env.allocate(resource, NBYTES) as buf, buf.view("int16", (3, 4, 5)) as view:
        view.copy_from(numbers)
        for key in (1, -1, -3, slice(1, None), slice(0, 2), slice(2, 3), slice(2, 1), slice(None)):
            with view[key] as part:
                expect_equal(part.shape, numbers[key].shape, f"the shape of [{key}]")
                expect(np.array_equal(part.to_numpy(), numbers[key]), f"[{key}] has other numbers")
        with view[1] as row, row[2] as inner:
            expect_equal((row.handle - view.handle, inner.handle - view.handle), (40, 60), "where parts start")
            expect(np.array_equal(inner.to_numpy(), numbers[1, 2]), "a part of a part has other numbers")
        with view.reshape(60) as flat:
            expect_equal(flat.shape, (60,), "a View reshaped to one int")
        for shape in ((60,), (2, 30), (5, 4, 3)):
            with view.reshape(*shape) as again, view.reshape(shape) as same:
                expect_equal((again.shape, same.shape, again.handle), (shape, shape, view.handle), "a reshaped View")
                expect(np.array_equal(again.to_numpy(), numbers.reshape(shape)), "a reshaped View has other numbers")
        for index in (3, -4):
            with refused(IndexError, saying="3"):
                view[index]
        with view.reshape(-1) as flat, view.reshape(5, -1) as rows:
            expect_equal((flat.shape, rows.shape), ((60,), (5, 12)), "Views of an open extent")
        for shape, said in (((5, 5), "60"), ((7, -1), "60"), ((-1, -1), "one -1"), ((0, -1), "60")):
            with refused(ValueError, saying=said):
                view.reshape(*shape)
        with refused(ValueError, saying="step"):
            view[::-1]
        for wrong in ("a", 1.5, [1], True):
            with refused(TypeError, saying="ints, slices"):
                view[wrong]
        for many in ((0, 0, 0, 0), (..., ...)):
            with refused(IndexError):
                view[many]


@check("OWN-09")
def views_must_fit(env: Env, resource: Any) -> None:
    wrong: tuple[tuple[Any, Any, Any, str], ...] = (
        ("float32", 1025, 0, "4100"),
        ("float32", (2, 512), 8, "4096"),
        ("float64", None, 4, "multiple"),
        ("float64", None, 4104, "4104"),
        ("int16", 1, 4096, "leaves"),
        ("uint8", 1, 4096, "leaves"),
        ("float32", -1, 0, "negative"),
        ("float32", (1 << 40, 1 << 40), 0, "larger than any memory"),
        ("float32", ((1 << 61) + 1,), 0, "larger than any memory"),
    )
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(3)
        for dtype, shape, offset, message in wrong:
            with refused(ValueError, saying=message):
                buf.view(dtype, shape, offset=offset)
        with refused(ValueError), buf[:4095] as odd:
            odd.view("int16")
        for shape in ("abc", 1.5):
            with refused(TypeError):
                buf.view("float32", shape)
        with refused(TypeError):
            env.pm.View(42)
        with buf.view("float64", (0, 1 << 40)) as empty, buf.view("float64", offset=4096) as end:
            expect_equal((empty.nbytes, end.shape), (0, (0,)), "empty Views")
        expect_equal(buf.exports, 0, "exports after refusals")
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "the memory after refusals")


@check("OWN-10")
def a_view_keeps_the_memory(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, NBYTES)
    buf.fill(1)
    view = buf.view("uint8", (2, 8))
    row = view[1]
    with refused(BufferError, saying="2 export"):
        buf.close()
    del buf
    view.close()
    gc.collect()
    expect_equal(resource.live_buffers, 1, "live buffers under a View")
    with env.allocate(resource, NBYTES) as intruder:
        intruder.fill(0xFF)
    expect_bytes(env.read(row), b"\x01" * 8, "a View whose buffer was dropped")
    row.close()
    row.close()
    del row, view
    gc.collect()
    expect_soon(lambda: resource.live_buffers, 0, "live buffers after the last View")


@check("OWN-10")
def closed_views_refuse(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(4)
        view = buf.view()
        view.close()
        calls: tuple[Callable[[], object], ...] = (
            lambda: view.fill(0),
            lambda: view.copy_to(bytearray(NBYTES)),
            lambda: view.copy_from(bytes(NBYTES)),
            lambda: buf.copy_from(view),
            *(view.to_numpy, view.to_torch, view.to_cupy, view.to_jax, view.to_numba),
            *(view.__dlpack__, view.__dlpack_device__, view.__arrow_c_array__, view.__arrow_c_device_array__),
            *(view.ravel, lambda: view.view("uint8")),
            lambda: view[0],
            lambda: view.reshape(NBYTES),
            lambda: view.handle,
            lambda: view.buffer,
            lambda: memoryview(view),
            lambda: env.pm.pointer_info(view),
        )
        for call in calls:
            with refused(ValueError, BufferError, saying="closed"):
                call()
        expect(view.is_closed and "closed" in repr(view), f"a closed View does not say so: {view!r}")
        expect_bytes(env.read(buf), b"\x04" * NBYTES, "the memory after refusals")


@check("OWN-11")
def views_copy_and_fill_their_elements(env: Env, resource: Any) -> None:
    stream = env.stream()
    numbers = np.arange(64, dtype=np.float64).reshape(8, 8)
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(0xEE)
        with buf.view("float64", (8, 8), offset=64) as view, buf.view("float64", 64, offset=1024) as other:
            view.copy_from(numbers)
            other.copy_from(view)
            out = np.empty(64)
            other.copy_to(out)
            expect(np.array_equal(out, numbers.ravel()), "copies through Views have other numbers")
            view.fill(0)
            other.copy_to(out, stream=stream).synchronize()
            expect(np.array_equal(out, numbers.ravel()), "a fill of one View changed another")
            array = view.to_numpy()
            expect(not array.any(), "a filled View is not what it was filled with")
            array[:] = 1
            expect(not view.to_numpy().any(), "to_numpy is no copy")
            view.fill(9, stream=stream)
            expect_bytes(view.to_numpy(stream=stream).tobytes(), b"\x09" * 512, "to_numpy on a stream")
        wanted = b"\xee" * 64 + b"\x09" * 512 + b"\xee" * 448 + numbers.tobytes() + b"\xee" * (NBYTES - 1536)
        expect_bytes(env.read(buf), wanted, "all of the memory around the Views")


@check("OWN-12")
def python_shares_the_memory(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    with env.allocate(resource, NBYTES) as buf, memoryview(buf) as seen:
        said = (seen.format, seen.itemsize, seen.nbytes, seen.readonly, seen.ndim, seen.c_contiguous)
        expect_equal(said, ("B", 1, NBYTES, False, 1, True), "what a memoryview says")
        seen[:] = data
        expect_bytes(env.read(buf), data, "memory that Python wrote")
        buf.fill(6)
        expect_bytes(bytes(seen), b"\x06" * NBYTES, "memory that Python reads")
        array = np.frombuffer(buf, np.float32)
        expect_equal(array.ctypes.data, buf.handle, "where NumPy sees it")
        array[:] = 1.5
        expect_bytes(env.read(buf), np.full(1024, 1.5, np.float32).tobytes(), "memory that NumPy wrote")
        expect_equal(buf.exports, 2, "exports")
        del array
    with env.allocate(resource, 0) as empty, memoryview(empty) as nothing:
        expect_equal(nothing.nbytes, 0, "nbytes of nothing")


@check("OWN-12")
def python_sees_type_and_shape(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, buf.view("float32", (4, 8), offset=128) as view:
        with memoryview(view) as typed:
            said = (typed.format, typed.itemsize, typed.shape, typed.strides)
            expect_equal(said, ("f", 4, (4, 8), (32, 4)), "what a memoryview of a View says")
        array = np.asarray(view)
        expect_equal((array.dtype, array.shape, array.ctypes.data), (np.float32, (4, 8), buf.handle + 128), "an array")
        array[:] = 2.0
        expect_equal(view.to_numpy().sum(), 64.0, "the sum of what NumPy wrote")
        with refused(BufferError, saying="export"):
            view.close()
            buf.close()
        expect_equal(buf.exports, 1, "exports: NumPy's, of a View that is closed")
        with refused(BufferError, saying="Fortran"):
            _fortran(buf.view("float32", (4, 8)))
        del array
        expect_equal(buf.exports, 0, "exports when NumPy has let go")


def _fortran(view: Any) -> None:
    """Asks for a Fortran-contiguous buffer, as C can."""
    with view, py_buffer.taken(view, py_buffer.F_CONTIGUOUS):
        pass


@check("OWN-12")
def c_consumers_get_what_they_ask_for(env: Env, resource: Any) -> None:
    asked = (py_buffer.SIMPLE, py_buffer.WRITABLE, py_buffer.FORMAT, py_buffer.ND, py_buffer.STRIDES)
    with env.allocate(resource, NBYTES) as buf, buf.view("int16", (3, 5)) as view:
        view.fill(7)
        for flags in (*asked, py_buffer.ND | py_buffer.FORMAT, py_buffer.STRIDES | py_buffer.FORMAT):
            with py_buffer.taken(view, flags) as got:
                said = (got.buf, got.len, got.itemsize, got.readonly, got.ndim)
                expect_equal(said, (view.handle, 30, 2, 0, 2), f"what is given for flags {flags:#x}")
                expect_equal(got.format, b"h" if flags & py_buffer.FORMAT else None, f"format for flags {flags:#x}")
                shape, strides = got.shape[:2] if got.shape else None, got.strides[:2] if got.strides else None
                with_strides = flags & py_buffer.STRIDES == py_buffer.STRIDES
                expect_equal(shape, [3, 5] if flags & py_buffer.ND else None, f"shape for flags {flags:#x}")
                expect_equal(strides, [10, 2] if with_strides else None, f"strides for flags {flags:#x}")
                expect_equal(buf.exports, 2, "exports")
                expect_bytes(ctypes.string_at(got.buf, 30), b"\x07" * 30, "the memory")
            expect_equal(buf.exports, 1, "exports after the release")


@check("OWN-12")
def python_keeps_the_memory(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, NBYTES)
    exported = memoryview(buf)
    exported[:] = pattern(NBYTES)
    with refused(BufferError, saying="export"):
        buf.close()
    del buf
    gc.collect()
    expect_equal(resource.live_buffers, 1, "live buffers that only Python holds")
    with env.allocate(resource, NBYTES) as intruder:
        intruder.fill(0xFF)
    expect_bytes(bytes(exported), pattern(NBYTES), "memory that only Python holds")
    exported.release()
    del exported
    gc.collect()
    expect_soon(lambda: resource.live_buffers, 0, "live buffers when Python has let go")


@check("OWN-13")
def the_array_interface(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, buf.view("float32", (4, 6), offset=64) as view:
        expect(not hasattr(buf, "__array_interface__"), "an untyped buffer has __array_interface__")
        if not view.is_host_accessible:
            expect(not hasattr(view, "__array_interface__"), "memory beyond the host has __array_interface__")
            with refused(AttributeError, saying="host"):
                _ = view.__array_interface__
            with refused(TypeError, BufferError):
                np.asarray(view)
            return
        interface = view.__array_interface__
        expect_equal((interface["shape"], interface["typestr"]), ((4, 6), "<f4"), "shape and typestr")
        expect_equal((interface["data"], interface["version"]), ((buf.handle + 64, False), 3), "data and version")
        expect(interface.get("strides") in (None, (24, 4)), "strides")
        holder = type("Holder", (), {"__array_interface__": interface})()
        np.asarray(holder)[:] = 1.5
        expect_equal(view.to_numpy().sum(), 36.0, "the sum of what NumPy wrote through it")


@check("OWN-14")
def the_device_array_interface(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, buf.view("float32", (4, 6), offset=64) as view:
        expect(not hasattr(buf, "__cuda_array_interface__"), "an untyped buffer has __cuda_array_interface__")
        if not view.is_device_accessible:
            expect(not hasattr(view, "__cuda_array_interface__"), "memory beyond the device has the interface")
            return
        view.fill(1)
        interface = view.__cuda_array_interface__
        expect_equal((interface["shape"], interface["typestr"]), ((4, 6), "<f4"), "shape and typestr")
        expect_equal((interface["data"], interface["version"]), ((view.handle, False), 3), "data and version")
        expect(interface.get("strides") in (None, (24, 4)), "strides")
        expect(interface["stream"] != 0, "stream 0, which the protocol forbids")
        with env.pm.Buffer.from_handle(interface["data"][0], 96, device=env.device) as same:
            expect_bytes(env.read(same), b"\x01" * 96, "memory at the address that it names")


@check("OWN-15")
def the_interface_names_a_stream_behind_the_work(env: Env) -> None:
    home, user = env.stream(), env.stream()
    with env.resource("device").allocate(NBYTES, stream=home) as buf, buf.view() as view:
        buf.fill(1)
        held = env.latch(user)
        buf.fill(2, stream=user)
        interface = view.__cuda_array_interface__
        expect(interface["stream"] is not None, "no stream is named for memory of a stream")
        theirs = env.pm.Stream.from_handle(interface["stream"], device=env.device)
        expect(not theirs.query(), "the stream is not behind work that a latch holds")
        held.release()
        theirs.synchronize()
        expect_bytes(env.read(buf), b"\x02" * NBYTES, "the memory when that stream is done")


@check("OWN-16")
def no_device_array_interface_here(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, buf.view("float32") as view:
        view.fill(1)
        for memory in (buf, view):
            expect(not hasattr(memory, "__cuda_array_interface__"), f"{memory!r} has __cuda_array_interface__")
        expect_bytes(env.read(view), b"\x01" * NBYTES, "the memory")
