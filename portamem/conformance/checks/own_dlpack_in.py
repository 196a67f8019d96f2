# SPDX-License-Identifier: MIT
"""Shows the clauses of DLPack tensors that come in."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np

from portamem.conformance.checks.own_dlpack import NBYTES, default_stream_number
from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import CPU, OldProducer, Producer
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern


def _numbers() -> Any:
    return np.arange(24, dtype=np.float32)


def _producer(array: Any, shape: tuple[int, ...] | None = None, cls: type[Producer] = Producer, **fields: Any) -> Any:
    """A producer of the memory of a NumPy array."""
    return cls(array.ctypes.data, array.shape if shape is None else shape, memory=array, **fields)


def _address_of(theirs: Any) -> int:
    return ctypes.addressof(theirs.managed)


@check("OWN-26")
def tensors_become_views(env: Env) -> None:
    for kind in (dlpack.Legacy, dlpack.Versioned):
        for cls in (Producer, OldProducer):
            array = _numbers()
            theirs = _producer(array, (4, 6), cls, kind=kind, strides=(6, 1))
            view = env.pm.from_dlpack(theirs)
            expect_equal(dlpack.name_of(theirs.capsule), kind.used_name, "the name of the capsule that was taken")
            expect_equal((view.handle, view.shape, view.dtype), (array.ctypes.data, (4, 6), "float32"), "the View")
            said = (view.buffer.kind, view.is_host_accessible, view.device_id)
            expect_equal(said, ("foreign", True, -1), "what it says of plain host memory")
            expect(np.array_equal(view.to_numpy(), array.reshape(4, 6)), "its numbers")
            if kind is dlpack.Versioned:
                view.fill(0)
                expect(not array.any(), "a fill of the View is not seen by the producer")
            wanted = {"max_version": (1, 3)} if cls is Producer else {"stream": None}
            expect_equal(theirs.calls, [wanted], "what the producer was asked")
            expect(theirs.deleted == [] and view.buffer.owner is not None, "nobody owns the tensor")
            part = view[1:]
            del view
            gc.collect()
            expect_equal(theirs.deleted, [], "calls of the deleter while a part lives")
            del part
            gc.collect()
            expect_equal(theirs.deleted, [_address_of(theirs)], "calls of the deleter")


@check("OWN-26")
def offsets_and_strides(env: Env) -> None:
    array = _numbers()
    for kind in (dlpack.Legacy, dlpack.Versioned):
        with env.pm.from_dlpack(_producer(array, (2, 3), kind=kind, byte_offset=16)) as view:
            expect_equal(view.handle, array.ctypes.data + 16, "the address behind an offset")
            expect(np.array_equal(view.to_numpy(), array[4:10].reshape(2, 3)), "its numbers")
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        *(((1, 24), (99, 1)), ((24, 1), (1, 77)), ((0, 5), (3, 9)), ((), ()), ((4, 1, 6), (6, 6, 1))),
    )
    for shape, strides in shapes:
        theirs = _producer(array, shape, strides=strides)
        view = env.pm.from_dlpack(theirs)
        expect_equal(view.shape, shape, f"the shape, with strides {strides} of which not all matter")
        expect_equal(view.handle, array.ctypes.data if view.nbytes else 0, f"the address of the shape {shape}")
        expect_bytes(env.read(view), array.tobytes()[: view.nbytes], "its bytes")
        del view
        gc.collect()
        expect_equal(len(theirs.deleted), 1, "calls of the deleter")
    theirs = _producer(array, has_deleter=False)
    with env.pm.from_dlpack(theirs) as view:
        expect_equal(view.to_numpy().sum(), 276, "the sum of a tensor without a deleter")


@check("OWN-26")
def the_stream_is_the_memorys(env: Env) -> None:
    array, stream = _numbers(), env.stream()
    with env.pm.from_dlpack(_producer(array), stream=stream) as view:
        expect_equal((view.buffer.stream, view.buffer.device), (stream, env.device), "stream and device")
        view.fill(1, stream=stream).synchronize()
        expect_bytes(array.tobytes(), b"\x01" * 96, "the producer's memory")
    with env.pm.from_dlpack(_producer(array)) as view:
        expect_equal(view.buffer.stream.is_default, True, "whether it is the default stream where none was named")


@check("OWN-26")
def arrays_and_own_views(env: Env) -> None:
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    with env.pm.from_dlpack(array) as view:
        expect_equal((view.handle, view.shape, view.dtype), (array.ctypes.data, (3, 4, 5), "int16"), "NumPy's array")
        back = np.from_dlpack(view)
        expect_equal(back.ctypes.data, array.ctypes.data, "where NumPy has it back")
        del back
    with env.resource("pinned").allocate(96) as buf, buf.view() as own:
        expect(env.pm.from_dlpack(own) is own and env.pm.View.from_dlpack(own) is own, "an own View became another")
        for where in ((dlpack.CUDA_HOST, 0), (dlpack.ROCM_HOST, 0)):
            theirs = Producer(buf.handle, (24,), memory=buf, device=where)
            with env.pm.from_dlpack(theirs) as view:
                said = (view.handle, view.is_host_accessible, view.is_device_accessible)
                expect_equal(said, (buf.handle, True, buf.is_device_accessible), f"page-locked memory as {where}")
                memoryview(view.buffer)[:4] = b"abcd"
                expect_bytes(env.read(buf[:4]), b"abcd", "memory that was written through it")
            expect("stream" not in theirs.calls[0], "a producer of host memory was told a stream")
            del view
            gc.collect()
            expect_equal(len(theirs.deleted), 1, "calls of the deleter")


@check("OWN-27")
def what_is_of_no_use_goes_back(env: Env) -> None:
    wrong: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"shape": (4, 6), "strides": (-6, 1)}, ValueError, "negative stride -6"),
        ({"shape": (3, 2), "strides": (1 << 62, 1)}, BufferError, "beyond any memory"),
        ({"shape": (3, 3), "strides": (1 << 60, 1 << 60)}, BufferError, "beyond"),
        ({"shape": (1 << 32,) * 3, "strides": (0, 1 << 32, 1)}, BufferError, "larger than any memory"),
        ({"shape": (-1,)}, BufferError, "negative"),
        ({"shape": (-1, 0)}, BufferError, "negative"),
        ({"byte_offset": 2}, BufferError, "not a multiple of 4"),
        ({"byte_offset": (1 << 64) - 1}, BufferError, "beyond the end"),
        ({"dtype": (18, 8, 1)}, BufferError, "code 18"),
        ({"dtype": (dlpack.FLOAT, 13, 1)}, BufferError, "13 bits"),
        ({"dtype": (dlpack.INT, 0, 1)}, BufferError, "0 bits"),
        ({"dtype": (dlpack.INT, 32, 0)}, BufferError, "0 lanes"),
        ({"dtype": (dlpack.FLOAT, 32, 4)}, ValueError, "4 lanes"),
        ({"dtype": (dlpack.OPAQUE, 64, 1)}, ValueError, "code 3"),
        ({"dtype": (10, 8, 2)}, ValueError, "code 10"),
        ({"dtype": (dlpack.INT, 4, 1)}, ValueError, "4 bits"),
        ({"dtype": (dlpack.BOOL, 1, 1)}, ValueError, "code 6 with 1 bits"),
        ({"version": (2, 0)}, BufferError, "DLPack 2.0"),
    )
    for fields, error, message in wrong:
        array = _numbers()
        theirs = _producer(array, **fields)
        with refused(error, saying=message):
            env.pm.from_dlpack(theirs)
        gc.collect()
        expect_equal(theirs.deleted, [_address_of(theirs)], f"calls of the deleter of {fields}")
        expect_equal(array.sum(), 276, "the producer's numbers")


@check("OWN-27")
def fields_that_cannot_be(env: Env) -> None:
    """portamem reads nothing where nothing can be: each of these fields would end the process."""

    def change(theirs: Any, field: str, value: Any) -> None:
        setattr(theirs.managed.tensor, field, value)

    wrong = (("shape", None, "null shape"), ("data", None, "address 0"), ("ndim", -1, "-1 dimensions"))
    for kind in (dlpack.Legacy, dlpack.Versioned):
        for field, value, message in (*wrong, ("ndim", 65, "65 dimensions"), ("ndim", (1 << 31) - 1, "dimensions")):
            theirs = _producer(_numbers(), kind=kind)
            change(theirs, field, value)
            with refused(BufferError, saying=message):
                env.pm.from_dlpack(theirs)
            gc.collect()
            expect_equal(len(theirs.deleted), 1, f"calls of the deleter of {field} {value}")
            theirs = _producer(_numbers(), kind=kind)
            change(theirs, field, value)
            with env.resource("pinned").allocate(96) as buf, refused(BufferError, saying=message):
                env.pm.copy(buf, theirs)
            gc.collect()
            expect_equal(len(theirs.deleted), 1, f"calls of the deleter of {field} {value} as a source")


@check("OWN-27")
def a_newer_struct_is_not_read(env: Env) -> None:
    theirs = _producer(_numbers(), version=(7, 1))
    theirs.managed.tensor.shape, theirs.managed.tensor.ndim = None, 5  # a reader of these would crash
    with refused(BufferError, saying="7.1"):
        env.pm.from_dlpack(theirs)
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter")
    theirs = _producer(_numbers())
    view = env.pm.from_dlpack(theirs)
    with refused(BufferError, saying="taken already"):
        env.pm.from_dlpack(theirs)
    expect_equal(view.to_numpy().sum(), 276, "the sum of a tensor that was asked for twice")
    del view
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter of a tensor that was asked for twice")
    theirs = _producer(_numbers())
    theirs.managed.tensor.device.type = dlpack.ROCM if env.pm.backend == "cuda" else dlpack.CUDA
    with refused(TypeError, ValueError, saying="DLPack device"):
        env.pm.from_dlpack(theirs)
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter of a tensor that is not what was said")


class _Answers:
    """A producer of nonsense."""

    def __init__(self, device: Any, capsule: Any = None) -> None:
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        if isinstance(self.capsule, BaseException):
            raise self.capsule
        return self.capsule


@check("OWN-28")
def what_is_no_producer(env: Env) -> None:
    wrong: tuple[tuple[Any, type[Exception], str], ...] = (
        (object(), TypeError, "is not a DLPack producer"),
        (b"bytes", TypeError, "bytes is not a DLPack producer"),
        (_Answers((CPU, 0), 7), BufferError, "int, not a capsule"),
        (_Answers((CPU, 0), None), BufferError, "NoneType, not a capsule"),
        (_Answers((CPU, 0), dlpack.named_capsule(b"other")), BufferError, "'other', which is not a DLPack tensor"),
        (_Answers(7), TypeError, "__dlpack_device__ answers"),
        (_Answers((1, 2, 3)), TypeError, "__dlpack_device__ answers"),
        (_Answers(("cpu", 0)), TypeError, "__dlpack_device__ answers"),
        (_Answers((14, 0)), TypeError, "oneAPI memory (DLPack device 14, 0)"),
        (_Answers((6, 3)), TypeError, "unknown kind of device (DLPack device 6, 3)"),
        (_Answers((18, 0)), TypeError, "Trainium memory (DLPack device 18, 0)"),
        (_Answers((19, 0)), TypeError, "unknown kind of device (DLPack device 19, 0)"),
        (_Answers((0, 0)), TypeError, "unknown kind of device (DLPack device 0, 0)"),
        (_Answers((-5, 0)), TypeError, "DLPack device -5, 0"),
        (_Answers((CPU, 0), RuntimeError("mine")), RuntimeError, "mine"),
        (_Answers((CPU, 0), BufferError("theirs")), BufferError, "theirs"),
        (_Answers((CPU, 0), TypeError("always")), TypeError, "always"),
    )
    for obj, error, message in wrong:
        with refused(error, saying=message):
            env.pm.from_dlpack(obj)
    others = {dlpack.CUDA, dlpack.CUDA_MANAGED, dlpack.ROCM}
    if env.platform.vendor != "portamem":
        others -= {dlpack.ROCM} if env.platform.vendor == "amd" else {dlpack.CUDA, dlpack.CUDA_MANAGED}
    array = _numbers()
    for other in others:
        theirs = _producer(array, device=(other, 0))
        for take in (env.pm.from_dlpack, env.pm.asarray):
            with refused(TypeError, saying=f"{env.pm.backend} backend cannot reach"):
                take(theirs)
        expect_equal(theirs.calls, [], "what a producer of another backend's memory was asked")
    with env.pm.from_dlpack(_producer(array)) as view:
        expect_bytes(env.read(view), array.tobytes(), "a good tensor after all refusals")


@check("OWN-29")
def the_deleter_waits_for_declared_work(env: Env) -> None:
    """The memory is page-locked: a copy from other memory of the host may block its caller."""
    stream = env.stream()
    with env.resource("device").allocate(NBYTES) as target, env.resource("pinned").allocate(NBYTES) as source:
        env.write(source, pattern(NBYTES))
        theirs = Producer(source.handle, (1024,), memory=source)
        with env.pm.from_dlpack(theirs, stream=stream) as view:
            held = env.latch(stream)
            target.copy_from(view, stream=stream)
        del view
        gc.collect()
        expect_equal(theirs.deleted, [], "calls of the deleter while a copy is pending")
        held.release()
        stream.synchronize()
        expect(eventually(lambda: len(theirs.deleted) == 1), "the deleter was never called")
        expect_bytes(env.read(target), pattern(NBYTES), "the target of the copy")


@check("OWN-30")
def a_producer_is_told_the_stream(env: Env) -> None:
    stream = env.stream()
    for kind in ("device", "managed", "async"):
        if kind == "managed" and env.device.capabilities.managed_mode == "none":
            continue
        if kind == "async" and not env.device.capabilities.memory_pools:
            continue
        with env.allocate(env.resource(kind), NBYTES) as buf, buf.view("float32", (32, 32)) as ours:
            for named in (True, False):
                theirs = Producer(buf.handle, (32, 32), memory=ours, device=ours.__dlpack_device__())
                buf.fill(3)
                view = env.pm.from_dlpack(theirs, stream=stream if named else None)
                number = stream.handle if named else default_stream_number(env)
                expect_equal(
                    theirs.calls, [{"stream": number, "max_version": (1, 3)}], f"what {kind} was asked for with"
                )
                said = (view.handle, view.device_id, view.is_device_accessible)
                expect_equal(said, (buf.handle, env.ordinal, True), f"what the View of {kind} memory says")
                expect_equal(view.__dlpack_device__(), ours.__dlpack_device__(), "its DLPack device")
                expect_bytes(env.read(view), b"\x03" * NBYTES, f"{kind} memory of a producer")
                del view
                gc.collect()
                expect_equal(len(theirs.deleted), 1, "calls of the deleter")
