"""DLPack out: what capsules say, as which devices, how they hold the memory, and in which order."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import allocate, pattern, read_back, write
from helpers.process import python_output
from helpers.resources import HOST_REACHABLE
from helpers.waiting import eventually

from portamem.conformance import dlpack
from portamem.conformance.dlpack import CPU, Taken

VERSIONS = pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])


@pytest.fixture
def buf(resource: Any) -> Any:
    return allocate(resource, 4096)


@pytest.fixture(params=HOST_REACHABLE)
def host_buf(request: pytest.FixtureRequest, make_resource: Callable[[str], Any]) -> Any:
    return make_resource(request.param).allocate(4096)


def types(pm: ModuleType) -> dict[str, int]:
    """The types of DLPack's table for the device under test."""
    if pm.backend == "host":
        return dict.fromkeys(("device", "pinned", "managed"), CPU)
    if pm.Device(0).arch.startswith("gfx"):
        return {"device": dlpack.ROCM, "pinned": dlpack.ROCM_HOST, "managed": dlpack.ROCM}
    return {"device": dlpack.CUDA, "pinned": dlpack.CUDA_HOST, "managed": dlpack.CUDA_MANAGED}


def natural(pm: ModuleType, buf: Any) -> int:
    """The type that the memory of a buffer has by DLPack's table."""
    return {"async": types(pm)["device"], "system": CPU, **types(pm)}[buf.kind]


def has_device(pm: ModuleType, buf: Any) -> bool:
    """Memory that stands for a GPU's, on the host runtime, has no device in DLPack."""
    return bool(buf.is_host_accessible or pm.backend != "host")


# ----- what a capsule says


@VERSIONS
def test_fields(pm: ModuleType, buf: Any, version: Any) -> None:
    with buf, buf.view("float32", (4, 6), offset=64) as view:
        if not has_device(pm, buf):
            pytest.skip("DLPack has no device for this memory")
        taken = Taken(view.__dlpack__(stream=-1, max_version=version))
        tensor = taken.tensor
        assert taken.kind is (dlpack.Legacy if version is None else dlpack.Versioned)
        assert (tensor.device.type, tensor.device.id) == view.__dlpack_device__() == (natural(pm, buf), 0)
        assert (tensor.data, tensor.byte_offset) == (view.handle, 0)
        assert (taken.shape, taken.strides) == ((4, 6), (6, 1)), "strides are in elements"
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (dlpack.FLOAT, 32, 1)
        if version is not None:
            assert (taken.managed.major, taken.managed.minor, taken.managed.flags) == (1, 0, 0)
        taken.delete()


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        ("bool", dlpack.BOOL, 8),
        ("int8", dlpack.INT, 8),
        ("int64", dlpack.INT, 64),
        ("uint16", dlpack.UINT, 16),
        ("float16", dlpack.FLOAT, 16),
        ("float64", dlpack.FLOAT, 64),
        ("complex64", dlpack.COMPLEX, 64),
        ("complex128", dlpack.COMPLEX, 128),
    ],
)
def test_element_types(pinned_resource: Any, dtype: str, code: int, bits: int) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(dtype, 2) as view:
        taken = Taken(view.__dlpack__())
        assert (taken.tensor.dtype.code, taken.tensor.dtype.bits, taken.tensor.dtype.lanes) == (code, bits, 1)
        taken.delete()


