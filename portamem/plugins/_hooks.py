# SPDX-License-Identifier: MIT
"""C functions over a resource, which libraries call without Python."""

from __future__ import annotations

import threading
from typing import Any

from portamem import _loader

_lock = threading.Lock()
_hooks: dict[tuple[str, str, int | None], tuple[Any, Any, dict[str, int]]] = {}  # resource, hook, addresses


def functions(library: str, backend: str, resource: Any, *arguments: Any) -> dict[str, int]:
    """The addresses of a library's functions over a resource, by name; None is whatever is current.

    A library may call them at any later time, so they and the resource stay for the rest of the process. The same
    resource has the same functions.
    """
    key = (library, backend, None if resource is None else id(resource))
    with _lock:
        if key not in _hooks:
            hook = _loader.load(backend)._LibraryHook(resource)
            _hooks[key] = resource, hook, getattr(hook, f"{library}_functions")(*arguments)
        return _hooks[key][2]
