# SPDX-License-Identifier: MIT
# ruff: noqa: E501
"""What each public name is, in words: written by tools/words.py from _host.pyi, to be changed there.

By name: its kind, its signature as help() shows it, the same as plain text for inspect, and its docstring. Loaded with
a native module, and otherwise only when a program asks.
"""

WORDS: dict[str, tuple[str, str, str, str]] = {
    "runtime_version": (
        "function",
        "() -> int",
        "()",
        """The version of the runtime library that answers, as the vendor's number; 0 where the library cannot say without
a driver. ``version_text`` makes text of it.""",
    ),
    "driver_version": (
        "function",
        "() -> int",
        "()",
        """The newest runtime version that the installed driver supports, as the vendor's number; 0 without a driver.
``version_text`` makes text of it.""",
    ),
    "compiled_version": (
        "function",
        "() -> int",
        "()",
        """The version of the vendor's headers that this module was built with, as the vendor's number. ``version_text``
makes text of it.""",
    ),
    "version_text": (
        "function",
        "(version: int) -> str",
        "(version)",
        """A version number of this backend as text: "13.0", "5.2.3".""",
    ),
    "device_count": (
        "function",
        "() -> int",
        "()",
        """The number of devices that this process can see; 0 where there are none. Raises portamem.Error where the runtime
cannot say.""",
    ),
    "probe": (
        "function",
        "() -> tuple[int, int, str]",
        "()",
        """Asks the runtime how many devices there are: ``(device count, native code, text)`` of its answer. Code 0 is
success. Never raises.""",
    ),
    "Device": (
        "class",
        "(ordinal: Device | int | None=None)",
        "(ordinal=None)",
        """A device of this backend by ordinal; ``Device()`` is the calling thread's current one. Holds no resource.""",
    ),
    "Device.__init__": (
        "method",
        "(self, ordinal: Device | int | None=None) -> None",
        "(self, ordinal=None)",
        """Names the device of an ordinal, or the calling thread's current device for None. Creates no context.

Raises ValueError for an ordinal that no device has, and Error where the runtime has no device.""",
    ),
    "Device.current": (
        "static",
        "() -> Device",
        "()",
        """The calling thread's current device. Raises Error where the runtime has no device.""",
    ),
    "Device.set_current": (
        "method",
        "(self) -> None",
        "(self)",
        """Makes this device the calling thread's current one, for all libraries of the process. CUDA 12 and later
create the device's context here.""",
    ),
    "Device.ordinal": (
        "property",
        "(self) -> int",
        "(self)",
        """The device's number in this process, from 0.""",
    ),
    "Device.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose device it is: "host", "cuda" or "hip".""",
    ),
    "Device.name": (
        "property",
        "(self) -> str",
        "(self)",
        """The device's name, as its vendor gives it.""",
    ),
    "Device.arch": (
        "property",
        "(self) -> str",
        "(self)",
        """The architecture, as a compiler names it: "sm_90", "gfx90a:sramecc+:xnack-", "host".""",
    ),
    "Device.uuid": (
        "property",
        "(self) -> str",
        "(self)",
        """The device's UUID as text, in its usual spelling of 8-4-4-4-12 hexadecimal digits.""",
    ),
    "Device.pci_bus_id": (
        "property",
        "(self) -> str",
        "(self)",
        """The device's address on the PCI bus, in lower case: "0000:3b:00.0".""",
    ),
    "Device.numa_node": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The NUMA node of the host that is nearest to the device, as the kernel says; None where it does not say.""",
    ),
    "Device.capabilities": (
        "property",
        "(self) -> Capabilities",
        "(self)",
        """What the device can do, as far as the runtime tells. Reading it creates no context.""",
    ),
    "Device.probe": (
        "method",
        "(self) -> ProbedCapabilities",
        "(self)",
        """Tries what no runtime tells, once for each device of this process; later calls return what was found.

Creates the device's context, takes some MiB for a moment from a pool and a stream of its own, and leaves all
settings as they were. Raises ValueError while a stream is captured.""",
    ),
    "Device.quirks": (
        "property",
        "(self) -> tuple[Quirk, ...]",
        "(self)",
        """The known faults of the device's runtime, and what portamem does about each. Raises ValueError where
PORTAMEM_QUIRKS cannot be read.""",
    ),
    "Device.memory_info": (
        "method",
        "(self) -> MemoryInfo",
        "(self)",
        """The bytes of the device that are free now, that it has in all, and that portamem holds. CUDA and HIP create
the device's context to answer.""",
    ),
    "Device.limit": (
        "method",
        "(self, name: Literal['stack_size', 'printf_fifo_size', 'malloc_heap_size']) -> int",
        "(self, name)",
        """The bytes of a limit that the runtime sets for kernels on the device.

``name`` is "stack_size" (bytes of stack that each thread of a kernel has), "printf_fifo_size" (bytes that
kernels' printf buffers) or "malloc_heap_size" (see ``malloc_heap_size``). Raises Error where the device has no
such limit.""",
    ),
    "Device.set_limit": (
        "method",
        "(self, name: Literal['stack_size', 'printf_fifo_size', 'malloc_heap_size'], nbytes: int | str) -> None",
        "(self, name, nbytes)",
        """Asks for another limit, in bytes; the runtime may round it, and ``limit`` says what it became.

``name`` is as for ``limit``. Raises Error where the device has no such limit, or the runtime refuses the size.""",
    ),
    "Device.malloc_heap_size": (
        "settable",
        "(self) -> int",
        "(self)",
        """The bytes of the heap from which kernels allocate; ``capabilities.malloc_heap_kind`` says what they bound. It
can be set.

Set it before a kernel that uses the heap is loaded. Where the kind is "limit", loading that kernel fixes the
size for the life of the process, and takes the bytes out of the device's memory: loading fails where the device
has too few, and setting the size later raises Error, named InvalidValue.""",
    ),
    "Device.default_stream": (
        "property",
        "(self) -> Stream",
        "(self)",
        """The legacy default stream of the device. It is never closed.""",
    ),
    "Device.per_thread_stream": (
        "property",
        "(self) -> Stream",
        "(self)",
        """The calling thread's own default stream of the device. Only that thread may submit work to it.""",
    ),
    "Device.stream_priority_range": (
        "property",
        "(self) -> tuple[int, int]",
        "(self)",
        """``(lowest, highest)``: the priorities that ``Stream(priority=...)`` can have. The highest priority is the
smallest number. The runtime takes the nearest priority for a number outside of the range.""",
    ),
    "Device.synchronize": (
        "method",
        "(self) -> None",
        "(self)",
        """Blocks until all work that was submitted to the device has run, and drops the references that portamem held
for that work. Raises ValueError while a capture that portamem began is open.""",
    ),
    "Device.can_access_peer": (
        "method",
        "(self, peer: Device | int) -> bool",
        "(self, peer)",
        """Whether kernels of this device may use memory of ``peer``, once ``enable_peer_access`` has been called.""",
    ),
    "Device.enable_peer_access": (
        "method",
        "(self, peer: Device | int) -> None",
        "(self, peer)",
        """Lets kernels of this device use plain memory of ``peer``, in this process and for all libraries. Memory of
the driver's pools and virtual memory have access of their own: ``set_access`` of their resource.

Raises Error where the access is enabled already, or the devices have no path to each other.""",
    ),
    "Device.disable_peer_access": (
        "method",
        "(self, peer: Device | int) -> None",
        "(self, peer)",
        """Takes back what ``enable_peer_access`` allowed. Raises Error where that was not enabled.""",
    ),
    "Device.__int__": (
        "method",
        "(self) -> int",
        "(self)",
        """The ordinal.""",
    ),
    "Device.__index__": (
        "method",
        "(self) -> int",
        "(self)",
        """The ordinal: a call that takes an ordinal takes a device too.""",
    ),
    "Device.__eq__": (
        "method",
        "(self, other: object, /) -> bool",
        "(self, other, /)",
        """Whether the other is the same device of the same backend.""",
    ),
    "Device.__hash__": (
        "method",
        "(self) -> int",
        "(self)",
        """Equal for devices that are equal.""",
    ),
    "Capabilities": (
        "class",
        "",
        "",
        """What a device can do. portamem asks the device for each answer, and derives none from a version or from a kind of
memory.

Answers are True, False, or None where the runtime, its version or its driver does not say. Reading them allocates
nothing, creates no context and is allowed beside a capture. ``Device.probe()`` finds what only a trial tells.""",
    ),
    "Capabilities.memory_pools": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the device has stream-ordered memory from driver pools, which AsyncMemoryResource needs.""",
    ),
    "Capabilities.pool_handle_types": (
        "property",
        "(self) -> tuple[Literal['posix_fd', 'win32', 'win32_kmt', 'fabric'], ...] | None",
        "(self)",
        """The kinds of handle by which a program can share a driver pool with other processes: "posix_fd", "win32",
"win32_kmt", "fabric".""",
    ),
    "Capabilities.managed_mode": (
        "property",
        "(self) -> Literal['none', 'host_resident', 'migrating']",
        "(self)",
        """How the device runs managed memory: "none", "host_resident" (it stays in one place) or "migrating" (pages
move to the device or host that touches them).

AMD's devices move pages on a fault only with XNACK (HIP's manual, unified memory). A device that shares the
host's memory has no other place for them.""",
    ),
    "Capabilities.concurrent_managed_access": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether host and device may touch managed memory at the same time.""",
    ),
    "Capabilities.pageable_memory_access": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the device reads and writes memory of malloc. AMD: whether XNACK is in effect.""",
    ),
    "Capabilities.uses_host_page_tables": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the device reads and writes memory of malloc through the host's own page tables.""",
    ),
    "Capabilities.direct_host_access": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the host can read and write plain device memory. CUDA does not say; AMD: large BAR, or an APU.""",
    ),
    "Capabilities.integrated": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether host and device share one physical memory.""",
    ),
    "Capabilities.xnack": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """AMD: whether page faults are retried, from the architecture's name. None where there is no such mode.""",
    ),
    "Capabilities.pinned_coherent": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether pinned memory is coherent with running kernels unless coherence="non_coherent" is asked for.

On CUDA it always is. On AMD it is where the device has fine-grained memory (HIP's manual, coherency
controls).""",
    ),
    "Capabilities.pinned_non_coherent": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the device has non-coherent pinned memory too, as AMD's devices do. Where it has none, asking for it
changes nothing.""",
    ),
    "Capabilities.host_register": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether host memory that a program already has can be page-locked, as HostRegistration does.""",
    ),
    "Capabilities.registered_pointer_is_device_pointer": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether kernels reach registered memory by the host's address.""",
    ),
    "Capabilities.stream_priorities": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether streams of the device can have priorities.""",
    ),
    "Capabilities.virtual_memory": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether a program can reserve addresses first, and map memory to them later, as VirtualMemoryResource
does.""",
    ),
    "Capabilities.virtual_memory_granularity": (
        "property",
        "(self) -> tuple[int, int] | None",
        "(self)",
        """``(minimum, recommended)`` in bytes: the size of a mapped piece is a multiple of the minimum.
VirtualMemoryResource maps multiples of the recommended size.""",
    ),
    "Capabilities.virtual_memory_handle_types": (
        "property",
        "(self) -> tuple[Literal['posix_fd', 'win32', 'win32_kmt', 'fabric'], ...] | None",
        "(self)",
        """The kinds of handle by which a program can share mapped memory with other processes, as far as the runtime
tells: words as in ``pool_handle_types``.""",
    ),
    "Capabilities.ipc_memory_handles": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether a program can share plain device memory with other processes; ``pointer_info().ipc_capable`` says
