# SPDX-License-Identifier: MIT
"""Loads the native modules, and says in words why one cannot be used."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from portamem import _build, reasons
from portamem._machine import gpu_nodes, masks
from portamem.errors import BackendUnavailableError
from portamem.reasons import Reason

BACKENDS = ("host", "cuda", "hip")


@dataclass(frozen=True)
class BackendInfo:
    """What a backend can do here. ``reason`` is None where it is ready; versions are those of the vendor's runtime."""

    name: str
    built: bool
    loadable: bool
    reason: Reason | None
    device_count: int
    compiled_version: str | None
    runtime_version: str | None

    @property
    def is_ready(self) -> bool:
        return self.reason is None


def load(backend: str) -> ModuleType:
    """The native module of a backend, or BackendUnavailableError."""
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}: they are {', '.join(BACKENDS)}")
    if _build.module_path(backend) is None:
        why = _build.info()["not_built"].get(backend, "")
        raise BackendUnavailableError(backend, reasons.not_built(backend, why))
    try:
        native = importlib.import_module(f"portamem._{backend}")
    except ImportError as error:
        found = _other_libraries(backend, str(error))
        raise BackendUnavailableError(backend, reasons.from_import_error(backend, str(error), found)) from error
    _check_major(backend, native)
    return native


def probe(backend: str, native: ModuleType) -> tuple[int, Reason | None]:
    """Device count, and why it is 0 where it is. Creates no context."""
    count, code, text = native.probe()
    if count > 0:
        return count, None
    vendor = _vendor(backend)
    reason = reasons.from_probe(
        vendor, code, text, driver_version=_driver_version(native), nodes=gpu_nodes(vendor), masks=masks(vendor)
    )
    return 0, reason


def info(backend: str) -> BackendInfo:
    """The state of a backend. Never raises for one that cannot be used."""
    built = _build.module_path(backend) is not None
    try:
        native = load(backend)
    except BackendUnavailableError as error:
        compiled = _build.info()["backends"].get(backend, {}).get("headers")
        return BackendInfo(backend, built, False, error.reason, 0, compiled, None)
    count, reason = probe(backend, native)
    compiled = native.version_text(native.compiled_version())
    return BackendInfo(backend, True, True, reason, count, compiled, _runtime_version(native))


def backends() -> dict[str, BackendInfo]:
    """Every backend by name, ready or not."""
    return {name: info(name) for name in BACKENDS}


def _vendor(backend: str) -> str:
    """Whose driver serves a backend: HIP can be built for NVIDIA's."""
    platform = _build.info()["backends"].get(backend, {}).get("platform")
    return "cuda" if platform == "nvidia" else backend


def _runtime_version(native: ModuleType) -> str | None:
    try:
        return str(native.version_text(native.runtime_version()))
    except RuntimeError:
        return None  # a CUDA 11 runtime without a driver does not know its own version


def _driver_version(native: ModuleType) -> int:
    try:
        return int(native.driver_version())
    except RuntimeError:
        return 0


def _check_major(backend: str, native: ModuleType) -> None:
    """HIP's enums and structs are a major version's own, and loaders can be talked into the wrong one."""
    if _vendor(backend) != "hip":
        return
    compiled, loaded = native.version_text(native.compiled_version()), _runtime_version(native)
    if loaded and loaded.split(".")[0] != compiled.split(".")[0]:
        raise BackendUnavailableError(backend, reasons.wrong_major(backend, f"HIP {compiled}", f"HIP {loaded}"))


def _other_libraries(backend: str, message: str) -> list[str]:
    """Versions of HIP's library that are here while the one that the module wants is not."""
    if backend != "hip" or "libamdhip64" not in message:
        return []
    from ctypes.util import find_library  # slow to import, and wanted only here

    root = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
    known = find_library("amdhip64")
    found = {path.name for path in root.glob("lib/libamdhip64.so.?")} | ({known} if known else set())
    return sorted(name for name in found if name not in message)
