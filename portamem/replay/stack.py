# SPDX-License-Identifier: MIT
"""Resources of the user's own to replay against: a function, named by its module or file, makes one for a device."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import portamem

Factory = Callable[[ModuleType, Any], Any]
"""Makes a memory resource from a backend's module and one of its devices, for that device."""


def factory(name: str) -> Factory:
    """Loads the function ``package.module:function`` or ``path.py:function``. ValueError where that is no function."""
    where, _, what = name.rpartition(":")
    module = _of_file(name, Path(where)) if where.endswith(".py") else _of_name(name, where)
    if not hasattr(module, what):
        raise ValueError(f"{name} cannot be loaded: {where} has no {what!r}")
    found: Factory = getattr(module, what)
    if not callable(found):
        raise ValueError(f"{name} is no function of a backend's module and a device: it is {found!r}")
    return found


def _of_name(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise ValueError(f"{name} cannot be loaded: there is no module {where!r}") from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _of_file(name: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"{name} cannot be loaded: there is no file {path}")
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None  # of every name that ends in .py
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failed(name, error) from error
    return module


def _failed(name: str, error: Exception) -> ValueError:
    return ValueError(f"{name} cannot be loaded: {type(error).__name__}: {error}")


def make(name: str, function: Factory, pm: ModuleType, device: Any) -> Any:
    """Calls the function for a device. ValueError for anything but a resource of that backend and device."""
    try:
        found = function(pm, device)
    except Exception as error:
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from error
    if not isinstance(found, portamem.MemoryResource):
        raise ValueError(f"{name} answered {found!r}, and a memory resource is expected")
    if not isinstance(found, pm.MemoryResource):
        raise ValueError(f"{name} answered a resource of the {found.backend} backend, and not of {pm.backend}")
    if found.device != device:
        raise ValueError(f"{name} answered a resource of {found.device!r}, and one of {device!r} is expected")
    return found
