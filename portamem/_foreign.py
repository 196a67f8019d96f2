# SPDX-License-Identifier: MIT
"""Streams and events of other libraries: the handle that each of them holds.

The native modules ask here for every stream or event that is not of their own class. The objects are recognised by
what they have, so none of the libraries is imported.
"""

from __future__ import annotations

from portamem import _libraries
from portamem._types import Event, Stream

_VENDOR_CLASSES = {
    "cuda": {"cudaStream_t", "CUstream", "cudaEvent_t", "CUevent"},
    "hip": {"ihipStream_t", "ihipEvent_t"},
}
_LEGACY = 1  # the legacy default stream by its CUDA number; handle 0 means the same on every backend


def stream_handle(obj: object, backend: str) -> int:
    """The handle of a foreign stream, as a backend takes it."""
    _refuse_number(obj, "Stream")
    _libraries.warn_of_two(backend)  # a handle of another copy of the runtime may crash this one
    if isinstance(obj, Stream):
        raise TypeError(
            f"this is a stream of the {obj.backend} backend, and the {backend} backend cannot use it: make one with "
            f"portamem.{backend}.Stream()"
        )
    # Their class before their protocol: both vendors' objects may speak it, and only the class says whose they are.
    handle = _from_vendor_object(obj, backend, "Stream_t", "CUstream")
    if handle is None:
        handle = _from_protocol(obj)
    if handle is None:
        handle = _from_attribute(obj, "ptr", "cuda_stream")  # CuPy's name and PyTorch's
    if handle is None:
        raise TypeError(
            f"a stream is a portamem.{backend}.Stream, an object with __cuda_stream__, or a stream of cuda-python, "
            f"hip-python, CuPy or PyTorch, not {type(obj).__name__}"
        )
    return 0 if handle == _LEGACY and backend != "cuda" else handle


def event_handle(obj: object, backend: str) -> int:
    """The handle of a foreign event."""
    _refuse_number(obj, "Event")
    _libraries.warn_of_two(backend)
    if isinstance(obj, Event):
        raise TypeError(
            f"this is an event of another backend, and the {backend} backend cannot use it: make one with "
            f"portamem.{backend}.Event()"
        )
    handle = _from_vendor_object(obj, backend, "Event_t", "CUevent")
    if handle is None:
        handle = _from_attribute(obj, "ptr", "cuda_event")
    if handle is None:
        raise TypeError(
            f"an event is a portamem.{backend}.Event, or an event of cuda-python, hip-python, CuPy or PyTorch, "
            f"not {type(obj).__name__}"
        )
    return handle


def _refuse_number(obj: object, kind: str) -> None:
    if isinstance(obj, int):
        raise TypeError(f"a bare number is not of type {kind}: say {kind}.from_handle({obj}) if it is a handle")


def _from_protocol(obj: object) -> int | None:
    protocol = getattr(obj, "__cuda_stream__", None)
    if protocol is None:
        return None
    version, handle = protocol() if callable(protocol) else protocol
    if version != 0:
        raise TypeError(f"__cuda_stream__ of {type(obj).__name__} is version {version}, and portamem knows version 0")
    return int(handle)


def _from_vendor_object(obj: object, backend: str, *endings: str) -> int | None:
    """A cuda-python or hip-python object: their classes convert to int, and their names say whose they are."""
    name = type(obj).__name__
    vendor = next((vendor for vendor, names in _VENDOR_CLASSES.items() if name in names), None)
    if vendor is None or not name.endswith(endings):
        return None
    if vendor != backend:
        raise TypeError(f"a {name} belongs to the {vendor} backend, and the {backend} backend cannot use it")
    return int(obj)  # type: ignore[call-overload,no-any-return]  # both libraries' handles have __int__


def _from_attribute(obj: object, *names: str) -> int | None:
    handles = (getattr(obj, name, None) for name in names)
    return next((handle for handle in handles if isinstance(handle, int)), None)
