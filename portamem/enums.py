# SPDX-License-Identifier: MIT
"""Enums of the strings that portamem takes and gives, for editors that complete names.

Every member is the string itself: ``MemoryKind.PINNED == "pinned"``, and a program may pass either.
"""

from __future__ import annotations

from enum import Enum


class _Text(str, Enum):
    def __str__(self) -> str:
        return str(self.value)


class MemoryKind(_Text):
    """The source of a buffer's memory."""

    DEVICE = "device"
    PINNED = "pinned"
    MANAGED = "managed"
    SYSTEM = "system"
    ASYNC = "async"
    VIRTUAL = "virtual"
    FOREIGN = "foreign"


class PointerKind(_Text):
    """The kinds of memory that the runtime knows an address as."""

    UNREGISTERED = "unregistered"
    HOST = "host"
    DEVICE = "device"
    MANAGED = "managed"


class ManagedMode(_Text):
    """The ways in which a device runs managed memory: not at all, in one place reached over the bus, or moving to its
    user."""

    NONE = "none"
    HOST_RESIDENT = "host_resident"
    MIGRATING = "migrating"


class Purpose(_Text):
    """The purposes of memory that ``recommend`` takes."""

    KERNELS = "kernels"
    SHARED = "shared"
    TRANSFER = "transfer"
    LARGER = "larger"


class MallocHeapKind(_Text):
    """The meaning of ``Device.malloc_heap_size``: none, all bytes that kernels' malloc can give, or the bytes that the
    heap begins with."""

    NONE = "none"
    LIMIT = "limit"
    INITIAL = "initial"


class HandleType(_Text):
    """The kinds of handle by which a program can share memory with other processes."""

    POSIX_FD = "posix_fd"
    WIN32 = "win32"
    WIN32_KMT = "win32_kmt"
    FABRIC = "fabric"


class QuirkPolicy(_Text):
    """The ways in which portamem handles a known fault of a runtime."""

    FREE_ON_ALLOCATING_STREAM = "free_on_allocating_stream"
    AT_LEAST_EIGHT_BYTES = "at_least_eight_bytes"
    EXPLICIT_COPY_KIND = "explicit_copy_kind"
    BRIDGED = "bridged"
    REPORT = "report"


class MemoryAdvice(_Text):
    """Advice on managed memory, and its undoing. The coarse-grain pair is AMD's."""

    READ_MOSTLY = "read_mostly"
    UNSET_READ_MOSTLY = "unset_read_mostly"
    PREFERRED_LOCATION = "preferred_location"
    UNSET_PREFERRED_LOCATION = "unset_preferred_location"
    ACCESSED_BY = "accessed_by"
    UNSET_ACCESSED_BY = "unset_accessed_by"
    COARSE_GRAIN = "coarse_grain"
    UNSET_COARSE_GRAIN = "unset_coarse_grain"


class RangeAttribute(_Text):
    """The attributes of managed memory that ``Buffer.range_attribute`` takes. COHERENCY_MODE is AMD's."""

    READ_MOSTLY = "read_mostly"
    PREFERRED_LOCATION = "preferred_location"
    ACCESSED_BY = "accessed_by"
    LAST_PREFETCH_LOCATION = "last_prefetch_location"
    COHERENCY_MODE = "coherency_mode"


class Attach(_Text):
    """The devices that may touch managed memory from the start: all (GLOBAL), or none (HOST)."""

    GLOBAL = "global"
    HOST = "host"


class Coherence(_Text):
    """The ways in which host and device see each other's writes while a kernel runs. COHERENT and NON_COHERENT are of
    pinned memory, FINE_GRAINED and UNCACHED of AMD's device memory."""

    DEFAULT = "default"
    COHERENT = "coherent"
    NON_COHERENT = "non_coherent"
    FINE_GRAINED = "fine_grained"
    UNCACHED = "uncached"


class CaptureMode(_Text):
    """The modes of a stream capture, which say what calls it forbids, and to which threads."""

    GLOBAL = "global"
    THREAD_LOCAL = "thread_local"
    RELAXED = "relaxed"


class CaptureStatus(_Text):
    """The state of a stream's capture."""

    NONE = "none"
    ACTIVE = "active"
    INVALIDATED = "invalidated"


class Access(_Text):
    """The access that a device has to a pool's memory."""

    NONE = "none"
    READ = "read"
    READ_WRITE = "read_write"


class Limit(_Text):
    """The limits, in bytes, that ``Device.limit`` and ``Device.set_limit`` take."""

    STACK_SIZE = "stack_size"
    PRINTF_FIFO_SIZE = "printf_fifo_size"
    MALLOC_HEAP_SIZE = "malloc_heap_size"
