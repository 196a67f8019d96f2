# SPDX-License-Identifier: MIT
"""Views as other libraries' arrays, over the same memory: each library is shown it as a device that it takes.

DLPack has a name of its own for page-locked and for managed memory, which not all consumers know. The memory is as
truly the CPU's or the device's, so it is offered as that.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from portamem._imported import imported

_CPU = 1
_CUDA = 2
_ROCM = 10

_DLPackDevice = tuple[int, int]


class _SeenAs:
    """A View that shows itself as one of the devices that its memory is."""

    def __init__(self, view: Any, device: _DLPackDevice) -> None:
        self._view = view
        self._device = device

    def __dlpack_device__(self) -> _DLPackDevice:
        return self._device

    def __dlpack__(self, **keywords: Any) -> object:
        keywords["dl_device"] = self._device
        return self._view.__dlpack__(**keywords)


def to_torch(view: Any) -> Any:
    """The same memory as a ``torch.Tensor``, which keeps it alive.

    Memory that PyTorch's device reaches as its own (device and managed memory) becomes a tensor of that device, ready
    on PyTorch's current stream. Host memory becomes a CPU tensor, after the work declared on it. ImportError without
    PyTorch; BufferError where the installed PyTorch cannot use the memory, or the memory is read-only.
    """
    _refuse_read_only(view, "PyTorch")
    torch = imported("torch") or _import("torch", "View.to_torch", "PyTorch", "torch")
    device, stream = _as_torch_takes_it(view, torch)
    # A capsule, as PyTorch asks a View for it, spares the questions by which it finds out what is known here.
    return torch.from_dlpack(
        view.__dlpack__(stream=stream, max_version=_torch_version(torch), dl_device=device),
    )


def _as_torch_takes_it(view: Any, torch: ModuleType) -> tuple[_DLPackDevice, int | None]:
    """The device as which PyTorch takes the memory, and its current stream there, by DLPack's number for it."""
    devices: list[_DLPackDevice] = view._dlpack_devices()
    own = _ROCM if torch.version.hip else _CUDA
    for device in devices:
        if device[0] == _CPU:
            return device, None
        if device[0] == own and _has_device(torch):
            stream: int = torch.cuda.current_stream(device[1]).cuda_stream
            return device, 1 if stream == 0 and own == _CUDA else stream
    raise _unusable(view, devices, [_CPU, own] if _has_device(torch) else [_CPU], "PyTorch")


def _has_device(torch: ModuleType) -> bool:
    return bool(torch.cuda.is_initialized() or torch.cuda.is_available())


def _torch_version(torch: ModuleType) -> tuple[int, int] | None:
    """The newest DLPack that the installed PyTorch takes; None: one of before version 1."""
    return (1, 0) if hasattr(torch._C, "_to_dlpack_versioned") else None


def to_cupy(view: Any) -> Any:
    """The same memory as a ``cupy.ndarray``, which keeps it alive, ready on CuPy's current stream.

    Page-locked memory goes too: CuPy gets the device's address of it. ImportError without CuPy; BufferError where the
    installed CuPy cannot use the memory, or the memory is read-only.
    """
    _refuse_read_only(view, "CuPy")
    cupy = _import("cupy", "View.to_cupy", "CuPy", "cupy-cuda13x (or the package for your CUDA or ROCm)")
    takes = [_ROCM if cupy.cuda.runtime.is_hip else _CUDA]
    return cupy.from_dlpack(_SeenAs(view, _first(view, takes, "CuPy")))


def to_jax(view: Any) -> Any:
    """The same memory as a ``jax.Array``, which keeps it alive.

    Device and managed memory becomes an array of JAX's GPU, behind the work declared on it, and host memory one of
    JAX's CPU, after that work. ImportError without JAX; BufferError where JAX would copy, and for read-only memory.
    """
    _refuse_read_only(view, "JAX", "JAX, which cannot be told so, writes arrays that a program donates")
    jax = imported("jax") or _import("jax", "View.to_jax", "JAX", "jax")
    _refuse_wide(view.dtype, jax)
    platforms = {_CPU: "cpu", _CUDA: "cuda", _ROCM: "rocm"}
    takes = [kind for kind, platform in platforms.items() if _has_platform(jax, platform)]
    seen = _SeenAs(view, _first(view, takes, "JAX"))
    try:
        array = importlib.import_module("jax.dlpack").from_dlpack(seen, copy=False)
    except (TypeError, ValueError, jax.errors.JaxRuntimeError) as e:
        raise _copied_by_jax(str(e).partition(". ")[0]) from e
    if view.size and (array.dtype != view.dtype or array.unsafe_buffer_pointer() != view.handle):
        raise _copied_by_jax(f"it made a copy as {array.dtype}")
    return array


