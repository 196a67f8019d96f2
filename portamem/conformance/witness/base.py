# SPDX-License-Identifier: MIT
"""The witness: what an independent caller of the runtime says and does, on handles and addresses given as ints."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import replace

from portamem.conformance.witness.counter import Counter
from portamem.conformance.witness.facts import PointerFacts, WitnessError
from portamem.conformance.witness.heap import HeapReport, KeptHeapMemory, ReportMemory
from portamem.conformance.witness.latch import DeviceLatch
from portamem.conformance.witness.pattern import pattern

LIMITS = ("stack_size", "printf_fifo_size", "malloc_heap_size")

POOL_ATTRIBUTES = (
    *("release_threshold", "reserved_current", "reserved_high", "used_current", "used_high"),
    *("reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies"),
)

DEVICE_ATTRIBUTES = (
    *("memory_pools", "managed_memory", "concurrent_managed_access", "pageable_memory_access"),
    *("uses_host_page_tables", "direct_managed_access", "direct_host_access", "integrated", "can_map_host_memory"),
    *("unified_addressing", "host_register", "registered_pointer_is_device_pointer", "stream_priorities"),
    *("virtual_memory", "multi_processor_count", "warp_size", "compute_capability_major"),
    "compute_capability_minor",
)
"""Attributes that capabilities are made of. True and false are 1 and 0."""

RANGE_ATTRIBUTES = ("read_mostly", "preferred_location", "last_prefetch_location")

ACCESSES = {0: "none", 1: "read", 3: "read_write"}
"""Words for the access to a pool, by the numbers that vendors share."""

HOST_LOCATION = -1
"""The number that ``range_attribute`` gives for the host, as the vendors number it."""


class Witness(ABC):
    """One device, seen by the vendor's own calls and never through portamem.

    Every method makes the device current for itself and puts back what was. A failing call raises WitnessError. Where a
    method answers None, the runtime does not say; where a call may be missing altogether, NoWitness says so.
    """

    BLOCKS = 128
    THREADS = 256

    def __init__(self, backend: str, ordinal: int) -> None:
        self.backend, self.ordinal = backend, ordinal

    # the witness itself

    @property
    @abstractmethod
    def name(self) -> str:
        """The package or library that answers, with its version, for reports."""

    @property
    def has_kernels(self) -> bool:
        """True where kernels can be compiled and run here; ``why_no_kernels`` says why not. Loads those of "memory"."""
        return not self.why_no_kernels

    @property
    def why_no_kernels(self) -> str:
        """Empty where there are kernels."""
        return ""

    # devices

    @abstractmethod
    def device_count(self) -> int: ...

    @abstractmethod
    def current_device(self) -> int | None:
        """The calling thread's current device; None where it has none yet."""

    @abstractmethod
    def context(self) -> AbstractContextManager[None]:
        """Makes the device the calling thread's current one, and puts back what was. May be entered again within."""

    @abstractmethod
    def device_attribute(self, name: str) -> int | None:
        """One of DEVICE_ATTRIBUTES. None where this vendor, or its version, knows no such attribute."""

    @abstractmethod
    def uuid(self) -> str:
        """32 hexadecimal digits, in lower case and without hyphens."""

    @abstractmethod
    def pci_address(self) -> str:
        """The address as the runtime writes it, in lower case."""

    @abstractmethod
    def can_access_peer(self, peer: int) -> bool: ...

    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""

    @abstractmethod
    def limit(self, name: str) -> int:
        """One of LIMITS, bytes."""

    @abstractmethod
    def set_limit(self, name: str, nbytes: int) -> str | None:
        """Sets a limit. The error's name where that fails, else None."""

    def driver_limit(self, name: str) -> int | None:
        """The same limit as a second interface of the vendor's has it; None where there is but one."""
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Blocks until everything submitted to the device has run."""

    def has_context(self) -> bool | None:
        """True where this process has a context on the device; makes none. None where the runtime has none, or does not
        say."""
        return None

    def last_error(self) -> int | None:
        """The error that the runtime under test keeps for the calling thread, left as it is; 0 for none. None where the
        witness has a copy of the runtime to itself, which keeps another."""
        return None

    # memory

    @abstractmethod
    def pointer(self, address: int) -> PointerFacts:
        """The runtime's facts about an address. One that it does not know is ``unregistered``, never an error."""

    @abstractmethod
    def address_range(self, address: int) -> tuple[int, int] | None:
        """Base and bytes of the allocation that holds an address; None for one that the driver does not know."""

    @abstractmethod
    def host_flags(self, address: int) -> int | None:
        """The flags of pinned memory as the vendor numbers them; None for other memory."""

    @abstractmethod
    def range_attribute(self, address: int, nbytes: int, name: str) -> int | None:
        """One of RANGE_ATTRIBUTES of managed memory: 0 or 1, or a device's ordinal, HOST_LOCATION, or None for none."""

    @abstractmethod
    def accessed_by(self, address: int, nbytes: int, most: int) -> list[int]:
        """The ordinals of the devices, ``most`` at most, that all of a range of managed memory is said to be accessed
        by."""

    @abstractmethod
    def gives_ipc_handle(self, address: int) -> bool:
        """True where the runtime gives a legacy handle, for other processes, for the allocation that begins there."""

    @abstractmethod
    def default_pool(self) -> int: ...

    @abstractmethod
    def current_pool(self) -> int: ...

    @abstractmethod
    def pool_attribute(self, pool: int, name: str) -> int:
        """One of POOL_ATTRIBUTES of a pool, by its handle."""

    @abstractmethod
    def set_pool_attribute(self, pool: int, name: str, value: int) -> str | None:
        """The error's name where that fails, else None."""

    @abstractmethod
    def pool_access(self, pool: int, ordinal: int) -> str:
        """The access that a device has to a pool's memory: one of ACCESSES."""

    # streams and events, by handle

    @abstractmethod
    def stream_priority(self, stream: int) -> int: ...

    @abstractmethod
    def stream_is_done(self, stream: int) -> bool: ...

    @abstractmethod
    def event_is_done(self, event: int) -> bool: ...

    # memory of the witness's own

    @abstractmethod
    def malloc(self, nbytes: int) -> int:
        """Plain device memory."""

    @abstractmethod
    def free(self, address: int) -> None: ...

    @abstractmethod
    def host_malloc(self, nbytes: int) -> int:
        """Pinned memory, portable, mapped and coherent, of zeros."""

    @abstractmethod
    def host_free(self, address: int) -> None: ...

    @abstractmethod
    def _copy(self, dst: int, src: int, nbytes: int) -> None:
        """A blocking copy in whatever direction."""

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes of any memory, by a copy that waits for the default stream and for no other."""
        out = (ctypes.c_ubyte * nbytes)()
        self._copy(ctypes.addressof(out), address, nbytes)
        return bytes(out)

    def write(self, address: int, data: bytes) -> None:
        source = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
        self._copy(address, ctypes.addressof(source), len(data))

    # kernels

    @abstractmethod
    def load(self, module: str) -> None:
        """Loads the kernels of one module, "memory" or "heap", and runs each once; at first use at the latest.

        Drivers load lazily, and may wait for the device then: ask ``has_kernels`` before anything is held up.
        """

    @abstractmethod
    def launch(self, kernel: str, stream: int, blocks: int, threads: int, *arguments: int) -> None:
        """Queues a kernel, by name, on a stream of this device, by handle."""

    def fill(self, stream: int, address: int, nbytes: int, seed: int) -> None:
        """Queues a kernel that writes ``pattern(nbytes, seed)``."""
        self.launch("fill", stream, self.BLOCKS, self.THREADS, address, nbytes, seed)

    def copy(self, stream: int, dst: int, src: int, nbytes: int) -> None:
        """Queues a kernel that copies."""
        self.launch("copy", stream, self.BLOCKS, self.THREADS, dst, src, nbytes)

    def counter(self) -> Counter:
        """A number on the device, for kernels to add to what they find wrong. Made beforehand, it costs no call that
        waits for the device."""
        return Counter(self)

    def verify(self, stream: int, address: int, nbytes: int, seed: int, into: Counter | None = None) -> Counter:
        """Queues a kernel that counts the bytes that are not ``pattern(nbytes, seed)``."""
        counter = into or self.counter()
        self.launch("verify", stream, self.BLOCKS, self.THREADS, address, nbytes, seed, counter.address)
        return counter

    def verify_value(self, stream: int, address: int, nbytes: int, value: int, into: Counter | None = None) -> Counter:
        """Queues a kernel that counts the bytes that are not ``value``."""
        counter = into or self.counter()
        self.launch("verify_value", stream, self.BLOCKS, self.THREADS, address, nbytes, value, counter.address)
        return counter

    def latch(self, stream: int) -> DeviceLatch:
        """A kernel for ``stream`` that runs until it is released. ``hold()``, or entering it, queues it."""
        return DeviceLatch(self, stream)

    def latch_ticks(self, seconds: float) -> int:
        """Seconds as the clock of kernels counts them."""
        return int(seconds * 1e9)

    # kernels that use the heap of the device

    @property
    def has_aligned_heap(self) -> bool:
        """True where kernels can ask the heap for an alignment beyond 16."""
        return False

    def load_heap(self) -> str | None:
        """Loads the kernels that use the heap, which settles its size. The error's name where that fails, else None.

        Sets no limit. After a failure it may be tried again.
        """
        try:
            self.load("heap")
        except WitnessError as error:
            return error.name
        return None

    def heap_per_thread(
        self, stream: int, blocks: int, threads: int, nbytes: int, *, align: int = 0, seed: int = 1
    ) -> HeapReport:
        """Every thread allocates ``nbytes``, writes, compares once all of its block have written, and frees."""
        self._check_align(align)
        report = ReportMemory(self)
        self.launch("heap_per_thread", stream, blocks, threads, nbytes, align, seed, report.address)
        return report.read()

    def heap_per_block(
        self, stream: int, blocks: int, threads: int, nbytes_per_thread: int, *, align: int = 0, seed: int = 1
    ) -> HeapReport:
        """The first thread of a block allocates for all of them; each writes its part and compares its neighbour's
        behind a barrier; the last thread frees."""
        self._check_align(align)
        report = ReportMemory(self)
        self.launch("heap_per_block", stream, blocks, threads, nbytes_per_thread, align, seed, report.address)
        return report.read()

    def heap_memcpy_memset(self, stream: int, blocks: int, threads: int, nbytes: int, *, seed: int = 1) -> HeapReport:
        """Every thread allocates twice, sets one, copies it to the other, and copies from plain device memory through
        both into plain device memory. What arrives there is compared here."""
        total = blocks * threads * nbytes
        report, memory = ReportMemory(self), self.malloc(2 * total)
        data = pattern(total, seed)
        self.write(memory, data + bytes(total))
        value = seed & 0x7F
        self.launch(
            "heap_memcpy_memset", stream, blocks, threads, nbytes, memory, memory + total, value, report.address
        )
        found = report.read()
        arrived = self.read(memory + total, total)
        self.free(memory)
        lost = sum(a != b for a, b in zip(arrived, data, strict=True)) if not found.null else 0
        return replace(found, mismatches=found.mismatches + lost)

    def heap_keep(
        self, stream: int, blocks: int, threads: int, nbytes: int, *, align: int = 0, seed: int = 1
    ) -> KeptHeapMemory:
        """One allocation of ``nbytes`` for each block, that stays until it is released by another launch."""
        self._check_align(align)
        return KeptHeapMemory(self, stream, blocks, threads, nbytes, align, seed)

    def _check_align(self, align: int) -> None:
        if align and not self.has_aligned_heap:
            raise ValueError("kernels cannot ask this heap for an alignment: has_aligned_heap says so")
