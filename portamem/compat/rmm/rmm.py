# SPDX-License-Identifier: MIT
"""RMM set up anew, and what programs want to be called before that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, SupportsIndex, TypeVar

from portamem.compat.rmm.mr import is_initialized
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import _initialize

__all__ = [
    "RMMError",
    "is_initialized",
    "register_reinitialize_hook",
    "reinitialize",
    "unregister_reinitialize_hook",
]

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., object])

_hooks_lock = threading.RLock()  # never held while a hook runs
_hooks: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = []


class RMMError(Exception):
    """RMM's exception with a code, for programs that name it. portamem raises its own: ``portamem.Error``."""

    def __init__(self, errcode: int, msg: str) -> None:
        """Makes an exception with the text ``msg``, whose ``errcode`` is the code."""
        self.errcode = errcode
        super().__init__(msg)

    def __reduce__(self) -> tuple[type[RMMError], tuple[int, str]]:
        return type(self), (self.errcode, str(self))


def reinitialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: SupportsIndex | str | None = None,
    maximum_pool_size: SupportsIndex | str | None = None,
    devices: SupportsIndex | Iterable[SupportsIndex] | None = 0,
    logging: bool = False,
    log_file_name: str | os.PathLike[str] | None = None,
) -> None:
    """Calls the registered hooks, the newest first, and then sets a new resource for each of ``devices``. Every other
    device gets portamem's default back. Memory that is out stays with the resource that gave it.

    The resource is plain device memory, or with ``managed_memory`` managed memory; with ``pool_allocator`` a pool of
    it, of ``initial_pool_size`` at first and at most ``maximum_pool_size`` (see ``PoolMemoryResource``); with
    ``logging`` below a ``LoggingResourceAdaptor`` that writes ``log_file_name``.

    Raises ValueError for a device that is not there, with no resource changed, and what the resources raise; the
    devices that come after have portamem's default then.
    """
    with _hooks_lock:
        hooks = _hooks[::-1]
    for hook, args, kwargs in hooks:
        hook(*args, **kwargs)
    _initialize(pool_allocator, managed_memory, initial_pool_size, maximum_pool_size, devices, logging, log_file_name)


def register_reinitialize_hook(func: F, *args: Any, **kwargs: Any) -> F:
    """Has ``reinitialize`` call ``func(*args, **kwargs)`` first, so that a library can let go of its memory. Answers
    ``func``."""
    with _hooks_lock:
        _hooks.append((func, args, kwargs))
    return func


def unregister_reinitialize_hook(func: Callable[..., object]) -> None:
    """Forgets ``func``, as often as it was registered."""
    with _hooks_lock:
        _hooks[:] = [hook for hook in _hooks if hook[0] != func]