@pytest.mark.parametrize(
    ("asked", "given"), [((1, 0), (1, 0)), ((1, 1), (1, 1)), ((1, 99), (1, 3)), ((2, 0), (1, 3)), ((0, 8), None)]
)
def test_the_newest_version_that_both_know(pinned_resource: Any, asked: Any, given: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view() as view:
        taken = Taken(view.__dlpack__(max_version=asked))
        if given is None:
            assert taken.kind is dlpack.Legacy
        else:
            assert (taken.managed.major, taken.managed.minor) == given
        taken.delete()


@VERSIONS
def test_nothing_and_scalars(pinned_resource: Any, version: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view("int32", (3, 0, 2)) as empty, buf.view("int32", ()) as scalar:
        nothing, one = (Taken(view.__dlpack__(max_version=version)) for view in (empty, scalar))
        assert (nothing.tensor.data, nothing.shape, nothing.strides) == (None, (3, 0, 2), (0, 2, 1))
        assert (one.tensor.data, one.tensor.ndim) == (scalar.handle, 0)
        nothing.delete()
        one.delete()


# ----- how it holds the memory


@VERSIONS
def test_a_capsule_is_an_export(host_buf: Any, version: Any) -> None:
    view = host_buf.view()
    capsule = view.__dlpack__(max_version=version)
    view.close()
    assert host_buf.exports == 1
    with pytest.raises(BufferError, match="DLPack"):
        host_buf.close()
    del capsule
    assert host_buf.exports == 0, "a capsule that nobody took lets go by itself"
    host_buf.close()


@VERSIONS
@pytest.mark.parametrize("with_gil", [False, True])
def test_a_taken_tensor_is_an_export(pm: ModuleType, host_buf: Any, version: Any, with_gil: bool) -> None:
    view = host_buf.view()
    capsule = view.__dlpack__(max_version=version)
    taken = Taken(capsule)
    view.close()
    del capsule
    gc.collect()
    assert host_buf.exports == 1, "a capsule that was taken has nothing to let go"
    with pytest.raises(BufferError, match="DLPack"):
        host_buf.close()
    host_buf.fill(5)
    assert read_back(pm, host_buf)[:4] == b"\x05" * 4, "a refused close leaves the buffer usable"
    taken.delete(with_gil=with_gil)
    assert host_buf.exports == 0
    host_buf.close()


@VERSIONS
def test_a_tensor_keeps_the_memory(make_resource: Callable[[str], Any], version: Any) -> None:
    resource = make_resource("pinned")
    buf = resource.allocate(4096)
    data = pattern(4096)
    memoryview(buf)[:] = data
    taken = Taken(buf.view().__dlpack__(max_version=version))
    del buf
    gc.collect()
    assert resource.live_buffers == 1
    assert ctypes.string_at(taken.tensor.data, 4096) == data
    thread = threading.Thread(target=taken.delete)
    thread.start()
    thread.join()
    assert resource.live_buffers == 0


def test_many_threads(make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("pinned")
    buf = resource.allocate(4096)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with buf.view("float32") as view:
                for i in range(200):
                    capsule = view.__dlpack__(max_version=(1, 0) if i % 2 else None)
                    if i % 3:
                        Taken(capsule).delete(with_gil=bool(i % 5))
        except BaseException as e:  # shown by the test's own thread
            failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert buf.exports == 0
    buf.close()


def test_tensors_that_are_alive_at_exit(pm: ModuleType) -> None:
    """Deleters run when the interpreter is half gone, or never: neither may end the process with an error."""
    code = f"""
        import numpy as np
        import portamem.{pm.backend} as pm
        view = pm.PinnedMemoryResource(pm.Device(0)).allocate(4096).view("float32")
        array = np.from_dlpack(view)
        capsule = view.__dlpack__(max_version=(1, 0))
        imported = pm.from_dlpack(np.ones(16))
        class Node: pass
        node = Node()
        node.me, node.array = node, np.from_dlpack(view)
        np.kept = array, capsule, imported
        print(imported.to_numpy().sum())
    """
    assert python_output(code).strip() == "16.0"


def test_a_forked_child_is_refused(pm: ModuleType) -> None:
    code = f"""
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import portamem
        import portamem.{pm.backend} as pm
        view = pm.PinnedMemoryResource(pm.Device(0)).allocate(4096).view("float32")
        capsule = view.__dlpack__()
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            sys.exit(os.waitstatus_to_exitcode(status))
        try:
            view.__dlpack__(stream=-1)
        except portamem.Error as e:
            del capsule
            print(e.name)
    """
    assert python_output(code).strip() == "Forked"


# ----- as which devices


def test_every_device_that_the_memory_is(pm: ModuleType, buf: Any) -> None:
    with buf, buf.view("uint8") as view:
        data = pattern(4096)
        write(pm, buf, data)
        devices = view._dlpack_devices()
        assert ((CPU, 0) in devices) == buf.is_host_accessible
        if pm.backend != "host":
            assert ((types(pm)["device"], 0) in devices) == buf.is_device_accessible
        for each in devices:
            taken = Taken(view.__dlpack__(dl_device=each, copy=False, max_version=(1, 0)))
            assert (taken.tensor.device.type, taken.tensor.device.id) == each
            assert taken.managed.flags == 0
            if pm.backend == "host":
                assert taken.tensor.data == view.handle
            else:
                same = pm.Buffer.from_handle(taken.tensor.data, 4096, device=0)
                assert read_back(pm, same) == data
                same.close()
            taken.delete()


def test_memory_without_a_device(pm: ModuleType, device_resource: Any) -> None:
    with device_resource.allocate(64) as buf, buf.view() as view:
        if has_device(pm, buf):
            pytest.skip("DLPack has a device for it")
        for call in (view.__dlpack__, view.__dlpack_device__, lambda: np.from_dlpack(view)):
            with pytest.raises(BufferError, match=r"device memory of the host backend.*to_numpy"):
                call()


@pytest.mark.parametrize("wanted", [(4, 0), (14, 0), (999, 0), (1, 7)])
def test_devices_that_the_memory_is_not(buf: Any, wanted: tuple[int, int]) -> None:
    with buf, buf.view() as view:
        for copy in (None, False, True):
            with pytest.raises(BufferError, match=rf"DLPack device {wanted[0]}, {wanted[1]}\).*Without a copy it is"):
                view.__dlpack__(dl_device=wanted, copy=copy)


@pytest.mark.parametrize("copy", [None, True])
def test_a_copy_for_the_cpu(pm: ModuleType, device_resource: Any, copy: bool | None) -> None:
    with device_resource.allocate(4096) as buf, buf.view("int16", (64, 32)) as view:
        if buf.is_host_accessible:
            pytest.skip("this memory is the host's as well")
        data = pattern(4096)
        write(pm, buf, data)
        with pytest.raises(BufferError, match="copy=False"):
            view.__dlpack__(dl_device=(CPU, 0), copy=False)
        array = np.from_dlpack(view, device="cpu", copy=copy)
        assert array.shape == (64, 32)
        assert array.tobytes() == data
        assert buf.exports == 1, "a copy is no export"
        del array


def test_copies(pm: ModuleType, buf: Any) -> None:
    """copy=True gives memory of the same resource, which goes back when the consumer lets go."""
    with buf, buf.view("float32") as view:
        if not has_device(pm, buf):
            pytest.skip("DLPack has no device for this memory")
        data = pattern(4096)
        write(pm, buf, data)
        taken = Taken(view.__dlpack__(copy=True, max_version=(1, 0)))
        assert taken.managed.flags == dlpack.IS_COPIED
        assert taken.tensor.device.type == natural(pm, buf)
        assert taken.tensor.data != view.handle
        assert (buf.exports, buf.resource.live_buffers) == (1, 2)
        copied = pm.Buffer.from_handle(taken.tensor.data, 4096, device=0)
        pm.Device(0).synchronize()
        assert read_back(pm, copied) == data
        buf.fill(0)
        assert read_back(pm, copied) == data
        copied.close()
        taken.delete()
        assert buf.resource.live_buffers == 1


# ----- in which order


def test_the_host_waits(
    stream: Any, latch: Callable[[Any], Latch], make_resource: Callable[[str], Any], device_resource: Any
) -> None:
    """Host memory has no stream to order by: the export itself waits for work declared on the memory."""
    with device_resource.allocate(4096) as source, make_resource("pinned").allocate(4096) as buf, buf.view() as view:
        source.fill(9)
        buf.fill(0)
        held = latch(stream)
        buf.copy_from(source, stream=stream)
        quick = Taken(view.__dlpack__(stream=-1, dl_device=(CPU, 0)))
        held.release_soon()
        array = np.from_dlpack(view)
        assert (array == 9).all()
        quick.delete()
        del array


def test_closing_the_view_meanwhile(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], device_resource: Any, pinned_resource: Any
) -> None:
    """An export that waits holds the memory already: another thread may close the View."""
    with device_resource.allocate(4096) as source, pinned_resource.allocate(4096) as buf:
        source.fill(9)
        view = buf.view()
        held = latch(stream)
        buf.copy_from(source, stream=stream)
        taken: list[Taken] = []
        exporter = threading.Thread(target=lambda: taken.append(Taken(view.__dlpack__())))
        exporter.start()
        assert eventually(lambda: buf.exports > 1), "the export does not hold the memory while it waits"
        view.close()
        held.release()
        exporter.join()
        assert ctypes.string_at(taken[0].tensor.data, 4096) == b"\x09" * 4096
        assert buf.exports == 1
        taken[0].delete()


def test_a_copy_waits_too(stream: Any, latch: Callable[[Any], Latch], device_resource: Any) -> None:
    with device_resource.allocate(4096) as buf, buf.view() as view:
        buf.fill(0)
        held = latch(stream)
        buf.fill(9, stream=stream)
        held.release_soon()
        assert (np.from_dlpack(view, device="cpu") == 9).all()


@pytest.mark.parametrize(
    ("kind", "copy"), [("device", False), ("managed", False), ("pinned", False), ("async", False), ("async", True)]
)
def test_a_stream_waits(
    pm: ModuleType,
    stream: Any,
    other_stream: Any,
    latch: Callable[[Any], Latch],
    make_resource: Callable[[str], Any],
    kind: str,
    copy: bool,
) -> None:
    """The consumer's stream gets behind the work, and the caller does not wait.

    Copies from a driver's pool only: other memory may be allocated when the device has nothing to do.
    """
    if pm.backend == "host":
        pytest.skip("DLPack's CPU has no streams")
    resource = make_resource(kind)
    target = make_resource("device" if kind == "pinned" else "pinned").allocate(4096)  # between hosts it may block
    with target, allocate(resource, 4096, stream) as buf, buf.view() as view:
        buf.fill(0, stream=stream)
        target.fill(0)
        held = latch(stream)
        buf.fill(9, stream=stream)
        taken = Taken(view.__dlpack__(stream=other_stream.handle, copy=copy, max_version=(1, 0)))
        theirs = pm.Buffer.from_handle(taken.tensor.data, 4096, device=0, stream=other_stream)
        target.copy_from(theirs, stream=other_stream)
        assert not other_stream.query()
        held.release()
        other_stream.synchronize()
        assert read_back(pm, target) == b"\x09" * 4096
        theirs.close()
        taken.delete()


def test_the_default_streams_have_numbers(pm: ModuleType, device_resource: Any) -> None:
    if pm.backend == "host":
        pytest.skip("DLPack's CPU has no streams")
    legacy, own, refused = (0, None, [1, 2]) if pm.Device(0).arch.startswith("gfx") else (1, 2, [0])
    with device_resource.allocate(64) as buf, buf.view() as view:
        for number in [None, -1, legacy, *([] if own is None else [own])]:
            Taken(view.__dlpack__(stream=number)).delete()
        for number in [*refused, -2, -100]:
            with pytest.raises(ValueError, match=rf"stream {number} has no meaning"):
                view.__dlpack__(stream=number)


def test_the_cpu_has_no_streams(host_buf: Any) -> None:
    with host_buf, host_buf.view() as view:
        Taken(view.__dlpack__(stream=-1, dl_device=(CPU, 0))).delete()
        for number in (0, 1, 2, 12345, -2):
            with pytest.raises(ValueError, match=rf"stream {number} has no meaning.*None or -1"):
                view.__dlpack__(stream=number, dl_device=(CPU, 0))


# ----- what is refused


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"stream": "1"}, "stream"),
        ({"stream": 1.5}, "stream"),
        ({"max_version": 1}, "max_version"),
        ({"max_version": (1,)}, "max_version"),
        ({"max_version": ("1", "0")}, "max_version"),
        ({"dl_device": 1}, "dl_device"),
        ({"dl_device": (1, 0, 0)}, "dl_device"),
        ({"unknown": 1}, "unexpected keyword argument 'unknown'"),
    ],
)
def test_wrong_arguments(host_buf: Any, keywords: dict[str, Any], message: str) -> None:
    with host_buf, host_buf.view() as view:
        with pytest.raises(TypeError, match=message):
            view.__dlpack__(**keywords)
        with pytest.raises(ValueError, match="dl_device"):
            view.__dlpack__(dl_device=(-1, 0))


