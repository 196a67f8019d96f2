# SPDX-License-Identifier: MIT
"""``empty``, ``zeros`` and ``asarray``: typed memory in one call, over any native module."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any, SupportsIndex

from portamem._dtypes import parse_dtype
from portamem._types import View

Shape = SupportsIndex | Sequence[SupportsIndex]

# DLPack's types of host memory: the CPU's, and page-locked by either vendor.
_DLPACK_CPU = 1
_DLPACK_HOST = (_DLPACK_CPU, 3, 11)


class Arrays:
    """The functions over one native module that make Views."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native

    def empty(
        self, shape: Shape, dtype: Any = "float64", *, resource: Any = None, device: Any = None, stream: Any = None
    ) -> Any:
        """A View of new memory, whose contents are whatever was there.

        The memory comes from ``resource``, or else from the current resource of ``device``.
        """
        extents = _extents(shape)
        nbytes = math.prod(extents) * parse_dtype(dtype).itemsize
        resource = self._resource(resource, device)
        waits = stream is None and resource.is_stream_ordered
        if waits:
            stream = resource.device.default_stream
        buffer = resource.allocate(nbytes, stream=stream)
        if waits:
            stream.synchronize()  # without a stream the memory is there on return, for every stream
        return self._native.View(buffer, dtype, extents)

    def zeros(
        self, shape: Shape, dtype: Any = "float64", *, resource: Any = None, device: Any = None, stream: Any = None
    ) -> Any:
        """A View of new memory, all bytes zero. With a stream, that is so from there on in the stream's order."""
        view = self.empty(shape, dtype, resource=resource, device=device, stream=stream)
        view.fill(0, stream=stream)
        return view

    def asarray(
        self, obj: Any, *, dtype: Any = None, resource: Any = None, device: Any = None, stream: Any = None
    ) -> Any:
        """``obj`` as a View.

        A View is returned as it is, and device, managed and page-locked memory of other libraries is wrapped where it
        lies, unless a resource or device is named: through DLPack, or else ``__cuda_array_interface__``. With a stream
        it is ready for work on that stream, without one it is ready on return. Anything else (NumPy arrays and other
        data of the host, bytes, nested sequences) is copied there; ``from_dlpack`` wraps such memory too.
        """
        source = self._on_device(obj, stream)
        if source is None:
            source = _host_array(obj, dtype)
            return self._copied(source, source.dtype.str, resource, device, stream)
        if dtype is not None and parse_dtype(dtype).name != source.dtype:
            raise ValueError(f"the memory holds {source.dtype}, and asarray converts only host data, so not to {dtype}")
        if resource is None and device is None:
            return source
        return self._copied(source, source.dtype, resource, device, stream)

    def _copied(self, source: Any, dtype: str, resource: Any, device: Any, stream: Any) -> Any:
        view = self.empty(source.shape, dtype, resource=resource, device=device, stream=stream)
        view.copy_from(source, stream=stream)
        return view

    def _resource(self, resource: Any, device: Any) -> Any:
        if resource is None:
            return self._native.current_resource(device)
        if not isinstance(resource, self._native.MemoryResource):
            raise TypeError(f"{resource!r} is not a memory resource of portamem.{self._native.backend}")
        if device is not None and self._native.Device(device) != resource.device:
            raise ValueError(f"the resource is of {resource.device!r}, not of {self._native.Device(device)!r}")
        return resource

    def _on_device(self, obj: Any, stream: Any) -> Any:
        """A View of memory that this backend's devices reach as it is, or None."""
        if isinstance(obj, self._native.View):
            return obj
        is_view = isinstance(obj, View)  # of another backend
        if is_view and not obj.is_host_accessible:
            raise TypeError(
                f"a View of the {obj.buffer.backend} backend, in memory that only its device reaches, cannot become "
                f"one of the {self._native.backend} backend: copy it with to_numpy() first"
            )
        if is_view:
            return None
        # DLPack goes first: its producer itself puts our stream behind the work that it has queued, and learns when we
        # have let go. An array interface names a stream at best, and PyTorch's names none.
        if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
            kind = obj.__dlpack_device__()[0]
            is_host_data = kind == _DLPACK_CPU or (self._native.backend == "host" and kind in _DLPACK_HOST)
            return None if is_host_data else self._native.from_dlpack(obj, stream=stream)
        if self._native.backend == "host":
            return None
        interface = getattr(obj, "__cuda_array_interface__", None)
        return None if interface is None else self._wrapped(obj, interface, stream)

    def _wrapped(self, obj: Any, interface: dict[str, Any], stream: Any) -> Any:
        """Foreign device memory by its array interface, version 2 or 3."""
        shape, dtype = tuple(interface["shape"]), parse_dtype(interface["typestr"])
        pointer, read_only = interface["data"]
        if interface.get("mask") is not None:
            raise ValueError("masked device memory is not supported: pass the data and the mask on their own")
        if not _is_contiguous(shape, interface.get("strides"), dtype.itemsize):
            raise ValueError("the device memory is not C-contiguous: make a contiguous copy of it first")
        if read_only:
            raise ValueError("the device memory is read-only, and a View is not: make a copy of it first")
        nbytes = math.prod(shape) * dtype.itemsize
        device = self._native.pointer_info(pointer).device_id if nbytes else None
        self._order(interface.get("stream"), stream, device)
        buffer = self._native.Buffer.from_handle(pointer, nbytes, owner=obj, device=device, stream=stream)
        return self._native.View(buffer, dtype.name, shape)

    def _order(self, producer: int | None, stream: Any, device: int | None) -> None:
        """Puts what the producer has queued before what the caller will do: on ``stream``, or by waiting here."""
        if producer is None:
            return
        theirs = self._native.Stream.from_handle(producer, device=device)
        if stream is None:
            theirs.synchronize()
        else:
            ours = stream if isinstance(stream, self._native.Stream) else self._native.Stream.wrap(stream)
            ours.wait(theirs)


def _extents(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, int):  # as the tuple below: the abstract class takes its time to answer
        extents: tuple[int, ...] = (shape,)
    else:
        extents = tuple(map(operator.index, shape if isinstance(shape, (tuple, list, Sequence)) else (shape,)))
    for extent in extents:
        if extent < 0:
            raise ValueError(f"a shape cannot have a negative extent: {extents}")
    return extents


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    """C order; the stride of an axis with one element does not matter, nor any stride of an empty array."""
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _host_array(obj: Any, dtype: Any) -> Any:
    """Host data as a C-contiguous NumPy array."""
    import numpy as np

    if isinstance(obj, (bytes, bytearray)):
        obj = memoryview(obj)  # NumPy would take them for text
    wanted = None if dtype is None else parse_dtype(dtype).typestr
    array = np.asarray(obj, dtype=wanted)
    if array.dtype.hasobject:
        raise TypeError(f"a {type(obj).__name__} is no host data of numbers: NumPy finds only Python objects in it")
    if not array.flags.c_contiguous:
        raise ValueError("the data is not C-contiguous: pass numpy.ascontiguousarray(x)")
    parse_dtype(array.dtype)
    return array