which memory.""",
    ),
    "Capabilities.ipc_event_handles": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether a program can share events with other processes, by a handle.""",
    ),
    "Capabilities.malloc_heap_kind": (
        "property",
        "(self) -> Literal['none', 'limit', 'initial'] | None",
        "(self)",
        """What ``Device.malloc_heap_size`` means: "limit" (CUDA: all that kernels' malloc can give), "initial" (AMD:
what the heap begins with; it grows) or "none".""",
    ),
    "Capabilities.peers": (
        "property",
        "(self) -> tuple[int, ...]",
        "(self)",
        """Ordinals of the devices whose memory this one can address.""",
    ),
    "Capabilities.compute_capability": (
        "property",
        "(self) -> tuple[int, int]",
        "(self)",
        """``(major, minor)``, as CUDA numbers its devices; of AMD devices what HIP answers in its place.""",
    ),
    "Capabilities.multi_processor_count": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of multiprocessors (AMD: compute units) of the device.""",
    ),
    "Capabilities.warp_size": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of threads in a warp (AMD: a wavefront).""",
    ),
    "Capabilities.as_dict": (
        "method",
        "(self) -> dict[str, Any]",
        "(self)",
        """Every field by its name, as a new dict of plain data.""",
    ),
    "ProbedCapabilities": (
        "class",
        "",
        "",
        """What a device can do, found by trying. None: it could not be tried, or there is nothing to try it on.""",
    ),
    "ProbedCapabilities.pool_threshold_accepted": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether a pool's release threshold reads back as it was set.""",
    ),
    "ProbedCapabilities.pool_threshold_effective": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the pool obeys that threshold: at a synchronize it keeps its memory, or gives it back.""",
    ),
    "ProbedCapabilities.stream_capture": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether work on a stream can be captured.""",
    ),
    "ProbedCapabilities.host_register": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether host memory can be page-locked: as the runtime says, or as tried where it does not say.""",
    ),
    "ProbedCapabilities.registered_pointer_is_device_pointer": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether kernels reach registered memory by the host's address.""",
    ),
    "ProbedCapabilities.malloc_heap_settable": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether malloc_heap_size could be set, when it was tried. Not tried where malloc_heap_kind is "initial".""",
    ),
    "ProbedCapabilities.as_dict": (
        "method",
        "(self) -> dict[str, Any]",
        "(self)",
        """Every field by its name, as a new dict of plain data.""",
    ),
    "Quirk": (
        "class",
        "",
        "",
        """A known fault of a device's runtime, from a table in portamem/quirks.hpp.""",
    ),
    "Quirk.name": (
        "property",
        "(self) -> str",
        "(self)",
        """The quirk's name, which ``set_quirk`` and PORTAMEM_QUIRKS take.""",
    ),
    "Quirk.policy": (
        "property",
        "(self) -> Literal['free_on_allocating_stream', 'at_least_eight_bytes', 'explicit_copy_kind', 'bridged', 'report']",
        "(self)",
        """What portamem does: "free_on_allocating_stream", "at_least_eight_bytes", "explicit_copy_kind", "bridged"
(portamem always works around it, and no program can switch that off) or "report" (nothing: the user should
know).""",
    ),
    "Quirk.is_active": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether portamem follows the policy: False where a program switched it off.""",
    ),
    "Quirk.about": (
        "property",
        "(self) -> str",
        "(self)",
        """What the runtime does wrong, in a sentence.""",
    ),
    "Quirk.thread": (
        "property",
        "(self) -> str",
        "(self)",
        """The public report of the fault, such as "ROCm/HIP#3370".""",
    ),
    "Quirk.as_dict": (
        "method",
        "(self) -> dict[str, Any]",
        "(self)",
        """Every field by its name, as a new dict of plain data.""",
    ),
    "set_quirk": (
        "function",
        "(name: str, on: bool | None) -> bool | None",
        "(name, on)",
        """Switches a quirk's policy on or off for resources that this backend makes later, and for copies that it queues
later; None: as the table says.

``PORTAMEM_QUIRKS=name=off,other=on`` does the same from the start. Returns how it was switched before; pass that to
put it back. Raises ValueError for an unknown name and for a quirk whose policy is "bridged"; Error, named Forked,
in a child of fork.""",
    ),
    "MemoryInfo": (
        "class",
        "",
        "",
        """Bytes of a device: free and total as the runtime sees them, held as portamem counts its own.""",
    ),
    "MemoryInfo.free": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of the device that the runtime could still give out.""",
    ),
    "MemoryInfo.total": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that the device has in all.""",
    ),
    "MemoryInfo.held": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of the device that portamem's resources have taken, as ``held()`` counts them.""",
    ),
    "MemoryInfo.source": (
        "property",
        "(self) -> str",
        "(self)",
        """The runtime call that answered.""",
    ),
    "Recommendation": (
        "class",
        "",
        "",
        """A kind of memory, and the reason for it: the answer of ``recommend``.""",
    ),
    "Recommendation.kind": (
        "property",
        "(self) -> Literal['device', 'pinned', 'managed', 'system', 'async', 'virtual', 'foreign']",
        "(self)",
        """The kind of memory: "device", "pinned", "managed" or "system".""",
    ),
    "Recommendation.why": (
        "property",
        "(self) -> str",
        "(self)",
        """The reason, in one sentence, from what the device says of itself.""",
    ),
    "Recommendation.device": (
        "property",
        "(self) -> Device",
        "(self)",
        """The device that was asked about.""",
    ),
    "Recommendation.resource": (
        "method",
        "(self) -> MemoryResource",
        "(self)",
        """A new resource of that kind on the device. A pool over it serves arrays that come and go.""",
    ),
    "Stream": (
        "class",
        "(device: Device | int | None=None, *, nonblocking: bool=True, priority: int | None=None)",
        "(device=None, *, nonblocking=True, priority=None)",
        """An in-order queue of work on a device. Owns its handle, unless it was made from one.""",
    ),
    "Stream.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, nonblocking: bool=True, priority: int | None=None) -> None",
        "(self, device=None, *, nonblocking=True, priority=None)",
        """Creates a stream on a device (None: the calling thread's current one), which the object owns and destroys.

``nonblocking=False`` makes a stream whose work is ordered with that of the legacy default stream.
``priority``: see ``Device.stream_priority_range``; None is 0. Raises ValueError for a device that does not
exist, and Error where the runtime refuses.""",
    ),
    "Stream.from_handle": (
        "static",
        "(handle: int, *, device: Device | int | None=None, owner: object=None, ends_announced: bool=False) -> Stream",
        "(handle, *, device=None, owner=None, ends_announced=False)",
        """A foreign stream by its native handle: portamem never destroys it, and keeps ``owner`` alive instead. 0 and
1 are the legacy default stream, 2 is the calling thread's own. ``device`` is the stream's. None is the one that
the runtime tells, or else the calling thread's current one, as it is for a default stream.

``ends_announced=True`` promises that the program calls ``close()`` before the handle is destroyed. Without that
promise and without an owner, a pool may record an event for each free on the stream.

Raises ValueError where the runtime says that the handle is that of another device's stream.""",
    ),
    "Stream.wrap": (
        "static",
        "(obj: Any) -> Stream",
        "(obj)",
        """A foreign stream object as a Stream, which keeps the object alive. It takes objects with ``__cuda_stream__``,
and streams of cuda-python, hip-python, CuPy and PyTorch; TypeError for others.

Keep the Stream and pass it to each call: each call with the object itself may make a new Stream.""",
    ),
    "Stream.handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The native stream as a number, for other libraries. It is valid until the stream is closed. A default stream
has a small number: 0 or 1 is the legacy one, 2 the calling thread's own. Raises ValueError for a closed stream,
and for another thread's own default stream.""",
    ),
    "Stream.identity": (
        "property",
        "(self) -> int",
        "(self)",
        """A number of the stream, which this process never uses again. Handles may come again.""",
    ),
    "Stream.device": (
        "property",
        "(self) -> Device",
        "(self)",
        """The device on which the stream's work runs.""",
    ),
    "Stream.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose stream it is: "host", "cuda" or "hip".""",
    ),
    "Stream.priority": (
        "property",
        "(self) -> int",
        "(self)",
        """The stream's priority, a number; smaller numbers are served first. Raises ValueError for a closed stream.""",
    ),
    "Stream.is_nonblocking": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the stream's work runs beside that of the legacy default stream, unordered with it. Raises
ValueError for a closed stream, and while the stream is captured.""",
    ),
    "Stream.is_default": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether it is the legacy default stream or a thread's own default stream.""",
    ),
    "Stream.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the stream has been closed: it takes no more work.""",
    ),
    "Stream.capture_status": (
        "property",
        "(self) -> Literal['none', 'active', 'invalidated']",
        "(self)",
        """The state of a capture of the stream: "none", "active" or "invalidated". Raises ValueError for a closed
stream.""",
    ),
    "Stream.begin_capture": (
        "method",
        "(self, mode: Literal['global', 'thread_local', 'relaxed']='global') -> None",
        "(self, mode='global')",
        """Starts to capture the work that is submitted to the stream. Captured work does not run. ``end_capture``, on
the same thread, ends the capture.

``mode`` is "global" (no thread may call what a capture forbids), "thread_local" (this thread may not) or
"relaxed" (every call is allowed). Raises ValueError for a default stream, a closed stream, and a stream that is
captured already.""",
    ),
    "Stream.end_capture": (
        "method",
        "(self) -> None",
        "(self)",
        """Ends the stream's capture and drops its graph, because portamem launches no graphs. Raises Error where the
stream is not captured, or its capture was invalidated.""",
    ),
    "Stream.query": (
        "method",
        "(self) -> bool",
        "(self)",
        """Whether all work that was submitted to the stream has run. Never blocks. If it has run, portamem drops the
references that it held for that work. Raises ValueError for a closed stream, and while it is captured.""",
    ),
    "Stream.synchronize": (
        "method",
        "(self) -> None",
        "(self)",
        """Blocks until all work that was submitted to the stream so far has run, and drops the references that portamem
held for that work. Raises ValueError for a closed stream, and while it is captured.""",
    ),
    "Stream.wait": (
        "method",
        "(self, other: Event | Stream) -> None",
        "(self, other)",
        """Makes work that is submitted to this stream later run behind an event's mark, or behind all work that another
stream has now. The host does not wait, with one exception: for another thread's per-thread stream the call
blocks until the device's work has run. Raises ValueError if this stream is closed, and if a captured stream
would wait for work outside its capture.""",
    ),
    "Stream.record": (
        "method",
        "(self, event: Event | None=None) -> Event",
        "(self, event=None)",
        """Marks the present end of the stream's work with an event and answers that event. For None it makes a new one,
without timing.

Raises ValueError for an event of another device, and for a closed stream or event.""",
    ),
    "Stream.launch_host_func": (
        "method",
        "(self, fn: Callable[[], object]) -> None",
        "(self, fn)",
        """Queues ``fn()``: a thread of the runtime calls it in stream order. ``fn`` may call nothing of portamem. What
it raises goes to ``sys.unraisablehook``. Raises TypeError for an ``fn`` that cannot be called, and ValueError
for a closed stream and while the stream is captured.""",
    ),
    "Stream.close": (
        "method",
        "(self) -> None",
        "(self)",
        """Closes the stream, and destroys it if portamem made it. Work that was submitted still runs, and memory that
was freed on the stream stays behind that work. A second close does nothing. Raises ValueError for a default
stream, while the stream is captured, and inside of a call of this thread that uses the stream.

Other threads may use the stream meanwhile: a call that has begun is completed, and a later one raises
ValueError.""",
    ),
    "Stream.__cuda_stream__": (
        "method",
        "(self) -> tuple[int, int]",
        "(self)",
        """``(0, handle)``: the protocol by which CUDA libraries take a stream.""",
    ),
    "Stream.__enter__": (
        "method",
        "(self) -> Stream",
        "(self)",
        """Answers the stream itself.""",
    ),
    "Stream.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the stream, as ``close()`` does. An exception that ends the block is never hidden: if the close is
refused then, the stream ends with its last reference.""",
    ),
    "Stream.__eq__": (
        "method",
        "(self, other: object, /) -> bool",
        "(self, other, /)",
        """Whether the other is a Stream with the same identity.""",
    ),
    "Stream.__hash__": (
        "method",
        "(self) -> int",
        "(self)",
        """Equal for streams that are equal.""",
    ),
    "Event": (
        "class",
        "(device: Device | int | None=None, *, timing: bool=False, blocking: bool=False)",
        "(device=None, *, timing=False, blocking=False)",
        """A mark in a stream: it has happened once all work that the stream had at ``record`` has run.""",
    ),
    "Event.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, timing: bool=False, blocking: bool=False) -> None",
        "(self, device=None, *, timing=False, blocking=False)",
        """Creates an event on a device (None: the calling thread's current one), which the object owns and destroys.

``timing=True`` lets ``elapsed_time`` measure; marks without it cost less. ``blocking=True`` makes a thread
sleep in ``synchronize``; otherwise it asks again and again.""",
    ),
    "Event.from_handle": (
        "static",
        "(handle: int, *, device: Device | int | None=None, owner: object=None) -> Event",
        "(handle, *, device=None, owner=None)",
        """A foreign event by its native handle: portamem never destroys it, and keeps ``owner`` alive instead.
``device`` is the event's; None is the calling thread's current one. Raises ValueError for the handle 0.""",
    ),
    "Event.wrap": (
        "static",
        "(obj: Any, *, device: Device | int | None=None) -> Event",
        "(obj, *, device=None)",
        """A foreign event object as an Event, which keeps the object alive. It takes events of cuda-python, hip-python,
CuPy and PyTorch; TypeError for others. ``device`` is the event's; None is the calling thread's current one.""",
    ),
    "Event.handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The native event as a number, for other libraries. Raises ValueError for a closed event.""",
    ),
    "Event.device": (
        "property",
        "(self) -> Device",
        "(self)",
        """The device of the event. For a foreign event it is the one that ``from_handle`` or ``wrap`` was given. Raises
ValueError for a closed event.""",
    ),
    "Event.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the event has been closed.""",
    ),
    "Event.is_done": (
        "property",
        "(self) -> bool",
        "(self)",
        """The answer of ``query()``, which raises the same.""",
    ),
    "Event.query": (
        "method",
        "(self) -> bool",
        "(self)",
        """Whether the work before the mark has run; True also where there is no mark yet. Never blocks. Raises
ValueError for a closed event, and for a mark within a capture, which never happens by itself.""",
    ),
    "Event.record": (
        "method",
        "(self, stream: Stream | Any | None=None) -> None",
        "(self, stream=None)",
        """Marks the present end of a stream's work (None: the default stream of the event's device). The event forgets
an earlier mark.

Raises ValueError for a stream of another device, and for a closed event or stream.""",
    ),
    "Event.synchronize": (
        "method",
        "(self) -> None",
        "(self)",
        """Blocks until the work before the mark has run; returns at once where there is no mark yet. Raises ValueError
for a closed event, and for a mark within a capture.""",
    ),
    "Event.elapsed_time": (
        "method",
        "(self, end: Event) -> float",
        "(self, end)",
        """Milliseconds from this mark to the mark of ``end``. Raises ValueError unless both events have
``timing=True``, for events of two devices, for a closed event, and for a mark within a capture. Raises Error,
named NotReady, if one of the marks has not happened yet, and Error, named InvalidHandle, if there is none.""",
    ),
    "Event.close": (
        "method",
        "(self) -> None",
        "(self)",
        """Closes the event, and destroys it if portamem made it. Streams that wait for its mark still do. Closing twice
is fine.""",
    ),
    "Event.__enter__": (
        "method",
        "(self) -> Event",
        "(self)",
        """Answers the event itself.""",
    ),
    "Event.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the event.""",
    ),
    "Buffer": (
        "class",
        "",
        "",
        """Untyped memory with its resource, device and stream. The buffer keeps these alive.

``buf[a:b]`` is a sub-view: a Buffer over the same memory that keeps it alive. While sub-views, Views or Python
buffers (``memoryview(buf)``) exist, ``close()`` raises BufferError and the buffer stays usable. A closed buffer
still answers ``nbytes``, ``backend``, ``is_closed`` and ``exports``; other uses of it raise ValueError.""",
    ),
    "Buffer.from_handle": (
        "static",
        "(handle: int, nbytes: int | str, *, owner: object=None, device: Device | int | None=None, stream: Stream | Any | None=None, readonly: bool=False) -> Buffer",
        "(handle, nbytes, *, owner=None, device=None, stream=None, readonly=False)",
        """Foreign memory at the address ``handle`` as a Buffer. portamem never frees it, and keeps ``owner`` until the
buffer has ended and all declared work has run. ``device``: for memory of the host or of unknown place, the
device to use it with; None is the calling thread's current one. ``stream``: the stream whose work may use the
memory (None: the device's default stream). ``readonly``: no copy and no fill writes the memory, and portamem
tells consumers that they may only read it.

Raises ValueError for address 0 with bytes, for memory of another device than ``device``, and for an address
that neither the runtime knows nor this process can read: memory that was freed, or memory of the heap from
which kernels allocate, which only kernels can copy, fill and free.""",
    ),
    "Buffer.handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The address of the first byte, as a number, for other libraries. portamem does not see work that uses it. So
