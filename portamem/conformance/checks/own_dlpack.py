# SPDX-License-Identifier: MIT
"""Shows the clauses of DLPack tensors that go out."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np

from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import CPU, Taken
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import pattern

NBYTES = 4096
VERSIONS: tuple[tuple[int, int] | None, ...] = (None, (1, 0))
ELEMENTS = (
    *(("bool", dlpack.BOOL, 8), ("int8", dlpack.INT, 8), ("int16", dlpack.INT, 16), ("int32", dlpack.INT, 32)),
    *(("int64", dlpack.INT, 64), ("uint8", dlpack.UINT, 8), ("uint16", dlpack.UINT, 16), ("uint32", dlpack.UINT, 32)),
    *(("uint64", dlpack.UINT, 64), ("float16", dlpack.FLOAT, 16), ("float32", dlpack.FLOAT, 32)),
    *(("float64", dlpack.FLOAT, 64), ("complex64", dlpack.COMPLEX, 64), ("complex128", dlpack.COMPLEX, 128)),
)


def types_of(env: Env) -> dict[str, int]:
    """DLPack's types for the memory of the platform."""
    if env.platform.vendor == "amd":
        return {"device": dlpack.ROCM, "pinned": dlpack.ROCM_HOST, "managed": dlpack.ROCM}
    if env.platform.vendor == "nvidia":
        return {"device": dlpack.CUDA, "pinned": dlpack.CUDA_HOST, "managed": dlpack.CUDA_MANAGED}
    return dict.fromkeys(("device", "pinned", "managed"), CPU)


def natural_type(env: Env, buf: Any) -> int:
    """The type that memory has by DLPack's table, if it has one."""
    types = types_of(env)
    own = types["device"] if buf.device_id >= 0 else types["pinned"]
    return {**types, "system": CPU}.get(buf.kind, own)


def natural_device(env: Env, buf: Any) -> tuple[int, int]:
    """Type and ID: the ordinal for memory of a device, 0 for the rest."""
    kind = natural_type(env, buf)
    return kind, env.ordinal if kind != CPU and kind == types_of(env)["device"] else 0


def has_device(env: Env, buf: Any) -> bool:
    """Memory that stands for a GPU's, on the CPU runtime, has no device in DLPack unless the host reaches it."""
    return bool(buf.is_host_accessible or env.pm.backend != "host")


def default_stream_number(env: Env) -> int:
    return 0 if env.platform.vendor == "amd" else 1