def _refuse_wide(dtype: Any, jax: ModuleType) -> None:
    if dtype.name in ("int64", "uint64", "float64", "complex128") and not jax.config.jax_enable_x64:
        raise BufferError(
            f"JAX makes a copy with half the bits of {dtype} unless its types of 64 bits are enabled: call "
            'jax.config.update("jax_enable_x64", True), or copy the memory (jax.numpy.array(view.to_numpy()))'
        )


def _has_platform(jax: ModuleType, platform: str) -> bool:
    try:
        return bool(jax.devices(platform))
    except RuntimeError:  # JAX's way of saying no
        return False


def _copied_by_jax(why: str) -> BufferError:
    return BufferError(
        f"JAX cannot use this memory where it lies ({why}). It takes elements without gaps, the first at a multiple of "
        "64 bytes; copy any others (jax.numpy.array(view.to_numpy()))"
    )


def to_numba(view: Any) -> Any:
    """The same memory as Numba's functions take it, and kept alive by that.

    Device and managed memory becomes a device array of Numba's CUDA target, once the work declared on it has run;
    Numba's default stream counts as declared from then on. Host memory becomes a NumPy array, which ``numba.njit``
    takes, and needs no Numba here. ImportError without a CUDA target; BufferError where it cannot use the memory.
    """
    devices: list[_DLPackDevice] = view._dlpack_devices()
    for kind, ordinal in devices:
        if kind == _CPU:
            return importlib.import_module("numpy").asarray(view)
        if kind == _CUDA and _numba_cuda().is_available():
            return _numba_device_array(view, ordinal)
    raise _unusable(view, devices, [_CPU, _CUDA], "Numba")


def _numba_device_array(view: Any, ordinal: int) -> Any:
    _refuse_read_only(view, "Numba's CUDA target")
    own = view[...]  # an export of the array's own: the caller may close the view
    try:
        interface = own.__cuda_array_interface__
    except AttributeError as e:
        raise BufferError(str(e)) from e
    cuda = _numba_cuda()
    with cuda.gpus[ordinal]:
        array = cuda.from_cuda_array_interface(interface, owner=own)
    device = importlib.import_module(f"portamem.{view.backend}").Device(ordinal)
    own.buffer.record_stream(device.default_stream)
    return array


def _numba_cuda() -> ModuleType:
    """The CUDA target that the program has imported, else Numba's, else numba-cuda-mlir."""
    for name in ("numba.cuda", "numba_cuda_mlir.cuda"):
        found = imported(name)
        if found is not None:
            return found
    try:
        return importlib.import_module("numba.cuda")
    except ImportError:
        return _import("numba_cuda_mlir.cuda", "View.to_numba", "Numba", "numba-cuda or numba-cuda-mlir")


def _refuse_read_only(view: Any, consumer: str, why: str = "") -> None:
    if view.readonly:
        raise BufferError(
            f"the memory is read-only, and {why or f'{consumer} has no arrays that only read'}: copy it first "
            "(copy_to, to_numpy)"
        )


def _import(name: str, caller: str, title: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(
            f"{caller} needs {title}, which cannot be imported ({e}): install {package}", name=name
        ) from e


def _first(view: Any, takes: Sequence[int], consumer: str) -> _DLPackDevice:
    devices: list[_DLPackDevice] = view._dlpack_devices()
    for device in devices:
        if device[0] in takes:
            return device
    raise _unusable(view, devices, takes, consumer)


def _unusable(view: Any, devices: Sequence[_DLPackDevice], takes: Sequence[int], consumer: str) -> BufferError:
    return BufferError(
        f"the {consumer} that is installed here cannot use {view.buffer.kind} memory of the {view.backend} backend: it "
        f"takes DLPack devices of type {' and '.join(map(str, takes))}, and the memory is of type "
        f"{' and '.join(str(device[0]) for device in devices) or 'none'}. Copy it first (copy_to, to_numpy)"
    )
