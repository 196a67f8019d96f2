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
    """Finds uses of memory that nothing orders, while a ``with`` block runs, in the calls of all threads.

    The checker follows the allocations, frees, copies, fills, prefetches, events and waits of the CPU backend. It
    judges by the order that the program asks for, whatever order the work happened to run in. The end of the block
    raises OrderError if there are findings, unless ``raises=False``. ``with check() as found`` binds an OrderCheck,
    which has them as ``found.findings``. On a GPU backend the beginning of the block raises Error.

    A use that ``record_stream`` declares orders the free of the memory. The checker does not see the work that the
    use stands for, so it finds nothing between that work and the reads and writes of other streams.
    """

@contextmanager
def using(resource: _Resource) -> Iterator[_Resource]:
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

@contextmanager
def tag(name: str) -> Iterator[str]:
    """Gives the allocations of this thread within a ``with`` block a name, for the adaptors that watch memory and
    for logs.

    A tag within another one is a part of it: ``solver/setup``. ``with tag(name) as full`` binds the full name.

    The blocks of a thread have to end in reverse order. A block that ends before another one that began within it
    raises RuntimeError, and the other one stays open. Tasks that take turns on a thread share its tags. Raises
    ValueError for a name that is empty or has a NUL character.
    """

def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    resource: MemoryResource | None = None,
    device: Device | SupportsIndex | None = None,
    stream: Stream | Any = None,
) -> View:
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

def save(file: str | os.PathLike[str] | IO[bytes], array: View | Buffer, *, stream: Stream | Any = None) -> None:
    """Writes a View, or the bytes of a Buffer, to a ``.npy`` file, which ``numpy.load`` reads too.

    ``file`` is a path, which is overwritten, or a binary file object, from its position on. ``stream``, and the way
    of the bytes, are those of ``Buffer.save``. A View in Fortran order keeps that order.

    Raises TypeError for what is neither a View nor a Buffer of this backend, ValueError for any other View that is
    not contiguous and for elements that the format has no name for, and what ``Buffer.save`` raises.
    """

def load(
    file: str | os.PathLike[str] | IO[bytes],
    *,
    resource: MemoryResource | None = None,
    device: Device | SupportsIndex | None = None,
    stream: Stream | Any = None,
) -> View:
    """Reads a ``.npy`` file to a View of new memory. The memory comes from ``resource``, or else from the current
    resource of ``device``.

    ``file`` is a path or a binary file object, from its position on. The memory is allocated on ``stream``, and the
    bytes get there as with ``Buffer.load``: they are there on return. An array in Fortran order becomes a View that
    is not contiguous, with the same shape.

    Raises ValueError for a file that is no ``.npy`` file, for elements that have no name here and for Python
    objects. For a file that is too short it raises ValueError, or EOFError where the file is not an ordinary one.
    """

def from_any(obj: Any, *, stream: Stream | Any = None) -> View:
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