def test_a_closed_view(host_buf: Any) -> None:
    with host_buf:
        view = host_buf.view()
        view.close()
        for call in (view.__dlpack__, view.__dlpack_device__, view.to_torch, view.to_cupy):
            with pytest.raises(ValueError, match="closed"):
                call()


def test_buffers_are_no_producers(host_buf: Any) -> None:
    """Untyped memory has no element type: a View says what it holds."""
    with host_buf:
        assert not hasattr(host_buf, "__dlpack__")


# ----- with NumPy


def test_numpy_shares_the_memory(pm: ModuleType, host_buf: Any) -> None:
    with host_buf, host_buf.view("float32", (32, 32)) as view:
        # AMD's managed memory has no name of its own, and NumPy takes it as the CPU's only.
        as_device = natural(pm, host_buf) == dlpack.ROCM
        array = np.from_dlpack(view, device="cpu", copy=False) if as_device else np.from_dlpack(view)
        assert (array.ctypes.data, array.dtype, array.shape) == (view.handle, np.float32, (32, 32))
        assert array.flags.writeable
        array[:] = 2.5
        assert (view.to_numpy() == 2.5).all()
        del array


@pytest.mark.host_only
def test_open_device_memory_is_the_cpus(pm: ModuleType) -> None:
    code = """
        import numpy as np
        import portamem.host as pm
        with pm.DeviceMemoryResource(pm.Device(0)).allocate(64) as buf, buf.view("int32") as view:
            buf.fill(1)
            array = np.from_dlpack(view)
            print(view.__dlpack_device__(), array.ctypes.data == view.handle, array.sum() == 16 * 0x01010101)
            del array
    """
    assert python_output(code, PORTAMEM_HOST_OPEN="1", PORTAMEM_HOST_GUARD=None).split() == [
        "(1,",
        "0)",
        "True",
        "True",
    ]