@check("OWN-17")
def tensors_describe_their_view(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, buf.view("float32", (4, 6), offset=64) as view:
        env.write(buf, pattern(NBYTES))
        if not has_device(env, buf):
            for call in (view.__dlpack__, view.__dlpack_device__, lambda: np.from_dlpack(view)):
                with refused(BufferError, saying="to_numpy"):
                    call()
            expect_equal(view._dlpack_devices(), [], "the devices of memory that DLPack has no name for")
            return
        for version in VERSIONS:
            taken = Taken(view.__dlpack__(stream=-1, max_version=version))
            tensor = taken.tensor
            expect(taken.kind is (dlpack.Versioned if version else dlpack.Legacy), f"the struct for version {version}")
            expect_equal(view.__dlpack_device__(), natural_device(env, buf), "__dlpack_device__")
            expect_equal((tensor.device.type, tensor.device.id), natural_device(env, buf), "the tensor's device")
            expect_equal((taken.shape, taken.strides), ((4, 6), (6, 1)), "shape, and strides in elements")
            expect_equal((tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes), (dlpack.FLOAT, 32, 1), "dtype")
            expect_equal(tensor.byte_offset, 0, "byte_offset")
            if version:
                said = (taken.managed.major, taken.managed.minor, taken.managed.flags)
                expect_equal(said, (1, 0, 0), "version and flags")
            with env.pm.Buffer.from_handle(tensor.data, 96, device=env.device) as same:
                expect_bytes(env.read(same), pattern(NBYTES)[64:160], "the memory at the tensor's address")
            taken.delete()
        expect_equal(buf.exports, 1, "exports: the View alone")


@check("OWN-17")
def the_newest_version_that_both_know(env: Env, resource: Any) -> None:
    with env.allocate(resource, 64) as buf, buf.view("int32", (2, 3)) as view:
        view.fill(1)
        if not has_device(env, buf):
            with refused(BufferError):
                view.__dlpack__(max_version=(1, 0))
            return
        answers: tuple[tuple[Any, tuple[int, int] | None], ...]
        answers = (((1, 0), (1, 0)), ((1, 1), (1, 1)), ((1, 2), (1, 2)), ((1, 3), (1, 3)), ((1, 99), (1, 3)))
        answers += (((2, 0), (1, 3)), ((0, 8), None), ([1, 1], (1, 1)), ((np.int64(1), np.int64(0)), (1, 0)))
        for asked, given in answers:
            taken = Taken(view.__dlpack__(max_version=asked))
            if given is None:
                expect(taken.kind is dlpack.Legacy, f"a new struct for {asked}")
            else:
                expect_equal((taken.managed.major, taken.managed.minor), given, f"the version for {asked}")
            expect_equal(taken.shape, (2, 3), "the shape")
            taken.delete()
        with buf.view("int32", (3, 0, 2)) as empty, buf.view("int32", ()) as scalar:
            for version in VERSIONS:
                nothing, one = (Taken(each.__dlpack__(max_version=version)) for each in (empty, scalar))
                expect_equal(
                    (nothing.tensor.data, nothing.shape, nothing.strides), (None, (3, 0, 2), (0, 2, 1)), "empty"
                )
                expect(one.tensor.data and one.tensor.ndim == 0, "a scalar has no address, or dimensions")
                nothing.delete()
                one.delete()


@check("OWN-18")
def element_types_go_out_and_come_in(env: Env) -> None:
    with env.resource("pinned").allocate(64) as buf:
        env.write(buf, pattern(64))
        for dtype, code, bits in ELEMENTS:
            with buf.view(dtype, 2) as view:
                taken = Taken(view.__dlpack__())
                said = (taken.tensor.dtype.code, taken.tensor.dtype.bits, taken.tensor.dtype.lanes)
                expect_equal(said, (code, bits, 1), f"DLPack's element type of {dtype}")
                theirs = dlpack.Producer(buf.handle, (2,), memory=buf, dtype=(code, bits, 1))
                with env.pm.from_dlpack(theirs) as again:
                    expect_equal((again.dtype, again.nbytes), (dtype, bits // 4), f"{dtype}, in again")
                    expect_bytes(env.read(again), pattern(64)[: bits // 4], f"the bytes of {dtype}")
                taken.delete()


# The types of ml_dtypes, by DLPack's codes; only the package knows them as dtypes.
ML_ELEMENTS = (
    *(("bfloat16", dlpack.BFLOAT, 16), ("float8_e3m4", 7, 8), ("float8_e4m3", 8, 8), ("float8_e4m3b11fnuz", 9, 8)),
    *(("float8_e4m3fn", 10, 8), ("float8_e4m3fnuz", 11, 8), ("float8_e5m2", 12, 8), ("float8_e5m2fnuz", 13, 8)),
    *(("float8_e8m0fnu", 14, 8), ("float6_e2m3fn", 15, 6), ("float6_e3m2fn", 16, 6), ("float4_e2m1fn", 17, 4)),
    *(("int2", dlpack.INT, 2), ("int4", dlpack.INT, 4), ("uint2", dlpack.UINT, 2), ("uint4", dlpack.UINT, 4)),
)


@check("OWN-18")
def element_types_of_ml_dtypes(env: Env) -> None:
    with env.resource("pinned").allocate(64) as buf:
        env.write(buf, pattern(64))
        for name, code, bits in ML_ELEMENTS:
            itemsize = max(bits // 8, 1)
            is_padded = bits < 8
            with buf.view(name, 2) as view:
                expect_equal(
                    (view.itemsize, view.nbytes, f"{name}(2,)" in repr(view)), (itemsize, 2 * itemsize, True), name
                )
                taken = Taken(view.__dlpack__(max_version=(1, 1)))
                said = (taken.tensor.dtype.code, taken.tensor.dtype.bits, taken.tensor.dtype.lanes)
                expect_equal(said, (code, bits, 1), f"DLPack's element type of {name}")
                expect_equal(bool(taken.managed.flags & dlpack.IS_PADDED), is_padded, f"whether {name} is padded")
                taken.delete()
                if is_padded:
                    for version in (None, (0, 8), (1, 0)):
                        with refused(BufferError, saying="1.1"):
                            view.__dlpack__(max_version=version)
                with refused(BufferError, saying=name):
                    memoryview(view)
                with refused(AttributeError, saying=name):
                    dict(view.__array_interface__)
            flags = dlpack.IS_PADDED if is_padded else 0
            theirs = dlpack.Producer(buf.handle, (2,), memory=buf, dtype=(code, bits, 1), flags=flags)
            with env.pm.from_dlpack(theirs) as again:
                expect(f"{name}(2,)" in repr(again), f"{name} came in as {again!r}")
                expect_bytes(env.read(again), pattern(64)[: 2 * itemsize], f"the bytes of {name}")


@check("OWN-19")
def capsules_are_exports(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        for version in VERSIONS:
            view = buf.view()
            capsule = view.__dlpack__(max_version=version)
            view.close()
            expect_equal(buf.exports, 1, "exports under a capsule")
            with refused(BufferError, saying="DLPack"):
                buf.close()
            del capsule
            expect_equal(buf.exports, 0, "exports after a capsule that nobody took")
            for with_gil in (False, True):
                view = buf.view()
                capsule = view.__dlpack__(max_version=version)
                taken = Taken(capsule)
                view.close()
                del capsule
                gc.collect()
                expect_equal(buf.exports, 1, "exports under a tensor that was taken")
                with refused(BufferError, saying="DLPack"):
                    buf.close()
                buf.fill(5)
                expect_bytes(env.read(buf[:4]), b"\x05" * 4, "a buffer that refused to close")
                taken.delete(with_gil=with_gil)
                expect_equal(buf.exports, 0, "exports after the deleter")


@check("OWN-20")
def a_tensor_keeps_the_memory(env: Env, resource: Any) -> None:
    for version in VERSIONS:
        buf = env.allocate(resource, NBYTES)
        env.write(buf, pattern(NBYTES))
        taken = Taken(buf.view().__dlpack__(max_version=version, dl_device=(CPU, 0)))
        del buf
        gc.collect()
        expect_equal(resource.live_buffers, 1, "live buffers that only a tensor holds")
        with env.allocate(resource, NBYTES) as intruder:
            intruder.fill(0xFF)
        expect_bytes(ctypes.string_at(taken.tensor.data, NBYTES), pattern(NBYTES), "memory that only a tensor holds")
        thread = threading.Thread(target=taken.delete)
        thread.start()
        thread.join()
        expect_soon(lambda: resource.live_buffers, 0, "live buffers after the deleter, on another thread")
    buf = env.allocate(resource, NBYTES)
    with buf.view("float32") as view:
        array = np.from_dlpack(view, device="cpu", copy=False)
        array[:] = 2.5
        expect((view.to_numpy() == 2.5).all(), "what NumPy wrote is not seen")
        expect_equal((array.ctypes.data, array.shape), (view.handle, (1024,)), "NumPy's array")
    del buf
    gc.collect()
    expect(resource.live_buffers == 1 and (array == 2.5).all(), "NumPy's array lost its memory")
    del array
    gc.collect()
    expect_soon(lambda: resource.live_buffers, 0, "live buffers when NumPy has let go")


@check("OWN-25", backends=("cuda", "hip"))
def numbers_of_the_default_streams(env: Env, resource: Any) -> None:
    amd = env.platform.vendor == "amd"
    with env.resource("device").allocate(64) as buf, buf.view() as view, env.allocate(resource, 64) as host:
        for number in (None, -1, 0) if amd else (None, -1, 1, 2):
            Taken(view.__dlpack__(stream=number)).delete()
        for number in (1, 2, -2, -100) if amd else (0, -2, -100):
            with refused(ValueError, saying=f"stream {number} has no meaning"):
                view.__dlpack__(stream=number)
        host.fill(1)
        expect_bytes(env.read(host), b"\x01" * 64, "memory after refusals")


class WontSay:
    """A number that cannot be had."""

    def __index__(self) -> int:
        raise LookupError


@check("OWN-25")
def the_cpu_has_no_streams(env: Env, resource: Any) -> None:
    with env.allocate(resource, 64) as buf, buf.view() as view:
        buf.fill(1)
        Taken(view.__dlpack__(stream=-1, dl_device=(CPU, 0))).delete()
        for number in (0, 1, 2, 12345, -2):
            with refused(ValueError, saying=f"stream {number} has no meaning"):
                view.__dlpack__(stream=number, dl_device=(CPU, 0))
        for device in ((-1, 0), (1, -1), (1 << 31, 0), (1, 1 << 31)):
            with refused(ValueError, saying="dl_device"):
                view.__dlpack__(dl_device=device)
        with refused(ValueError, saying="64 bits"):
            view.__dlpack__(stream=1 << 70)
        with refused(LookupError):
            view.__dlpack__(stream=WontSay())
        Taken(view.__dlpack__(stream=np.int64(-1), dl_device=(CPU, 0))).delete()
        wrong: tuple[tuple[dict[str, Any], str], ...] = (
            ({"stream": "1"}, "stream"),
            ({"stream": 1.5}, "stream"),
            ({"max_version": 1}, "max_version"),
            ({"max_version": (1,)}, "max_version"),
            ({"max_version": ("1", "0")}, "max_version"),
            ({"dl_device": 1}, "dl_device"),
            ({"dl_device": (1, 0, 0)}, "dl_device"),
            ({"unknown": 1}, "unexpected keyword argument 'unknown'"),
        )
        for keywords, message in wrong:
            with refused(TypeError, saying=message):
                view.__dlpack__(**keywords)
        expect_equal(buf.exports, 1, "exports after refusals")
        expect_bytes(env.read(buf), b"\x01" * 64, "the memory after refusals")


@check("OWN-31")
def many_threads_export(env: Env, resource: Any) -> None:
    failures: list[BaseException] = []
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(7)

        def work() -> None:
            try:
                with buf.view("float32") as view:
                    for i in range(60):
                        capsule = view.__dlpack__(max_version=(1, 0) if i % 2 else None, dl_device=(CPU, 0))
                        if i % 3:
                            Taken(capsule).delete(with_gil=bool(i % 5))
                        with buf[i : i + 8] as part, memoryview(part) as seen:
                            expect_bytes(bytes(seen), b"\x07" * 8, "the memory while many use it")
            except BaseException as error:  # told by the check's own thread
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in failures:
            raise failure
        expect_equal(buf.exports, 0, "exports in the end")
