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
from types import TracebackType
from typing import Any, Protocol, SupportsFloat, SupportsIndex, SupportsInt, TypeAlias, final

from typing_extensions import Buffer as _HostBuffer
from typing_extensions import Self

from portamem._pool import PoolStats
from portamem._record import MemoryCounts, OutstandingAllocation, StatisticsScope

_Size: TypeAlias = SupportsIndex | str
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_StreamLike: TypeAlias = Stream | Any
_DeviceLike: TypeAlias = Device | SupportsIndex
_LocationLike: TypeAlias = Device | SupportsIndex | str

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
_Memory: TypeAlias = Buffer | View | HostRegistration | _HostMemory | _HasDeviceArrayInterface

backend: str
_c_api: object  # the capsule that c_api.h describes
"""Which backend this module is: "host", "cuda" or "hip"."""

def runtime_version() -> int: ...
def driver_version() -> int: ...
def compiled_version() -> int: ...
def version_text(version: int) -> str: ...
def device_count() -> int:
    """Devices that this process can see; 0 where there are none. Raises portamem.Error where the runtime cannot say."""

def probe() -> tuple[int, int, str]:
    """``(device count, native code, text)`` of the runtime's first answer. Never raises."""

def _loads() -> int:
    """How many libraries this process has ever loaded."""

@final
class Device:
    """A device of this backend by ordinal; ``Device()`` is the calling thread's current one. Holds no resource."""

    def __init__(self, ordinal: _DeviceLike | None = None) -> None: ...
    @staticmethod
    def current() -> Device: ...
    def set_current(self) -> None: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def uuid(self) -> str: ...
    @property
    def pci_bus_id(self) -> str: ...
    @property
    def numa_node(self) -> int | None: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def probe(self) -> ProbedCapabilities:
        """Tries what no runtime tells, once per process; later calls return what was found.

        Creates the device's context, takes some MiB for a moment from a pool and a stream of its own, and leaves all
        settings as they were. Raises ValueError while a stream is captured."""
    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """Known faults of its runtime, and what portamem does about each. Raises ValueError where PORTAMEM_QUIRKS
        cannot be read."""
    def memory_info(self) -> MemoryInfo: ...
    def limit(self, name: str) -> int: ...
    def set_limit(self, name: str, nbytes: _Size) -> None: ...
    @property
    def malloc_heap_size(self) -> int:
        """Bytes of the heap from which kernels allocate; ``capabilities.malloc_heap_kind`` says what they bound.

        Set it before a kernel that uses the heap is loaded. Where the kind is "limit" that settles it for the life of
        the process, and takes the bytes out of the device's memory: loading fails where they are not there, and
        setting it later raises Error InvalidValue."""
    @malloc_heap_size.setter
    def malloc_heap_size(self, nbytes: _Size) -> None: ...
    @property
    def default_stream(self) -> Stream: ...
    @property
    def per_thread_stream(self) -> Stream: ...
    @property
    def stream_priority_range(self) -> tuple[int, int]: ...
    def synchronize(self) -> None: ...
    def can_access_peer(self, peer: _DeviceLike) -> bool: ...
    def enable_peer_access(self, peer: _DeviceLike) -> None: ...
    def disable_peer_access(self, peer: _DeviceLike) -> None: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Capabilities:
    """What a device can do, each asked of the device: never derived from a version or from a kind of memory.

    True, False, or None where the runtime, its version or its driver does not say. Reading it allocates nothing,
    creates no context and is allowed beside a capture. What can only be found by trying is in ``Device.probe()``."""

    @property
    def memory_pools(self) -> bool | None: ...
    @property
    def pool_handle_types(self) -> tuple[str, ...] | None:
        """Handles by which a pool can go to other processes: "posix_fd", "win32", "win32_kmt", "fabric"."""
    @property
    def managed_mode(self) -> str:
        """ "none", "host_resident" (it stays in one place) or "migrating" (pages move to who touches them).

        AMD moves pages on a fault with XNACK only (HIP's manual, unified memory); a device that shares the host's
        memory has nowhere to move them."""
    @property
    def concurrent_managed_access(self) -> bool | None: ...
    @property
    def pageable_memory_access(self) -> bool | None:
        """Whether the device reads and writes memory of malloc. AMD: whether XNACK is in effect."""
    @property
    def uses_host_page_tables(self) -> bool | None: ...
    @property
    def direct_host_access(self) -> bool | None:
        """Whether the host can read and write plain device memory. CUDA does not say; AMD: large BAR, or an APU."""
    @property
    def integrated(self) -> bool | None: ...
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
    def host_register(self) -> bool | None: ...
    @property
    def registered_pointer_is_device_pointer(self) -> bool | None: ...
    @property
    def stream_priorities(self) -> bool | None: ...
    @property
    def virtual_memory(self) -> bool | None: ...
    @property
    def virtual_memory_granularity(self) -> tuple[int, int] | None:
        """(minimum, recommended) bytes of which mapped pieces are multiples."""
    @property
    def virtual_memory_handle_types(self) -> tuple[str, ...] | None: ...
    @property
    def ipc_memory_handles(self) -> bool | None:
        """Whether plain device memory can go to other processes; which memory, ``pointer_info().ipc_capable`` says."""
    @property
    def ipc_event_handles(self) -> bool | None: ...
    @property
    def malloc_heap_kind(self) -> str | None:
        """What ``Device.malloc_heap_size`` means: "limit" (CUDA: all that kernels' malloc can give), "initial" (AMD:
        what the heap begins with; it grows) or "none"."""
    @property
    def peers(self) -> tuple[int, ...]:
        """Ordinals of the devices whose memory this one can address."""
    @property
    def compute_capability(self) -> tuple[int, int]: ...
    @property
    def multi_processor_count(self) -> int: ...
    @property
    def warp_size(self) -> int: ...
    def as_dict(self) -> dict[str, Any]: ...

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
    def stream_capture(self) -> bool | None: ...
    @property
    def host_register(self) -> bool | None: ...
    @property
    def registered_pointer_is_device_pointer(self) -> bool | None: ...
    @property
    def malloc_heap_settable(self) -> bool | None:
        """Whether malloc_heap_size could be set, when it was tried. Not tried where malloc_heap_kind is "initial"."""
    def as_dict(self) -> dict[str, Any]: ...

