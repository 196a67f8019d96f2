# SPDX-License-Identifier: MIT
"""Loads the native modules, and says in words why one cannot be used."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from portamem import _build, _libraries, _machine, reasons
from portamem._masks import masks
from portamem.errors import BackendUnavailableError
from portamem.reasons import Reason

BACKENDS = ("host", "cuda", "hip")


@dataclass(frozen=True)
class BackendInfo:
    """The state of a backend on this machine."""

    name: str
    """The backend's name: "host", "cuda" or "hip"."""
    built: bool
    """True where this installation has the backend's native module."""
    loadable: bool
    """True where that module loads here."""
    reason: Reason | None
    """Why the backend cannot be used; None where it is ready."""
    device_count: int
    """The number of devices; 0 where the backend is not ready."""
    compiled_version: str | None
    """The version of the vendor's headers that the module was built with; None where it is not known."""
    runtime_version: str | None
    """The version of the vendor's runtime that answers; None where it is not known."""

    @property
    def is_ready(self) -> bool:
        """True where the backend can be used now."""
        return self.reason is None


def load(backend: str) -> ModuleType:
    """The native module of a backend, or BackendUnavailableError."""
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}: the backends are {', '.join(BACKENDS)}")
    if _build.module_path(backend) is None:
        raise BackendUnavailableError(backend, _not_built(backend))
    if not _machine.is_main_interpreter():
        raise ImportError("portamem runs in Python's main interpreter only, and this is a subinterpreter")
    try:
        native = importlib.import_module(f"portamem._{backend}")
    except ImportError as error:
        raise BackendUnavailableError(backend, _import_reason(backend, str(error))) from error
    if _vendor(backend) == "hip":
        _check_major(backend, native)
        _libraries.watch_amd_runtimes(native._loads)
        _libraries.warn_of_two(backend)
    return native


def refuse_forked() -> None:
    """Raises Error, named Forked, in the child of a fork whose parent had loaded a native module."""
    for backend in BACKENDS:
        native = sys.modules.get(f"portamem._{backend}")
        if native is not None and native._is_forked():
            native.device_count()  # refuses, in the words that every call has there


def is_for_this_machine(backend: str) -> bool:
    """True where a backend was built and the machine shows a GPU of its vendor (host needs no GPU). Loads nothing."""
    if _build.module_path(backend) is None:
        return False
    nodes = _machine.gpu_nodes(_vendor(backend))
    return backend == "host" or bool(nodes.driver or nodes.devices)


def probe(backend: str, native: ModuleType) -> tuple[int, Reason | None]:
    """Device count, and why it is 0 where it is. Creates no context."""
    if native._is_forked():
        return 0, reasons.forked()
    count, code, text = native.probe()
    if count > 0:
        return count, None
    vendor = _vendor(backend)
    nodes = _machine.gpu_nodes(vendor)
    machine = reasons.Machine(
        driver_version=_driver_version(native),
        runtime_version=_runtime_version(native) or "",
        nodes=nodes,
        shut=_machine.shut_node(nodes),
        masks=masks(vendor),
        uuids=_machine.uuids(vendor),
    )
    return 0, reasons.from_probe(vendor, code, text, machine)


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


def _not_built(backend: str) -> Reason:
    if folder := _build.source_folder():
        return reasons.source_folder(str(folder))
    return reasons.not_built(backend, _build.info()["not_built"].get(backend, ""))


def _vendor(backend: str) -> str:
    """Names the vendor whose driver serves a backend: HIP can be built for NVIDIA's."""
    platform = _build.info()["backends"].get(backend, {}).get("platform")
    return "cuda" if platform == "nvidia" else backend


def _runtime_version(native: ModuleType) -> str | None:
    return _known_version(native, "runtime_version") or None


def _driver_version(native: ModuleType) -> str:
    return _known_version(native, "driver_version")


def _known_version(native: ModuleType, which: str) -> str:
    """A version as text; empty where there is none. A CUDA 11 runtime without a driver does not know its own."""
    try:
        version = getattr(native, which)()
    except RuntimeError:
        return ""
    return str(native.version_text(version)) if version else ""


def _check_major(backend: str, native: ModuleType) -> None:
    """HIP's enums and structs are a major version's own, and loaders can be talked into the wrong one."""
    compiled, loaded = native.version_text(native.compiled_version()), _runtime_version(native)
    if loaded and loaded.split(".")[0] != compiled.split(".")[0]:
        built = _built(backend)
        runtimes = _libraries.amd_runtimes()
        path = next((path for path in runtimes if Path(path).name.startswith(built.library)), "")
        raise BackendUnavailableError(backend, reasons.wrong_major(backend, built, f"HIP {loaded}", path))


def _import_reason(backend: str, message: str) -> Reason:
    built = _built(backend)
    stem = built.library.rstrip("0123456789")
    found = _libraries.installed(stem) if stem and (stem in message or "undefined symbol" in message) else []
    return reasons.from_import_error(backend, message, built, found)


def _built(backend: str) -> reasons.Built:
    parts = _build.info()["backends"].get(backend, {})
    return reasons.Built(parts.get("headers", ""), parts.get("library", ""))
