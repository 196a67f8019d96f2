"""Numba as a partner: NumPy arrays for its compiled functions on the host, device arrays for its CUDA targets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate

NBYTES = 4096
TARGETS = ("numba.cuda", "numba_cuda_mlir.cuda")


@pytest.mark.parametrize("kind", ["pinned", "system"])
def test_host_memory_is_a_numpy_array(make_resource: Callable[[str], Any], kind: str) -> None:
    with allocate(make_resource(kind), NBYTES) as buf:
        view = buf.view("float32", (32, 32))
        array = view.to_numba()
        assert isinstance(array, np.ndarray)
        assert (array.ctypes.data, array.shape, array.dtype) == (view.handle, (32, 32), np.float32)
        view.close()
        with pytest.raises(BufferError):
            buf.close()
        del array
        gc.collect()
        assert buf.exports == 0


def test_a_compiled_function_writes_the_memory(pinned_resource: Any) -> None:
    numba = pytest.importorskip("numba")

    @numba.njit  # type: ignore[untyped-decorator]
    def count(array: Any) -> None:
        for i in range(array.size):
            array[i] = i

    with pinned_resource.allocate(64) as buf, buf.view("int32") as view:
        buf.fill(0)
        count(view.to_numba())
        assert view.to_numpy().tolist() == list(range(16))
        gc.collect()


def test_read_only_host_memory_stays_so(pm: ModuleType) -> None:
    fixed = np.arange(16.0)
    fixed.flags.writeable = False
    with pm.from_any(fixed) as view:
        array = view.to_numba()
        assert not array.flags.writeable
        assert array.ctypes.data == fixed.ctypes.data
        del array
        gc.collect()


def test_memory_that_numba_does_not_reach(device_resource: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Numba whose CUDA target sees no device."""
    from portamem.interop import tensors

    monkeypatch.setattr(tensors, "_numba_cuda", lambda: fake_target(False))
    with device_resource.allocate(64) as buf, buf.view("float32") as view:
        if view.is_host_accessible:
            pytest.skip("this memory is the host's as well")
        with pytest.raises(BufferError, match="the Numba that is installed here cannot use device memory"):
            view.to_numba()


@pytest.mark.filterwarnings("ignore:.*Grid size .* will likely result in GPU under-utilization")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["device", "managed", "async"])
def test_device_memory_is_a_device_array(
    pm: ModuleType,
    device: Any,
    make_resource: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    kind: str,
) -> None:
    if pm.backend == "host" or device.arch.startswith("gfx"):
        pytest.skip("Numba's CUDA targets drive NVIDIA's devices")
    cuda = pytest.importorskip(target)
    if not cuda.is_available():
        pytest.skip(f"{target} sees no device")
    for other in TARGETS:
        if other != target:
            monkeypatch.delitem(sys.modules, other, raising=False)
    with allocate(make_resource(kind), NBYTES) as buf:
        view = buf.view("float32", (32, 32))
        view.fill(0)
        array = view.to_numba()
        assert (array.device_ctypes_pointer.value, array.shape) == (view.handle, (32, 32))
        array[:] = np.full((32, 32), 2, np.float32)
        cuda.synchronize()
        assert (view.to_numpy() == 2).all()
        view.close()
        with pytest.raises(BufferError):
            buf.close()
        del array
        gc.collect()
        assert buf.exports == 0


# ----- the choice of a CUDA target, without a device


@pytest.mark.parametrize("chosen", TARGETS)
def test_the_target_that_the_program_has_imported(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    from portamem.interop import tensors

    for name in TARGETS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module: Any = SimpleNamespace()
    monkeypatch.setitem(sys.modules, chosen, module)
    assert tensors._numba_cuda() is module


def test_no_target_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from portamem.interop import tensors

    for name in TARGETS:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"View\.to_numba needs Numba.*install numba-cuda or numba-cuda-mlir"):
        tensors._numba_cuda()


class FakeView:
    """A View of CUDA memory, as far as to_numba asks it. The backend's first device stands for that of the memory."""

    readonly = False

    def __init__(self, backend: str, interface: Any) -> None:
        self.backend = backend
        self._interface = interface
        self.declared: list[Any] = []
        self.buffer = SimpleNamespace(record_stream=self.declared.append, kind="device")

    def _dlpack_devices(self) -> list[tuple[int, int]]:
        return [(13, 0), (2, 0), (1, 0)]

    def __getitem__(self, key: Any) -> FakeView:
        return self

    @property
    def __cuda_array_interface__(self) -> Any:
        if self._interface is None:
            raise AttributeError("__cuda_array_interface__: array interfaces have no name for bfloat16: use DLPack")
        return self._interface


class FakeGpu:
    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


def fake_target(is_available: bool) -> Any:
    return SimpleNamespace(
        is_available=lambda: is_available,
        gpus=[FakeGpu()],
        from_cuda_array_interface=lambda interface, owner: (interface, owner),
    )


def test_what_numba_is_given(pm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from portamem.interop import tensors

    monkeypatch.setattr(tensors, "_numba_cuda", lambda: fake_target(True))
    view = FakeView(pm.backend, {"version": 3})
    assert tensors.to_numba(view) == ({"version": 3}, view)
    assert len(view.declared) == 1, "Numba's default stream counts as declared"
    with pytest.raises(BufferError, match="bfloat16"):
        tensors.to_numba(FakeView(pm.backend, None))
    read_only = FakeView(pm.backend, {})
    read_only.readonly = True
    with pytest.raises(BufferError, match="read-only"):
        tensors.to_numba(read_only)
