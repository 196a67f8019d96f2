# SPDX-License-Identifier: MIT
"""The object that takes a plug out again, and the checks of resources and libraries, for all plugs."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any

from portamem._types import MemoryResource

_lock = threading.RLock()  # guards both of these; a plug names itself in a refusal
_plugs: dict[str, list[Plug]] = {}  # those that are in, by library, the latest last
_changes: dict[str, threading.RLock] = {}  # by library


@contextlib.contextmanager
def changing(library: str) -> Iterator[None]:
    """Lets one thread at a time change the allocator of a library.

    A ``use`` holds it from the question for the former allocator until its plug is made: a plug that was put in
    meanwhile would be taken out by none.
    """
    with _lock:
        change = _changes.setdefault(library, threading.RLock())
    with change:
        yield


class Plug:
    """Stands for a library that takes its memory from a portamem resource, until ``undo()``.

    As a context manager, it ends with the block. Plugs of one library end in the opposite order of their beginning.
    It is made within ``changing(library)``.
    """

    def __init__(self, library: str, resource: Any, take_out: Callable[[], None]) -> None:
        self._library = library
        self._resource = resource
        self._take_out = take_out
        with _lock:
            _plugs.setdefault(library, []).append(self)

    @property
    def library(self) -> str:
        """The library's name, as in ``import``."""
        return self._library

    @property
    def resource(self) -> Any:
        """The resource that was given; None where allocations take the current one of their device."""
        return self._resource

    @property
    def is_active(self) -> bool:
        """True while the library takes its memory from the resource."""
        with _lock:
            return self in _plugs.get(self._library, [])

    def undo(self) -> None:
        """Gives the library the allocator back that it had before. A second call does nothing.

        Memory that the library still holds goes back to the resource when the library frees it. Raises RuntimeError
        where a later plug of the library is still in, or the library has been given another allocator since; nothing
        has changed then.
        """
        with changing(self._library):
            with _lock:
                plugs = _plugs.get(self._library, [])
                if self not in plugs:
                    return
                if plugs[-1] is not self:
                    raise RuntimeError(
                        f"a later plug of {self._library} is still in: undo that one first (it is {plugs[-1]!r})"
                    )
            self._take_out()  # calls the library, so other libraries' plugs do not wait for it
            with _lock:
                if self in plugs:  # the library's own code may have undone it meanwhile
                    plugs.remove(self)

    def __enter__(self) -> Plug:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.undo()
        except RuntimeError:
            if error is None:  # an exception on its way is not hidden
                raise

    def __repr__(self) -> str:
        state = "active" if self.is_active else "undone"
        taken = "the current resource" if self._resource is None else repr(self._resource)
        return f"<portamem plug of {self._library}, {state}: {taken}>"


def library(name: str, project: str, least: str) -> ModuleType:
    """Imports a library. Raises ImportError where it is absent, or older than ``least``, with what to install."""
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        raise ImportError(
            f"this plug is for {name}, which cannot be imported ({missing}): install {project} {least} or later",
            name=name,
        ) from missing
    version = str(getattr(module, "__version__", "0"))
    if _numbers(version) < _numbers(least):
        raise ImportError(f"{name} {version} is too old for this plug: install {project} {least} or later", name=name)
    return module


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def checked(resource: object, for_library: str, *backends: str) -> Any:
    """Returns a stream-ordered resource that a library can be plugged into, or None.

    Raises as ``checked_memory`` does, and ValueError for one that is not stream-ordered: its frees would wait for the
    device.
    """
    if resource is None:
        return None
    given = checked_memory(resource, for_library, *backends)
    if not given.is_stream_ordered:
        raise ValueError(
            "the resource is not stream-ordered: each free would wait for the device. Put a pool over it: "
            "PoolMemoryResource(resource)"
        )
    return given


def checked_memory(resource: object, for_library: str, *backends: str) -> Any:
    """Returns a resource that a library can be plugged into.

    Raises TypeError for what is no resource of portamem, and ValueError for a resource that is closed, or of a backend
    that the library does not work on.
    """
    if not isinstance(resource, MemoryResource):
        raise TypeError(f"{for_library} takes memory from a resource of portamem, not from a {type(resource).__name__}")
    given: Any = resource
    if given.is_closed:
        raise ValueError(f"the memory resource is closed, so {for_library} cannot take memory from it")
    if given.backend not in backends:
        raise ValueError(
            f"the resource is of portamem.{given.backend}, and {for_library} works here on "
            f"{' or '.join(f'portamem.{each}' for each in backends)}"
        )
    return given
