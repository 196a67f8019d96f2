"""The native API, the same in portamem._host, portamem._cuda and portamem._hip (compiled from one source).

Conventions of every call here:

* Sizes and offsets are bytes: an int, or text such as ``"64 MiB"``.
* ``stream`` is a Stream of the same backend, or a foreign stream object (``__cuda_stream__``, cuda-python, hip-python,
  CuPy, PyTorch). Where calls come again and again, pass ``Stream.wrap(obj)``, made once: the object itself becomes a
  new Stream whenever none of it is left, and a pool has nothing at hand for that.
* With a stream, a call returns when its work is queued. Without one it runs on the default stream, after everything
  declared on the memory it touches, and returns when it is done. Calls that may block release the GIL.
* Errors: ValueError, TypeError and BufferError for misuse, found before any runtime call; portamem.Error for what the
  runtime answers; portamem.OutOfMemoryError, which is also a MemoryError, when there is no memory.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType, TracebackType
from typing import IO, Any, ClassVar, Literal, Protocol, SupportsFloat, SupportsIndex, SupportsInt, TypeAlias, final

import numpy
from typing_extensions import Buffer as _HostBuffer
from typing_extensions import CapsuleType, Self

from portamem import enums as _enums
from portamem._pool import PoolSnapshot, PoolStats
from portamem._record import MemoryCounts, OutstandingAllocation, StatisticsScope

_Size: TypeAlias = SupportsIndex | str
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_StreamLike: TypeAlias = Stream | Any
_Part: TypeAlias = SupportsIndex | slice | EllipsisType | None
_DeviceLike: TypeAlias = Device | SupportsIndex
_LocationLike: TypeAlias = Device | SupportsIndex | str

# The words that calls take and give. Those of a parameter may be a member of the enum in portamem.enums as well.
_Backend: TypeAlias = Literal["host", "cuda", "hip"]
_Kind: TypeAlias = Literal["device", "pinned", "managed", "system", "async", "virtual", "foreign"]
_PointerKind: TypeAlias = Literal["unregistered", "host", "device", "managed"]
_ManagedMode: TypeAlias = Literal["none", "host_resident", "migrating"]
_Purpose: TypeAlias = Literal["kernels", "shared", "transfer", "larger"]
_MallocHeapKind: TypeAlias = Literal["none", "limit", "initial"]
_HandleType: TypeAlias = Literal["posix_fd", "win32", "win32_kmt", "fabric"]
_QuirkPolicy: TypeAlias = Literal[
    "free_on_allocating_stream", "at_least_eight_bytes", "explicit_copy_kind", "bridged", "report"
]
_Advice: TypeAlias = Literal[
    "read_mostly",
    "unset_read_mostly",
    "preferred_location",
    "unset_preferred_location",
    "accessed_by",
    "unset_accessed_by",
    "coarse_grain",
    "unset_coarse_grain",
]
_RangeAttribute: TypeAlias = Literal[
    "read_mostly", "preferred_location", "accessed_by", "last_prefetch_location", "coherency_mode"
]
_Attach: TypeAlias = Literal["global", "host"]
_DeviceCoherence: TypeAlias = Literal["default", "fine_grained", "uncached"]
_PinnedCoherence: TypeAlias = Literal["default", "coherent", "non_coherent"]
_CaptureMode: TypeAlias = Literal["global", "thread_local", "relaxed"]
_CaptureStatus: TypeAlias = Literal["none", "active", "invalidated"]
_Access: TypeAlias = Literal["none", "read", "read_write"]
_Limit: TypeAlias = Literal["stack_size", "printf_fifo_size", "malloc_heap_size"]

class _HasArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _HasDlpack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

class _HasDeviceArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...

# Before Python 3.12 NumPy's stubs do not know the buffer protocol.
_HostMemory: TypeAlias = _HostBuffer | _HasArrayInterface | _HasDlpack
_BytesFile: TypeAlias = str | os.PathLike[str] | IO[bytes]
_Memory: TypeAlias = Buffer | View | HostRegistration | _HostMemory | _HasDeviceArrayInterface

backend: _Backend
"""Which backend this module is."""

_c_api: object  # the capsule that c_api.h describes

def runtime_version() -> int:
    """The version of the runtime library that answers, as the vendor's number; 0 where the library cannot say without
    a driver. ``version_text`` makes text of it."""

def driver_version() -> int:
    """The newest runtime version that the installed driver supports, as the vendor's number; 0 without a driver.
    ``version_text`` makes text of it."""

def compiled_version() -> int:
    """The version of the vendor's headers that this module was built with, as the vendor's number. ``version_text``
    makes text of it."""

def version_text(version: int) -> str:
    """A version number of this backend as text: "13.0", "5.2.3"."""

def device_count() -> int:
    """Devices that this process can see; 0 where there are none. Raises portamem.Error where the runtime cannot say."""

def probe() -> tuple[int, int, str]:
    """``(device count, native code, text)`` of the runtime's first answer. Never raises."""

def _loads() -> int:
    """How many libraries this process has ever loaded."""

@final
class Device:
    """A device of this backend by ordinal; ``Device()`` is the calling thread's current one. Holds no resource."""

    def __init__(self, ordinal: _DeviceLike | None = None) -> None:
        """Names the device of an ordinal, or the calling thread's current device for None. Creates no context.

        Raises ValueError for an ordinal that no device has, and Error where the runtime has no device.
        """
    @staticmethod
    def current() -> Device:
        """The calling thread's current device. Raises Error where the runtime has no device."""
    def set_current(self) -> None:
        """Makes this device the calling thread's current one, for all libraries of the process. CUDA 12 and later
        create the device's context here."""
    @property
    def ordinal(self) -> int:
        """The device's number in this process, from 0."""
    @property
    def backend(self) -> _Backend:
        """The backend whose device it is: "host", "cuda" or "hip"."""
    @property
    def name(self) -> str:
        """The device's name, as its vendor gives it."""
    @property
    def arch(self) -> str:
        """The architecture, as a compiler names it: "sm_90", "gfx90a:sramecc+:xnack-", "host"."""
    @property
    def uuid(self) -> str:
        """The device's UUID as text, in its usual spelling of 8-4-4-4-12 hexadecimal digits."""
    @property
    def pci_bus_id(self) -> str:
        """The device's address on the PCI bus, in lower case: "0000:3b:00.0"."""
    @property
    def numa_node(self) -> int | None:
        """The NUMA node of the host that is nearest to the device, as the kernel says; None where it does not say."""
    @property
    def capabilities(self) -> Capabilities:
        """What the device can do, as far as the runtime tells. Reading it creates no context."""
    def probe(self) -> ProbedCapabilities:
        """Tries what no runtime tells, once per process; later calls return what was found.

        Creates the device's context, takes some MiB for a moment from a pool and a stream of its own, and leaves all
        settings as they were. Raises ValueError while a stream is captured."""
    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """Known faults of its runtime, and what portamem does about each. Raises ValueError where PORTAMEM_QUIRKS
        cannot be read."""
    def memory_info(self) -> MemoryInfo:
        """Free, total and held bytes of the device now. CUDA and HIP create the device's context to answer."""
    def limit(self, name: _Limit | _enums.Limit) -> int:
        """The bytes of a limit that the runtime sets for kernels on the device.

        ``name`` is "stack_size" (bytes of stack that each thread of a kernel has), "printf_fifo_size" (bytes that
        kernels' printf buffers) or "malloc_heap_size" (see ``malloc_heap_size``). Raises Error where the device has no
        such limit.
        """
    def set_limit(self, name: _Limit | _enums.Limit, nbytes: _Size) -> None:
        """Asks for another limit, in bytes; the runtime may round it, and ``limit`` says what it became.

        ``name`` is as for ``limit``. Raises Error where the device has no such limit, or the runtime refuses the size.
        """
    @property
    def malloc_heap_size(self) -> int:
        """Bytes of the heap from which kernels allocate; ``capabilities.malloc_heap_kind`` says what they bound.

        Set it before a kernel that uses the heap is loaded. Where the kind is "limit" that settles it for the life of
        the process, and takes the bytes out of the device's memory: loading fails where they are not there, and
        setting it later raises Error InvalidValue."""
    @malloc_heap_size.setter
    def malloc_heap_size(self, nbytes: _Size) -> None: ...
    @property
    def default_stream(self) -> Stream:
        """The legacy default stream of the device. It is never closed."""
    @property
    def per_thread_stream(self) -> Stream:
        """The calling thread's own default stream of the device. Only that thread may submit work to it."""
    @property
    def stream_priority_range(self) -> tuple[int, int]:
        """``(lowest, highest)``: what ``Stream(priority=...)`` may be. Numerically the highest priority is the smaller
        number."""
    def synchronize(self) -> None:
        """Blocks until everything that was submitted to the device has run, and lets go of what finished work kept.
        Raises ValueError while a capture that portamem began is open."""
    def can_access_peer(self, peer: _DeviceLike) -> bool:
        """Whether kernels of this device may use memory of ``peer``, once ``enable_peer_access`` has been called."""
    def enable_peer_access(self, peer: _DeviceLike) -> None:
        """Lets kernels of this device use plain memory of ``peer``, in this process and for all libraries. Memory of
        pools has access of its own: ``AsyncMemoryResource.set_access``.

        Raises Error where the access is enabled already, or the devices have no path to each other.
        """
    def disable_peer_access(self, peer: _DeviceLike) -> None:
        """Takes back what ``enable_peer_access`` allowed. Raises Error where that was not enabled."""
    def __int__(self) -> int:
        """The ordinal."""
    def __index__(self) -> int:
        """The ordinal, so that a device may stand where an ordinal is asked for."""
    def __eq__(self, other: object, /) -> bool:
        """Whether the other is the same device of the same backend."""
    def __hash__(self) -> int:
        """Equal for devices that are equal."""