when the buffer ends, its memory goes back behind all work on its own stream and on its declared streams. Raises
ValueError for a closed buffer, and while the memory sleeps.""",
    ),
    "Buffer.nbytes": (
        "property",
        "(self) -> int",
        "(self)",
        """The size in bytes, as it was asked for. A closed buffer keeps it.""",
    ),
    "Buffer.device_id": (
        "property",
        "(self) -> int",
        "(self)",
        """The ordinal of the device that owns the memory; -1 for host memory.""",
    ),
    "Buffer.device": (
        "property",
        "(self) -> Device",
        "(self)",
        """The device of the resource that gave the memory, also where the memory is the host's. For foreign memory it
is the device that owns it, or the one that ``from_handle`` was given.""",
    ),
    "Buffer.stream": (
        "property",
        "(self) -> Stream",
        "(self)",
        """The stream on which the memory was allocated, and on which it goes back unless ``close`` names another. After
``reallocate`` on another stream it may be that one.""",
    ),
    "Buffer.resource": (
        "property",
        "(self) -> MemoryResource | None",
        "(self)",
        """The resource that gave the memory; None for foreign memory.""",
    ),
    "Buffer.owner": (
        "property",
        "(self) -> object",
        "(self)",
        """The object that ``from_handle`` was given to keep foreign memory alive; None for a resource's memory.""",
    ),
    "Buffer.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose buffer it is: "host", "cuda" or "hip".""",
    ),
    "Buffer.kind": (
        "property",
        "(self) -> Literal['device', 'pinned', 'managed', 'system', 'async', 'virtual', 'foreign']",
        "(self)",
        """What the memory is: "device", "pinned", "managed", "system", "async", "virtual" or "foreign".""",
    ),
    "Buffer.is_host_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether code on the host may read and write the memory by its address.""",
    ),
    "Buffer.is_device_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether kernels of the device may read and write the memory by its address.""",
    ),
    "Buffer.readonly": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether it is foreign memory that may only be read: no copy and no fill writes it.""",
    ),
    "Buffer.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether ``close()`` or ``release()`` has ended the buffer.""",
    ),
    "Buffer.exports": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of live sub-views, views, Python buffers and DLPack tensors of the memory. While there are some,
``close()`` is refused.""",
    ),
    "Buffer.__dlpack__": (
        "method",
        "(self, *, stream: int | None=None, max_version: tuple[int, int] | None=None, dl_device: tuple[int, int] | None=None, copy: bool | None=None) -> Any",
        "(self, *, stream=None, max_version=None, dl_device=None, copy=None)",
        """A DLPack capsule of the bytes, as uint8, or of a copy of them. The capsule is an export of the buffer. The
parameters and the exceptions are those of ``View.__dlpack__``.""",
    ),
    "Buffer.__dlpack_device__": (
        "method",
        "(self) -> tuple[int, int]",
        "(self)",
        """DLPack's device type and ID of the memory. Raises BufferError for memory that DLPack has no device for.""",
    ),
    "Buffer.view": (
        "method",
        "(self, dtype: Any='uint8', shape: int | Sequence[int] | None=None, *, offset: int | str=0) -> View",
        "(self, dtype='uint8', shape=None, *, offset=0)",
        """The memory, or a part of it, as elements of a type: a View, which shares the memory and keeps the buffer
alive.

``dtype`` is a name ("float32"), a NumPy type or a Python type. ``shape`` None is one dimension with all bytes
from ``offset`` on, which have to be a whole number of elements. ``offset`` is in bytes. Raises ValueError where
the elements do not fit, or ``offset`` is not a multiple of their size.""",
    ),
    "Buffer.copy_to": (
        "method",
        "(self, dst: Buffer | View | HostRegistration | Any, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, dst, *, stream=None)",
        """Copies all bytes to ``dst``, which must be of the same size, as ``copy(dst, self)`` does.

With a stream the call queues the copy, and answers an Event that is done when the bytes are there; portamem
keeps both ends alive while the copy uses them. Without one it runs behind all work declared on the memory, the
bytes are there on return, and the answer is None. Raises what ``copy`` raises.""",
    ),
    "Buffer.copy_from": (
        "method",
        "(self, src: Buffer | View | HostRegistration | Any, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, src, *, stream=None)",
        """Copies all bytes of ``src``, which must be of the same size, to this memory, as ``copy(self, src)`` does.
A NumPy array may have strides: its elements move in C order.

With a stream the call queues the copy, and answers an Event that is done when the bytes are there; portamem
keeps both ends alive while the copy uses them. Without one it runs behind all work declared on the memory, the
bytes are there on return, and the answer is None. Raises what ``copy`` raises.""",
    ),
    "Buffer.fill": (
        "method",
        "(self, value: int, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, value, *, stream=None)",
        """Sets every byte to ``value`` (0 to 255). With a stream the call queues the fill and answers an Event. Without
one the fill runs behind all work declared on the memory, is done on return, and the answer is None. Raises
ValueError for any other value, and for read-only memory.""",
    ),
    "Buffer.prefetch": (
        "method",
        "(self, location: Device | int | str, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, location, *, stream=None)",
        """Moves managed memory, and system memory that the device reaches, to a location: a Device, an ordinal,
"host", "host_numa:3" or "host_numa_current". The contents stay as they are.

With a stream the call queues the move and answers an Event; without one the move is done on return, and the
answer is None. Raises ValueError for a resource's memory that does not move, and Error where the runtime
refuses: for foreign memory the runtime alone decides.""",
    ),
    "Buffer.advise": (
        "method",
        "(self, advice: Literal['read_mostly', 'unset_read_mostly', 'preferred_location', 'unset_preferred_location', 'accessed_by', 'unset_accessed_by', 'coarse_grain', 'unset_coarse_grain'], location: Device | int | str | None=None) -> None",
        "(self, advice, location=None)",
        """Tells the runtime at once how managed memory, or system memory that the device reaches, will be used.

``advice`` is one of:

* "read_mostly", "unset_read_mostly": devices that read the memory may keep copies of it; ``location`` has no
  effect.
* "preferred_location", "unset_preferred_location": pages stay at ``location``; the first needs it.
* "accessed_by", "unset_accessed_by": ``location`` keeps the memory mapped, so that its accesses cause no page
  fault; both need it.
* "coarse_grain", "unset_coarse_grain": AMD's; the memory is coherent only at the ends of kernels.

``location`` is a Device, an ordinal or "host". Raises ValueError for a resource's memory that does not move and
for a ``location`` that is missing, and Error where the runtime refuses: for foreign memory the runtime alone
decides.""",
    ),
    "Buffer.range_attribute": (
        "method",
        "(self, name: Literal['read_mostly', 'preferred_location', 'accessed_by', 'last_prefetch_location', 'coherency_mode']) -> Any",
        "(self, name)",
        """The advice or the prefetch that the runtime remembers for the whole range.

``name`` is "read_mostly" (the answer is a bool), "preferred_location" or "last_prefetch_location" (an ordinal,
"host", or None where pages differ or nothing was said), "accessed_by" (a list of such locations) or
"coherency_mode" (AMD's; a number). Raises as ``advise`` does.""",
    ),
    "Buffer.preferred": (
        "method",
        "(self, location: Device | int | str) -> AbstractContextManager[Buffer]",
        "(self, location)",
        """Keeps the pages of managed memory, and of system memory that the device reaches, at ``location`` within a
``with`` block: ``with buffer.preferred(device):``. The end of the block puts the earlier preferred location
back, or none if the pages had different ones. ``location`` and the exceptions are those of ``advise``.""",
    ),
    "Buffer.record_stream": (
        "method",
        "(self, stream: Stream | Any) -> None",
        "(self, stream)",
        """Declares that work queued on ``stream`` from now on uses the memory. At the first call for a stream, that
stream waits for the buffer's own stream. The memory goes back behind that work. Raises ValueError if the buffer
or ``stream`` is closed, and if one of the two streams is captured.""",
    ),
    "Buffer.reallocate": (
        "method",
        "(self, nbytes: int | str, *, stream: Stream | Any | None=None, alignment: int | str=256) -> None",
        "(self, nbytes, *, stream=None, alignment=256)",
        """Gives the buffer the size ``nbytes``. The first bytes keep their values, as many as both sizes have.

The address may change. A pool's memory keeps it where there is room, if no other stream uses the memory.
``stream`` (None: the buffer's) runs the copy, behind all work that was declared on the memory. The new memory
may be used from that stream on, and goes back on it. The old memory goes back behind the copy. The host waits
for the copy where the resource is not stream-ordered, and where the runtime copies host memory on the CPU.
``alignment`` is that of the new address, as for ``allocate``. portamem does not remember the old alignment:
name it again.

Raises BufferError while exports live; ValueError for a closed buffer, a sub-view, a PitchedBuffer, foreign
memory, and a stream that is closed or captured; OutOfMemoryError where there is no memory, also for a much
smaller size. After an exception the buffer is as it was before.""",
    ),
    "Buffer.save": (
        "method",
        "(self, file: str | os.PathLike[str] | IO[bytes], *, stream: Stream | Any | None=None) -> None",
        "(self, file, *, stream=None)",
        """Writes all bytes to a file: a path, which is overwritten, or a binary file object, from its position on.

Bytes that the host cannot reach go through a few pinned blocks, so host memory never holds all of them. The
call returns when all are written: behind the work on ``stream``, or for None behind all work that was declared
on the memory. Raises TypeError for a file that is open as text, ValueError for a closed buffer and for a stream
that is closed or captured, and what the file raises. After an exception the file may have a part of the bytes.""",
    ),
    "Buffer.load": (
        "method",
        "(self, file: str | os.PathLike[str] | IO[bytes], *, stream: Stream | Any | None=None) -> None",
        "(self, file, *, stream=None)",
        """Fills the buffer with the next bytes of a file: a path, or a binary file object, from its position on.

Bytes for memory that the host cannot reach go through a few pinned blocks, so host memory never holds all of
them. Several threads read an ordinary file. The call returns when the bytes are there: behind the work on
``stream``, or for None behind all work that was declared on the memory. Raises ValueError for an ordinary file
that has too few bytes, for read-only memory, for a closed buffer and for a stream that is closed or captured;
TypeError for a file that is open as text; EOFError for any other file that ends too early; and what the file
raises. After EOFError, or an exception of the file, the buffer may have a part of the bytes.""",
    ),
    "Buffer.release": (
        "method",
        "(self) -> int",
        "(self)",
        """Gives up ownership and returns the address. The caller gives it to the resource's ``deallocate`` later, on a
stream that is behind all work that uses the memory: portamem forgets the declared streams. Raises BufferError
while exports live, and ValueError for a sub-view, foreign memory or a closed buffer.""",
    ),
    "Buffer.close": (
        "method",
        "(self, *, stream: Stream | Any | None=None) -> None",
        "(self, *, stream=None)",
        """Gives the memory back to its resource on ``stream`` (None: the stream of the allocation), behind all work
declared on it. Closing twice is fine. A sub-view only ends its export, and foreign memory is left to its
owner.

Raises BufferError while exports live, and the buffer then stays usable.""",
    ),
    "Buffer.__len__": (
        "method",
        "(self) -> int",
        "(self)",
        """The size in bytes.""",
    ),
    "Buffer.__bool__": (
        "method",
        "(self) -> bool",
        "(self)",
        """Whether the buffer is open, whatever its size.""",
    ),
    "Buffer.__getitem__": (
        "method",
        "(self, key: slice, /) -> Buffer",
        "(self, key, /)",
        """A slice of bytes as a sub-view: a Buffer over the same memory, which keeps that memory alive. Raises
ValueError for a step other than 1, and TypeError for a key that is no slice.""",
    ),
    "Buffer.__array__": (
        "method",
        "(self, *args: Any, **kwargs: Any) -> Any",
        "(self, *args, **kwargs)",
        """Raises BufferError for memory that the host cannot reach. NumPy takes other memory through the buffer
protocol, and does not call this.""",
    ),
    "Buffer.__enter__": (
        "method",
        "(self) -> Buffer",
        "(self)",
        """Answers the buffer itself.""",
    ),
    "Buffer.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the buffer, as ``close()`` does. An exception that ends the block is never hidden: if the close is
