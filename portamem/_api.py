# SPDX-License-Identifier: MIT
"""Fills ``portamem.host``, ``portamem.cuda`` and ``portamem.hip``: the native names and, over them, the Python ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from portamem import _loader, _types
from portamem._arrays import Arrays
from portamem._check import OrderCheck
from portamem._npy import Npy


class Scopes:
    """The functions over one native module that are about devices, resources and order."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native

    def devices(self) -> list[Any]:
        """All devices of this backend that this process can see."""
        return [self._native.Device(ordinal) for ordinal in range(self._native.device_count())]

    @contextmanager
    def using(self, resource: Any) -> Iterator[Any]:
        """Makes ``resource`` the current one of its device, in this context, within a ``with`` block.

        ``empty``, ``zeros`` and ``asarray`` take memory from it there. Live buffers keep their memory.

        The scope is a context variable's: each asyncio task has its own. Tasks and threads that inherit a context
        (``asyncio.to_thread``, ``contextvars.copy_context().run``) see the scopes that were open when the context was
        copied. A plain ``threading.Thread`` sees none. C++ code that holds the GIL sees the scopes of the task that
        called it. Without the GIL, C++ code sees the newest scope of its thread.

        The blocks of a task have to end in reverse order. A block that ends before another one that began within it
        raises RuntimeError, and the other one stays open. Where generators take turns on a thread, name the resource in
        each call instead. Raises TypeError for what is no resource of this backend, and ValueError for a closed one.
        """
        if not isinstance(resource, self._native.MemoryResource):
            raise TypeError(f"using() takes a memory resource of portamem.{self._native.backend}, not {resource!r}")
        scope = self._native._push_resource(resource)
        try:
            yield resource
        except BaseException:
            with suppress(RuntimeError):  # a refusal here must not hide the exception on its way
                self._native._pop_resource(scope)
            raise
        self._native._pop_resource(scope)

    @contextmanager
    def tag(self, name: str) -> Iterator[str]:
        """Gives the allocations of this thread within a ``with`` block a name, for the adaptors that watch memory and
        for logs.

        A tag within another one is a part of it: ``solver/setup``. ``with tag(name) as full`` binds the full name.

        The blocks of a thread have to end in reverse order. A block that ends before another one that began within it
        raises RuntimeError, and the other one stays open. Tasks that take turns on a thread share its tags. Raises
        ValueError for a name that is empty or has a NUL character.
        """
        number = self._native._push_tag(name)
        try:
            yield self._native.current_tag()
        except BaseException:
            with suppress(RuntimeError):  # a refusal here must not hide the exception on its way
                self._native._pop_tag(number)
            raise
        self._native._pop_tag(number)

    def check(self, *, raises: bool = True) -> OrderCheck:
        """Finds uses of memory that nothing orders, while a ``with`` block runs, in the calls of all threads.

        The checker follows the allocations, frees, copies, fills, prefetches, events and waits of the CPU backend. It
        judges by the order that the program asks for, whatever order the work happened to run in. The end of the block
        raises OrderError if there are findings, unless ``raises=False``. ``with check() as found`` binds an OrderCheck,
        which has them as ``found.findings``. On a GPU backend the beginning of the block raises Error.

        A use that ``record_stream`` declares orders the free of the memory. The checker does not see the work that the
        use stands for, so it finds nothing between that work and the reads and writes of other streams.
        """
        return OrderCheck(self._native, raises)


def populate(namespace: dict[str, Any], backend: str) -> None:
    """Loads a backend into a module's namespace. Raises BackendUnavailableError where it cannot be loaded."""
    native = _loader.load(backend)
    _types.register(native)
    scopes, arrays = Scopes(native), Arrays(native)
    api = {name: value for name, value in vars(native).items() if not name.startswith("_")}
    api["_c_api"] = native._c_api  # where c_api.h tells other extension modules to look
    api.update(devices=scopes.devices, using=scopes.using, tag=scopes.tag, check=scopes.check)
    api.update(asarray=arrays.asarray, from_any=arrays.from_any)
    npy = Npy(native)
    api.update(save=npy.save, load=npy.load)
    namespace.update(api)
