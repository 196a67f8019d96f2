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

        ``empty``, ``zeros`` and ``asarray`` take memory from it there. Live buffers are not touched.

        The scope is a context variable's: each asyncio task has its own, tasks and threads that inherit a context
        (``asyncio.to_thread``, ``contextvars.copy_context().run``) see the scopes that were open when the context was
        copied, and a plain ``threading.Thread`` sees none. C++ code that holds the GIL sees the scopes of the task that
        called it. Without the GIL, C++ code sees the newest scope of its thread.

        The blocks of a task end the last one first. One that ends before another that began within it raises
        RuntimeError; the other stays as it is. Where generators take turns on a thread, name the resource in each
        call.
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
        """Names what this thread allocates within a ``with`` block, for the adaptors that watch memory and for logs.

        Within another tag it is a part of that one: ``solver/setup``. What ``with`` binds is the tag in full.

        The blocks of a thread end the last one first. One that ends before another that began within it raises
        RuntimeError, and the other stays as it is. Tasks that take turns on a thread share its tags.
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
        """Finds uses of memory that no order covers, while a ``with`` block runs. All threads' calls count.

        Followed are the allocations, frees, copies, fills, prefetches, events and waits of the CPU backend: what the
        program orders, never what happened to run in time. At the block's end OrderError is raised if there are
        findings, unless ``raises=False``; what ``with`` binds has them as ``findings``. On a GPU backend entering the
        block raises Error.

        A use that ``record_stream`` declares orders the free of the memory. Nothing is found between the work that it
        stands for, which is not seen, and what other streams read or write.
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