refused then, the memory goes back with its last export.""",
    ),
    "PitchedBuffer": (
        "class",
        "",
        "",
        """Memory of ``height`` rows of ``width`` bytes, ``pitch`` bytes apart: ``allocate_pitched`` makes it.""",
    ),
    "PitchedBuffer.width": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of a row, without the padding behind it.""",
    ),
    "PitchedBuffer.height": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of rows.""",
    ),
    "PitchedBuffer.pitch": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes from the beginning of one row to the beginning of the next.""",
    ),
    "GrowableBuffer": (
        "class",
        "",
        "",
        """Memory of a VirtualMemoryResource that gets another size without a copy and without another address.

Addresses are reserved for ``capacity`` bytes; only the bytes that the buffer has take memory of the device.""",
    ),
    "GrowableBuffer.capacity": (
        "property",
        "(self) -> int",
        "(self)",
        """The most bytes that the buffer can grow to at its address.""",
    ),
    "GrowableBuffer.mapped": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of device memory that the buffer takes now: its size in whole pieces, or 0 while the memory
sleeps.""",
    ),
    "GrowableBuffer.resize": (
        "method",
        "(self, nbytes: int | str, *, stream: Stream | Any | None=None) -> None",
        "(self, nbytes, *, stream=None)",
        """Gives the buffer the size ``nbytes``. The address stays, and so do the contents, as many bytes as both sizes
have; new bytes have undefined contents.

More bytes: views and other exports stay valid with the size that they have, and work on any stream may use the
new bytes at once. Fewer bytes: the call waits for all work that was declared on the buffer and for all work on
``stream`` (None: the buffer's). Then memory goes back to the device in whole pieces, each about one part in 8
of the buffer. Other threads that begin to use the buffer meanwhile get BufferError. One thread at a time may
resize a buffer.

Raises BufferError for fewer bytes while exports live; ValueError for 0 bytes, more than ``capacity``, a closed
buffer, and while the memory sleeps; OutOfMemoryError where there is no memory. After an exception the buffer is
as it was before.""",
    ),
    "View": (
        "class",
        "(buffer: Buffer, dtype: Any='uint8', shape: int | Sequence[int] | None=None, *, offset: int | str=0, strides: Sequence[int] | None=None)",
        "(buffer, dtype='uint8', shape=None, *, offset=0, strides=None)",
        """Typed memory of a Buffer, which array libraries take. A live View is an export of its buffer.

Element types are NumPy's numbers, by name ("float32"), by ``numpy.dtype`` or by Python type, and those of ml_dtypes
("bfloat16", "float8_e4m3fn", "int4"). A number of less than a byte has a byte of its own. A closed View still
answers its type, shape, strides and sizes; other uses of it raise ValueError.""",
    ),
    "View.buffer": (
        "property",
        "(self) -> Buffer",
        "(self)",
        """The buffer whose memory the view shows. Raises ValueError for a closed view.""",
    ),
    "View.handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The address of the first element, as a number, for other libraries. Raises ValueError for a closed view.""",
    ),
    "View.nbytes": (
        "property",
        "(self) -> int",
        "(self)",
        """The size of the elements in bytes: ``size * itemsize``, without gaps between them.""",
    ),
    "View.dtype": (
        "property",
        "(self) -> numpy.dtype[Any]",
        "(self)",
        """The element type. Raises ImportError for a type of ml_dtypes where that package is not installed.""",
    ),
    "View.typestr": (
        "property",
        "(self) -> str",
        "(self)",
        """The element type as array interfaces spell it: "<f4". They have no names for types of ml_dtypes: "<V2".""",
    ),
    "View.itemsize": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of one element.""",
    ),
    "View.shape": (
        "property",
        "(self) -> tuple[int, ...]",
        "(self)",
        """The number of elements along each axis.""",
    ),
    "View.strides": (
        "property",
        "(self) -> tuple[int, ...]",
        "(self)",
        """Bytes from one element to the next along each axis.""",
    ),
    "View.is_contiguous": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the elements lie in C order without gaps. ``copy_to``, ``copy_from``, ``fill``, ``reshape``,
``ravel`` and ``view`` need that.""",
    ),
    "View.T": (
        "property",
        "(self) -> View",
        "(self)",
        """The same elements with the axes reversed: ``transpose()``.""",
    ),
    "View.ndim": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of axes.""",
    ),
    "View.size": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of elements in all.""",
    ),
    "View.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose view it is: "host", "cuda" or "hip".""",
    ),
    "View.device_id": (
        "property",
        "(self) -> int",
        "(self)",
        """The ordinal of the device that owns the memory; -1 for host memory.""",
    ),
    "View.is_host_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether code on the host may read and write the memory by its address.""",
    ),
    "View.is_device_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether kernels of the device may read and write the memory by its address.""",
    ),
    "View.readonly": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the memory may only be read: no copy and no fill writes it, and portamem tells every consumer.""",
    ),
    "View.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the view has been closed.""",
    ),
    "View.reshape": (
        "method",
        "(self, *shape: int | Sequence[int]) -> View",
        "(self, *shape)",
        """The same elements in another shape, as a new View of the same memory. The shape is one sequence or several
ints. One int may be -1, which stands for the extent that the others leave. Raises ValueError where the number
of elements differs, and for a View that is not contiguous.""",
    ),
    "View.ravel": (
        "method",
        "(self) -> View",
        "(self)",
        """The same elements in one dimension, as a new View of the same memory: ``reshape(-1)``. Raises ValueError for
a View that is not contiguous.""",
    ),
    "View.view": (
        "method",
        "(self, dtype: Any='uint8') -> View",
        "(self, dtype='uint8')",
        """The same bytes as elements of another type, as a new View of the same memory. The last axis gets longer or
shorter. Raises ValueError where the new elements do not fill that axis or would not be aligned, and for a View
that is not contiguous.""",
    ),
    "View.transpose": (
        "method",
        "(self, *axes: int | Sequence[int]) -> View",
        "(self, *axes)",
        """The same elements with the axes in another order, as a new View of the same memory. The order is one sequence
or several ints; without it the axes are reversed. Raises ValueError unless the order names each axis once.""",
    ),
    "View.copy_to": (
        "method",
        "(self, dst: Buffer | View | HostRegistration | Any, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, dst, *, stream=None)",
        """Copies all bytes to ``dst``, which must be of the same size; see ``Buffer.copy_to``. Raises ValueError for a
View that is not contiguous.""",
    ),
    "View.copy_from": (
        "method",
        "(self, src: Buffer | View | HostRegistration | Any, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, src, *, stream=None)",
        """Copies all bytes of ``src``, which must be of the same size, to this memory; see ``Buffer.copy_from``.
Raises ValueError for a View that is not contiguous.""",
    ),
    "View.fill": (
        "method",
        "(self, value: int, *, stream: Stream | Any | None=None) -> Event | None",
        "(self, value, *, stream=None)",
        """Sets every byte (not every element) to ``value``, from 0 to 255. With a stream the call queues the fill and
answers an Event; without one the fill is done on return, and the answer is None. Raises ValueError for a View
that is not contiguous, and as ``Buffer.fill`` does.""",
    ),
    "View.to_numpy": (
        "method",
        "(self, *, stream: Stream | Any | None=None) -> Any",
        "(self, *, stream=None)",
        """A new NumPy array with the elements. The copy runs on ``stream``, or for None behind all work declared on the
memory, and is done on return in both cases. For a View that is not contiguous, portamem copies all bytes from
the first element to the last to the host, and picks the elements there. Raises ImportError for a type of
ml_dtypes where that package is not installed.""",
    ),
    "View.to_torch": (
        "method",
        "(self) -> Any",
        "(self)",
        """The same memory as a ``torch.Tensor``, which keeps it alive. Device and managed memory becomes a tensor of
the device, ready on PyTorch's current stream. Host memory becomes a CPU tensor, once the work declared on it
has run.

Raises ImportError without PyTorch; BufferError where the installed PyTorch cannot use the memory, and for
read-only memory, because PyTorch has no tensors that only read.""",
    ),
    "View.to_cupy": (
        "method",
        "(self) -> Any",
        "(self)",
        """The same memory as a ``cupy.ndarray``, which keeps it alive, ready on CuPy's current stream. CuPy takes
device, managed and page-locked memory.

Raises ImportError without CuPy; BufferError where the installed CuPy cannot use the memory, and for read-only
memory.""",
    ),
    "View.to_jax": (
        "method",
        "(self) -> Any",
        "(self)",
        """The same memory as a ``jax.Array``, which keeps it alive. Device and managed memory becomes an array of JAX's
GPU, behind the work declared on it. Host memory becomes an array of JAX's CPU, once that work has run.

Raises ImportError without JAX; BufferError where JAX would make a copy (a type of 64 bits while JAX has those
disabled, an address that is not a multiple of 64 bytes, gaps between elements), and for read-only memory,
because JAX takes no note of that.""",
    ),
    "View.to_numba": (
        "method",
        "(self) -> Any",
        "(self)",
        """The same memory as an array that Numba's functions take, which keeps it alive. Device and managed memory
becomes a device array of Numba's CUDA target (Numba's own, numba-cuda or numba-cuda-mlir), once the work
declared on it has run. From then on the device's default stream is declared on the memory. Host memory becomes
a NumPy array, which ``numba.njit`` takes; that needs no Numba.

Raises ImportError without a CUDA target of Numba; BufferError where the target cannot use the memory, and for
read-only memory of a device.""",
    ),
    "View.from_dlpack": (
        "static",
        "(obj: Any, *, stream: Stream | Any | None=None) -> View",
        "(obj, *, stream=None)",
        """The memory of any DLPack producer as a View, without a copy. For a View the answer is that View.

The View's buffer owns the producer's tensor: portamem calls the tensor's deleter once, when no view uses the
memory any more and all declared work has run. With a stream, the memory is ready for work on that stream;
without one it is ready on return. Host memory has no stream: the work that its producer has queued on it must
be done before the call.

Memory that may only be read, such as that of a NumPy array that is not writeable, becomes a read-only View. So
does a capsule older than DLPack 1, which cannot tell, unless the producer's array interface says that the
memory may be written.

Raises TypeError for an object that is no producer, and for memory that this backend cannot reach; ValueError
for negative strides, for elements that have no name here, and under capture; BufferError for a tensor that is
malformed, taken already, or of a newer major version of DLPack; and what the producer raises.""",
    ),
    "View.__dlpack__": (
        "method",
        "(self, *, stream: int | None=None, max_version: tuple[int, int] | None=None, dl_device: tuple[int, int] | None=None, copy: bool | None=None) -> Any",
        "(self, *, stream=None, max_version=None, dl_device=None, copy=None)",
        """A DLPack capsule of the memory, or of a copy of it. The capsule is an export: the buffer cannot be closed
until the consumer has given it up.

``stream`` is the consumer's stream, as the number that DLPack defines. That stream then waits for all work
declared on the memory; for -1 nothing waits. None means the device's default stream for device memory; for
memory that DLPack names as host, page-locked or managed memory, this call waits for the work itself. A
consumer's default stream is declared on the memory from then on. For any other stream that ``record_stream``
did not declare, the memory goes back behind all work of the device.

``dl_device`` may be any device that the memory counts as (managed memory counts as the device's and the CPU's
too), or (1, 0) for a copy on the CPU. ``copy=True`` copies to new memory of the same resource, on the stream
that the memory came from, and the consumer's stream waits for the copy.

Raises BufferError for memory that the consumer cannot have without a copy, for memory that DLPack has no device
for (on the host backend, memory that stands for a GPU's), and for elements of less than a byte where the
consumer asks for a DLPack older than 1.1; ValueError for a stream that has no meaning there.""",
    ),
    "View.__dlpack_device__": (
        "method",
        "(self) -> tuple[int, int]",
        "(self)",
        """DLPack's device type and ID of the memory. Raises BufferError for memory that DLPack has no device for.""",
    ),
    "View.__arrow_c_array__": (
        "method",
        "(self, requested_schema: Any | None=None) -> tuple[Any, Any]",
        "(self, requested_schema=None)",
        """Arrow's capsules of a schema and of an array over the memory, once the work declared on it has run. The array
is an export: the buffer cannot be closed until the consumer has given it up. ``requested_schema`` changes
nothing.

Raises BufferError for memory that the host cannot reach, for a View that has not one dimension or is not
contiguous, and for elements that are neither integers nor floats of 16, 32 or 64 bits.""",
    ),
    "View.__arrow_c_device_array__": (
        "method",
        "(self, requested_schema: Any | None=None, **keywords: Any) -> tuple[Any, Any]",
        "(self, requested_schema=None, **keywords)",
        """The same with a device array, for memory of the host or of a device. The array's device is the CPU where the
host reaches the memory: for page-locked and managed memory too, because PyArrow refuses those by their own
names. The work declared on the memory has run on return, so the array names no event. Where only the device
reaches the memory, the device's default stream is declared on it from then on.

Raises BufferError as ``__arrow_c_array__`` does, but only on the host backend for memory that the host cannot
reach; NotImplementedError for a keyword that is not None.""",
    ),
    "View.close": (
        "method",
        "(self) -> None",
        "(self)",
        """Ends the View's export of its buffer. A buffer that ``empty``, ``zeros`` or ``asarray`` made ends with its
last View. Closing twice is fine.""",
    ),
    "View.__array_interface__": (
        "property",
        "(self) -> dict[str, Any]",
        "(self)",
        """NumPy's array interface, version 3. Reading it waits for the work declared on the memory. Raises
AttributeError for memory that the host cannot reach, and for types of ml_dtypes.""",
    ),
    "View.__cuda_array_interface__": (
        "property",
        "(self) -> dict[str, Any]",
        "(self)",
        """The interface by which GPU array libraries take memory, version 3. It names the stream that the library's
work has to wait for; where the interface has no number for that stream, reading it waits for the work instead.
Raises AttributeError for memory that the device cannot reach, for types of ml_dtypes, and on the host
backend.""",
    ),
    "View.__len__": (
        "method",
        "(self) -> int",
        "(self)",
        """The extent of the first axis. Raises TypeError for a view without dimensions.""",
    ),
    "View.__bool__": (
        "method",
        "(self) -> bool",
        "(self)",
        """Whether the view is open, whatever its size and contents.""",
    ),
    "View.__iter__": (
        "method",
        "(self) -> Iterator[View]",
        "(self)",
        """The parts along the first axis, each a View. Raises TypeError for a view without dimensions.""",
    ),
    "View.__getitem__": (
        "method",
        "(self, key: int | slice | EllipsisType | None | tuple[int | slice | EllipsisType | None, ...], /) -> View",
        "(self, key, /)",
        """A part of the memory, as NumPy indexes it: by ints, slices with a step of at least 1, None and ``...``. An
int drops its axis. Raises IndexError for more indices than axes and for an int beyond its axis; ValueError for
a step below 1; TypeError for any other key.""",
    ),
    "View.__array__": (
        "method",
        "(self, dtype: Any=None, copy: bool | None=None) -> Any",
        "(self, dtype=None, copy=None)",
        """The memory as a NumPy array of ml_dtypes; NumPy takes other types through the buffer protocol. Raises
BufferError for memory that the host cannot reach.""",
    ),
    "View.__enter__": (
        "method",
        "(self) -> View",
        "(self)",
        """Answers the view itself.""",
    ),
    "View.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the view, as ``close()`` does.""",
    ),
    "MemoryResource": (
        "class",
        "",
        "",
        """A source of memory: ``allocate`` makes buffers. A resource with live buffers refuses to close.""",
    ),
    "MemoryResource.allocate": (
        "method",
        "(self, nbytes: int | str, *, stream: Stream | Any | None=None, alignment: int | str=256) -> Buffer",
        "(self, nbytes, *, stream=None, alignment=256)",
        """A Buffer of ``nbytes`` bytes with undefined contents. The buffer keeps the resource alive, and gives the
memory back to it when it is closed or its last reference ends.

Work on ``stream`` may use the memory from now on, and the memory goes back on that stream. For work on other
streams call ``Buffer.record_stream``; copies and fills with a stream do so themselves. A stream-ordered
resource requires ``stream``; for other resources None is the device's default stream. ``alignment`` is a power
of two, in bytes; resources that call the runtime for each allocation align to at most 256.

Raises OutOfMemoryError where there is no memory; ValueError for a closed resource or stream, for an alignment
that the resource does not have, and, for stream-ordered memory, a stream of another device; TypeError where a
stream-ordered resource gets no stream.""",
    ),
    "MemoryResource.deallocate": (
        "method",
        "(self, ptr: int, nbytes: int | str | None=None, *, stream: Stream | Any | None=None) -> None",
        "(self, ptr, nbytes=None, *, stream=None)",
        """Takes back the memory at the address ``ptr``, which ``Buffer.release`` gave out, behind the work on
``stream`` (None: the device's default stream). ``nbytes`` is the size that was asked for; it may be left out
where ``size_of`` knows it.

Raises ValueError where the resource, or a recorder, knows that the memory is not its own: nothing is out,
nothing is out at that address, or it has another size. Otherwise the runtime's Error tells of a wrong
address.""",
    ),
    "MemoryResource.size_of": (
        "method",
        "(self, ptr: int) -> int | None",
        "(self, ptr)",
        """The bytes that were asked for at an address where this resource has memory out. None for any other address,
and for a resource of another module. A pool takes no lock for it.""",
    ),
    "MemoryResource.device": (
        "property",
        "(self) -> Device",
        "(self)",
        """The device whose memory the resource gives. For host memory it is the device that the resource was made
for.""",
    ),
    "MemoryResource.device_id": (
        "property",
        "(self) -> int",
        "(self)",
        """The ordinal of the device that owns the memory; -1 for host memory.""",
    ),
    "MemoryResource.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose resource it is: "host", "cuda" or "hip".""",
    ),
    "MemoryResource.kind": (
        "property",
        "(self) -> Literal['device', 'pinned', 'managed', 'system', 'async', 'virtual', 'foreign']",
        "(self)",
        """What the memory is: "device", "pinned", "managed", "system", "async", "virtual" or "foreign". A pool, an
adaptor, a FixedSizeMemoryResource and a MonotonicMemoryResource have their upstream's kind.""",
    ),
    "MemoryResource.is_host_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether code on the host may read and write the resource's memory by its address.""",
    ),
    "MemoryResource.is_device_accessible": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether kernels of the device may read and write the resource's memory by its address.""",
    ),
    "MemoryResource.is_stream_ordered": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the resource allocates and frees in the order of a stream, without blocking the host. If so,
