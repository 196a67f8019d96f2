# SPDX-License-Identifier: MIT
"""``asarray`` and ``from_any``: whatever holds numbers as a View, over any native module. ``empty``, ``zeros`` and
``from_dlpack`` are native."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any, SupportsIndex

from portamem._dtypes import numpy_dtype, parse_dtype
from portamem._imported import imported
from portamem._types import View
from portamem.interop.array_interface import describe, device_buffer, refuse_mask, refuse_misaligned
from portamem.interop.host_memory import refuse_masked, refuse_no_bytes

Shape = SupportsIndex | Sequence[SupportsIndex]

# DLPack's types of host memory: the CPU's, and page-locked by either vendor.
_DLPACK_CPU = 1
_DLPACK_HOST = (_DLPACK_CPU, 3, 11)


class Arrays:
    """The functions over one native module that make Views of what others hold."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native

    def asarray(
        self, obj: Any, *, dtype: Any = None, resource: Any = None, device: Any = None, stream: Any = None
    ) -> Any:
        """``obj`` as a View: memory of a device without a copy, data of the host by a copy.

        For a View the answer is that View, and for a Buffer a View of its bytes. For device, managed and page-locked
        memory of other libraries it is a View of that memory, through DLPack, or else ``__cuda_array_interface__``.
        portamem copies those only where a ``resource`` or ``device`` is named. It always copies NumPy arrays and other
        data of the host, bytes and nested sequences, to new memory of ``resource``, or else of the current resource of
        ``device``; ``from_any`` takes such memory without a copy. The host backend counts page-locked memory as data of
        the host.

        With a stream the memory is ready for work on that stream; without one it is ready on return. ``dtype`` converts
        data of the host. Raises ValueError for memory of a device with another ``dtype``, and for masked arrays;
        TypeError for data without numbers, and for memory that only a device of another backend reaches.
        """
        source = self._on_device(obj, stream)
        if source is None:
            refuse_no_bytes(obj, "the data")
            if _is_dlpack_alone(obj):
                obj = self._native.from_dlpack(obj, stream=stream)
            source = _host_array(obj, dtype)
            return self._copied(source, source.dtype, resource, device, stream)
        if dtype is not None and parse_dtype(dtype).name != source.dtype.name:
            raise ValueError(f"the memory holds {source.dtype}, and asarray converts only host data, so not to {dtype}")
        if resource is None and device is None:
            return source
        return self._copied(source, source.dtype, resource, device, stream)

    def from_any(self, obj: Any, *, stream: Any = None) -> Any:
        """The memory of any object as a View, without a copy.

        For a View the answer is that View, and for a Buffer a View of its bytes. portamem asks any other object for
        DLPack, else for ``__cuda_array_interface__``, else for ``__array_interface__`` or a Python buffer. It asks a
        NumPy array in the last way where NumPy's DLPack does not know the type. With a stream the memory is ready for
        work on that stream; without one it is ready on return. Memory that may only be read becomes a read-only View.
        The View keeps ``obj`` alive.

        Raises TypeError for an object that has none of these, and for memory that this backend cannot reach; ValueError
        for elements that have no name here or are not aligned, for negative strides and for masked arrays; and what the
        producer raises.
        """
        native = self._native
        if isinstance(obj, native.View):
            return obj
        if isinstance(obj, native.Buffer):
            return obj.view()
        if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
            try:
                return native.from_dlpack(obj, stream=stream)
            except BufferError:
                # A producer may refuse because the memory alone does not tell the values. Of NumPy's arrays it does.
                if not _is_numpy_array(obj):
                    raise
        found = self._wrapped(obj, stream)
        if found is None:
            found = self._wrapped_host(obj, stream)
        if found is None:
            raise TypeError(
                f"an object of type {type(obj).__name__} has no DLPack, no array interface and no buffer by which its "
                "memory could be taken: copy it with asarray"
            )
        return found

    def _wrapped(self, obj: Any, stream: Any) -> Any:
        """A View of an object with ``__cuda_array_interface__``, or None."""
        wrapped = device_buffer(self._native, obj, stream, "the device memory", takes_strides=True)
        if wrapped is None:
            return None
        buffer, described = wrapped
        refuse_misaligned(described, "the device memory")
        return self._native.View(buffer, described.typestr, described.shape, strides=described.strides)

    def _wrapped_host(self, obj: Any, stream: Any) -> Any:
        """A View of an object with ``__array_interface__`` or a Python buffer, or None."""
        import numpy as np

        interface = getattr(obj, "__array_interface__", None)
        if isinstance(obj, np.generic):
            raise TypeError(f"a NumPy scalar ({type(obj).__name__}) is a value, not memory: copy it with asarray")
        if interface is None and not _has_buffer(obj):
            return None
        refuse_no_bytes(obj, "the memory")
        if isinstance(interface, dict):
            refuse_mask(interface, "the memory")
        array = np.asarray(memoryview(obj) if isinstance(obj, (bytes, bytearray)) else obj)
        parse_dtype(array.dtype)
        described = describe(array.__array_interface__, "the memory", takes_strides=True)
        refuse_misaligned(described, "the memory")
        buffer = self._native.Buffer.from_handle(
            described.pointer, described.nbytes, owner=array, stream=stream, readonly=described.read_only
        )
        return self._native.View(buffer, array.dtype, described.shape, strides=described.strides)

    def _copied(self, source: Any, dtype: Any, resource: Any, device: Any, stream: Any) -> Any:
        view = self._native.empty(source.shape, dtype, resource=resource, device=device, stream=stream)
        view.copy_from(source, stream=stream)
        return view

    def _on_device(self, obj: Any, stream: Any) -> Any:
        """A View of memory that this backend's devices reach as it is, or None."""
        if isinstance(obj, self._native.View):
            return obj
        if isinstance(obj, self._native.Buffer):
            return obj.view()
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
        return self._wrapped(obj, stream)


