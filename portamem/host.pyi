import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, SupportsIndex, TypeVar

from portamem import knobs as knobs
from portamem._check import OrderCheck
from portamem._host import AsyncMemoryResource as AsyncMemoryResource
from portamem._host import Buffer as Buffer
from portamem._host import CallbackMemoryResource as CallbackMemoryResource
from portamem._host import Capabilities as Capabilities
from portamem._host import Device as Device
from portamem._host import DeviceMemoryResource as DeviceMemoryResource
from portamem._host import Event as Event
from portamem._host import FailureCallbackAdaptor as FailureCallbackAdaptor
from portamem._host import FallbackAdaptor as FallbackAdaptor
from portamem._host import FixedSizeMemoryResource as FixedSizeMemoryResource
from portamem._host import GrowableBuffer as GrowableBuffer
from portamem._host import HostRegistration as HostRegistration
from portamem._host import LimitingAdaptor as LimitingAdaptor
from portamem._host import LoggingAdaptor as LoggingAdaptor
from portamem._host import ManagedMemoryResource as ManagedMemoryResource
from portamem._host import MemoryInfo as MemoryInfo
from portamem._host import MemoryResource as MemoryResource
from portamem._host import MonotonicMemoryResource as MonotonicMemoryResource
from portamem._host import PinnedMemoryResource as PinnedMemoryResource
from portamem._host import PitchedBuffer as PitchedBuffer
from portamem._host import PointerInfo as PointerInfo
from portamem._host import PoolMemoryResource as PoolMemoryResource
from portamem._host import PrefaultedPinnedMemoryResource as PrefaultedPinnedMemoryResource
from portamem._host import PrefetchAdaptor as PrefetchAdaptor
from portamem._host import ProbedCapabilities as ProbedCapabilities
from portamem._host import Quirk as Quirk
from portamem._host import Recommendation as Recommendation
from portamem._host import ResourceAdaptor as ResourceAdaptor
from portamem._host import StatisticsAdaptor as StatisticsAdaptor
from portamem._host import Stream as Stream
from portamem._host import SystemMemoryResource as SystemMemoryResource
from portamem._host import TrackingAdaptor as TrackingAdaptor
from portamem._host import View as View
from portamem._host import VirtualMemoryResource as VirtualMemoryResource
from portamem._host import backend as backend
from portamem._host import compiled_version as compiled_version
from portamem._host import copy as copy
from portamem._host import copy_2d as copy_2d
from portamem._host import copy_3d as copy_3d
from portamem._host import current_resource as current_resource
from portamem._host import current_tag as current_tag
from portamem._host import deallocate as deallocate
from portamem._host import default_resource as default_resource
from portamem._host import device_count as device_count
from portamem._host import driver_version as driver_version
from portamem._host import empty as empty
from portamem._host import fill_2d as fill_2d
from portamem._host import from_dlpack as from_dlpack
from portamem._host import held as held
from portamem._host import pointer_info as pointer_info
from portamem._host import probe as probe
from portamem._host import recommend as recommend
from portamem._host import resource_of as resource_of
from portamem._host import runtime_version as runtime_version
from portamem._host import set_default_resource as set_default_resource
from portamem._host import set_quirk as set_quirk
from portamem._host import size_of as size_of
from portamem._host import version_text as version_text
from portamem._host import zeros as zeros

_Resource = TypeVar("_Resource", bound=MemoryResource)

def devices() -> list[Device]:
    """All devices of this backend that this process can see."""

def check(*, raises: bool = True) -> OrderCheck:
    """Finds uses of memory that no order covers, while a ``with`` block runs. All threads' calls count.

    Followed are the allocations, frees, copies, fills, prefetches, events and waits of the CPU backend: what the
    program orders, never what happened to run in time. At the block's end OrderError is raised if there are
    findings, unless ``raises=False``; what ``with`` binds has them as ``findings``. On a GPU backend entering the
    block raises Error.

    A use that ``record_stream`` declares orders the free of the memory. Nothing is found between the work that it
    stands for, which is not seen, and what other streams read or write.
    """

@contextmanager
def using(resource: _Resource) -> Iterator[_Resource]:
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

@contextmanager
def tag(name: str) -> Iterator[str]:
    """Names what this thread allocates within a ``with`` block, for the adaptors that watch memory and for logs.

    Within another tag it is a part of that one: ``solver/setup``. What ``with`` binds is the tag in full.

    The blocks of a thread end the last one first. One that ends before another that began within it raises
    RuntimeError, and the other stays as it is. Tasks that take turns on a thread share its tags.
    """

def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    resource: MemoryResource | None = None,
    device: Device | SupportsIndex | None = None,
    stream: Stream | Any = None,
) -> View:
    """``obj`` as a View.

    A View is returned as it is, and a Buffer as its bytes. Device, managed and page-locked memory of other
    libraries is wrapped where it lies, unless a resource or device is named: through DLPack, or else
    ``__cuda_array_interface__``. With a stream it is ready for work on that stream, without one it is ready on
    return. Anything else (NumPy arrays and other data of the host, bytes, nested sequences) is copied there;
    ``from_any`` wraps such memory too.
    """

def save(file: str | os.PathLike[str] | IO[bytes], array: View | Buffer, *, stream: Stream | Any = None) -> None:
    """Writes a View, or the bytes of a Buffer, to a ``.npy`` file, which ``numpy.load`` reads too.

    ``file`` is a path or a binary file object, which is written from its position on. The memory is written as
    ``Buffer.save`` does. A View in Fortran order keeps it.

    TypeError for what is neither View nor Buffer of this backend; ValueError for any other View that is not
    contiguous, and for elements that the format has no name for.
    """

def load(
    file: str | os.PathLike[str] | IO[bytes],
    *,
    resource: MemoryResource | None = None,
    device: Device | SupportsIndex | None = None,
    stream: Stream | Any = None,
) -> View:
    """Reads a ``.npy`` file to a new View: of the resource, of a device's, or of the current one.

    ``file`` is a path or a binary file object, which is read from its position on. The memory is read as
    ``Buffer.load`` does, and is there on return. An array in Fortran order becomes a View with its axes reversed.

    ValueError for a file that is no ``.npy`` file or too short, for elements that have no name here, and for
    objects.
    """

def from_any(obj: Any, *, stream: Stream | Any = None) -> View:
    """The memory of any object as a View, where it lies: nothing is copied.

    A View is returned as it is, and a Buffer as its bytes. Any other object is asked by DLPack; where it has none,
    by ``__cuda_array_interface__``, and last by ``__array_interface__`` or as a Python buffer. So are NumPy's
    arrays of types that its DLPack does not know. With a stream the memory is ready for work on that stream,
    without one it is ready on return. Memory that may be read only becomes a read-only View.

    TypeError for an object that has none of these, and for memory of a backend that this one cannot reach;
    ValueError for elements that have no name here or are not aligned, negative strides and masked arrays; and what
    the producer raises.
    """
