# SPDX-License-Identifier: MIT
"""Chooses the backend that the plain names ``portamem.X`` go to: on first use, by PORTAMEM_BACKEND and
PORTAMEM_REQUIRE."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Mapping
from types import ModuleType

from portamem import _loader
from portamem._machine import visible_gpus
from portamem.errors import BackendUnavailableError

_GPU_BACKENDS = ("cuda", "hip")
_BACKENDS = ("auto", *_loader.BACKENDS)
_REQUIRES = {"": _loader.BACKENDS, "gpu": _GPU_BACKENDS, "cuda": ("cuda",), "hip": ("hip",)}

_chosen: ModuleType | None = None
_taken: list[tuple[str, dict[str, object]]] = []


def chosen() -> ModuleType:
    """The backend that this process uses for the plain names, as a module such as ``portamem.host``."""
    return _chosen or use(None)


def use(backend: str | None) -> ModuleType:
    """Chooses the named backend, or, for None, the one that the environment asks for."""
    global _chosen
    while _taken:
        name, namespace = _taken.pop()
        namespace.pop(name, None)
    _chosen = importlib.import_module(f"portamem.{_decide(backend or _setting('PORTAMEM_BACKEND', _BACKENDS, 'auto'))}")
    return _chosen


def take(name: str, namespace: dict[str, object]) -> object:
    """Returns the chosen backend's object of that name. The object stays in the namespace, where a call finds it
    without asking again, until another backend is chosen."""
    value: object = getattr(chosen(), name)
    namespace[name] = value
    _taken.append((name, namespace))
    return value


def unmet_requirement(ready: Mapping[str, bool]) -> str:
    """Says which requirement of PORTAMEM_REQUIRE no backend meets. Empty where nothing is missing."""
    require = _setting("PORTAMEM_REQUIRE", tuple(_REQUIRES), "")
    if not require or any(ready[name] for name in _REQUIRES[require]):
        return ""
    return f"PORTAMEM_REQUIRE={require} asks for {' or '.join(_REQUIRES[require])}, and that is not ready"


def check_required(backend: str) -> None:
    """Refuses a backend that was named in a call where PORTAMEM_REQUIRE is set, and does not allow it (ValueError), or
    it is not ready (BackendUnavailableError)."""
    if _setting("PORTAMEM_REQUIRE", tuple(_REQUIRES), ""):
        _decide(backend)


def _decide(backend: str) -> str:
    """The name of the backend to use. Raises BackendUnavailableError where that one, or one required, is not ready, and
    Error, named Forked, in a forked child."""
    _loader.refuse_forked()
    require = _setting("PORTAMEM_REQUIRE", tuple(_REQUIRES), "")
    allowed = _REQUIRES[require]
    if backend == "auto":
        return _first_ready([name for name in _GPU_BACKENDS if name in allowed], require)
    if backend not in allowed:
        raise ValueError(f"PORTAMEM_REQUIRE={require} does not allow the {backend} backend")
    _check_ready(backend)
    return backend


def _first_ready(names: list[str], require: str) -> str:
    failures: dict[str, BackendUnavailableError] = {}
    for name in names:
        try:
            _check_ready(name)
        except BackendUnavailableError as error:
            failures[name] = error
        else:
            return name
    gpus = visible_gpus()
    if require:
        # The vendor whose card is here is the one whose failure matters.
        raise next((failures[name] for name in gpus if name in failures), next(iter(failures.values())))
    for name, node in gpus.items():
        warnings.warn(
            f"this machine shows a GPU ({node}), and the CPU is used instead: {failures[name]} "
            "(PORTAMEM_BACKEND=host makes this a choice, PORTAMEM_REQUIRE=gpu makes it an error)",
            RuntimeWarning,
            stacklevel=2,
        )
    return "host"


def _check_ready(backend: str) -> None:
    _, reason = _loader.probe(backend, _loader.load(backend))
    if reason is not None:
        raise BackendUnavailableError(backend, reason)


def _setting(name: str, values: tuple[str, ...], default: str) -> str:
    value = os.environ.get(name, "").strip().lower() or default
    if value not in values:
        raise ValueError(f"{name}={value} is not known: it is one of {', '.join(filter(None, values))}")
    return value
