"""The addresses that a library is told, as functions that a test can call: with the GIL, or without it as threads of a
library's do."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

SIGNATURES = {
    "allocate_or_null": (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p),
    "allocate_or_throw": (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p),
    "deallocate": (None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p),
    "record_stream": (None, ctypes.c_void_p, ctypes.c_void_p),
    "empty_cache": (None,),
    "set_fraction": (None, ctypes.c_double, ctypes.c_int),
    "begin_pool": (None, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong, ctypes.c_void_p),
    "end_pool": (None, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong),
    "release_pool": (None, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong),
}


class TorchFunctions:
    """The functions of a PyTorch allocator over a resource, or over what is current."""

    def __init__(self, native: ModuleType, resource: Any, with_gil: bool = False) -> None:
        self.hook = native._LibraryHook(resource)
        kind = ctypes.PYFUNCTYPE if with_gil else ctypes.CFUNCTYPE
        self._functions = {
            name: kind(*SIGNATURES[name])(address) for name, address in self.hook.torch_functions().items()
        }

    def __getattr__(self, name: str) -> Any:
        return self._functions[name]

    def allocate(self, nbytes: int, stream: Any, device: int | None = None) -> int:
        ordinal = stream.device.ordinal if device is None else device
        return self._functions["allocate_or_null"](nbytes, ordinal, stream.handle) or 0

    def free(self, ptr: int, nbytes: int, stream: Any, device: int | None = None) -> None:
        ordinal = stream.device.ordinal if device is None else device
        self._functions["deallocate"](ptr, nbytes, ordinal, stream.handle)


class Filter(ctypes.Structure):
    """A std::function<bool(stream)> in libstdc++'s layout: 16 bytes of its own, and two functions."""

    _fields_ = (
        ("own", ctypes.c_void_p * 2),
        ("manager", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
        ("invoker", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))),
    )

    @classmethod
    def naming(cls, *handles: int) -> Filter:
        """A filter that is true for these streams."""

        def invoke(_own: Any, stream: Any) -> bool:
            return (stream[0] or 0) in handles

        made = cls()
        made.manager = dict(cls._fields_)["manager"](lambda _to, _from, _what: False)
        made.invoker = dict(cls._fields_)["invoker"](invoke)
        made.kept = (made.manager, made.invoker)
        return made