``allocate`` requires the stream.""",
    ),
    "MemoryResource.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the resource has been closed: it gives no more memory.""",
    ),
    "MemoryResource.live_buffers": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of allocations that are out: given, and not taken back yet.""",
    ),
    "MemoryResource.live_bytes": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that are out, as they were asked for.""",
    ),
    "MemoryResource.cached": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The bytes that the resource holds and no buffer has; None where the resource keeps none or cannot say. An
adaptor answers for its upstream.""",
    ),
    "MemoryResource.close": (
        "method",
        "(self) -> None",
        "(self)",
        """Gives back what the resource holds, and refuses allocations from then on. Closing twice is fine; the
upstream stays open.

Raises BufferError while buffers live, while a call of the resource is under way, and for the default resource
that portamem made, with its upstream. A default resource of the program's own can be closed.""",
    ),
    "MemoryResource.__enter__": (
        "method",
        "(self) -> MemoryResource",
        "(self)",
        """Answers the resource itself.""",
    ),
    "MemoryResource.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the resource, as ``close()`` does; the default resource that portamem made stays open. An exception
that ends the block is never hidden: if the close is refused then, the resource ends with its last
reference.""",
    ),
    "PoolMemoryResource": (
        "class",
        "(upstream: MemoryResource | None=None, *, device: Device | int | None=None, limit: int | str | None=None, release: float | int | Callable[[PoolStats], int | str | None] | None=None, host_access: bool=True, shares_idle: bool=True, initial_size: int | str | None=None)",
        "(upstream=None, *, device=None, limit=None, release=None, host_access=True, shares_idle=True, initial_size=None)",
        """A pool: stream-ordered memory, cut from chunks of ``upstream`` (by default plain device memory). The pool keeps
the upstream alive.

Memory that was freed on a stream is used again on that stream at once: by the thread that freed it, and above 1 MiB
by any thread. Memory that the host reaches is used again only when the work before its free has run. Another stream
takes memory over behind an event. ``allocate`` requires ``stream``.

* ``limit``: the most bytes that the pool reserves.
* ``release``: the bytes that the pool keeps when memory has come back. It is a share of the pool's peak, from 0 to
  1, or a function that takes a PoolStats and answers the bytes to keep (None: all). By default the pool keeps
  everything until ``trim()``, until the upstream has no more, or until it would have more than its blocks ever
  needed.
* ``host_access=False``: buffers refuse the host, also where it could reach the memory. The memory is then used
  again at once on its stream on every machine.
* ``shares_idle=False``: the pool gives back no idle memory when another resource finds none.
* ``initial_size``: the bytes that the pool takes of the upstream when it is made, in one chunk.

``limit`` and ``initial_size`` also take a share of the device's memory, such as "70%", unless the memory is the
host's.""",
    ),
    "PoolMemoryResource.__init__": (
        "method",
        "(self, upstream: MemoryResource | None=None, *, device: Device | int | None=None, limit: int | str | None=None, release: float | int | Callable[[PoolStats], int | str | None] | None=None, host_access: bool=True, shares_idle: bool=True, initial_size: int | str | None=None) -> None",
        "(self, upstream=None, *, device=None, limit=None, release=None, host_access=True, shares_idle=True, initial_size=None)",
        """Makes a pool over ``upstream``, or over plain memory of ``device`` where that is None. The parameters are
described with the class.

Raises ValueError for a limit of 0, for a share that is not from 0 to 1, for a percentage of host memory, for a
device that is not the upstream's, for a closed upstream, and for an initial size that is larger than the limit.
Raises OutOfMemoryError where there is no memory for the initial size.""",
    ),
    "PoolMemoryResource.upstream": (
        "property",
        "(self) -> MemoryResource",
        "(self)",
        """The resource below, kept alive.""",
    ),
    "PoolMemoryResource.limit": (
        "settable",
        "(self) -> int | None",
        "(self)",
        """The most bytes that the pool reserves of its upstream; None where there is no limit. A pool without a limit
of its own answers PORTAMEM_POOL_LIMIT, which the pools of the device share.

It can be set, to bytes, to a share of the device's memory such as "70%", or to None. Where the pool has
reserved more, nothing goes back by itself: allocations that need more of the upstream raise OutOfMemoryError
until the pool has less. ``trim(limit)`` gives back what is not out. Raises ValueError for 0.""",
    ),
    "PoolMemoryResource.is_checked": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether the pool tells a memory checker which bytes are in use: AddressSanitizer for memory that the host
reaches, compute-sanitizer for plain device memory on CUDA. None: the first allocation will show.""",
    ),
    "PoolMemoryResource.stats": (
        "method",
        "(self) -> PoolStats",
        "(self)",
        """The pool's figures at about this moment, as a PoolStats: bytes used, reserved and free, the peak, and how the
pool served allocations.""",
    ),
    "PoolMemoryResource.snapshot": (
        "method",
        "(self) -> PoolSnapshot",
        "(self)",
        """Every chunk and its pieces, as plain data that json takes: a dict with ``used``, ``reserved``, ``peak`` and
``chunks``. A chunk has ``address``, ``nbytes`` and ``pieces``. A piece has ``address``, ``nbytes`` and
``state``:

* "free": its ``stream`` is the identity of the stream that may use it, 0 for any.
* "cached": free, in a thread's cache or behind an event.
* "live": out.
* "slab": cut into ``blocks`` blocks of ``block_nbytes`` bytes, of which ``live`` are out.""",
    ),
    "PoolMemoryResource.reset_peak": (
        "method",
        "(self) -> None",
        "(self)",
        """Sets ``stats().peak`` to the bytes that are reserved now.""",
    ),
    "PoolMemoryResource.trim": (
        "method",
        "(self, keep: int | str=0, *, stream: Stream | Any | None=None) -> None",
        "(self, keep=0, *, stream=None)",
        """Gives chunks without a live block back to the upstream until at most ``keep`` bytes are reserved. The call
waits for the work that used the pool's free memory. With a stream it waits only for that stream's work, and for
another thread's trim; it leaves memory that was freed on other streams, or on another thread's own default
stream, and whose work has not run. The runtime's Free of plain memory may itself wait for the device.

Raises ValueError for a stream of another device, and for a stream that is captured.""",
    ),
    "ResourceAdaptor": (
        "class",
        "",
        "",
        """A resource over another one, its upstream. It gives the upstream's memory, with the same kind and
accessibility.""",
    ),
    "ResourceAdaptor.upstream": (
        "property",
        "(self) -> MemoryResource",
        "(self)",
        """The resource below, kept alive.""",
    ),
    "StatisticsAdaptor": (
        "class",
        "(upstream: MemoryResource)",
        "(upstream)",
        """Counts the bytes and allocations that go through it: in all, by tag, by thread, and within scopes.

Memory counts for the tag and the thread that allocated it, whichever thread frees it. A free with an address that
is not out, or with another size, raises ValueError.""",
    ),
    "StatisticsAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource) -> None",
        "(self, upstream)",
        """Makes an adaptor that counts what is allocated from ``upstream`` through it. The adaptor keeps the upstream