@final
class Capabilities:
    """What a device can do, each asked of the device: never derived from a version or from a kind of memory.

    True, False, or None where the runtime, its version or its driver does not say. Reading it allocates nothing,
    creates no context and is allowed beside a capture. What can only be found by trying is in ``Device.probe()``."""

    @property
    def memory_pools(self) -> bool | None:
        """Whether the device has stream-ordered memory from driver pools, which AsyncMemoryResource needs."""
    @property
    def pool_handle_types(self) -> tuple[_HandleType, ...] | None:
        """Handles by which a pool can go to other processes: "posix_fd", "win32", "win32_kmt", "fabric"."""
    @property
    def managed_mode(self) -> _ManagedMode:
        """How the device runs managed memory: "none", "host_resident" (it stays in one place) or "migrating" (pages
        move to the device or host that touches them).

        AMD moves pages on a fault with XNACK only (HIP's manual, unified memory); a device that shares the host's
        memory has nowhere to move them."""
    @property
    def concurrent_managed_access(self) -> bool | None:
        """Whether host and device may touch managed memory at the same time."""
    @property
    def pageable_memory_access(self) -> bool | None:
        """Whether the device reads and writes memory of malloc. AMD: whether XNACK is in effect."""
    @property
    def uses_host_page_tables(self) -> bool | None:
        """Whether the device reads and writes memory of malloc through the host's own page tables."""
    @property
    def direct_host_access(self) -> bool | None:
        """Whether the host can read and write plain device memory. CUDA does not say; AMD: large BAR, or an APU."""
    @property
    def integrated(self) -> bool | None:
        """Whether host and device share one physical memory."""
    @property
    def xnack(self) -> bool | None:
        """AMD: whether page faults are retried, from the architecture's name. None where there is no such mode."""
    @property
    def pinned_coherent(self) -> bool | None:
        """Whether pinned memory is coherent with running kernels unless coherence="non_coherent" is asked for.

        CUDA has no other kind; AMD where the device has fine-grained memory (HIP's manual, coherency controls)."""
    @property
    def pinned_non_coherent(self) -> bool | None:
        """Whether there is a non-coherent kind too: AMD's. Elsewhere asking for it changes nothing."""
    @property
    def host_register(self) -> bool | None:
        """Whether host memory that a program already has can be page-locked, as HostRegistration does."""
    @property
    def registered_pointer_is_device_pointer(self) -> bool | None:
        """Whether kernels reach registered memory by the host's address."""
    @property
    def stream_priorities(self) -> bool | None:
        """Whether streams of the device can have priorities."""
    @property
    def virtual_memory(self) -> bool | None:
        """Whether addresses can be reserved first, and memory be mapped to them later."""
    @property
    def virtual_memory_granularity(self) -> tuple[int, int] | None:
        """(minimum, recommended) bytes of which mapped pieces are multiples."""
    @property
    def virtual_memory_handle_types(self) -> tuple[_HandleType, ...] | None:
        """Handles by which mapped memory can go to other processes, those that the runtime tells of: words as in
        ``pool_handle_types``."""
    @property
    def ipc_memory_handles(self) -> bool | None:
        """Whether plain device memory can go to other processes; which memory, ``pointer_info().ipc_capable`` says."""
    @property
    def ipc_event_handles(self) -> bool | None:
        """Whether events can go to other processes by a handle."""
    @property
    def malloc_heap_kind(self) -> _MallocHeapKind | None:
        """What ``Device.malloc_heap_size`` means: "limit" (CUDA: all that kernels' malloc can give), "initial" (AMD:
        what the heap begins with; it grows) or "none"."""
    @property
    def peers(self) -> tuple[int, ...]:
        """Ordinals of the devices whose memory this one can address."""
    @property
    def compute_capability(self) -> tuple[int, int]:
        """``(major, minor)``, as CUDA numbers its devices; of AMD devices what HIP answers in its place."""
    @property
    def multi_processor_count(self) -> int:
        """The number of multiprocessors (AMD: compute units) of the device."""
    @property
    def warp_size(self) -> int:
        """The number of threads in a warp (AMD: a wavefront)."""
    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as a new dict of plain data."""

@final
class ProbedCapabilities:
    """What a device can do, found by trying. None: it could not be tried, or there is nothing to try it on."""

    @property
    def pool_threshold_accepted(self) -> bool | None:
        """Whether a pool's release threshold reads back as it was set."""
    @property
    def pool_threshold_effective(self) -> bool | None:
        """Whether it is obeyed: at a synchronize the pool keeps its memory, or gives it back."""
    @property
    def stream_capture(self) -> bool | None:
        """Whether work on a stream can be captured."""
    @property
    def host_register(self) -> bool | None:
        """Whether host memory can be page-locked: as the runtime says, or as tried where it does not say."""
    @property
    def registered_pointer_is_device_pointer(self) -> bool | None:
        """Whether kernels reach registered memory by the host's address."""
    @property
    def malloc_heap_settable(self) -> bool | None:
        """Whether malloc_heap_size could be set, when it was tried. Not tried where malloc_heap_kind is "initial"."""
    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as a new dict of plain data."""

@final
class Quirk:
    """A known fault of a device's runtime, from a table in portamem/quirks.hpp."""

    @property
    def name(self) -> str:
        """The quirk's name, which ``set_quirk`` and PORTAMEM_QUIRKS take."""
    @property
    def policy(self) -> _QuirkPolicy:
        """What portamem does: "free_on_allocating_stream", "at_least_eight_bytes", "explicit_copy_kind", "bridged" (met
        in any case, cannot be switched) or "report" (nothing: it is for the user to know)."""
    @property
    def is_active(self) -> bool:
        """False where it was switched off."""
    @property
    def about(self) -> str:
        """What the runtime does wrong, in a sentence."""
    @property
    def thread(self) -> str:
        """Where it was reported, in public."""
    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as a new dict of plain data."""

def set_quirk(name: str, on: bool | None) -> bool | None:
    """Switches a quirk's policy on or off for resources that this backend makes later, and for copies that it queues
    later; None: as the table says.

    ``PORTAMEM_QUIRKS=name=off,other=on`` does the same from the start. Returns how it was switched before, for putting
    it back. Raises ValueError for a name that is none, and for a quirk that is met in any case; Error, named Forked,
    in a child of fork."""

@final
class MemoryInfo:
    """Bytes of a device: free and total as the runtime sees them, held as portamem counts its own."""

    @property
    def free(self) -> int:
        """Bytes of the device that the runtime could still give out."""
    @property
    def total(self) -> int:
        """Bytes that the device has in all."""
    @property
    def held(self) -> int:
        """Bytes of the device that portamem's resources have taken and that are in use, as ``held()`` counts them."""
    @property
    def source(self) -> str:
        """The runtime call that answered."""
    def _repr_html_(self) -> str: ...

@final
class Recommendation:
    """A kind of memory, and the reason for it: the answer of ``recommend``."""

    @property
    def kind(self) -> _Kind:
        """The kind of memory: "device", "pinned", "managed" or "system"."""
    @property
    def why(self) -> str:
        """The reason, in one sentence, from what the device says of itself."""
    @property
    def device(self) -> Device:
        """The device that was asked about."""
    def resource(self) -> MemoryResource:
        """A new resource of that kind on the device. A pool over it serves arrays that come and go."""

@final
class Stream:
    """An in-order queue of work on a device. Owns its handle, unless it was made from one."""

    def __init__(
        self, device: _DeviceLike | None = None, *, nonblocking: bool = True, priority: int | None = None
    ) -> None:
        """Creates a stream on a device (None: the calling thread's current one), which the object owns and destroys.

        ``nonblocking=False`` makes a stream whose work is ordered with that of the legacy default stream.
        ``priority``: see ``Device.stream_priority_range``; None is 0. Raises Error where the runtime refuses.
        """
    @staticmethod
    def from_handle(
        handle: int, *, device: _DeviceLike | None = None, owner: object = None, ends_announced: bool = False
    ) -> Stream:
        """A foreign stream by its native handle: portamem never destroys it, and keeps ``owner`` alive instead. 0 and
        1 are the legacy default stream, 2 is the calling thread's own.

        ``ends_announced=True`` promises that the program calls ``close()`` before the handle is destroyed. With
        neither that promise nor an owner, each free of a pool's memory there may cost an event."""
    @staticmethod
    def wrap(obj: Any) -> Stream:
        """A foreign stream object as a Stream, which keeps it alive: ``__cuda_stream__``, cuda-python, hip-python,
        CuPy, PyTorch. Keep it and pass it: the object itself, at each call, may become a new Stream each time."""
    @property
    def handle(self) -> int:
        """The native stream as a number, for other libraries; 0 is the legacy default stream. It is valid until the
        stream is closed. Raises ValueError for a closed stream, and for another thread's own default stream."""
    @property
    def identity(self) -> int:
        """A number never reused in this process, unlike handles."""
    @property
    def device(self) -> Device:
        """The device on which the stream's work runs."""
    @property
    def backend(self) -> _Backend:
        """The backend whose stream it is: "host", "cuda" or "hip"."""
    @property
    def priority(self) -> int:
        """The stream's priority, a number; smaller numbers are served first. Raises ValueError for a closed stream."""
    @property
    def is_nonblocking(self) -> bool:
        """Whether the stream's work runs beside that of the legacy default stream, unordered with it. Raises
        ValueError for a closed stream, and while the stream is captured."""
    @property
    def is_default(self) -> bool:
        """Whether it is the legacy default stream, or a thread's own default stream."""
    @property
    def is_closed(self) -> bool:
        """Whether the stream has been closed: nothing can be submitted to it any more."""
    @property
    def capture_status(self) -> _CaptureStatus:
        """How a capture of the stream stands: "none", "active" or "invalidated"."""
    def begin_capture(self, mode: _CaptureMode | _enums.CaptureMode = "global") -> None:
        """Starts to capture what is submitted to the stream, which does not run meanwhile. ``end_capture``, on the
        same thread, ends it.

        ``mode`` is "global" (no thread may call what a capture forbids), "thread_local" (this thread may not) or
        "relaxed" (every call is allowed).
        """
    def end_capture(self) -> None:
        """Ends a capture and drops its graph: portamem launches nothing."""
    def query(self) -> bool:
        """True when all work that was submitted to the stream has run. Never blocks. If it has run, portamem drops the
        references that it held for that work. Raises ValueError for a closed stream, and while it is captured."""
    def synchronize(self) -> None:
        """Blocks until all work that was submitted to the stream so far has run. Raises ValueError while the stream is
        captured."""
    def wait(self, other: Event | Stream) -> None:
        """Puts what is submitted to this stream later behind an event's mark, or behind all work that another stream
        holds now. The host does not wait; for another thread's per-thread stream it waits for the device instead.
        Raises ValueError if a captured stream would wait for work outside its capture."""
    def record(self, event: Event | None = None) -> Event:
        """Marks the stream's present end with an event and answers that event: a new one for None.

        Raises ValueError for an event of another device, and for a closed stream or event.
        """
    def launch_host_func(self, fn: Callable[[], object]) -> None:
        """Runs ``fn`` on a thread of the runtime, in stream order. It may call nothing of portamem."""
    def close(self) -> None:
        """Destroys the stream if portamem owns it; memory that waits for it is handed over first. Work that was
        submitted still runs. A second close does nothing. Raises ValueError for a default stream, and while the stream
        is captured.

        Other threads may use the stream meanwhile: a call that has begun is completed, a later one is refused with
        ValueError.
        """
    def __cuda_stream__(self) -> tuple[int, int]:
        """``(0, handle)``: the protocol by which CUDA libraries take a stream."""
    def __enter__(self) -> Self:
        """Answers the stream itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the stream, as ``close()`` does. An exception that ends the block is never hidden: where the close is
        refused then, the stream goes with its last reference."""
    def __eq__(self, other: object, /) -> bool:
        """Whether the other is a Stream with the same identity."""
    def __hash__(self) -> int:
        """Equal for streams that are equal."""

