# SPDX-License-Identifier: MIT
"""Tells the runtime that a backend stands on in this process, and how facts about it are known."""

from __future__ import annotations

import ctypes
from types import ModuleType

from portamem import _build, _libraries
from portamem.conformance.contract.clause import Platform

_MARK = "portamem_standin"
"""A symbol that stand-in runtimes export."""


def platform_of(pm: ModuleType) -> Platform:
    """The platform of a loaded backend."""
    count = pm.device_count()
    vendor = _vendor(pm.backend)
    if pm.backend == "host":
        evidence = "here"
    elif _is_simulated():
        evidence = "simulated"
    elif count == 0:
        evidence = "library"
    else:
        evidence = "spelling" if (pm.backend, vendor) == ("hip", "nvidia") else "gpu"
    return Platform(pm.backend, vendor, _version(pm), evidence, count)


def _vendor(backend: str) -> str:
    if backend == "host":
        return "portamem"
    platform = _build.info()["backends"].get(backend, {}).get("platform")
    return "amd" if backend == "hip" and platform != "nvidia" else "nvidia"


def _is_simulated() -> bool:
    return any(hasattr(ctypes.CDLL(path), _MARK) for path in _libraries.amd_runtimes())


def _version(pm: ModuleType) -> tuple[int, int]:
    try:
        text = pm.version_text(pm.runtime_version())
    except RuntimeError:  # a runtime without a driver need not know its own
        text = pm.version_text(pm.compiled_version())
    return major_minor(text)


def major_minor(text: str) -> tuple[int, int]:
    """The first two numbers of a version such as "6.4.43482"."""
    major, minor, *_ = (*(int(part) for part in text.split(".") if part.isdigit()), 0, 0)
    return major, minor