alive.""",
    ),
    "StatisticsAdaptor.counts": (
        "property",
        "(self) -> MemoryCounts",
        "(self)",
        """Bytes and allocations that have gone through the adaptor in all.""",
    ),
    "StatisticsAdaptor.by_tag": (
        "property",
        "(self) -> dict[str, MemoryCounts]",
        "(self)",
        """The counts by tag; "" has the allocations without a tag.""",
    ),
    "StatisticsAdaptor.by_thread": (
        "property",
        "(self) -> dict[int, MemoryCounts]",
        "(self)",
        """The counts by ``threading.get_native_id()`` of the allocating thread. If the system gave a number to another
thread later, its counts are those of both threads, with the larger peaks.""",
    ),
    "StatisticsAdaptor.reset_peak": (
        "method",
        "(self) -> None",
        "(self)",
        """Sets the peaks to the current figures, in open scopes too.""",
    ),
    "StatisticsAdaptor.scope": (
        "method",
        "(self) -> StatisticsScope",
        "(self)",
        """A context manager, a StatisticsScope, whose ``counts`` start at 0. All threads count; scopes may be
nested.""",
    ),
    "TrackingAdaptor": (
        "class",
        "(upstream: MemoryResource)",
        "(upstream)",
        """Knows each allocation that is out: its size, stream, time, thread, tag and place in the program.

When the adaptor is destroyed, or the process exits, it prints the allocations that are out to stderr. A close that
is refused says where they were made. A free with an address that is not out, or with another size, raises
ValueError.""",
    ),
    "TrackingAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource) -> None",
        "(self, upstream)",
        """Makes an adaptor that knows each allocation of ``upstream`` that is made through it. The adaptor keeps the
upstream alive.""",
    ),
    "TrackingAdaptor.outstanding": (
        "method",
        "(self) -> list[OutstandingAllocation]",
        "(self)",
        """The allocations that are out, the oldest first.""",
    ),
    "LoggingAdaptor": (
        "class",
        "(upstream: MemoryResource, path: str | bytes | os.PathLike[str])",
        "(upstream, path)",
        """Writes the calls that go through it to a file, which it overwrites: one JSON object a line.

``path`` may have ``%r`` (the rank of a launched process), ``%h`` (the host's name), ``%p`` (the process's number)
and ``%%`` (a percent sign) in it. The log is complete when the adaptor is closed or destroyed, or the process
exits; ``portamem replay`` runs its allocations again. Raises ValueError for another ``%``, and where the file
cannot be opened, or another adaptor or process writes it.""",
    ),
    "LoggingAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource, path: str | bytes | os.PathLike[str]) -> None",
        "(self, upstream, path)",
        """Makes an adaptor over ``upstream`` that writes to the file at ``path``, and empties that file. The adaptor
keeps the upstream alive.""",
    ),
    "LoggingAdaptor.path": (
        "property",
        "(self) -> str",
        "(self)",
        """The file that the adaptor writes, with the placeholders of the given path filled in.""",
    ),
    "LoggingAdaptor.flush": (
        "method",
        "(self) -> None",
        "(self)",
        """Writes all lines so far to the file; without it they get there in pieces of 64 KiB.""",
    ),
    "LimitingAdaptor": (
        "class",
        "(upstream: MemoryResource, limit: int | str)",
        "(upstream, limit)",
        """Never has more than ``limit`` bytes out. An allocation beyond the limit raises OutOfMemoryError, whose text names
the limit, and does not ask the upstream.""",
    ),
    "LimitingAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource, limit: int | str) -> None",
        "(self, upstream, limit)",
        """Makes an adaptor that never has more than ``limit`` bytes of ``upstream`` out. The adaptor keeps the
upstream alive.""",
    ),
    "LimitingAdaptor.limit": (
        "property",
        "(self) -> int",
        "(self)",
        """The most bytes that the adaptor has out at once.""",
    ),
    "LimitingAdaptor.allocated": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that are out, as they were asked for.""",
    ),
    "LimitingAdaptor.available": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that may still go out before the limit is reached.""",
    ),
    "FailureCallbackAdaptor": (
        "class",
        "(upstream: MemoryResource, callback: Callable[[int], bool])",
        "(upstream, callback)",
        """Calls ``callback(nbytes)`` where the upstream has no memory. The callback answers True to have the allocation
tried again, as often as it likes, or False to give up.

It runs on the allocating thread, and may free, trim and allocate. After False the upstream's OutOfMemoryError
reaches the caller. An exception of the callback reaches the caller too; any other answer raises TypeError.""",
    ),
    "FailureCallbackAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource, callback: Callable[[int], bool]) -> None",
        "(self, upstream, callback)",
        """Makes an adaptor over ``upstream`` that calls ``callback(nbytes)`` where the upstream has no memory. The
adaptor keeps both alive.""",
    ),
    "FallbackAdaptor": (
        "class",
        "(upstream: MemoryResource, alternate: MemoryResource)",
        "(upstream, alternate)",
        """Takes memory of ``alternate`` where ``upstream`` has none. Each buffer goes back to the resource that gave it.

The adaptor promises of its memory what the upstream promises, and its ``kind`` is the upstream's. So the alternate
has to be of the same device, stream-ordered if and only if the upstream is, and reached from everywhere that
reaches the upstream's memory. Where neither has memory, the text of OutOfMemoryError has both refusals. Under
capture the adaptor gives memory that either has at hand. Any other failure of the upstream reaches the caller, and
the alternate is not asked. As in every allocation, the upstream waits for memory of dropped buffers before it
refuses.""",
    ),
    "FallbackAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource, alternate: MemoryResource) -> None",
        "(self, upstream, alternate)",
        """Makes an adaptor over both resources, and keeps them alive. Raises ValueError for a closed resource, and for
an alternate that cannot stand for the upstream.""",
    ),
    "FallbackAdaptor.alternate": (
        "property",
        "(self) -> MemoryResource",
        "(self)",
        """The resource that is asked second.""",
    ),
    "FallbackAdaptor.alternate_live_buffers": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of this adaptor's allocations that are out and have the alternate's memory.""",
    ),
    "FallbackAdaptor.alternate_live_bytes": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of those allocations, as they were asked for.""",
    ),
    "PrefetchAdaptor": (
        "class",
        "(upstream: MemoryResource, location: Device | int | str | None=None)",
        "(upstream, location=None)",
        """Prefetches the memory that it allocates, on the stream of the allocation. ``location=None`` is that stream's
device.

The upstream has to give managed memory, or system memory where the device has pageable memory access; ValueError
for others. An allocation on a captured stream raises ValueError.""",
    ),
    "PrefetchAdaptor.__init__": (
        "method",
        "(self, upstream: MemoryResource, location: Device | int | str | None=None) -> None",
        "(self, upstream, location=None)",
        """Makes an adaptor that prefetches memory of ``upstream`` to ``location``. The adaptor keeps the upstream
alive.""",
    ),
    "PrefetchAdaptor.location": (
        "property",
        "(self) -> int | str | None",
        "(self)",
        """The place that the adaptor prefetches memory to: an ordinal, "host", "host_numa:3" or "host_numa_current";
None is the device of each allocation's stream.""",
    ),
    "FixedSizeMemoryResource": (
        "class",
        "(upstream: MemoryResource, block_size: int | str, *, blocks_per_chunk: int | None=None)",
        "(upstream, block_size, *, blocks_per_chunk=None)",
        """Blocks of one size, carved from chunks of ``upstream``. An allocation of up to ``block_size`` bytes takes a
block; a larger one raises ValueError.

Memory that only devices reach is stream-ordered: a freed block is its stream's next one at once, and another
stream's behind an event. Memory that the host reaches is used again when the work before its free has run.
``blocks_per_chunk``: the blocks that the resource takes of the upstream at a time; None is as many as fill 1
MiB.""",
    ),
    "FixedSizeMemoryResource.__init__": (
        "method",
        "(self, upstream: MemoryResource, block_size: int | str, *, blocks_per_chunk: int | None=None) -> None",
        "(self, upstream, block_size, *, blocks_per_chunk=None)",
        """Makes a resource of equal blocks over ``upstream``, which it keeps alive. The parameters are described with
the class.""",
    ),
    "FixedSizeMemoryResource.upstream": (
        "property",
        "(self) -> MemoryResource",
        "(self)",
        """The resource below, kept alive.""",
    ),
    "FixedSizeMemoryResource.block_size": (
        "property",
        "(self) -> int",
        "(self)",
        """The most bytes that a block holds; a larger allocation raises ValueError.""",
    ),
    "FixedSizeMemoryResource.blocks_per_chunk": (
        "property",
        "(self) -> int",
        "(self)",
        """The number of blocks that the resource takes of its upstream at a time; fewer where the upstream is short of
memory.""",
    ),
    "FixedSizeMemoryResource.reserved": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that the resource holds of its upstream.""",
    ),
    "FixedSizeMemoryResource.trim": (
        "method",
        "(self, keep: int | str=0) -> None",
        "(self, keep=0)",
        """Gives chunks without a live block back to the upstream, behind their last uses, until at most ``keep`` bytes
are reserved. Raises ValueError while a stream that freed blocks is captured.""",
    ),
    "MonotonicMemoryResource": (
        "class",
        "(upstream: MemoryResource, *, initial_size: int | str=1048576)",
        "(upstream, *, initial_size=1048576)",
        """Carves buffers one behind the other out of chunks of ``upstream``. Each chunk is twice as large as the one
before.

Closing a buffer only lowers the count of live buffers. Its memory is not used again before ``release()`` or
``close()``, which raise BufferError while a buffer lives.""",
    ),
    "MonotonicMemoryResource.__init__": (
        "method",
        "(self, upstream: MemoryResource, *, initial_size: int | str=1048576) -> None",
        "(self, upstream, *, initial_size=1048576)",
        """Makes a resource that carves buffers out of chunks of ``upstream``, which it keeps alive. The first chunk is
of ``initial_size`` bytes, unless an allocation needs a larger one.""",
    ),
    "MonotonicMemoryResource.upstream": (
        "property",
        "(self) -> MemoryResource",
        "(self)",
        """The resource below, kept alive.""",
    ),
    "MonotonicMemoryResource.initial_size": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of the first chunk.""",
    ),
    "MonotonicMemoryResource.reserved": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that the resource holds of its upstream.""",
    ),
    "MonotonicMemoryResource.release": (
        "method",
        "(self) -> None",
        "(self)",
        """Gives all memory back to the upstream, behind the work of every stream that used it. Raises BufferError while
buffers live.""",
    ),
    "CallbackMemoryResource": (
        "class",
        "(allocate: Callable[[int, Stream], int] | int | Any, deallocate: Callable[[int, int, Stream], object] | int | Any, *, device: Device | int | None=None, kind: Literal['device', 'pinned', 'managed', 'system', 'async', 'virtual', 'foreign']='device', host_accessible: bool | None=None, stream_ordered: bool | None=None, user_data: int=0)",
        "(allocate, deallocate, *, device=None, kind='device', host_accessible=None, stream_ordered=None, user_data=0)",
        """Allocates by ``allocate(nbytes, stream) -> address`` and frees by ``deallocate(address, nbytes, stream)``, two
functions of the program's.

