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
    PyTorch; BufferError where the installed PyTorch cannot use the memory.
    """
    torch = _import("torch", "View.to_torch", "PyTorch", "torch")
    takes = [_CPU]
    if torch.cuda.is_available():
        takes.append(_ROCM if torch.version.hip else _CUDA)
    return torch.from_dlpack(_SeenAs(view, _first(view, takes, "PyTorch")))


def to_cupy(view: Any) -> Any:
    """The same memory as a ``cupy.ndarray``, which keeps it alive, ready on CuPy's current stream.

    Page-locked memory goes too: CuPy gets the device's address of it. ImportError without CuPy; BufferError where the
    installed CuPy cannot use the memory.
    """
    cupy = _import("cupy", "View.to_cupy", "CuPy", "cupy-cuda13x (or the package for your CUDA or ROCm)")
    takes = [_ROCM if cupy.cuda.runtime.is_hip else _CUDA]
    return cupy.from_dlpack(_SeenAs(view, _first(view, takes, "CuPy")))


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
    raise BufferError(
        f"the {consumer} that is installed here cannot use {view.buffer.kind} memory of the {view.backend} backend: it "
        f"takes DLPack devices of type {' and '.join(map(str, takes))}, and the memory is of type "
        f"{' and '.join(str(device[0]) for device in devices) or 'none'}. Copy it first (copy_to, to_numpy)"
    )
