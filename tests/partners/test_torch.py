"""PyTorch as a partner: memory goes both ways without a copy, in the order of the streams that each side names."""

from __future__ import annotations

import gc
import importlib.util
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import allocate, read_back

NBYTES = 64 << 10
GPU_KINDS = ("device", "managed", "async")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not here: pip install torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may warn of itself at import
        return importlib.import_module("torch")


@pytest.fixture
def gpu(pm: ModuleType, device: Any, torch: Any) -> Any:
    """PyTorch's device for the one under test. A tensor was made there: what it loads at first use is loaded."""
    if pm.backend == "host":
        pytest.skip("the host backend is no GPU")
    vendor = "hip" if device.arch.startswith("gfx") else "cuda"
    if not torch.cuda.is_available() or getattr(torch.version, vendor) is None:
        pytest.skip(f"the PyTorch that is here does not drive this device: install one that is built for {vendor}")
    where = torch.device("cuda", 0)
    warm = torch.zeros(NBYTES, dtype=torch.uint8, device=where)
    torch.zeros_like(warm).copy_(warm).fill_(1)
    torch.cuda.synchronize()
    return where


def stream_of(torch: Any, stream: Any) -> Any:
    """Our stream as PyTorch's."""
    return torch.cuda.ExternalStream(stream.handle)


# ----- memory of the host, on every machine


def test_host_memory_is_shared(pm: ModuleType, torch: Any, pinned_resource: Any) -> None:
    with pinned_resource.allocate(4096) as buf, buf.view("float32", (32, 32)) as view:
        tensor = view.to_torch()
        assert (tensor.data_ptr(), tuple(tensor.shape), tensor.dtype) == (view.handle, (32, 32), torch.float32)
        assert tensor.device.type == "cpu"
        tensor.fill_(2.5)
        assert (view.to_numpy() == 2.5).all()
        view.fill(0)
        assert not tensor.any()
        with pytest.raises(BufferError, match="DLPack"):
            buf.close()
        del tensor
        gc.collect()


def test_what_pytorch_alone_knows_of_a_tensor(pm: ModuleType, torch: Any) -> None:
    """Its C table gives these away as if memory told all of them."""
    complex_numbers = torch.ones(4, dtype=torch.complex64)
    refused = {
        "gradient": torch.ones(4, requires_grad=True),
        "conjugate": complex_numbers.conj(),
        "negative view": complex_numbers[:1].conj().imag,
        "layout": torch.ones(4).to_sparse(),
    }
    for saying, tensor in refused.items():
        with pytest.raises(BufferError, match=saying):
            pm.from_dlpack(tensor)
    with pm.from_dlpack(refused["gradient"].detach()) as view:
        assert view.handle == refused["gradient"].data_ptr()