@final
class Quirk:
    """A known fault of a device's runtime, from a table in portamem/quirks.hpp."""

    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> str:
        """What portamem does: "free_on_allocating_stream", "at_least_eight_bytes", "explicit_copy_kind", "bridged" (met
        in any case, cannot be switched) or "report" (nothing: it is for the user to know)."""
    @property
    def is_active(self) -> bool:
        """False where it was switched off."""
    @property
    def about(self) -> str: ...
    @property
    def thread(self) -> str:
        """Where it was reported, in public."""
    def as_dict(self) -> dict[str, Any]: ...

def set_quirk(name: str, on: bool | None) -> bool | None:
    """Switches a quirk's policy on or off for resources that this backend makes from now on, and for its copies; None:
    as the table says.

    ``PORTAMEM_QUIRKS=name=off,other=on`` does the same from the start. Returns how it was switched before, for putting
    it back. Raises ValueError for a name that is none, and for a quirk that is met in any case; Error, named Forked,
    in a child of fork."""

@final
class MemoryInfo:
    """Bytes of a device: free and total as the runtime sees them, held as portamem counts its own."""

    @property
    def free(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def source(self) -> str:
        """The call that answered."""

@final
class Stream:
    """An in-order queue of work on a device. Owns its handle, unless it was made from one."""

    def __init__(
        self, device: _DeviceLike | None = None, *, nonblocking: bool = True, priority: int | None = None
    ) -> None: ...
    @staticmethod
    def from_handle(
        handle: int, *, device: _DeviceLike | None = None, owner: object = None, ends_announced: bool = False
    ) -> Stream:
        """Somebody else's stream, kept alive by ``owner``. ``ends_announced=True`` promises to ``close()`` it
        before its handle is destroyed: then pools' memory is freed there without an event each time."""
    @staticmethod
    def wrap(obj: Any) -> Stream:
        """A foreign stream object as a Stream, which keeps it alive: ``__cuda_stream__``, cuda-python, hip-python,
        CuPy, PyTorch. Keep it and pass it: the object itself, at each call, may become a new Stream each time."""
    @property
    def handle(self) -> int: ...
    @property
    def identity(self) -> int:
        """A number never reused in this process, unlike handles."""
    @property
    def device(self) -> Device: ...
    @property
    def backend(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def is_nonblocking(self) -> bool: ...
    @property
    def is_default(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def capture_status(self) -> str:
        """ "none", "active" or "invalidated"."""
    def begin_capture(self, mode: str = "global") -> None: ...
    def end_capture(self) -> None:
        """Ends a capture and drops its graph: portamem launches nothing."""
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def wait(self, other: Event | Stream) -> None: ...
    def record(self, event: Event | None = None) -> Event: ...
    def launch_host_func(self, fn: Callable[[], object]) -> None:
        """Runs ``fn`` on a thread of the runtime, in stream order. It may call nothing of portamem."""
    def close(self) -> None: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Event:
    """A mark in a stream."""

    def __init__(self, device: _DeviceLike | None = None, *, timing: bool = False, blocking: bool = False) -> None: ...
    @staticmethod
    def from_handle(handle: int, *, device: _DeviceLike | None = None, owner: object = None) -> Event: ...
    @staticmethod
    def wrap(obj: Any, *, device: _DeviceLike | None = None) -> Event:
        """A foreign event object as an Event, which keeps it alive: cuda-python, hip-python, CuPy, PyTorch."""
    @property
    def handle(self) -> int: ...
    @property
    def device(self) -> Device: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_done(self) -> bool: ...
    def query(self) -> bool: ...
    def record(self, stream: _StreamLike | None = None) -> None: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to ``end``; both need ``timing=True``."""
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

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
        """Foreign memory as a Buffer: never freed by portamem, ``owner`` kept alive instead. ``readonly``: memory that
        no copy and no fill writes, and that consumers are told to read only.

        ValueError for an address that neither the runtime knows nor this process can read: memory that was freed, or
        memory of the heap from which kernels allocate, which kernels alone copy, fill and free."""
    @property
    def handle(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device_id(self) -> int:
        """Ordinal of the device that owns the memory; -1 for host memory."""
    @property
    def device(self) -> Device: ...
    @property
    def stream(self) -> Stream: ...
    @property
    def resource(self) -> MemoryResource | None: ...
    @property
    def owner(self) -> object: ...
    @property
    def backend(self) -> str: ...
    @property
    def kind(self) -> str:
        """ "device", "pinned", "managed", "system", "async" or "foreign"."""
    @property
    def is_host_accessible(self) -> bool: ...
    @property
    def is_device_accessible(self) -> bool: ...
    @property
    def readonly(self) -> bool:
        """Whether it is foreign memory that may be read only: no copy and no fill writes it."""
    @property
    def is_closed(self) -> bool: ...
    @property
    def exports(self) -> int: ...
    def view(
        self, dtype: Any = "uint8", shape: SupportsIndex | Sequence[SupportsIndex] | None = None, *, offset: _Size = 0
    ) -> View: ...
    def copy_to(self, dst: _Memory, *, stream: _StreamLike | None = None) -> Event | None: ...
    def copy_from(self, src: _Memory, *, stream: _StreamLike | None = None) -> Event | None: ...
    def fill(self, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None:
        """Sets every byte to ``value`` (0 to 255)."""
    def prefetch(self, location: _LocationLike, *, stream: _StreamLike | None = None) -> Event | None: ...
    def advise(self, advice: str, location: _LocationLike | None = None) -> None: ...
    def range_attribute(self, name: str) -> Any: ...
    def record_stream(self, stream: _StreamLike) -> None:
        """Declares that work on ``stream`` uses this memory: it is given back only behind that work."""
    def release(self) -> int:
        """Gives up ownership and returns the address; the caller hands it to the resource's ``deallocate``, on a stream
        behind all work that uses the memory: what copies and fills have declared of it is forgotten here."""
    def close(self, *, stream: _StreamLike | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool:
        """Whether it is open, of whatever size."""
    def __getitem__(self, key: slice, /) -> Buffer: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses memory that the host cannot reach; NumPy takes the rest through the buffer protocol."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

class PitchedBuffer(Buffer):
    """Rows of ``width`` bytes, ``pitch`` bytes apart."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def pitch(self) -> int: ...

@final
class View:
    """Typed, C-contiguous memory of a Buffer: what array libraries take. A live View is an export of its buffer."""

    def __new__(
        cls,
        buffer: Buffer,
        dtype: Any = "uint8",
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        offset: _Size = 0,
    ) -> Self: ...
    @property
    def buffer(self) -> Buffer: ...
    @property
    def handle(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str:
        """The name as NumPy spells it: "float32"."""
    @property
    def typestr(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def device_id(self) -> int: ...
    @property
    def is_host_accessible(self) -> bool: ...
    @property
    def is_device_accessible(self) -> bool: ...
    @property
    def readonly(self) -> bool:
        """Whether its memory may be read only: no copy and no fill writes it, and every consumer is told."""
    @property
    def is_closed(self) -> bool: ...
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> View: ...
    def copy_to(self, dst: _Memory, *, stream: _StreamLike | None = None) -> Event | None: ...
    def copy_from(self, src: _Memory, *, stream: _StreamLike | None = None) -> Event | None: ...
    def fill(self, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None: ...
    def to_numpy(self, *, stream: _StreamLike | None = None) -> Any:
        """A new NumPy array with the contents; done on return, also with a stream."""
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
    @staticmethod
    def from_dlpack(obj: Any, *, stream: _StreamLike | None = None) -> View:
        """The memory of any DLPack producer as a View, where it lies; a View is answered as it is.

        The View's buffer owns the producer's tensor: its deleter is called once, when nobody here uses the memory any
        more and all declared work has run. With a stream, the memory is ready for work on that stream; without one it
        is ready on return. Host memory has no stream: what its producer has queued on it must be done before.

        Memory that may be read only, such as that of an array that is not writeable, becomes a read-only View. So does
        a capsule of before DLPack 1, which cannot tell, unless the producer's array interface says that it may be
        written.

        TypeError for what is no producer, or another backend's memory; ValueError for memory that is not C-contiguous,
        for elements that have no name here, and under capture; BufferError for a tensor that is malformed, taken
        already, or of a newer major version of DLPack; and what the producer raises."""
    def __dlpack__(
        self,
        *,
        stream: SupportsIndex | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the memory, or of a copy of it. It is an export: the buffer cannot be closed until the
        consumer has let go.

        ``stream`` is a number as DLPack defines it: the consumer's stream then waits for all work declared on the
        memory, and -1 waits for nothing. None means the default stream of device memory; of memory that the host
        reaches by its tag, the work is waited for here. A consumer's default stream counts as declared from then on;
        of another stream that ``record_stream`` did not declare, the memory goes back behind all work of the device.

        ``dl_device`` may be any device that the memory is (managed memory is also the device's and the CPU's), or
        (1, 0) for a copy on the CPU. ``copy=True`` copies to new memory of the same resource, on the stream that the
        memory came from, and the consumer's stream waits for that.

        BufferError for what cannot be had without a copy, and for memory that DLPack has no device for (of ``host``,
        what stands for a GPU's); ValueError for a stream that has no meaning."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and ID. BufferError for memory that it has no device for."""
    def _dlpack_devices(self) -> list[tuple[int, int]]: ...
    def close(self) -> None:
        """Ends the export. The buffer of ``empty``, ``zeros`` and ``asarray`` goes with its last View."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool:
        """Whether it is open, of whatever size and contents."""
    def __iter__(self) -> Iterator[View]:
        """The parts along the first axis. TypeError for a view without dimensions."""
    def __getitem__(self, key: SupportsIndex | slice, /) -> View: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses memory that the host cannot reach; NumPy takes the rest through the buffer protocol."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

class MemoryResource:
    """Where buffers come from. A resource with live buffers refuses to close."""

    def allocate(self, nbytes: _Size, *, stream: _StreamLike | None = None, alignment: _Size = 256) -> Buffer: ...
    def deallocate(self, ptr: int, nbytes: _Size, *, stream: _StreamLike | None = None) -> None:
        """Takes back memory that ``Buffer.release`` gave out, with its size. ValueError for what cannot be the
        resource's own: memory while nothing is out, another size than was asked for (a pool: by more than a block's
        waste), and what the resource, or one that records, knows not to be out; else the runtime's Error."""
    @property
    def device(self) -> Device: ...
    @property
    def device_id(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_host_accessible(self) -> bool: ...
    @property
    def is_device_accessible(self) -> bool: ...
    @property
    def is_stream_ordered(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def live_buffers(self) -> int: ...
    @property
    def live_bytes(self) -> int: ...
    @property
    def cached(self) -> int | None:
        """Bytes that the resource holds without anybody using them; None where it cannot say, as of plain memory. An
        adaptor's are those of the resource below."""
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

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
    then used again at once on its stream on every machine. ``shares_idle=False``: other pools, which find no memory, do
    not have what is idle here given back for them.
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
    ) -> None: ...
    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""
    @property
    def limit(self) -> int | None: ...
    @property
    def is_checked(self) -> bool | None:
        """Whether a memory checker is told which bytes are in use: AddressSanitizer of memory that the host reaches,
        compute-sanitizer of plain device memory on CUDA. None: it turns out with the first allocation."""
    def stats(self) -> PoolStats: ...
    def snapshot(self) -> dict[str, Any]:
        """Every chunk and its pieces, as plain data that json takes: chunks have address, nbytes and pieces; pieces
        have address, nbytes and state ("free" with the identity of its stream, 0 for any; "cached", "live", "slab")."""
    def reset_peak(self) -> None: ...
    def trim(self, keep: _Size = 0) -> None:
        """Waits for the work that used what is free, and gives whole chunks back to the upstream until at most ``keep``
        bytes are reserved."""

class ResourceAdaptor(MemoryResource):
    """A resource over another one, whose memory it gives: its kind and its accessibility are that one's."""

    @property
    def upstream(self) -> MemoryResource:
        """The resource below, kept alive."""

@final
class StatisticsAdaptor(ResourceAdaptor):
    """Counts what goes through it: in all, by tag, by thread, and within scopes.

    Memory counts for the tag and the thread that allocated it, whoever frees it. What is given back has to be what was
    given: another address or another size is a ValueError.
    """

    def __init__(self, upstream: MemoryResource) -> None: ...
    @property
    def counts(self) -> MemoryCounts: ...
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

    def __init__(self, upstream: MemoryResource) -> None: ...
    def outstanding(self) -> list[OutstandingAllocation]:
        """The oldest first."""

@final
class LoggingAdaptor(ResourceAdaptor):
    """Writes what goes through it to a file, which it overwrites: one JSON object a line.

    ``path`` may have ``%r`` (the rank of a launched process), ``%h`` (the host's name), ``%p`` (the process) and ``%%``
    in it. The log is complete when the adaptor is closed or destroyed, or the process exits; ``portamem replay`` runs
    it again. ValueError where the file cannot be written, or another writes it.
    """

    def __init__(self, upstream: MemoryResource, path: str | bytes | os.PathLike[str]) -> None: ...
    @property
    def path(self) -> str: ...
    def flush(self) -> None:
        """Hands what is written so far to the system, which otherwise sees it in pieces of 64 KiB."""

@final
class LimitingAdaptor(ResourceAdaptor):
    """Never has more than ``limit`` bytes out. Beyond it OutOfMemoryError, whose text names the limit, before the
    upstream is asked."""

    def __init__(self, upstream: MemoryResource, limit: _Size) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def allocated(self) -> int:
        """Bytes out, as they were asked for."""
    @property
    def available(self) -> int: ...

@final
class FailureCallbackAdaptor(ResourceAdaptor):
    """Where the upstream has no memory, ``callback(nbytes)`` answers whether to try again, as often as it says True.

    It may free, trim and allocate. After False the upstream's OutOfMemoryError reaches the caller, as does whatever
    the callback raises."""

    def __init__(self, upstream: MemoryResource, callback: Callable[[int], bool]) -> None: ...

@final
class PrefetchAdaptor(ResourceAdaptor):
    """Prefetches what it allocates, on the stream of the allocation; ``location=None`` is that stream's device.

    For managed memory, and for system memory where the device has pageable memory access; ValueError for others."""

    def __init__(self, upstream: MemoryResource, location: _LocationLike | None = None) -> None: ...
    @property
    def location(self) -> int | str | None: ...

@final
class FixedSizeMemoryResource(MemoryResource):
    """Blocks of one size, carved from chunks of ``upstream``: an allocation of up to ``block_size`` takes a block.

    Memory that only devices reach is stream-ordered: a freed block is its stream's next one at once, and another's
    behind an event. Memory that the host reaches is given out again when the work before its free has run.
    ``blocks_per_chunk``: taken from the upstream at a time; None is as many as fill 1 MiB."""

    def __init__(
        self, upstream: MemoryResource, block_size: _Size, *, blocks_per_chunk: SupportsIndex | None = None
    ) -> None: ...
    @property
    def upstream(self) -> MemoryResource: ...
    @property
    def block_size(self) -> int: ...
    @property
    def blocks_per_chunk(self) -> int: ...
    @property
    def reserved(self) -> int:
        """Bytes that the upstream has given."""
    def trim(self, keep: _Size = 0) -> None:
        """Gives chunks without a live block back to the upstream, behind their last uses, until at most ``keep`` bytes
        are reserved."""

@final
class MonotonicMemoryResource(MemoryResource):
    """Carves buffers one behind the other out of chunks of ``upstream``, each chunk twice as large as the one before.

    Closing a buffer counts only: the memory goes back by ``release()`` or ``close()``, when no buffer lives."""

    def __init__(self, upstream: MemoryResource, *, initial_size: _Size = 1048576) -> None: ...
    @property
    def upstream(self) -> MemoryResource: ...
    @property
    def initial_size(self) -> int: ...
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
    unless given. Unless it is stream-ordered, ``deallocate`` is called when the work on the stream has run."""

    def __init__(
        self,
        allocate: Callable[[int, Stream], SupportsIndex] | SupportsIndex | Any,
        deallocate: Callable[[int, int, Stream], object] | SupportsIndex | Any,
        *,
        device: _DeviceLike | None = None,
        kind: str = "device",
        host_accessible: bool | None = None,
        stream_ordered: bool | None = None,
        user_data: SupportsIndex = 0,
    ) -> None: ...

@final
class DeviceMemoryResource(MemoryResource):
    """Plain Malloc and Free. (cuda.core's class of this name is a pool: that is AsyncMemoryResource here.)"""

    def __init__(self, device: _DeviceLike | None = None, *, coherence: str = "default") -> None: ...
    @property
    def coherence(self) -> str: ...
    def allocate_pitched(
        self, width: _Size, height: SupportsIndex, *, stream: _StreamLike | None = None
    ) -> PitchedBuffer: ...

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
        coherence: str = "default",
    ) -> None: ...
    @property
    def coherence(self) -> str: ...

@final
class PrefaultedPinnedMemoryResource(MemoryResource):
    """Page-locked host memory in whole pages, which several threads have prefaulted, huge where the system allows it
    and near the device, and registered with the runtime. That takes a tenth of the time of PinnedMemoryResource.
    Where the device's capabilities do not say that registered memory is coherent and has one address everywhere, it is
    HostMalloc's, and the next piece, of 1 to 256 MiB, is allocated in the background while others are out; no limit
    counts it. For many small buffers, take a pool."""

    def __init__(self, device: _DeviceLike | None = None) -> None: ...
    @property
    def registers(self) -> bool:
        """Whether new memory is registered pages; False: HostMalloc's."""

@final
class ManagedMemoryResource(MemoryResource):
    """Managed (unified) memory: one address for host and device."""

    def __init__(self, device: _DeviceLike | None = None, *, attach: str = "global") -> None: ...

@final
class SystemMemoryResource(MemoryResource):
    """Ordinary page-aligned host memory; device-accessible where the device has pageable memory access."""

    def __init__(self, device: _DeviceLike | None = None) -> None: ...

@final
class AsyncMemoryResource(MemoryResource):
    """Stream-ordered memory of a driver pool: by default a pool of its own that keeps what it has
    (release threshold = maximum). ``stream`` is required for allocate."""

    def __init__(
        self, device: _DeviceLike | None = None, *, release_threshold: _Size | None = None, max_size: _Size = 0
    ) -> None: ...
    @staticmethod
    def default_pool(device: _DeviceLike | None = None) -> AsyncMemoryResource:
        """Over the pool that the device came with, whose settings are left alone."""
    @staticmethod
    def from_handle(pool: int, device: _DeviceLike, *, owner: object = None) -> AsyncMemoryResource: ...
    @property
    def pool_handle(self) -> int: ...
    @property
    def owns_pool(self) -> bool: ...
    @property
    def release_threshold(self) -> int: ...
    @release_threshold.setter
    def release_threshold(self, nbytes: _Size) -> None: ...
    @property
    def used(self) -> int: ...
    @property
    def used_high(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def reserved_high(self) -> int: ...
    def reset_high(self) -> None: ...
    def trim(self, keep: _Size = 0) -> None: ...
    @property
    def reuse_follow_event_dependencies(self) -> bool: ...
    @reuse_follow_event_dependencies.setter
    def reuse_follow_event_dependencies(self, on: bool) -> None: ...
    @property
    def reuse_allow_opportunistic(self) -> bool: ...
    @reuse_allow_opportunistic.setter
    def reuse_allow_opportunistic(self, on: bool) -> None: ...
    @property
    def reuse_allow_internal_dependencies(self) -> bool: ...
    @reuse_allow_internal_dependencies.setter
    def reuse_allow_internal_dependencies(self, on: bool) -> None: ...
    def access(self, device: _DeviceLike) -> str:
        """ "none", "read" or "read_write"."""
    def set_access(self, device: _DeviceLike, access: str) -> None: ...

@final
class HostRegistration:
    """Page-locks memory that a Python object owns, until closed. Keeps the object and its Python buffer."""

    def __init__(
        self,
        obj: _HostMemory,
        *,
        device: _DeviceLike | None = None,
        portable: bool = True,
        mapped: bool = True,
        read_only: bool = False,
    ) -> None: ...
    @property
    def handle(self) -> int: ...
    @property
    def device_handle(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def backend(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /
    ) -> None: ...

@final
class PointerInfo:
    """What the runtime says of an address."""

    @property
    def kind(self) -> str:
        """ "unregistered", "host", "device" or "managed"."""
    @property
    def device_id(self) -> int | None: ...
    @property
    def base(self) -> int | None: ...
    @property
    def nbytes(self) -> int | None: ...
    @property
    def host_pointer(self) -> int | None: ...
    @property
    def device_pointer(self) -> int | None: ...
    @property
    def flags(self) -> int: ...
    @property
    def ipc_capable(self) -> bool | None:
        """Whether the memory can go to another process by a legacy IPC handle. CUDA says no for memory of pools and
        for virtual, managed and pinned memory; None where the runtime does not say (most versions of AMD's)."""

def pointer_info(ptr: int | Buffer | View | HostRegistration) -> PointerInfo: ...
def empty(
    shape: _Shape,
    dtype: Any = "float64",
    *,
    resource: MemoryResource | None = None,
    device: _DeviceLike | None = None,
    stream: _StreamLike | None = None,
) -> View:
    """A View of new memory, whose contents are whatever was there.

    The memory comes from ``resource``, or else from the current resource of ``device``. Without a stream it is there on
    return, for every stream."""

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
    """Copies all of ``src`` to ``dst``, which must be of the same size and not overlap it.

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

def fill_2d(dst: PitchedBuffer, value: SupportsIndex, *, stream: _StreamLike | None = None) -> Event | None: ...
def from_dlpack(obj: Any, *, stream: _StreamLike | None = None) -> View:
    """View.from_dlpack."""

def current_resource(device: _DeviceLike | None = None) -> MemoryResource:
    """The resource that allocations on this thread take from where none is named: the innermost using(), else the
    process's default, a PoolMemoryResource over plain device memory that nobody can close."""

def _order_begin() -> int: ...
def _order_findings(
    session: int,
) -> list[tuple[str, int, int, tuple[str, str, str, int, int], tuple[str, str, str, int, int], str, int, str]]: ...
def _order_end(session: int) -> None: ...
def _push_tag(name: str) -> int: ...
def _pop_tag(number: SupportsInt) -> None: ...
def current_tag() -> str:
    """This thread's tag; "" where none is open."""

def _push_resource(resource: MemoryResource) -> int: ...
def _pop_resource(resource: MemoryResource, scope: SupportsIndex) -> None: ...
def held(device: _DeviceLike | None = None) -> int: ...