def extents_of(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, int):  # as the tuple below: the abstract class takes its time to answer
        extents: tuple[int, ...] = (shape,)
    else:
        given = shape if isinstance(shape, (tuple, list, Sequence)) else (shape,)
        for each in given:
            if not hasattr(type(each), "__index__"):
                inside = f"a {type(shape).__name__} of " if given is shape and len(given) else ""
                raise TypeError(f"a shape is an int or a sequence of ints, not {inside}{type(each).__name__}")
        extents = tuple(map(operator.index, given))
    for extent in extents:
        if extent < 0:
            raise ValueError(f"a shape cannot have a negative extent: {extents}")
    return extents


def _is_numpy_array(obj: Any) -> bool:
    numpy = imported("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def _has_buffer(obj: Any) -> bool:
    """An exception of the buffer's owner passes through."""
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def _is_dlpack_alone(obj: Any) -> bool:
    """True for host memory by DLPack in which NumPy's asarray would see nothing but an object."""
    if not hasattr(obj, "__dlpack__") or isinstance(obj, View):
        return False
    return not any(hasattr(obj, name) for name in ("__array__", "__array_interface__", "__buffer__", "__len__"))


def _host_array(obj: Any, dtype: Any) -> Any:
    """Host data as a NumPy array, which may have strides."""
    import numpy as np

    if isinstance(obj, (bytes, bytearray)):
        obj = memoryview(obj)  # NumPy would take them for text
    wanted = None if dtype is None else numpy_dtype(parse_dtype(dtype).name)
    interface = None if isinstance(obj, np.ndarray) else getattr(obj, "__array_interface__", None)
    if isinstance(interface, dict):
        refuse_mask(interface, "the data")
    array = np.asanyarray(obj, dtype=wanted)  # the answer of __array__ may be masked
    refuse_masked(array, "the data")
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"the data is a {type(obj).__name__}, in which NumPy finds only Python objects, not numbers")
    parse_dtype(array.dtype)
    return array