Both are Python functions, or C functions ``void* (size_t nbytes, void* stream, void* user_data)`` and
``void (void* ptr, size_t nbytes, void* stream, void* user_data)``. A C function is given as a ctypes function
pointer, as an object with an ``address`` (Numba's cfunc) or as its address; it runs without the GIL. portamem never
asks for 0 bytes. ``allocate`` answers an address that is a multiple of 256, or 0 where there is no memory. An
exception of a Python function reaches the caller unchanged. portamem holds no lock during the calls: the functions
may use other resources, and pools over this one.

``kind``, ``host_accessible`` and ``stream_ordered`` say what the memory is; the last two follow from the kind
unless given. If the memory is not stream-ordered, portamem calls ``deallocate`` once the work on the stream has
run.

A ``deallocate`` that raises has not taken the memory, which stays out. portamem calls it again for that memory:
when the program closes the buffer again, and for a dropped buffer until the function returns. For a dropped buffer
only the first exception is reported, to ``sys.unraisablehook``.""",
    ),
    "CallbackMemoryResource.__init__": (
        "method",
        "(self, allocate: Callable[[int, Stream], int] | int | Any, deallocate: Callable[[int, int, Stream], object] | int | Any, *, device: Device | int | None=None, kind: Literal['device', 'pinned', 'managed', 'system', 'async', 'virtual', 'foreign']='device', host_accessible: bool | None=None, stream_ordered: bool | None=None, user_data: int=0) -> None",
        "(self, allocate, deallocate, *, device=None, kind='device', host_accessible=None, stream_ordered=None, user_data=0)",
        """Makes a resource of two functions, which it keeps alive. The parameters are described with the class;
``user_data`` is an address that portamem passes to C functions.""",
    ),
    "DeviceMemoryResource": (
        "class",
        "(device: Device | int | None=None, *, coherence: Literal['default', 'fine_grained', 'uncached']='default')",
        "(device=None, *, coherence='default')",
        """Plain device memory, by the runtime's Malloc and Free. (cuda.core's class of this name is a pool: that is
AsyncMemoryResource here.)""",
    ),
    "DeviceMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, coherence: Literal['default', 'fine_grained', 'uncached']='default') -> None",
        "(self, device=None, *, coherence='default')",
        """Makes a resource of plain memory of a device (None: the calling thread's current one).

``coherence`` says how host and device see each other's writes while a kernel runs: "default", "fine_grained"
or "uncached". The last two are AMD's: an allocation raises Error where the device has no such memory.""",
    ),
    "DeviceMemoryResource.coherence": (
        "property",
        "(self) -> Literal['default', 'fine_grained', 'uncached']",
        "(self)",
        """The coherence that was asked for.""",
    ),
    "DeviceMemoryResource.allocate_pitched": (
        "method",
        "(self, width: int | str, height: int, *, stream: Stream | Any | None=None) -> PitchedBuffer",
        "(self, width, height, *, stream=None)",
        """``height`` rows of ``width`` bytes as a PitchedBuffer: the runtime pads each row so that the next one is
aligned.

``stream`` is as for ``allocate``. Raises OutOfMemoryError where there is no memory; ValueError for a closed
resource, a ``coherence`` other than "default", and more bytes than any memory has.""",
    ),
    "PinnedMemoryResource": (
        "class",
        "(device: Device | int | None=None, *, portable: bool=True, mapped: bool=True, write_combined: bool=False, coherence: Literal['default', 'coherent', 'non_coherent']='default')",
        "(device=None, *, portable=True, mapped=True, write_combined=False, coherence='default')",
        """Page-locked host memory. It is coherent unless ``coherence="non_coherent"`` is asked for.

Where all parameters have their defaults, resources over it (pools among them) get their chunks in the faster way
that PrefaultedPinnedMemoryResource describes.""",
    ),
    "PinnedMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, portable: bool=True, mapped: bool=True, write_combined: bool=False, coherence: Literal['default', 'coherent', 'non_coherent']='default') -> None",
        "(self, device=None, *, portable=True, mapped=True, write_combined=False, coherence='default')",
        """Makes a resource of page-locked host memory for a device (None: the calling thread's current one).

``portable``: the memory is page-locked for all devices, not for this one alone. ``mapped``: kernels reach the
memory by an address. ``write_combined``: the host writes fast and reads very slowly. ``coherence``, which
says how host and device see each other's writes while a kernel runs, is "default", "coherent" or
"non_coherent".""",
    ),
    "PinnedMemoryResource.coherence": (
        "property",
        "(self) -> Literal['default', 'coherent', 'non_coherent']",
        "(self)",
        """The coherence that was asked for.""",
    ),
    "PrefaultedPinnedMemoryResource": (
        "class",
        "(device: Device | int | None=None)",
        "(device=None)",
        """Page-locked host memory in whole pages, for large buffers; for many small ones take a pool.

Several threads touch the pages, which are huge where the system allows it and near the device, and the runtime
registers them. That takes a tenth of the time of PinnedMemoryResource. The runtime's HostMalloc gives the memory
where the device's capabilities do not say that registered memory is coherent and has one address everywhere, and
where the runtime refuses to register.""",
    ),
    "PrefaultedPinnedMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None) -> None",
        "(self, device=None)",
        """Makes a resource of page-locked host memory near a device (None: the calling thread's current one).""",
    ),
    "PrefaultedPinnedMemoryResource.registers": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether new memory is registered pages; False means that HostMalloc gives it.""",
    ),
    "ManagedMemoryResource": (
        "class",
        "(device: Device | int | None=None, *, attach: Literal['global', 'host']='global')",
        "(device=None, *, attach='global')",
        """Managed (unified) memory: one address for host and device.""",
    ),
    "ManagedMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, attach: Literal['global', 'host']='global') -> None",
        "(self, device=None, *, attach='global')",
        """Makes a resource of managed memory of a device (None: the calling thread's current one).

``attach`` says which devices may touch the memory from the start: "global" (all devices) or "host" (none).
Raises Error, named NotSupported, on a device without managed memory.""",
    ),
    "SystemMemoryResource": (
        "class",
        "(device: Device | int | None=None)",
        "(device=None)",
        """Ordinary page-aligned host memory. Kernels reach it where the device has pageable memory access.""",
    ),
    "SystemMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None) -> None",
        "(self, device=None)",
        """Makes a resource of ordinary host memory for a device (None: the calling thread's current one).""",
    ),
    "AsyncMemoryResource": (
        "class",
        "(device: Device | int | None=None, *, release_threshold: int | str | None=None, max_size: int | str=0)",
        "(device=None, *, release_threshold=None, max_size=0)",
        """Stream-ordered memory of a pool of the driver: by default a pool of its own, which keeps all memory that it has
(release threshold = maximum). ``allocate`` requires ``stream``.""",
    ),
    "AsyncMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, release_threshold: int | str | None=None, max_size: int | str=0) -> None",
        "(self, device=None, *, release_threshold=None, max_size=0)",
        """Makes a driver pool on a device (None: the calling thread's current one), which the resource owns.

``release_threshold``: the bytes that the pool keeps at a synchronize; None keeps all. ``max_size``: the most
bytes of the pool, which the runtime may round up; 0 is as large as the device. Raises Error, named
NotSupported, on a device without pools.""",
    ),
    "AsyncMemoryResource.default_pool": (
        "static",
        "(device: Device | int | None=None) -> AsyncMemoryResource",
        "(device=None)",
        """A resource over the pool that the device came with (None: the calling thread's current device). portamem
leaves the pool's settings as they are. Raises Error, named NotSupported, on a device without pools.""",
    ),
    "AsyncMemoryResource.from_handle": (
        "static",
        "(pool: int, device: Device | int, *, owner: object=None) -> AsyncMemoryResource",
        "(pool, device, *, owner=None)",
        """A resource over a foreign pool by its native handle: portamem never destroys the pool, leaves its settings as
they are, and keeps ``owner`` alive. Raises ValueError for the handle 0.""",
    ),
    "AsyncMemoryResource.pool_handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The native pool as a number, for other libraries. Raises ValueError for a closed resource.""",
    ),
    "AsyncMemoryResource.owns_pool": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the resource made the pool. When the resource ends, portamem keeps such a pool for a later resource,
and does not destroy it.""",
    ),
    "AsyncMemoryResource.release_threshold": (
        "settable",
        "(self) -> int",
        "(self)",
        """The bytes that the pool keeps at a synchronize; 2**64 - 1 keeps all. It can be set.""",
    ),
    "AsyncMemoryResource.used": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that are allocated from the pool, by all its users.""",
    ),
    "AsyncMemoryResource.used_high": (
        "property",
        "(self) -> int",
        "(self)",
        """The most bytes that were allocated from the pool at once, since ``reset_high()``.""",
    ),
    "AsyncMemoryResource.reserved": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes that the pool holds of the device.""",
    ),
    "AsyncMemoryResource.reserved_high": (
        "property",
        "(self) -> int",
        "(self)",
        """The most bytes that the pool held of the device at once, since ``reset_high()``.""",
    ),
    "AsyncMemoryResource.reset_high": (
        "method",
        "(self) -> None",
        "(self)",
        """Sets ``used_high`` and ``reserved_high`` to the current figures.""",
    ),
    "AsyncMemoryResource.trim": (
        "method",
        "(self, keep: int | str=0) -> None",
        "(self, keep=0)",
        """Gives unused memory back to the driver until at most ``keep`` bytes are reserved. Memory in use stays.""",
    ),
    "AsyncMemoryResource.reuse_follow_event_dependencies": (
        "settable",
        "(self) -> bool",
        "(self)",
        """Whether the pool reuses memory that was freed on another stream where an event already orders the two. It
can be set.""",
    ),
    "AsyncMemoryResource.reuse_allow_opportunistic": (
        "settable",
        "(self) -> bool",
        "(self)",
        """Whether the pool reuses memory on any stream once the work before its free has run. It can be set.""",
    ),
    "AsyncMemoryResource.reuse_allow_internal_dependencies": (
        "settable",
        "(self) -> bool",
        "(self)",
        """Whether the pool may make a stream wait for the free on another stream, to reuse that memory. It can be
set.""",
    ),
    "AsyncMemoryResource.access": (
        "method",
        "(self, device: Device | int) -> Literal['none', 'read', 'read_write']",
        "(self, device)",
        """What a device may do with the pool's memory: "none", "read" or "read_write".""",
    ),
    "AsyncMemoryResource.set_access": (
        "method",
        "(self, device: Device | int, access: Literal['none', 'read', 'read_write']) -> None",
        "(self, device, access)",
        """Sets what a device may do with the pool's memory: "none", "read" or "read_write".

Raises Error where the devices have no path to each other, for "none" on the pool's own device, and where the
runtime does not know that access.""",
    ),
    "VirtualMemoryResource": (
        "class",
        "(device: Device | int | None=None, *, reserve: int | str=0)",
        "(device=None, *, reserve=0)",
        """Device memory that is mapped to reserved addresses: a block can grow and shrink at its address, and sleep.

A block takes whole multiples of the granularity, 2 MiB on most devices, and each mapped piece costs about 0.1 ms.
So use the resource for large buffers.""",
    ),
    "VirtualMemoryResource.__init__": (
        "method",
        "(self, device: Device | int | None=None, *, reserve: int | str=0) -> None",
        "(self, device=None, *, reserve=0)",
        """Makes the resource on a device (None: the calling thread's current one).

``reserve``: the fewest bytes of addresses that an allocation gets, so that ``Buffer.reallocate`` can grow it in
place. They cost no memory of the device. Raises Error, named NotSupported, on a device without virtual memory.""",
    ),
    "VirtualMemoryResource.granularity": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of which memory is mapped in multiples.""",
    ),
    "VirtualMemoryResource.reserve": (
        "property",
        "(self) -> int",
        "(self)",
        """The fewest bytes of addresses that an allocation gets.""",
    ),
    "VirtualMemoryResource.mapped": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of device memory that all blocks have now. While the resource sleeps, that is 0 and what the
runtime did not take back.""",
    ),
    "VirtualMemoryResource.kept": (
        "property",
        "(self) -> int",
        "(self)",
        """The bytes of host memory that keep the contents while the resource sleeps: 0 while it is awake.""",
    ),
    "VirtualMemoryResource.is_asleep": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the resource sleeps: its memory is with the device until ``wake()``.""",
    ),
    "VirtualMemoryResource.allocate_growable": (
        "method",
        "(self, nbytes: int | str, capacity: int | str | None=None, *, stream: Stream | Any | None=None) -> GrowableBuffer",
        "(self, nbytes, capacity=None, *, stream=None)",
        """A GrowableBuffer of ``nbytes`` bytes, at addresses for ``capacity`` bytes (None: as many as the device has
memory). ``stream`` is as for ``allocate``. Raises ValueError for 0 bytes, and for more than ``capacity``;
otherwise as ``allocate`` does.""",
    ),
    "VirtualMemoryResource.sleep": (
        "method",
        "(self, *, contents: Literal['keep', 'drop']='keep') -> None",
        "(self, *, contents='keep')",
        """Gives the memory of every block back to the device, and keeps the addresses. The call waits for all work of
the device first. Until ``wake()``, each use of the buffers' bytes raises ValueError; buffers can be closed.