def test_a_tensor_keeps_the_memory(torch: Any, make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("pinned")
    buf = resource.allocate(4096)
    tensor = buf.view("int32").to_torch()
    tensor.fill_(7)
    part = tensor[10:20]
    del buf, tensor
    gc.collect()
    assert resource.live_buffers == 1
    assert part.tolist() == [7] * 10
    del part
    gc.collect()
    assert resource.live_buffers == 0


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int16", "int64", "float16", "float64", "complex64"])
def test_element_types(pm: ModuleType, torch: Any, pinned_resource: Any, name: str) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(name, 4) as view:
        buf.fill(0)
        assert view.to_torch().dtype == getattr(torch, name)
        theirs = torch.ones(4, dtype=getattr(torch, name))
        with pm.from_dlpack(theirs) as ours:
            assert (ours.dtype, ours.handle) == (name, theirs.data_ptr())
            assert np.array_equal(ours.to_numpy(), theirs.numpy())


def test_host_tensors_come_in(pm: ModuleType, torch: Any, make_resource: Callable[[str], Any]) -> None:
    tensor = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    with pm.from_dlpack(tensor) as view:
        assert (view.handle, view.shape) == (tensor.data_ptr(), (4, 6))
        view.fill(0)
        assert not tensor.any()
    tensor.fill_(3)
    with pm.asarray(tensor, resource=make_resource("pinned")) as copied:
        assert copied.handle != tensor.data_ptr()
        assert (copied.to_numpy() == 3).all()


def test_an_imported_tensor_stays(pm: ModuleType, torch: Any) -> None:
    tensor = torch.arange(1000, dtype=torch.int64)
    with pm.from_dlpack(tensor) as view:
        del tensor
        gc.collect()
        assert np.array_equal(view.to_numpy(), np.arange(1000))


def test_what_is_refused(pm: ModuleType, torch: Any) -> None:
    needs_gradient = torch.zeros(4, requires_grad=True)
    for take in (pm.from_dlpack, pm.from_any):
        with pytest.raises(BufferError, match="gradient"):
            take(needs_gradient)


def test_strides_and_small_floats(pm: ModuleType, torch: Any) -> None:
    square = torch.arange(16, dtype=torch.float32).reshape(4, 4)
    for tensor in (square.T[1:], square[:, 1:], square[::2, ::3], square[0].expand(3, 4)):
        with pm.from_dlpack(tensor) as view, pm.from_any(tensor) as same:
            assert (view.handle, view.shape) == (tensor.data_ptr(), tuple(tensor.shape))
            assert view.strides == same.strides == tuple(4 * stride for stride in tensor.stride())
            assert np.array_equal(view.to_numpy(), tensor.numpy())
            assert torch.equal(view.to_torch(), tensor)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        tensor = torch.ones(4).to(getattr(torch, name))
        with pm.from_dlpack(tensor) as view:
            assert f"{name}(4,)" in repr(view)
            back = view.to_torch()
            assert back.dtype == tensor.dtype
            assert back.data_ptr() == tensor.data_ptr()
            del back


def test_torch_asks_for_a_copy(torch: Any, make_resource: Callable[[str], Any]) -> None:
    """By itself PyTorch takes memory of the CPU and of its own device, by no other name."""
    with make_resource("system").allocate(4096) as host_buf, host_buf.view("uint8") as view:
        host_buf.fill(4)
        tensor = torch.from_dlpack(view, copy=True)
        host_buf.fill(0)
        assert (tensor == 4).all()
        assert tensor.data_ptr() != view.handle
        assert host_buf.exports == 1
        del tensor
        gc.collect()


def test_host_memory_waits_for_its_work(
    torch: Any, stream: Any, latch: Callable[[Any], Latch], device_resource: Any, pinned_resource: Any
) -> None:
    with device_resource.allocate(4096) as source, pinned_resource.allocate(4096) as buf, buf.view() as view:
        source.fill(9)
        buf.fill(0)
        held = latch(stream)
        buf.copy_from(source, stream=stream)
        held.release_soon()
        tensor = view.to_torch()
        assert (tensor == 9).all()
        del tensor
        gc.collect()


# ----- memory of a GPU


@pytest.mark.parametrize("kind", GPU_KINDS)
def test_device_memory_is_shared(
    pm: ModuleType, torch: Any, gpu: Any, make_resource: Callable[[str], Any], kind: str
) -> None:
    with allocate(make_resource(kind), NBYTES) as buf, buf.view("float32", (64, 256)) as view:
        tensor = view.to_torch()
        assert (tensor.data_ptr(), tuple(tensor.shape), tensor.device) == (view.handle, (64, 256), gpu)
        tensor.fill_(1.5)
        torch.cuda.synchronize()
        assert (view.to_numpy() == 1.5).all()
        view.fill(0)
        assert not tensor.any().item()
        with pytest.raises(BufferError, match="DLPack"):
            buf.close()
        del tensor
        gc.collect()


@pytest.mark.parametrize("ours", [True, False], ids=["our stream", "their stream"])
@pytest.mark.parametrize("kind", GPU_KINDS)
def test_their_stream_waits_for_our_work(
    torch: Any,
    gpu: Any,
    stream: Any,
    other_stream: Any,
    latch: Callable[[Any], Latch],
    make_resource: Callable[[str], Any],
    kind: str,
    ours: bool,
) -> None:
    """Work that PyTorch queues on its current stream sees the data written behind the latch, and the host does not
    wait."""
    seen = torch.zeros(NBYTES, dtype=torch.uint8, device=gpu)
    theirs = stream_of(torch, other_stream) if ours else torch.cuda.Stream(gpu)
    torch.cuda.synchronize()
    with allocate(make_resource(kind), NBYTES, stream) as buf, buf.view("uint8") as view:
        buf.fill(0, stream=stream)
        stream.synchronize()
        held = latch(stream)
        buf.fill(9, stream=stream)
        with torch.cuda.stream(theirs):
            tensor = view.to_torch()
            seen.copy_(tensor, non_blocking=True)
            assert not theirs.query()
        held.release()
        theirs.synchronize()
        assert (seen == 9).all().item()
        del tensor
        gc.collect()


@pytest.mark.parametrize("ours", [True, False], ids=["our stream", "their stream"])
@pytest.mark.parametrize("interface", ["dlpack", "array interface"])
def test_our_stream_waits_for_their_work(
    pm: ModuleType,
    torch: Any,
    gpu: Any,
    stream: Any,
    other_stream: Any,
    latch: Callable[[Any], Latch],
    pinned_resource: Any,
    ours: bool,
    interface: str,
) -> None:
    """PyTorch's array interface names no stream: a program that uses it has to wait for PyTorch itself."""
    theirs = stream_of(torch, other_stream) if ours else torch.cuda.Stream(gpu)
    wrapped = pm.Stream.wrap(theirs)
    tensor = torch.zeros(NBYTES, dtype=torch.uint8, device=gpu)
    tensor.fill_(1)  # PyTorch's first kernel of a kind is loaded, which waits for the device
    torch.cuda.synchronize()
    with pinned_resource.allocate(NBYTES) as seen:
        seen.fill(0)
        held = latch(wrapped)
        with torch.cuda.stream(theirs):
            tensor.fill_(9)
            if interface == "dlpack":
                view = pm.asarray(tensor, stream=stream)
            else:
                stream.wait(wrapped)
                view = pm.asarray(OnlyArrayInterface(tensor), stream=stream)
        assert (view.handle, view.dtype, view.size) == (tensor.data_ptr(), "uint8", NBYTES)
        seen.copy_from(view, stream=stream)
        assert not stream.query()
        held.release()
        stream.synchronize()
        assert read_back(pm, seen) == b"\x09" * NBYTES
        view.close()
        del view
        gc.collect()


class OnlyArrayInterface:
    """A tensor as a library without DLPack would show it."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def test_without_a_stream_it_is_ready_on_return(
    pm: ModuleType, torch: Any, gpu: Any, latch: Callable[[Any], Latch], pinned_resource: Any, stream: Any
) -> None:
    theirs = torch.cuda.Stream(gpu)
    tensor = torch.zeros(NBYTES, dtype=torch.uint8, device=gpu)
    torch.cuda.synchronize()
    with pinned_resource.allocate(NBYTES, stream=stream) as seen:
        held = latch(pm.Stream.wrap(theirs))
        with torch.cuda.stream(theirs):
            tensor.fill_(9)
            held.release_soon()
            view = pm.asarray(tensor)
        assert theirs.query()
        seen.copy_from(view, stream=stream)
        stream.synchronize()
        assert read_back(pm, seen) == b"\x09" * NBYTES
        view.close()
        del view
        gc.collect()


def test_memory_goes_back_behind_their_work(
    pm: ModuleType, torch: Any, gpu: Any, latch: Callable[[Any], Latch], pool: Any, stream: Any
) -> None:
    """PyTorch lets go of a tensor while its kernels are still to run: the memory must not be given out before."""
    theirs = torch.cuda.Stream(gpu)
    seen = torch.zeros(NBYTES, dtype=torch.uint8, device=gpu)
    buf = pool.allocate(NBYTES, stream=stream)
    buf.fill(9, stream=stream)
    stream.synchronize()
    with torch.cuda.stream(theirs):
        tensor = buf.view("uint8").to_torch()
        held = latch(pm.Stream.wrap(theirs))
        seen.copy_(tensor, non_blocking=True)
    del buf
    held.release_soon()
    del tensor
    gc.collect()
    with pool.allocate(NBYTES, stream=stream) as again:
        again.fill(0, stream=stream)
        stream.synchronize()
    theirs.synchronize()
    assert (seen == 9).all().item()


def test_the_array_interface_out(torch: Any, gpu: Any, device_resource: Any) -> None:
    """PyTorch ignores the stream that an array interface names, so the work is waited for here."""
    with device_resource.allocate(NBYTES) as buf, buf.view("uint8") as view:
        buf.fill(6)
        tensor = torch.as_tensor(view, device=gpu)
        assert tensor.data_ptr() == view.handle
        assert (tensor == 6).all().item()
        del tensor
        gc.collect()


def test_page_locked_tensors_come_in(pm: ModuleType, torch: Any, gpu: Any) -> None:
    tensor = torch.full((NBYTES,), 3, dtype=torch.uint8).pin_memory()
    with pm.from_dlpack(tensor) as view:
        assert (view.handle, view.is_host_accessible, view.is_device_accessible) == (tensor.data_ptr(), True, True)
        assert (view.to_numpy() == 3).all()
        view.fill(5)
        assert (tensor == 5).all()


def test_page_locked_memory_as_their_devices(torch: Any, gpu: Any, pinned_resource: Any) -> None:
    """A consumer that asks for the device gets the device's address of page-locked memory."""
    with pinned_resource.allocate(NBYTES) as buf, buf.view("uint8") as view:
        device_tag = next(each for each in view._dlpack_devices() if each[0] in (2, 10))
        tensor = torch.from_dlpack(view.__dlpack__(stream=None, dl_device=device_tag))
        assert tensor.device == gpu
        tensor.fill_(8)
        torch.cuda.synchronize()
        assert bytes(memoryview(buf)) == b"\x08" * NBYTES
        del tensor
        gc.collect()
