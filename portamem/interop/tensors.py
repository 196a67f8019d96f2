# SPDX-License-Identifier: MIT
"""Views as other libraries' arrays, through DLPack: each library is shown the memory as a device that it takes.

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


def _refuse_read_only(view: Any, consumer: str) -> None:
    if view.readonly:
        raise BufferError(
            f"the memory is read-only, and {consumer} has no arrays that only read: copy it first (copy_to, to_numpy)"
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