``contents``: "keep" copies the contents to host memory (of a pool's chunk, the pieces that buffers have out),
"drop" forgets them. The program makes sure that no work uses the buffers from here to ``wake()``: neither by
addresses that it took from ``handle`` or from exports, nor by calls of other threads while this call runs. A
resource that sleeps already goes on sleeping.

Raises MemoryError where the host has no memory for the copy, and ValueError within a capture and for a closed
resource; the resource is then as it was. Raises Error where the runtime does not take memory back; the resource
then sleeps, and that memory is not free.""",
    ),
    "VirtualMemoryResource.wake": (
        "method",
        "(self) -> None",
        "(self)",
        """Gives every block memory again, at its address, with the contents that ``sleep`` kept. A resource that is
awake stays awake. Raises OutOfMemoryError where the device has no memory, and ValueError within a capture and
for a closed resource; the resource then goes on sleeping, and still has the contents.""",
    ),
    "VirtualMemoryResource.access": (
        "method",
        "(self, device: Device | int) -> Literal['none', 'read', 'read_write']",
        "(self, device)",
        """What a device may do with the resource's memory: "none", "read" or "read_write". Raises ValueError for a
closed resource.""",
    ),
    "VirtualMemoryResource.set_access": (
        "method",
        "(self, device: Device | int, access: Literal['none', 'read', 'read_write']) -> None",
        "(self, device, access)",
        """Sets what another device may do with the resource's memory: "none", "read" or "read_write". It counts for
the memory of all its buffers, and for all that it maps later. A resource that sleeps remembers it. The program
makes sure that no work uses memory to which it takes access away.

Raises ValueError where that device cannot reach this one, for less than "read_write" on the resource's own
device, and for a closed resource. Raises Error where the runtime refuses, or does not know that access. The
device then has the access that it had.""",
    ),
    "HostRegistration": (
        "class",
        "(obj: Any, *, device: Device | int | None=None, portable: bool=True, mapped: bool=True, read_only: bool=False)",
        "(obj, *, device=None, portable=True, mapped=True, read_only=False)",
        """Page-locks memory that a Python object owns, until it is closed. It keeps the object and its Python buffer alive.
If it is dropped without ``close()``, portamem unlocks the memory later, behind the work declared on it.""",
    ),
    "HostRegistration.__init__": (
        "method",
        "(self, obj: Any, *, device: Device | int | None=None, portable: bool=True, mapped: bool=True, read_only: bool=False) -> None",
        "(self, obj, *, device=None, portable=True, mapped=True, read_only=False)",
        """Page-locks the memory of ``obj`` for a device (None: the calling thread's current one), so that copies of it
are fast and kernels reach it.

``portable``: the memory is page-locked for all devices, not for this one alone. ``mapped``: kernels reach the
memory by an address. ``read_only``: devices may only read it, and ``obj`` may be read-only too. Raises Error
where the memory is registered already, or the runtime refuses; ValueError for memory of 0 bytes, and for
read-only memory without ``read_only``; TypeError for an object without memory of the host.""",
    ),
    "HostRegistration.handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The address of the first byte on the host, as a number. Raises ValueError for a closed registration.""",
    ),
    "HostRegistration.device_handle": (
        "property",
        "(self) -> int",
        "(self)",
        """The address by which kernels of the device reach the first byte, as a number; it may differ from ``handle``.
Raises ValueError for a closed registration.""",
    ),
    "HostRegistration.nbytes": (
        "property",
        "(self) -> int",
        "(self)",
        """The size in bytes.""",
    ),
    "HostRegistration.backend": (
        "property",
        "(self) -> Literal['host', 'cuda', 'hip']",
        "(self)",
        """The backend whose registration it is: "host", "cuda" or "hip".""",
    ),
    "HostRegistration.is_closed": (
        "property",
        "(self) -> bool",
        "(self)",
        """Whether the registration has been closed: the memory is ordinary memory again.""",
    ),
    "HostRegistration.close": (
        "method",
        "(self) -> None",
        "(self)",
        """Blocks until all work declared on the memory has run, and unlocks the memory. A second close does nothing.
Raises BufferError while another thread copies the memory.""",
    ),
    "HostRegistration.__enter__": (
        "method",
        "(self) -> HostRegistration",
        "(self)",
        """Answers the registration itself.""",
    ),
    "HostRegistration.__exit__": (
        "method",
        "(self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None, /) -> None",
        "(self, exc_type, exc, tb, /)",
        """Closes the registration, as ``close()`` does. An exception that ends the block is never hidden: if the
close is refused then, the registration ends with its last reference.""",
    ),
    "PointerInfo": (
        "class",
        "",
        "",
        """What the runtime says of an address, and, as ``block_base``, ``block_nbytes`` and ``resource``, what portamem
knows of it. For memory of a pool, ``base`` and ``nbytes`` are those of the whole chunk, and the block is the
pool's.""",
    ),
    "PointerInfo.kind": (
        "property",
        "(self) -> Literal['unregistered', 'host', 'device', 'managed']",
        "(self)",
        """What the memory is to the runtime: "unregistered", "host", "device" or "managed".""",
    ),
    "PointerInfo.device_id": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The ordinal of the device that the memory belongs to; None where there is none.""",
    ),
    "PointerInfo.base": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The address at which the allocation begins; None where the runtime does not say.""",
    ),
    "PointerInfo.nbytes": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The bytes of the whole allocation; None where the runtime does not say.""",
    ),
    "PointerInfo.block_base": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The first address of the block that the address is in, if a resource has that block out; else None. Pools,
FixedSizeMemoryResource, MonotonicMemoryResource and CallbackMemoryResource know every address inside of a
block. Other resources, and all with PORTAMEM_DEBUG=1, know only its first.""",
    ),
    "PointerInfo.block_nbytes": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The bytes that were asked for of that block; None where there is none.""",
    ),
    "PointerInfo.resource": (
        "property",
        "(self) -> MemoryResource | None",
        "(self)",
        """The resource that the block was allocated from, as ``resource_of`` answers it; None where there is none. This
object keeps it alive.""",
    ),
    "PointerInfo.host_pointer": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The address by which the host reaches the memory; None where it does not.""",
    ),
    "PointerInfo.device_pointer": (
        "property",
        "(self) -> int | None",
        "(self)",
        """The address by which the device reaches the memory; None where it does not.""",
    ),
    "PointerInfo.flags": (
        "property",
        "(self) -> int",
        "(self)",
        """The runtime's flags of the allocation, as a number.""",
    ),
    "PointerInfo.ipc_capable": (
        "property",
        "(self) -> bool | None",
        "(self)",
        """Whether a program can share the memory with another process by a legacy IPC handle; None where the runtime
does not say (most versions of AMD's). CUDA says no for memory of driver pools and for virtual, managed and
pinned memory.""",
    ),
    "pointer_info": (
        "function",
        "(ptr: int | Buffer | View | HostRegistration) -> PointerInfo",
        "(ptr)",
        """What the runtime says of an address, or of the memory of a Buffer, View or HostRegistration, and which block of a
resource it is in. For memory that the runtime does not know, the answer has the kind "unregistered". Raises
ValueError for a closed object.""",
    ),
    "resource_of": (
        "function",
        "(ptr: int | Buffer | View | HostRegistration) -> MemoryResource | None",
        "(ptr)",
        """The resource that has memory out at this address, whichever module or thread allocated it: the one whose
``deallocate(ptr)`` takes it back. Where one resource stands over another, it is the outermost one, which the
program allocated from. None for an address that no resource of this backend has out, and for one inside of a
block.""",
    ),
    "size_of": (
        "function",
        "(ptr: int | Buffer | View | HostRegistration) -> int | None",
        "(ptr)",
        """The bytes that were asked for at an address that a resource of this backend has out; None for any other.""",
    ),
    "deallocate": (
        "function",
        "(ptr: int, *, stream: Stream | Any | None=None) -> None",
        "(ptr, *, stream=None)",
        """Takes back memory that ``Buffer.release`` gave out, by its address alone, behind the work on ``stream``; None is
the default stream of the resource's device. It does nothing for address 0. Raises ValueError for an address that no
resource of this backend has out, and otherwise as ``MemoryResource.deallocate`` does.""",
    ),
    "empty": (
        "function",
        "(shape: int | Sequence[int], dtype: Any='float64', *, resource: MemoryResource | None=None, device: Device | int | None=None, stream: Stream | Any | None=None) -> View",
        "(shape, dtype='float64', *, resource=None, device=None, stream=None)",
        """A View of new memory with undefined contents.

The memory comes from ``resource``, or else from the current resource of ``device`` (None: the calling thread's
current one). With a stream, work on that stream may use it. Without one, work on every stream may use it: the first
call that gives its address away waits until that is so. Raises as ``MemoryResource.allocate`` does, and ValueError
for a ``device`` that is not the resource's.""",
    ),
    "zeros": (
        "function",
        "(shape: int | Sequence[int], dtype: Any='float64', *, resource: MemoryResource | None=None, device: Device | int | None=None, stream: Stream | Any | None=None) -> View",
        "(shape, dtype='float64', *, resource=None, device=None, stream=None)",
        """A View of new memory, all bytes zero. ``resource``, ``device`` and the exceptions are those of ``empty``. With a
stream the call queues the fill on it, and work on that stream sees zeros. Without one the bytes are zero on
return.""",
    ),
    "copy": (
        "function",
        "(dst: Buffer | View | HostRegistration | Any, src: Buffer | View | HostRegistration | Any, *, stream: Stream | Any | None=None) -> Event | None",
        "(dst, src, *, stream=None)",
        """Copies all of ``src`` to ``dst``, which must be of the same size and not overlap it. One of them may be host
memory with strides, such as a slice of a NumPy array: its elements move in C order.

With a stream the call queues the copy, and answers an Event that is done when the bytes are there; portamem keeps
both ends alive until then. Without one the copy runs behind all work declared on the memory, the bytes are there on
return, and the answer is None.

Raises ValueError for ends that differ in size or overlap, for a read-only target, for a closed end, and for a
stream that is closed or captured; TypeError for an end that has no memory which this backend reaches; Error where
the runtime refuses.""",
    ),
    "copy_2d": (
        "function",
        "(dst: Buffer | View | HostRegistration | Any, src: Buffer | View | HostRegistration | Any, *, width: int | str | None=None, height: int | None=None, dst_pitch: int | str | None=None, src_pitch: int | str | None=None, stream: Stream | Any | None=None) -> Event | None",
        "(dst, src, *, width=None, height=None, dst_pitch=None, src_pitch=None, stream=None)",
        """Copies ``height`` rows of ``width`` bytes. Where ``width``, ``height`` or a pitch is left out, a PitchedBuffer
gives its own; the rows of other memory have no padding. Pitches are in bytes.

``stream`` and the answer are as for ``copy``. Raises as ``copy`` does; TypeError where ``width`` or ``height`` is
left out and neither end is a PitchedBuffer; ValueError for rows that do not fit an end.""",
    ),
    "copy_3d": (
        "function",
        "(dst: Buffer | View | HostRegistration | Any, src: Buffer | View | HostRegistration | Any, *, width: int | str | None=None, height: int, depth: int, dst_pitch: int | str | None=None, src_pitch: int | str | None=None, dst_rows: int | None=None, src_rows: int | None=None, stream: Stream | Any | None=None) -> Event | None",
        "(dst, src, *, width=None, height, depth, dst_pitch=None, src_pitch=None, dst_rows=None, src_rows=None, stream=None)",
        """Copies a box of ``depth`` slices of ``height`` rows of ``width`` bytes from one volume to another.

A volume's slices begin ``dst_rows`` or ``src_rows`` rows apart; left out, that is ``height``. Where ``width`` or a
pitch is left out, a PitchedBuffer gives its own (``allocate_pitched(width, rows * slices)`` makes a volume); the
rows of other memory have no padding. For a box within a volume, pass the volume's memory from the box's first byte
on: ``volume[offset:]``.

``stream`` and the answer are as for ``copy``, and the exceptions as for ``copy_2d``.""",
    ),
    "fill_2d": (
        "function",
        "(dst: PitchedBuffer, value: int, *, stream: Stream | Any | None=None) -> Event | None",
        "(dst, value, *, stream=None)",
        """Sets every byte of the rows to ``value``, from 0 to 255, and none of the padding between them.

With a stream the call queues the fill and answers an Event. Without one the fill runs behind all work declared on
the memory, is done on return, and the answer is None.""",
    ),
    "from_dlpack": (
        "function",
        "(obj: Any, *, stream: Stream | Any | None=None) -> View",
        "(obj, *, stream=None)",
        """The memory of any DLPack producer as a View, without a copy: see ``View.from_dlpack``.""",
    ),
    "current_resource": (
        "function",
        "(device: Device | int | None=None) -> MemoryResource",
        "(device=None)",
        """The resource of ``device`` (None: the calling thread's current one) that allocations take from where they name
none: that of the innermost ``using()`` of this context, else the process's default (``default_resource``).""",
    ),
    "default_resource": (
        "function",
        "(device: Device | int | None=None) -> MemoryResource",
        "(device=None)",
        """The resource of ``device`` (None: the calling thread's current one) that allocations of the process take from
where no ``using()`` is open: the one that ``set_default_resource`` stored, else one that portamem makes at first
use and that no program can close.

``PORTAMEM_DEFAULT`` says which one portamem makes: ``pool`` (a PoolMemoryResource over plain device memory, as
without the setting), ``driver`` (an AsyncMemoryResource), ``plain`` (a DeviceMemoryResource) or ``managed`` (a
PoolMemoryResource over managed memory). Raises ValueError for any other value.""",
    ),
    "set_default_resource": (
        "function",
        "(device: Device | int | None, resource: MemoryResource | None) -> None",
        "(device, resource)",
        """Makes ``resource`` the default of its device (None: the calling thread's current device) for all threads and all
modules of the process, C and C++ ones too.

The process keeps it alive until another is set. ``resource=None`` sets back the one that portamem makes at first
use. Live buffers keep the resource that they are from. The program may close the resource while it is the default;
allocations from it then raise ValueError. Raises ValueError for a resource that is closed already, or is another
device's.""",
    ),
    "current_tag": (
        "function",
        "() -> str",
        "()",
        """The calling thread's tag in full, such as "solver/setup"; "" where none is open.""",
    ),
    "recommend": (
        "function",
        "(purpose: Literal['kernels', 'shared', 'transfer', 'larger'], device: Device | int | None=None) -> Recommendation",
        "(purpose, device=None)",
        """Which kind of memory to take on a device (None: the calling thread's current one), and why.

``purpose`` is what the memory is for:

* "kernels": kernels use it, and the host seldom does.
* "shared": kernels and the host use the same bytes by turns.
* "transfer": it is the host's end of copies to and from the device.
* "larger": kernels use it, and it may be more than the device has.

The answer follows from the device's capabilities alone. For a card with memory of its own the answers to the four
purposes are "device", "managed", "pinned" and "managed", with "pinned" instead of "managed" where pages do not
move. Where host and device share one memory, or the device reads the host's page tables, pinned memory gains
nothing. Raises ValueError for another purpose.""",
    ),
    "held": (
        "function",
        "(device: Device | int | Literal['host'] | None=None) -> int",
        "(device=None)",
        """The bytes that portamem's resources have taken on a device (None: the calling thread's current one). Idle bytes
of the default resource that portamem made do not count; idle bytes of other pools do. ``device="host"`` asks for
host memory.""",
    ),
}