@final
class Event:
    """A mark in a stream."""

    def __init__(self, device: _DeviceLike | None = None, *, timing: bool = False, blocking: bool = False) -> None:
        """Creates an event on a device (None: the calling thread's current one), which the object owns and destroys.

        ``timing=True`` lets ``elapsed_time`` measure; marks without it cost less. ``blocking=True`` lets a thread
        sleep in ``synchronize`` instead of asking again and again.
        """
    @staticmethod
    def from_handle(handle: int, *, device: _DeviceLike | None = None, owner: object = None) -> Event:
        """A foreign event by its native handle: portamem never destroys it, and keeps ``owner`` alive instead."""
    @staticmethod
    def wrap(obj: Any, *, device: _DeviceLike | None = None) -> Event:
        """A foreign event object as an Event, which keeps it alive: cuda-python, hip-python, CuPy, PyTorch."""
    @property
    def handle(self) -> int:
        """The native event as a number, for other libraries. Raises ValueError for a closed event."""
    @property
    def device(self) -> Device:
        """The device of the event; of a foreign one the device that was named. Raises ValueError for a closed event."""
    @property
    def is_closed(self) -> bool:
        """Whether the event has been closed."""
    @property
    def is_done(self) -> bool:
        """Whether the work before the mark has run, or there is no mark yet: what ``query()`` answers."""
    def query(self) -> bool:
        """True when the work before the mark has run, or there is no mark yet. Never blocks. Raises ValueError for a
        closed event, and for a mark within a capture, which never runs itself."""
    def record(self, stream: _StreamLike | None = None) -> None:
        """Marks the present end of a stream (None: the device's default stream). An earlier mark is forgotten.

        Raises ValueError for a stream of another device.
        """
    def synchronize(self) -> None:
        """Blocks until the work before the mark has run. Raises ValueError for a mark within a capture."""
    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to ``end``. Raises ValueError unless both events have ``timing=True``, and Error,
        named NotReady, if one of the marks has not happened."""
    def close(self) -> None:
        """Lets go of the event, which the runtime destroys if portamem owns it. What waits for its mark still does.
        Closing twice is fine."""
    def __enter__(self) -> Self:
        """Answers the event itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the event."""

class Buffer:
    """Untyped memory with its resource, device and stream, which it keeps alive.

    ``buf[a:b]`` is a sub-view: a Buffer over the same memory that keeps it alive. While sub-views, Views or Python
    buffers (``memoryview(buf)``) exist, ``close()`` raises BufferError and the buffer stays usable.
    """

    @staticmethod
    def from_handle(
        handle: int,
        nbytes: _Size,
        *,
        owner: object = None,
        device: _DeviceLike | None = None,
        stream: _StreamLike | None = None,
        readonly: bool = False,
    ) -> Buffer:
        """Foreign memory as a Buffer; portamem never frees it, and keeps ``owner`` until the buffer has ended and all
        declared work has run. ``stream``: the stream whose work may use the memory. ``readonly``: memory that no copy
        and no fill writes, and that consumers are told to read only.

        ValueError for an address that neither the runtime knows nor this process can read: memory that was freed, or
        memory of the heap from which kernels allocate, which kernels alone copy, fill and free."""
    @property
    def handle(self) -> int:
        """The address of the first byte, as a number, for other libraries. portamem does not see work that uses it. So
        when the buffer ends, its memory goes back behind all work on its own stream and on its declared streams. Raises
        ValueError for a closed buffer."""
    @property
    def nbytes(self) -> int:
        """The size in bytes, as it was asked for. A closed buffer keeps it."""
    @property
    def device_id(self) -> int:
        """Ordinal of the device that owns the memory; -1 for host memory."""
    @property
    def device(self) -> Device:
        """The device whose resource gave the memory, also where the memory is the host's."""
    @property
    def stream(self) -> Stream:
        """The stream on which the memory was allocated, and on which it goes back unless ``close`` names another."""
    @property
    def resource(self) -> MemoryResource | None:
        """The resource that gave the memory; None for foreign memory."""
    @property
    def owner(self) -> object:
        """The object that keeps foreign memory alive, which ``from_handle`` was given; None for a resource's memory."""
    @property
    def backend(self) -> _Backend:
        """The backend whose buffer it is: "host", "cuda" or "hip"."""
    @property
    def kind(self) -> _Kind:
        """What the memory is: "device", "pinned", "managed", "system", "async", "virtual" or "foreign"."""
    @property
    def is_host_accessible(self) -> bool:
        """Whether code on the host may read and write the memory by its address."""
    @property
    def is_device_accessible(self) -> bool:
        """Whether kernels of the device may read and write the memory by its address."""
    @property
    def readonly(self) -> bool:
        """Whether it is foreign memory that may be read only: no copy and no fill writes it."""
    @property
    def is_closed(self) -> bool:
        """Whether the buffer has been closed, or its memory released."""
    @property
    def exports(self) -> int:
        """The number of live sub-views, views, Python buffers and DLPack tensors of the memory. While there are some,
        ``close()`` is refused."""
    def __dlpack__(
        self,
        *,
        stream: SupportsIndex | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A DLPack capsule of the bytes, as uint8, or of a copy of them. It is an export of the buffer. The parameters
        and what it raises are those of ``View.__dlpack__``."""
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and ID. BufferError for memory that it has no device for."""
    def _dlpack_devices(self) -> list[tuple[int, int]]: ...
    def view(
        self, dtype: Any = "uint8", shape: SupportsIndex | Sequence[SupportsIndex] | None = None, *, offset: _Size = 0
    ) -> View:
        """The memory, or a part of it, as elements of a type: a View, which shares the memory and keeps the buffer
        alive.

        ``dtype`` is a name ("float32"), a NumPy type or a Python type. ``shape`` None is one dimension, of as many
        elements as fit. ``offset`` is in bytes. Raises ValueError where the elements do not fit or would not be
        aligned.
        """
    def copy_to(self, dst: _Memory, *, stream: _StreamLike | None = None) -> Event | None:
        """Copies all bytes to ``dst``, which must be of the same size, as ``copy(dst, self)`` does.

        With a stream the copy is queued, and the answer is an Event that is done when the bytes are there; both ends
        are kept alive until then. Without one the bytes are there on return, behind all work declared on the memory,
        and the answer is None.
        """
    def copy_from(self, src: _Memory, *, stream: _StreamLike | None = None) -> Event | None:
        """Copies all bytes of ``src``, which must be of the same size, to this memory, as ``copy(self, src)`` does.
        A NumPy array may have strides: its elements move in C order.

        With a stream the copy is queued, and the answer is an Event that is done when the bytes are there; both ends
        are kept alive until then. Without one the bytes are there on return, behind all work declared on the memory,
        and the answer is None.
        """
    def fill(self, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None:
        """Sets every byte to ``value`` (0 to 255). With a stream the fill is queued and the answer is an Event. Without
        one it runs behind all work declared on the memory, and is done on return. Raises ValueError for read-only
        memory.
        """
    def prefetch(self, location: _LocationLike, *, stream: _StreamLike | None = None) -> Event | None:
        """Moves managed memory, and system memory that the device reaches, to a location: a Device, an ordinal,
        "host", "host_numa:3" or "host_numa_current". The contents stay as they are.

        With a stream the move is queued and the answer is an Event; without one it is done on return. Raises
        ValueError for memory that does not move.
        """
    def advise(self, advice: _Advice | _enums.MemoryAdvice, location: _LocationLike | None = None) -> None:
        """Tells the runtime at once how managed memory, or system memory that the device reaches, will be used.

        ``advice`` is one of:

        * "read_mostly", "unset_read_mostly": devices that read the memory may keep copies of it; ``location`` says
          nothing.
        * "preferred_location", "unset_preferred_location": pages stay at ``location``, which the former needs.
        * "accessed_by", "unset_accessed_by": ``location``, which both need, keeps the memory mapped, and takes no page
          fault.
        * "coarse_grain", "unset_coarse_grain": AMD's; the memory is coherent at the ends of kernels only.

        ``location`` is a Device, an ordinal or "host". Raises ValueError for memory that does not move, and Error
        where the runtime refuses the advice.
        """
    def range_attribute(self, name: _RangeAttribute | _enums.RangeAttribute) -> Any:
        """What was last advised or prefetched for the whole range.

        ``name`` is "read_mostly" (the answer is a bool), "preferred_location" or "last_prefetch_location" (an ordinal,
        "host", or None where pages differ or nothing was said), "accessed_by" (a list of such locations) or
        "coherency_mode" (AMD's; a number). Raises ValueError for memory that does not move.
        """
    def preferred(self, location: _LocationLike) -> AbstractContextManager[Self]:
        """Keeps the pages of managed memory, and of system memory that the device reaches, at ``location`` within a
        ``with`` block: ``with buffer.preferred(device):``. Afterwards they are kept where all of them were kept before,
        or nowhere if that was not one place. ``location`` and what it raises are those of ``advise``."""
    def record_stream(self, stream: _StreamLike) -> None:
        """Declares that work queued on ``stream`` from now on uses the memory. At the first call for a stream, that
        stream waits for the buffer's own stream. The memory goes back behind that work. Raises ValueError if the buffer
        or ``stream`` is closed, and if one of the two streams is captured."""
    def reallocate(self, nbytes: _Size, *, stream: _StreamLike | None = None, alignment: _Size = 256) -> None:
        """Gives the buffer the size ``nbytes``. The first bytes keep their values, as many as both sizes have.

        The address may change. A pool's memory keeps it where there is room, if no other stream uses the memory.
        ``stream`` (None: the buffer's) is where the copy runs, behind all work that was declared on the memory, and
        where the new memory may be used from and goes back. The old memory goes back behind the copy. The host waits
        for the copy where the resource is not stream-ordered, and where the runtime copies host memory on the CPU.
        ``alignment`` is of the new address, as for ``allocate``. The old alignment is not remembered: name it again.

        Raises BufferError while exports live; ValueError for a closed buffer, a sub-view, a PitchedBuffer, foreign
        memory, and a stream that is closed or captured; OutOfMemoryError where there is no memory, also for a much
        smaller size. The buffer is as it was then.
        """
    def save(self, file: _BytesFile, *, stream: _StreamLike | None = None) -> None:
        """Writes all bytes to a file: a path, which is overwritten, or a binary file object, from its position on.

        They go through a few pinned blocks, and are never whole in host memory. The call returns when they are
        written: behind the work on ``stream``, or for None behind all work that was declared on the memory. Raises
        TypeError for a file that is open as text, ValueError for a closed buffer, and what the file raises; the file
        may have a part of the bytes then.
        """
    def load(self, file: _BytesFile, *, stream: _StreamLike | None = None) -> None:
        """Fills the buffer with the next bytes of a file: a path, or a binary file object, from its position on.

        They go through a few pinned blocks, and are never whole in host memory; several threads read an ordinary file.
        The call returns when the bytes are there: behind the work on ``stream``, or for None behind all work that was
        declared on the memory. Raises ValueError for an ordinary file that has too few bytes, for read-only memory and
        for a closed buffer, and TypeError for a file that is open as text. Raises EOFError for any other file that ends
        too early, and what the file raises; the buffer may have a part of the bytes then.
        """
    def release(self) -> int:
        """Gives up ownership and returns the address; the caller hands it to the resource's ``deallocate``, on a stream
        behind all work that uses the memory, because the declared streams are forgotten. Raises BufferError while
        exports live, and ValueError for a sub-view, foreign memory or a closed buffer."""
    def close(self, *, stream: _StreamLike | None = None) -> None:
        """Gives the memory back to its resource on ``stream`` (None: the stream of the allocation), behind all work
        declared on it. Closing twice is fine. A sub-view only ends its export, and foreign memory is left to its
        owner.

        Raises BufferError while exports live, and the buffer then stays usable.
        """
    def __len__(self) -> int:
        """The size in bytes."""
    def __bool__(self) -> bool:
        """Whether it is open, of whatever size."""
    def __getitem__(self, key: slice, /) -> Buffer:
        """A slice of bytes with step 1, as a sub-view: a Buffer over the same memory, which keeps that memory alive."""
    def __buffer__(self, flags: int, /) -> memoryview:
        """The bytes for ``memoryview`` and others that take Python buffers, after the work declared on the memory.
        BufferError for memory that the host cannot reach."""
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses memory that the host cannot reach; NumPy takes the rest through the buffer protocol."""
    def __enter__(self) -> Self:
        """Answers the buffer itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the buffer, as ``close()`` does. An exception that ends the block is never hidden: where the close is
        refused then, the memory goes back with its last export."""

class PitchedBuffer(Buffer):
    """Rows of ``width`` bytes, ``pitch`` bytes apart."""

    @property
    def width(self) -> int:
        """The bytes of a row, without the padding behind it."""
    @property
    def height(self) -> int:
        """The number of rows."""
    @property
    def pitch(self) -> int:
        """The bytes from the beginning of one row to the beginning of the next."""

@final
class GrowableBuffer(Buffer):
    """Memory of a VirtualMemoryResource that gets another size without a copy and without another address.

    Addresses are reserved for ``capacity`` bytes; only the bytes that the buffer has take memory of the device.
    """

    @property
    def capacity(self) -> int:
        """The most bytes that the buffer can grow to at its address."""
    @property
    def mapped(self) -> int:
        """The bytes of device memory that the buffer takes now: its size in whole pieces, or 0 while it sleeps."""
    def resize(self, nbytes: _Size, *, stream: _StreamLike | None = None) -> None:
        """Gives the buffer the size ``nbytes``. The address stays, and so do the contents, as many as both sizes have;
        new bytes have undefined contents.

        More bytes: views and other exports stay valid with the size that they have, and work on any stream may use the
        new bytes at once. Fewer bytes: other threads can begin no use meanwhile (BufferError). The call waits for all
        work that was declared on the buffer and for that on ``stream`` (None: the buffer's), and memory goes back to
        the device in whole pieces, each about one part in 8 of the buffer. One thread at a time may resize a buffer.

        Raises BufferError for fewer bytes while exports live; ValueError for 0 bytes, more than ``capacity``, a closed
        buffer, and while the memory sleeps; OutOfMemoryError. The buffer is as it was then.
        """

@final
class View:
    """Typed memory of a Buffer: what array libraries take. A live View is an export of its buffer.

    Element types are NumPy's numbers, by name ("float32"), by ``numpy.dtype`` or by Python type, and those of ml_dtypes
    ("bfloat16", "float8_e4m3fn", "int4"); numbers of less than a byte have a byte each.
    """

    def __new__(
        cls,
        buffer: Buffer,
        dtype: Any = "uint8",
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        offset: _Size = 0,
        strides: Sequence[SupportsIndex] | None = None,
    ) -> Self:
        """Views the memory of a buffer, or a part of it, as elements of a type, as ``Buffer.view`` does. ``strides``
        are in bytes, of whole elements and from 0 on; None means C order."""
    @property
    def buffer(self) -> Buffer:
        """The buffer whose memory it is. Raises ValueError for a closed view."""
    @property
    def handle(self) -> int:
        """The address of the first element, as a number, for other libraries. Raises ValueError for a closed view."""
    @property
    def nbytes(self) -> int:
        """The size in bytes: ``size * itemsize``."""
    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The element type. ImportError for a type of ml_dtypes where that is not installed."""
    @property
    def typestr(self) -> str:
        """The element type as array interfaces spell it: "<f4". They do not know those of ml_dtypes: "<V2"."""
    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps. Copies, fills and reshapes take such Views alone."""
    @property
    def T(self) -> View:  # noqa: N802 (NumPy's name)
        """The same elements with the axes reversed: ``transpose()``."""
    @property
    def ndim(self) -> int:
        """The number of axes."""
    @property
    def size(self) -> int:
        """The number of elements in all."""
    @property
    def backend(self) -> _Backend:
        """The backend whose view it is: "host", "cuda" or "hip"."""
    @property
    def device_id(self) -> int:
        """The ordinal of the device that owns the memory; -1 for host memory."""
    @property
    def is_host_accessible(self) -> bool:
        """Whether code on the host may read and write the memory by its address."""
    @property
    def is_device_accessible(self) -> bool:
        """Whether kernels of the device may read and write the memory by its address."""
    @property
    def readonly(self) -> bool:
        """Whether its memory may be read only: no copy and no fill writes it, and every consumer is told."""
    @property
    def is_closed(self) -> bool:
        """Whether the view has been closed."""
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> View:
        """The same elements in another shape, as a new View of the same memory. The shape is given as one sequence or
        as several ints, of which one may be -1: what the others leave. Raises ValueError where the number of elements
        differs, and for a View that is not contiguous."""
    def ravel(self) -> View:
        """The same elements in one dimension, as a new View of the same memory: ``reshape(-1)``. Raises ValueError for
        a View that is not contiguous."""
    def view(self, dtype: Any = "uint8") -> View:
        """The same bytes as elements of another type, as a new View of the same memory, with a last axis that is longer
        or shorter. Raises ValueError where the elements do not fill that axis or would not be aligned, and for a View
        that is not contiguous."""
    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex]) -> View:
        """The same elements with the axes in the order given, as one sequence or as several ints; reversed, where none
        is given. Raises ValueError unless each axis is named once."""
    def copy_to(self, dst: _Memory, *, stream: _StreamLike | None = None) -> Event | None:
        """Copies all bytes to ``dst``, which must be of the same size; see ``Buffer.copy_to``. ValueError for a View
        that is not contiguous."""
    def copy_from(self, src: _Memory, *, stream: _StreamLike | None = None) -> Event | None:
        """Copies all bytes of ``src``, which must be of the same size, to this memory; see ``Buffer.copy_from``.
        ValueError for a View that is not contiguous."""
    def fill(self, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None:
        """Sets every byte (not every element) to ``value``, from 0 to 255. With a stream the fill is queued and the
        answer is an Event; without one it is done on return. ValueError for a View that is not contiguous."""
    def to_numpy(self, *, stream: _StreamLike | None = None) -> Any:
        """A new NumPy array with the contents; done on return, also with a stream. Of a View that is not contiguous all
        bytes from the first element to the last are copied to the host, and its elements there. ImportError for a type
        of ml_dtypes where that is not installed."""
    def to_torch(self) -> Any:
        """The same memory as a ``torch.Tensor``, which keeps it alive. Device and managed memory becomes a tensor of
        the device, ready on PyTorch's current stream; host memory a CPU tensor, after the work declared on it.

        ImportError without PyTorch; BufferError where the installed PyTorch cannot use the memory, and for read-only
        memory, of which PyTorch knows nothing."""
    def to_cupy(self) -> Any:
        """The same memory as a ``cupy.ndarray``, which keeps it alive, ready on CuPy's current stream. Page-locked
        memory goes too.

        ImportError without CuPy; BufferError where the installed CuPy cannot use the memory, and for read-only
        memory."""
    def to_jax(self) -> Any:
        """The same memory as a ``jax.Array``, which keeps it alive. Device and managed memory becomes an array of JAX's
        GPU, behind the work declared on it; host memory one of JAX's CPU, after that work.

        ImportError without JAX; BufferError where JAX would make a copy (types of 64 bits that it has not enabled, an
        address that is no multiple of 64 bytes, gaps), and for read-only memory, which JAX cannot be told."""
    def to_numba(self) -> Any:
        """The same memory as Numba's functions take it, which keeps it alive. Device and managed memory becomes a
        device array of Numba's CUDA target, of numba-cuda or numba-cuda-mlir, once the work declared on it has run;
        the device's default stream counts as declared from then on. Host memory becomes a NumPy array, which
        ``numba.njit`` takes; that needs no Numba.

        ImportError without a CUDA target of Numba; BufferError where it cannot use the memory, and for read-only memory
        of a device."""
    @staticmethod
    def from_dlpack(obj: Any, *, stream: _StreamLike | None = None) -> View:
        """The memory of any DLPack producer as a View, where it lies; a View is answered as it is.

        The View's buffer owns the producer's tensor: portamem calls its deleter once, when no view uses the memory
        any more and all declared work has run. With a stream, the memory is ready for work on that stream; without
        one it is ready on return. Host memory has no stream: what its producer has queued on it must be done before.

        Memory that may be read only, such as that of an array that is not writeable, becomes a read-only View. So does
        a capsule of before DLPack 1, which cannot tell, unless the producer's array interface says that it may be
        written.

        TypeError for what is no producer, or another backend's memory; ValueError for negative strides, for elements
        that have no name here, and under capture; BufferError for a tensor that is malformed, taken
        already, or of a newer major version of DLPack; and what the producer raises."""
    def __dlpack__(
        self,
        *,
        stream: SupportsIndex | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A DLPack capsule of the memory, or of a copy of it. It is an export: the buffer cannot be closed until the
        consumer has let go.

        ``stream`` is a number as DLPack defines it: the consumer's stream then waits for all work declared on the
        memory, and -1 waits for nothing. None means the default stream of device memory; of memory that the host
        reaches by its tag, the work is waited for here. A consumer's default stream counts as declared from then on;
        of another stream that ``record_stream`` did not declare, the memory goes back behind all work of the device.

        ``dl_device`` may be any device that the memory is (managed memory is also the device's and the CPU's), or
        (1, 0) for a copy on the CPU. ``copy=True`` copies to new memory of the same resource, on the stream that the
        memory came from, and the consumer's stream waits for that.

        BufferError for what cannot be had without a copy, for memory that DLPack has no device for (of ``host``, what
        stands for a GPU's), and for elements of less than a byte where the consumer is of before DLPack 1.1;
        ValueError for a stream that has no meaning."""
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and ID. BufferError for memory that it has no device for."""
    def _dlpack_devices(self) -> list[tuple[int, int]]: ...
    def __arrow_c_array__(self, requested_schema: CapsuleType | None = None) -> tuple[CapsuleType, CapsuleType]:
        """Arrow's capsules of a schema and of an array over the memory, after the work declared on it. The array is an
        export: the buffer cannot be closed until the consumer has let go. ``requested_schema`` changes nothing.

        BufferError for memory that the host cannot reach, for more or less than one dimension, for a View that is not
        contiguous, and for what is no integer and no float of 16, 32 or 64 bits."""
    def __arrow_c_device_array__(
        self, requested_schema: CapsuleType | None = None, **keywords: Any
    ) -> tuple[CapsuleType, CapsuleType]:
        """The same for memory of the host or of a device, with a device array. Its device is the CPU where the host
        reaches the memory, so for page-locked and for managed memory too, which PyArrow refuses as such. The work
        declared on the memory has run on return, so the array names no event. A device's default stream counts as
        declared from then on, where only the device reaches the memory.

        BufferError as for ``__arrow_c_array__``, and on the host backend for memory that stands for a GPU's;
        NotImplementedError for a keyword that is not None."""
    def _repr_html_(self) -> str: ...
    def close(self) -> None:
        """Ends the export. The buffer of ``empty``, ``zeros`` and ``asarray`` goes with its last View."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3, after the work declared on the memory. AttributeError for memory that
        the host cannot reach, and for types of ml_dtypes."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface by which GPU array libraries take memory, version 3: it names the stream that their work is to
        wait for, or the work is waited for here. AttributeError for memory that the device cannot reach, for types of
        ml_dtypes, and on the host backend."""
    def __len__(self) -> int:
        """The extent of the first axis. TypeError for a view without dimensions."""
    def __bool__(self) -> bool:
        """Whether it is open, of whatever size and contents."""
    def __iter__(self) -> Iterator[View]:
        """The parts along the first axis. TypeError for a view without dimensions."""
    def __getitem__(self, key: _Part | tuple[_Part, ...], /) -> View:
        """A part of the memory, as NumPy indexes it: ints, slices with a step from 1 on, None and ``...``. An int drops
        its axis. IndexError for too many of them and for an int beyond its axis; ValueError for a negative step."""
    def __buffer__(self, flags: int, /) -> memoryview:
        """The elements for ``memoryview`` and others that take Python buffers, after the work declared on the memory.
        BufferError for memory that the host cannot reach, for types of ml_dtypes, and for a consumer that wants an
        order that the memory has not."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The memory as a NumPy array of ml_dtypes; NumPy takes other types through the buffer protocol. BufferError
        for memory that the host cannot reach."""
    def __enter__(self) -> Self:
        """Answers the view itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the view."""

class MemoryResource:
    """Where buffers come from. A resource with live buffers refuses to close."""

    def allocate(self, nbytes: _Size, *, stream: _StreamLike | None = None, alignment: _Size = 256) -> Buffer:
        """A Buffer of ``nbytes`` bytes, which keeps the resource alive and gives the memory back to it when it goes.

        ``stream`` is where the memory may be used from, and where it goes back; other streams come in by
        ``Buffer.record_stream``, copies and fills. A stream-ordered resource requires it; elsewhere None is the
        device's default stream. ``alignment`` is a power of two, in bytes; resources that call the runtime for each
        allocation give up to 256.

        Raises OutOfMemoryError where there is no memory; ValueError for a closed resource, an alignment that cannot be
        had and, of stream-ordered memory, a stream of another device; and TypeError where the stream is missing.
        """
    def deallocate(self, ptr: int, nbytes: _Size | None = None, *, stream: _StreamLike | None = None) -> None:
        """Takes back memory that ``Buffer.release`` gave out, with its size, or by its address alone where ``size_of``
        knows the size. ValueError for what cannot be the resource's own: memory while nothing is out, another size than
        was asked for, and what the resource, or one that records, knows not to be out; else the runtime's Error."""
    def size_of(self, ptr: int) -> int | None:
        """The bytes that were asked for at an address that is out. None for any other address, and for a resource of
        another module. A pool takes no lock for it."""
    @property
    def device(self) -> Device:
        """The device whose memory the resource gives; of host memory the device that it was made for."""
    @property
    def device_id(self) -> int:
        """The ordinal of the device that owns the memory; -1 for host memory."""
    @property
    def backend(self) -> _Backend:
        """The backend whose resource it is: "host", "cuda" or "hip"."""
    @property
    def kind(self) -> _Kind:
        """What the memory is: "device", "pinned", "managed", "system", "async", "virtual" or "foreign". A pool's and an
        adaptor's is its upstream's."""
    @property
    def is_host_accessible(self) -> bool:
        """Whether code on the host may read and write the resource's memory by its address."""
    @property
    def is_device_accessible(self) -> bool:
        """Whether kernels of the device may read and write the resource's memory by its address."""
    @property
    def is_stream_ordered(self) -> bool:
        """Whether memory is allocated and freed in the order of a stream, without blocking the host. ``allocate``
        requires the stream then."""
    @property
    def is_closed(self) -> bool:
        """Whether the resource has been closed: it gives no memory any more."""
    @property
    def live_buffers(self) -> int:
        """The number of allocations that are out."""
    @property
    def live_bytes(self) -> int:
        """The bytes that are out, as they were asked for."""
    @property
    def cached(self) -> int | None:
        """Bytes that the resource holds and that are not in use; None where it cannot say, as of plain memory. An
        adaptor's are those of its upstream."""
    def close(self) -> None:
        """Gives back what the resource holds, and refuses allocations from then on. Closing twice is fine; the
        upstream stays open.

        Raises BufferError while buffers live, while a call is under way, and for the process's default resource.
        """
    def __enter__(self) -> Self:
        """Answers the resource itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the resource, as ``close()`` does; the process's default resource stays open. An exception that ends
        the block is never hidden: where the close is refused then, the resource goes with its last reference."""

@final
class PoolMemoryResource(MemoryResource):
    """Stream-ordered memory cut from chunks of ``upstream`` (by default plain device memory), which is kept alive.

    What is freed on a stream is used on it again at once, above 1 MiB by any thread; memory that the host reaches only
    when the work before its free has run. Other streams take memory over behind an event. ``stream`` is required for
    allocate.

    ``limit``: the most bytes to reserve. ``release``: how much of its peak the pool keeps when memory has come
    back, a share from 0 to 1, or a function of a PoolStats that answers the bytes to keep (None: all); by default
    everything stays until ``trim()``, until the upstream has no more, or until the pool would have more than its
    blocks needed. ``host_access=False``: buffers refuse the host also where it could reach the memory, which is
    then used again at once on its stream on every machine. ``shares_idle=False``: other resources that find no
    memory do not have what is idle here given back for them. ``initial_size``: bytes that the pool takes of the
    upstream when it is made, in one chunk. ``limit`` and ``initial_size`` also take a share of the device's memory,
    such as "70%".
    """

    def __init__(
        self,
        upstream: MemoryResource | None = None,
        *,
        device: _DeviceLike | None = None,
        limit: _Size | None = None,
        release: SupportsFloat | SupportsIndex | Callable[[PoolStats], _Size | None] | None = None,
        host_access: bool = True,
        shares_idle: bool = True,
        initial_size: _Size | None = None,
    ) -> None:
        """Makes a pool over ``upstream``, or over plain memory of ``device`` where that is None. The parameters are
        described with the class.

        Raises ValueError for a limit of 0, for a share that is not from 0 to 1, for a device that is not the
        upstream's, and for an initial size that is larger than the limit. Raises OutOfMemoryError where the initial
        size cannot be had.
        """
    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""
    @property
    def limit(self) -> int | None:
        """The most bytes that the pool reserves of its upstream; None where there is no limit.

        It can be set, to bytes, to a share of the device's memory such as "70%", or to None. Where the pool has
        reserved more, nothing goes back by itself: allocations that need more of the upstream raise OutOfMemoryError
        until the pool has less. ``trim(limit)`` gives back what is not out."""
    @limit.setter
    def limit(self, limit: _Size | None) -> None: ...
    @property
    def is_checked(self) -> bool | None:
        """Whether a memory checker is told which bytes are in use: AddressSanitizer of memory that the host reaches,
        compute-sanitizer of plain device memory on CUDA. None: it turns out with the first allocation."""
    def stats(self) -> PoolStats:
        """The pool's figures at about this moment: bytes used, reserved and free, the peak, and how allocations were
        met."""
    def snapshot(self) -> PoolSnapshot:
        """Every chunk and its pieces, as plain data that json takes: chunks have address, nbytes and pieces; pieces
        have address, nbytes and state ("free" with the identity of its stream, 0 for any; "cached", "live", "slab")."""
    def reset_peak(self) -> None:
        """Lets ``stats().peak`` start again at the bytes that are reserved now."""
    def trim(self, keep: _Size = 0, *, stream: _StreamLike | None = None) -> None:
        """Gives chunks without a live block back to the upstream until at most ``keep`` bytes are reserved, and waits
        for the work that used the pool's free memory. With a stream it waits for that stream's work only, and for
        another thread's trim; what is free on other streams stays where its work has not run, as does that of another
        thread's own default stream. Free of plain memory may itself wait for the device. ValueError for a stream of
        another device, and for one that is captured."""

class ResourceAdaptor(MemoryResource):
    """A resource over another one, whose memory it gives: its kind and its accessibility are that one's."""

    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""

@final
class StatisticsAdaptor(ResourceAdaptor):
    """Counts what goes through it: in all, by tag, by thread, and within scopes.

    Memory counts for the tag and the thread that allocated it, whichever thread frees it. What is given back has to be
    what was given: another address or another size is a ValueError.
    """

    def __init__(self, upstream: MemoryResource) -> None:
        """Makes an adaptor that counts what is allocated from ``upstream`` through it. The adaptor keeps the upstream
        alive."""
    @property
    def counts(self) -> MemoryCounts:
        """Bytes and allocations that have gone through the adaptor in all."""
    @property
    def by_tag(self) -> dict[str, MemoryCounts]:
        """By tag; "" is what had none."""
    @property
    def by_thread(self) -> dict[int, MemoryCounts]:
        """By ``threading.get_native_id()`` of the allocating thread. A number that the system gave to another thread
        later stands for both, with the larger peaks."""
    def reset_peak(self) -> None:
        """Peaks start again at what is current, those of scopes too."""
    def scope(self) -> StatisticsScope:
        """A context manager, whose ``counts`` start at 0. All threads count; scopes may be nested."""
    def _begin_scope(self) -> int: ...
    def _end_scope(self, scope: SupportsInt) -> None: ...
    def _scope_counts(self, scope: SupportsInt) -> MemoryCounts: ...

@final
class TrackingAdaptor(ResourceAdaptor):
    """Knows each allocation that is out: its size, stream, time, thread, tag and where in the program it was made.

    What is out when it is destroyed, or when the process exits, is printed to stderr; a close that is refused says
    where the memory was allocated. What is given back has to be what was given, as with StatisticsAdaptor.
    """

    def __init__(self, upstream: MemoryResource) -> None:
        """Makes an adaptor that knows each allocation of ``upstream`` that is made through it. The adaptor keeps the
        upstream alive."""
    def outstanding(self) -> list[OutstandingAllocation]:
        """The oldest first."""

@final
class LoggingAdaptor(ResourceAdaptor):
    """Writes what goes through it to a file, which it overwrites: one JSON object a line.

    ``path`` may have ``%r`` (the rank of a launched process), ``%h`` (the host's name), ``%p`` (the process) and ``%%``
    in it. The log is complete when the adaptor is closed or destroyed, or the process exits; ``portamem replay`` runs
    it again. ValueError where the file cannot be written, or another writes it.
    """

    def __init__(self, upstream: MemoryResource, path: str | bytes | os.PathLike[str]) -> None:
        """Makes an adaptor that writes what goes through it to the file at ``path``, and begins that file anew. The
        adaptor keeps the upstream alive."""
    @property
    def path(self) -> str:
        """The file that the adaptor writes, with the placeholders of the given path filled in."""
    def flush(self) -> None:
        """Hands what is written so far to the system, which otherwise sees it in pieces of 64 KiB."""

@final
class LimitingAdaptor(ResourceAdaptor):
    """Never has more than ``limit`` bytes out. Beyond it OutOfMemoryError, whose text names the limit, before the
    upstream is asked."""

    def __init__(self, upstream: MemoryResource, limit: _Size) -> None:
        """Makes an adaptor that never has more than ``limit`` bytes of ``upstream`` out. The adaptor keeps the
        upstream alive."""
    @property
    def limit(self) -> int:
        """The most bytes that the adaptor has out at once."""
    @property
    def allocated(self) -> int:
        """Bytes out, as they were asked for."""
    @property
    def available(self) -> int:
        """The bytes that may still go out before the limit is reached."""

@final
class FailureCallbackAdaptor(ResourceAdaptor):
    """Where the upstream has no memory, ``callback(nbytes)`` answers whether to try again, as often as it says True.

    It may free, trim and allocate. After False the upstream's OutOfMemoryError reaches the caller, as does whatever
    the callback raises."""

    def __init__(self, upstream: MemoryResource, callback: Callable[[int], bool]) -> None:
        """Makes an adaptor over ``upstream`` that calls ``callback(nbytes)`` where the upstream has no memory. The
        adaptor keeps both alive."""

@final
class FallbackAdaptor(ResourceAdaptor):
    """Takes memory of ``alternate`` where ``upstream`` has none. Each buffer goes back to the resource that gave it.

    The adaptor promises of its memory what the upstream promises, and its ``kind`` is the upstream's: the alternate is
    of the same device, is stream-ordered if and only if the upstream is, and its memory is reached at least from where
    the upstream's is. Where neither has memory, OutOfMemoryError has both refusals in its text. Under capture, memory
    that either has at hand is given. Any other failure of the upstream reaches the caller, and the alternate is not
    asked. As in every allocation, an upstream waits for memory that was dropped before it refuses."""

    def __init__(self, upstream: MemoryResource, alternate: MemoryResource) -> None:
        """Makes an adaptor over both resources, and keeps them alive. Raises ValueError for a closed resource, and for
        an alternate that cannot stand for the upstream."""
    @property
    def alternate(self) -> MemoryResource:
        """The resource that is asked second."""
    @property
    def alternate_live_buffers(self) -> int:
        """The buffers that are out of the alternate's memory through this adaptor."""
    @property
    def alternate_live_bytes(self) -> int:
        """Their bytes, as they were asked for."""

@final
class PrefetchAdaptor(ResourceAdaptor):
    """Prefetches what it allocates, on the stream of the allocation; ``location=None`` is that stream's device.

    For managed memory, and for system memory where the device has pageable memory access; ValueError for others."""

    def __init__(self, upstream: MemoryResource, location: _LocationLike | None = None) -> None:
        """Makes an adaptor that prefetches memory of ``upstream`` to ``location``. The adaptor keeps the upstream
        alive."""
    @property
    def location(self) -> int | str | None:
        """Where memory is prefetched to: an ordinal, "host", "host_numa:3" or "host_numa_current"; None is the device
        of each allocation's stream."""

@final
class FixedSizeMemoryResource(MemoryResource):
    """Blocks of one size, carved from chunks of ``upstream``: an allocation of up to ``block_size`` takes a block.

    Memory that only devices reach is stream-ordered: a freed block is its stream's next one at once, and another's
    behind an event. Memory that the host reaches is given out again when the work before its free has run.
    ``blocks_per_chunk``: taken from the upstream at a time; None is as many as fill 1 MiB."""

    def __init__(
        self, upstream: MemoryResource, block_size: _Size, *, blocks_per_chunk: SupportsIndex | None = None
    ) -> None:
        """Makes a resource of equal blocks over ``upstream``, which it keeps alive. The parameters are described with
        the class."""
    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""
    @property
    def block_size(self) -> int:
        """The most bytes that a block holds; a larger allocation raises ValueError."""
    @property
    def blocks_per_chunk(self) -> int:
        """The number of blocks that the resource takes of its upstream at a time."""
    @property
    def reserved(self) -> int:
        """Bytes that the upstream has given."""
    def trim(self, keep: _Size = 0) -> None:
        """Gives chunks without a live block back to the upstream, behind their last uses, until at most ``keep`` bytes
        are reserved."""

@final
class MonotonicMemoryResource(MemoryResource):
    """Carves buffers one behind the other out of chunks of ``upstream``, each chunk twice as large as the one before.

    Closing a buffer only lowers the count of live buffers; no memory comes back before ``release()`` or ``close()``,
    which need that no buffer lives."""

    def __init__(self, upstream: MemoryResource, *, initial_size: _Size = 1048576) -> None:
        """Makes a resource that carves buffers out of chunks of ``upstream``, which it keeps alive. The first chunk is
        of ``initial_size`` bytes, unless an allocation needs a larger one."""
    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""
    @property
    def initial_size(self) -> int:
        """The bytes of the first chunk."""
    @property
    def reserved(self) -> int:
        """Bytes that the upstream has given."""
    def release(self) -> None:
        """Gives all memory back, behind every stream that used it. BufferError while buffers live."""

@final
class CallbackMemoryResource(MemoryResource):
    """Allocates by ``allocate(nbytes, stream) -> address`` and frees by ``deallocate(address, nbytes, stream)``.

    Both are Python functions, or C functions ``void* (size_t nbytes, void* stream, void* user_data)`` and
    ``void (void* ptr, size_t nbytes, void* stream, void* user_data)`` as ctypes function pointers, objects with an
    ``address`` (Numba's cfunc) or addresses; those run without the GIL. nbytes is never 0, the address is aligned to
    256 bytes, 0 means that there is no memory. What a Python function raises reaches the caller unchanged. They are
    called with no lock held, and may use other resources and pools that stand on this one.

    ``kind``, ``host_accessible`` and ``stream_ordered`` say what the memory is; the latter two follow from the kind
    unless given. Unless it is stream-ordered, ``deallocate`` is called when the work on the stream has run.

    A ``deallocate`` that raises has not taken the memory, which is still out, and it is called again for that memory:
    when the program closes the buffer again, and for a dropped buffer until it returns. Only the first exception for a
    dropped buffer is reported, as unraisable."""

    def __init__(
        self,
        allocate: Callable[[int, Stream], SupportsIndex] | SupportsIndex | Any,
        deallocate: Callable[[int, int, Stream], object] | SupportsIndex | Any,
        *,
        device: _DeviceLike | None = None,
        kind: _Kind | _enums.MemoryKind = "device",
        host_accessible: bool | None = None,
        stream_ordered: bool | None = None,
        user_data: SupportsIndex = 0,
    ) -> None:
        """Makes a resource of two functions, which it keeps alive. The parameters are described with the class;
        ``user_data`` is an address that C functions are handed."""

@final
class DeviceMemoryResource(MemoryResource):
    """Plain Malloc and Free. (cuda.core's class of this name is a pool: that is AsyncMemoryResource here.)"""

    def __init__(
        self, device: _DeviceLike | None = None, *, coherence: _DeviceCoherence | _enums.Coherence = "default"
    ) -> None:
        """Makes a resource of plain memory of a device (None: the calling thread's current one).

        ``coherence`` says how host and device see each other's writes while a kernel runs: "default", "fine_grained"
        or "uncached". The latter two are AMD's: an allocation raises Error where the device has no such memory.
        """
    @property
    def coherence(self) -> _DeviceCoherence:
        """The coherence that was asked for."""
    def allocate_pitched(
        self, width: _Size, height: SupportsIndex, *, stream: _StreamLike | None = None
    ) -> PitchedBuffer:
        """``height`` rows of ``width`` bytes as a PitchedBuffer: the runtime pads each row so that the next one is
        aligned.

        ``stream`` is as for ``allocate``. Raises OutOfMemoryError where there is no memory.
        """

@final
class PinnedMemoryResource(MemoryResource):
    """Page-locked host memory. Coherent unless ``coherence="non_coherent"`` is asked for.

    The chunks of resources over it (pools among them) are had as those of PrefaultedPinnedMemoryResource, unless
    anything but the defaults was asked for."""

    def __init__(
        self,
        device: _DeviceLike | None = None,
        *,
        portable: bool = True,
        mapped: bool = True,
        write_combined: bool = False,
        coherence: _PinnedCoherence | _enums.Coherence = "default",
    ) -> None:
        """Makes a resource of page-locked host memory for a device (None: the calling thread's current one).

        ``portable``: the memory is page-locked for all devices, not for this one alone. ``mapped``: kernels reach the
        memory by an address. ``write_combined``: the host writes fast and reads very slowly. ``coherence``, which
        says how host and device see each other's writes while a kernel runs, is "default", "coherent" or
        "non_coherent".
        """
    @property
    def coherence(self) -> _PinnedCoherence:
        """The coherence that was asked for."""

@final
class PrefaultedPinnedMemoryResource(MemoryResource):
    """Page-locked host memory in whole pages, which several threads have prefaulted, huge where the system allows it
    and near the device, and registered with the runtime. That takes a tenth of the time of PinnedMemoryResource.
    Where the device's capabilities do not say that registered memory is coherent and has one address everywhere, it is
    HostMalloc's, and the next piece, of 1 to 256 MiB, is allocated in the background while others are out; no limit
    counts it. For many small buffers, take a pool."""

    def __init__(self, device: _DeviceLike | None = None) -> None:
        """Makes a resource of page-locked host memory near a device (None: the calling thread's current one)."""
    @property
    def registers(self) -> bool:
        """Whether new memory is registered pages; False: HostMalloc's."""

@final
class ManagedMemoryResource(MemoryResource):
    """Managed (unified) memory: one address for host and device."""

    def __init__(self, device: _DeviceLike | None = None, *, attach: _Attach | _enums.Attach = "global") -> None:
        """Makes a resource of managed memory of a device (None: the calling thread's current one).

        ``attach`` says which devices may touch the memory from the start: "global" (all devices) or "host" (none).
        """

@final
class SystemMemoryResource(MemoryResource):
    """Ordinary page-aligned host memory; device-accessible where the device has pageable memory access."""

    def __init__(self, device: _DeviceLike | None = None) -> None:
        """Makes a resource of ordinary host memory for a device (None: the calling thread's current one)."""

@final
class AsyncMemoryResource(MemoryResource):
    """Stream-ordered memory of a driver pool: by default a pool of its own that keeps what it has
    (release threshold = maximum). ``stream`` is required for allocate."""

    def __init__(
        self, device: _DeviceLike | None = None, *, release_threshold: _Size | None = None, max_size: _Size = 0
    ) -> None:
        """Makes a driver pool on a device (None: the calling thread's current one), which the resource owns.

        ``release_threshold``: the bytes that the pool keeps at a synchronize; None keeps all. ``max_size``: the most
        bytes of the pool; 0 is as large as the device. Raises Error, named NotSupported, on a device without pools.
        """
    @staticmethod
    def default_pool(device: _DeviceLike | None = None) -> AsyncMemoryResource:
        """Over the pool that the device came with, whose settings are left alone."""
    @staticmethod
    def from_handle(pool: int, device: _DeviceLike, *, owner: object = None) -> AsyncMemoryResource:
        """Over a foreign pool by its native handle: portamem never destroys it, leaves its settings alone, and keeps
        ``owner`` alive instead."""
    @property
    def pool_handle(self) -> int:
        """The native pool as a number, for other libraries. Raises ValueError for a closed resource."""
    @property
    def owns_pool(self) -> bool:
        """Whether the resource made the pool. portamem keeps that pool for a later resource, and never destroys it."""
    @property
    def release_threshold(self) -> int:
        """The bytes that the pool keeps at a synchronize; 2**64 - 1 keeps all. It can be set."""
    @release_threshold.setter
    def release_threshold(self, nbytes: _Size) -> None: ...
    @property
    def used(self) -> int:
        """Bytes that are allocated from the pool, by all its users."""
    @property
    def used_high(self) -> int:
        """The most bytes that were allocated from the pool at once, since ``reset_high()``."""
    @property
    def reserved(self) -> int:
        """Bytes that the pool holds of the device."""
    @property
    def reserved_high(self) -> int:
        """The most bytes that the pool held of the device at once, since ``reset_high()``."""
    def reset_high(self) -> None:
        """Lets ``used_high`` and ``reserved_high`` start again at what is current."""
    def trim(self, keep: _Size = 0) -> None:
        """Gives unused memory back to the driver until at most ``keep`` bytes are reserved. Memory in use stays."""
    @property
    def reuse_follow_event_dependencies(self) -> bool:
        """Whether the pool reuses memory that was freed on another stream where an event already orders the two. It
        can be set."""
    @reuse_follow_event_dependencies.setter
    def reuse_follow_event_dependencies(self, on: bool) -> None: ...
    @property
    def reuse_allow_opportunistic(self) -> bool:
        """Whether the pool reuses memory on any stream once the free has run. It can be set."""
    @reuse_allow_opportunistic.setter
    def reuse_allow_opportunistic(self, on: bool) -> None: ...
    @property
    def reuse_allow_internal_dependencies(self) -> bool:
        """Whether the pool may make a stream wait for a free on another, to reuse that memory. It can be set."""
    @reuse_allow_internal_dependencies.setter
    def reuse_allow_internal_dependencies(self, on: bool) -> None: ...
    def access(self, device: _DeviceLike) -> _Access:
        """What a device may do with the pool's memory: "none", "read" or "read_write"."""
    def set_access(self, device: _DeviceLike, access: _Access | _enums.Access) -> None:
        """Allows a device to use the pool's memory: "none", "read" or "read_write".

        Raises Error where the devices have no path to each other, or the runtime does not know that access.
        """

@final
class VirtualMemoryResource(MemoryResource):
    """Device memory that is mapped to reserved addresses: a block can grow and shrink at its address, and sleep.

    A block takes whole multiples of the granularity, 2 MiB on most devices, and each piece that is mapped costs about
    0.1 ms, so use it for large memory.
    """

    def __init__(self, device: _DeviceLike | None = None, *, reserve: _Size = 0) -> None:
        """Makes the resource on a device (None: the calling thread's current one).

        ``reserve``: the fewest bytes of addresses that an allocation gets, so that ``Buffer.reallocate`` can grow it in
        place. They cost no memory of the device. Raises Error, named NotSupported, on a device without virtual memory.
        """
    @property
    def granularity(self) -> int:
        """The bytes of which memory is mapped in multiples."""
    @property
    def reserve(self) -> int:
        """The fewest bytes of addresses that an allocation gets."""
    @property
    def mapped(self) -> int:
        """The bytes of device memory that all blocks have now: 0 while the resource sleeps."""
    @property
    def kept(self) -> int:
        """The bytes of host memory that keep the contents while the resource sleeps: 0 while it is awake."""
    @property
    def is_asleep(self) -> bool:
        """Whether the memory is away now."""
    def allocate_growable(
        self, nbytes: _Size, capacity: _Size | None = None, *, stream: _StreamLike | None = None
    ) -> GrowableBuffer:
        """``nbytes`` of memory as a GrowableBuffer, at addresses for ``capacity`` bytes (None: as many as the device
        has memory). Raises ValueError for 0 bytes, and for more than ``capacity``; otherwise as ``allocate`` does."""
    def sleep(self, *, contents: Literal["keep", "drop"] = "keep") -> None:
        """Gives the memory of every block back to the device, and keeps the addresses. It waits for all work of the
        device first. Until ``wake()``, portamem refuses each use of the buffers' bytes (ValueError); closing them is
        allowed.

        ``contents``: "keep" has the host keep a copy (of a pool's chunk, of what the pool has out), "drop" lets them
        go. The program sees to it that no work uses the buffers from here to ``wake()``: neither by addresses that it
        took from ``handle`` or from exports, nor by calls of other threads while this one runs. A resource that sleeps
        already stays so. Raises MemoryError where the host has no memory for the copy, and ValueError within a capture;
        the resource is awake then.
        """
    def wake(self) -> None:
        """Gives every block memory again, at its address, with the contents that ``sleep`` kept. A resource that is
        awake stays so. Raises OutOfMemoryError, and ValueError within a capture; the resource sleeps on then, and has
        all that it kept."""

@final
class HostRegistration:
    """Page-locks memory that a Python object owns, until closed. Keeps the object and its Python buffer. If it is
    dropped without ``close()``, portamem unlocks the memory later, behind the work declared on it."""

    def __init__(
        self,
        obj: _HostMemory,
        *,
        device: _DeviceLike | None = None,
        portable: bool = True,
        mapped: bool = True,
        read_only: bool = False,
    ) -> None:
        """Page-locks the memory of ``obj`` for a device (None: the calling thread's current one), so that copies of it
        are fast and kernels reach it.

        ``portable``: the memory is page-locked for all devices, not for this one alone. ``mapped``: kernels reach the
        memory by an address. ``read_only``: devices may only read it, and ``obj`` may be read-only too. Raises Error
        where the memory is registered already, or the runtime refuses.
        """
    @property
    def handle(self) -> int:
        """The address of the first byte on the host, as a number. Raises ValueError for a closed registration."""
    @property
    def device_handle(self) -> int:
        """The address by which kernels of the device reach the first byte, as a number; the host's may be another."""
    @property
    def nbytes(self) -> int:
        """The size in bytes."""
    @property
    def backend(self) -> _Backend:
        """The backend whose registration it is: "host", "cuda" or "hip"."""
    @property
    def is_closed(self) -> bool:
        """Whether the registration has been closed: the memory is ordinary again."""
    def close(self) -> None:
        """Blocks until all work declared on the memory has run, and unlocks it. A second close does nothing."""
    def __enter__(self) -> Self:
        """Answers the registration itself."""
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """Closes the registration, as ``close()`` does. An exception that ends the block is never hidden: where the
        close is refused then, the registration goes with its last reference."""

@final
class PointerInfo:
    """What the runtime says of an address, and, as ``block_base``, ``block_nbytes`` and ``resource``, what portamem
    knows of it: ``base`` and ``nbytes`` are those of a pool's whole chunk, the block is the pool's."""

    @property
    def kind(self) -> _PointerKind:
        """What the memory is to the runtime: "unregistered", "host", "device" or "managed"."""
    @property
    def device_id(self) -> int | None:
        """The ordinal of the device that the memory belongs to; None where there is none."""
    @property
    def base(self) -> int | None:
        """The address at which the allocation begins; None where the runtime does not say."""
    @property
    def nbytes(self) -> int | None:
        """The bytes of the whole allocation; None where the runtime does not say."""
    @property
    def block_base(self) -> int | None:
        """The address at which the block of a resource begins that has the address out; None where there is none. For
        memory of pools, of FixedSizeMemoryResource, MonotonicMemoryResource and CallbackMemoryResource an address
        inside of the block will do; of other resources, and with PORTAMEM_DEBUG=1, it has to be the first."""
    @property
    def block_nbytes(self) -> int | None:
        """The bytes that were asked for of that block."""
    @property
    def resource(self) -> MemoryResource | None:
        """The resource that the block was allocated from, as ``resource_of`` answers it; the record keeps it alive."""
    @property
    def host_pointer(self) -> int | None:
        """The address by which the host reaches the memory; None where it does not."""
    @property
    def device_pointer(self) -> int | None:
        """The address by which the device reaches the memory; None where it does not."""
    @property
    def flags(self) -> int:
        """The runtime's flags of the allocation, as a number."""
    @property
    def ipc_capable(self) -> bool | None:
        """Whether the memory can go to another process by a legacy IPC handle. CUDA says no for memory of pools and
        for virtual, managed and pinned memory; None where the runtime does not say (most versions of AMD's)."""

def pointer_info(ptr: int | Buffer | View | HostRegistration) -> PointerInfo:
    """What the runtime says of an address, or of the memory of a Buffer, View or HostRegistration, and the block of a
    resource that it is in. Memory that the runtime does not know is an answer, with the kind "unregistered", and no
    error."""

def resource_of(ptr: int | Buffer | View | HostRegistration) -> MemoryResource | None:
    """The resource that has memory out at this address, whichever module or thread allocated it: the one whose
    ``deallocate(ptr)`` takes it back. Where one resource stands over another, the outermost is answered that the
    program allocated from. None for an address that no resource of this backend has out, also inside of a block."""

def size_of(ptr: int | Buffer | View | HostRegistration) -> int | None:
    """The bytes that were asked for at an address that a resource of this backend has out; None for any other."""

def deallocate(ptr: int, *, stream: _StreamLike | None = None) -> None:
    """Takes back memory that ``Buffer.release`` gave out, by its address alone, behind the work on ``stream``; None is
    the default stream of the resource's device. It does nothing for address 0. ValueError for an address that no
    resource of this backend has out; else as ``MemoryResource.deallocate``."""

def empty(
    shape: _Shape,
    dtype: Any = "float64",
    *,
    resource: MemoryResource | None = None,
    device: _DeviceLike | None = None,
    stream: _StreamLike | None = None,
) -> View:
    """A View of new memory, whose contents are whatever was there.

    The memory comes from ``resource``, or else from the current resource of ``device``. Without a stream it is there
    for every stream: the first call that tells its address waits until that is so."""

def zeros(
    shape: _Shape,
    dtype: Any = "float64",
    *,
    resource: MemoryResource | None = None,
    device: _DeviceLike | None = None,
    stream: _StreamLike | None = None,
) -> View:
    """A View of new memory, all bytes zero. With a stream, that is so from there on in the stream's order."""

def copy(dst: _Memory, src: _Memory, *, stream: _StreamLike | None = None) -> Event | None:
    """Copies all of ``src`` to ``dst``, which must be of the same size and not overlap it. One of them may be host
    memory with strides, such as a slice of a NumPy array: its elements move in C order.

    With a stream returns an Event that is done when the bytes are there; both ends are kept alive until then. Without
    one the bytes are there on return, and None is returned."""

def copy_2d(
    dst: _Memory,
    src: _Memory,
    *,
    width: _Size | None = None,
    height: SupportsIndex | None = None,
    dst_pitch: _Size | None = None,
    src_pitch: _Size | None = None,
    stream: _StreamLike | None = None,
) -> Event | None:
    """Copies ``height`` rows of ``width`` bytes. A PitchedBuffer gives its own width, height and pitch where they are
    left out; other memory is taken as rows without padding."""

def copy_3d(
    dst: _Memory,
    src: _Memory,
    *,
    width: _Size | None = None,
    height: SupportsIndex,
    depth: SupportsIndex,
    dst_pitch: _Size | None = None,
    src_pitch: _Size | None = None,
    dst_rows: SupportsIndex | None = None,
    src_rows: SupportsIndex | None = None,
    stream: _StreamLike | None = None,
) -> Event | None:
    """Copies a box of ``depth`` slices of ``height`` rows of ``width`` bytes from one volume to another.

    A volume's slices begin ``dst_rows`` or ``src_rows`` rows apart; left out, that is ``height``. A PitchedBuffer gives
    its own width and pitch where they are left out (``allocate_pitched(width, rows * slices)`` makes a volume); other
    memory is taken as rows without padding. A box within a volume is given as the part of its memory from the box's
    first byte on: ``volume[offset:]``."""

def fill_2d(dst: PitchedBuffer, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None:
    """Sets every byte of the rows to ``value``, from 0 to 255, and none of the padding between them.

    With a stream the fill is queued, and the answer is an Event; without one it is done on return, behind all work
    declared on the memory, and the answer is None.
    """

def from_dlpack(obj: Any, *, stream: _StreamLike | None = None) -> View:
    """The memory of any DLPack producer as a View, where it lies: see ``View.from_dlpack``."""

def current_resource(device: _DeviceLike | None = None) -> MemoryResource:
    """The resource that allocations take from where none is named: that of the innermost using() of this context, else
    the process's default (``default_resource``)."""

def default_resource(device: _DeviceLike | None = None) -> MemoryResource:
    """The resource that allocations of the process take from where no using() is open: the one that
    ``set_default_resource`` stored, else one that is made at first use and whose close is refused.

    ``PORTAMEM_DEFAULT`` names the one that is made: ``pool`` (a PoolMemoryResource over plain device memory, as without
    the setting), ``driver`` (an AsyncMemoryResource), ``plain`` (a DeviceMemoryResource) or ``managed`` (a
    PoolMemoryResource over managed memory). ValueError says that it cannot be read."""

def set_default_resource(device: _DeviceLike | None, resource: MemoryResource | None) -> None:
    """Makes ``resource`` the default of its device (None: the calling thread's current device) for all threads and all
    modules of the process, C and C++ ones too.

    The process keeps it until another is set. ``resource=None`` sets back the one that is made at first use. Live
    buffers keep the resource that they are from. The resource may be closed while it is the default; allocations from
    it raise ValueError then. ValueError is raised where it is closed already, or is another device's."""

def _staged_copies() -> tuple[int, int]: ...
def _order_begin() -> int: ...
def _order_findings(
    session: int,
) -> list[tuple[str, int, int, tuple[str, str, str, int, int], tuple[str, str, str, int, int], str, int, str]]: ...
def _order_end(session: int) -> None: ...
def _push_tag(name: str) -> int: ...
def _pop_tag(number: SupportsInt) -> None: ...
def current_tag() -> str:
    """This thread's tag; "" where none is open."""

@final
class _LibraryHook:
    def __init__(self, resource: MemoryResource | None) -> None: ...
    @property
    def noted(self) -> int: ...
    @property
    def held(self) -> int: ...
    def torch_functions(self) -> dict[str, int]: ...
    def tvm_ffi_functions(self, stream_of: int) -> dict[str, int]: ...
    def cupy_functions(
        self, current_stream: int, current_owner: Callable[[], object], out_of_memory: type[BaseException]
    ) -> dict[str, int]: ...

def _push_resource(resource: MemoryResource) -> tuple[int, object]: ...
def _pop_resource(scope: tuple[int, object]) -> None: ...
def recommend(purpose: _Purpose | _enums.Purpose, device: _DeviceLike | None = None) -> Recommendation:
    """Which kind of memory to take on a device (None: the calling thread's current one), and why.

    ``purpose`` is what the memory is for:

    * "kernels": kernels use it, and the host seldom does.
    * "shared": kernels and the host use the same bytes by turns.
    * "transfer": it is the host's end of copies to and from the device.
    * "larger": kernels use it, and it may be more than the device has.

    The answer follows from the device's capabilities alone. On a card with memory of its own it is "device", "managed",
    "pinned" and "managed", with "pinned" for "managed" where its pages do not move. Where host and device share one
    memory, or the device reads the host's page tables, pinned memory gains nothing.
    """

def held(device: _DeviceLike | Literal["host"] | None = None) -> int:
    """Bytes that portamem's resources have taken on a device (None: the calling thread's current one) and that are in
    use. What the process's default resource keeps idle does not count. ``device="host"`` asks for host memory."""
