# SPDX-License-Identifier: MIT
"""Nine kinds of memory, each with synchronous copies and with copies that overlap on two streams.

A leg takes the data through chunk by chunk: into *near* memory, which the host writes; to *far* memory, which the
device holds; and back into near memory, where every byte is compared with what was sent. What `pm` is (an NVIDIA
GPU, an AMD GPU or the CPU) changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

import numpy as np

import portamem as pm
from portamem.demo.data import Bytes, Job

WIPED = 0xA5  # written over memory before the data comes back, so that nothing is right by accident

# -----------------------------------------------------------------------------
# Near memory: the host can read and write it.
# -----------------------------------------------------------------------------


@contextmanager
def pageable(nbytes: int) -> Iterator[Bytes]:
    """Ordinary memory, here NumPy's. The driver stages copies of it, so they wait even on a stream."""
    array = np.empty(nbytes, np.uint8)
    yield array


@contextmanager
def system(nbytes: int) -> Iterator[pm.Buffer]:
    """Ordinary memory too, from portamem. Devices with pageable memory access use it where it is."""
    with pm.SystemMemoryResource() as resource, resource.allocate(nbytes) as buffer:
        yield buffer


@contextmanager
def pinned(nbytes: int) -> Iterator[pm.Buffer]:
    """Page-locked memory: copies run at full speed and beside the host's work. It is slow to get: get it once."""
    with pm.PinnedMemoryResource() as resource, resource.allocate(nbytes) as buffer:
        yield buffer


@contextmanager
def registered(nbytes: int) -> Iterator[Bytes]:
    """Memory that was there already, page-locked for as long as it is needed."""
    array = np.empty(nbytes, np.uint8)
    with pm.HostRegistration(array):
        yield array


def host_bytes(memory: Any) -> Bytes:
    """Near memory as a NumPy array, without a copy."""
    return np.frombuffer(memory, np.uint8)


# -----------------------------------------------------------------------------
# Far memory: the device holds it. With a stream, put and get only queue their work.
# -----------------------------------------------------------------------------


class Far(Protocol):
    def put(self, near: Any, stream: pm.Stream | None = None) -> None: ...
    def get(self, near: Any, stream: pm.Stream | None = None) -> None: ...


@dataclass
class Flat:
    """Device memory in one piece."""

    buffer: pm.Buffer

    def put(self, near: Any, stream: pm.Stream | None = None) -> None:
        pm.copy(self.buffer[: len(near)], near, stream=stream)

    def get(self, near: Any, stream: pm.Stream | None = None) -> None:
        pm.copy(near, self.buffer[: len(near)], stream=stream)


@dataclass
class Migrating(Flat):
    """Managed memory: one address for host and device. Told in time where it goes, it need not be faulted there."""

    device: pm.Device

    def put(self, near: Any, stream: pm.Stream | None = None) -> None:
        super().put(near, stream)
        if self.device.capabilities.concurrent_managed_access:
            self.buffer.prefetch(self.device, stream=stream)


@dataclass
class Rows:
    """Pitched memory: rows with padding between them, so that each begins where the device likes it."""

    buffer: pm.PitchedBuffer

    def _split(self, nbytes: int) -> tuple[int, int, slice]:
        """Full rows, the bytes in them, and where the rest lies: at the start of one more row."""
        rows, rest = divmod(nbytes, self.buffer.width)
        start = rows * self.buffer.pitch
        return rows, nbytes - rest, slice(start, start + rest)

    def put(self, near: Any, stream: pm.Stream | None = None) -> None:
        rows, full, rest = self._split(len(near))
        pm.copy_2d(self.buffer, near[:full], height=rows, stream=stream)
        pm.copy(self.buffer[rest], near[full:], stream=stream)

    def get(self, near: Any, stream: pm.Stream | None = None) -> None:
        rows, full, rest = self._split(len(near))
        pm.copy_2d(near[:full], self.buffer, height=rows, stream=stream)
        pm.copy(near[full:], self.buffer[rest], stream=stream)


@dataclass
class StreamOrdered:
    """Memory that a stream's order gives and takes: cheap enough to get it anew for every chunk."""

    pool: pm.AsyncMemoryResource
    buffer: pm.Buffer | None = None

    def put(self, near: Any, stream: pm.Stream | None = None) -> None:
        self.buffer = self.pool.allocate(len(near), stream=stream or self.pool.device.default_stream)
        pm.copy(self.buffer, near, stream=stream)

    def get(self, near: Any, stream: pm.Stream | None = None) -> None:
        assert self.buffer is not None, "put comes first"
        pm.copy(near, self.buffer, stream=stream)
        self.buffer.close()  # the memory is given back when the stream has come this far


@dataclass
class Growing:
    """Device memory that is mapped to reserved addresses. It gets what a chunk needs beyond its size, and stays where
    it is: what it holds is not copied."""

    buffer: pm.GrowableBuffer

    def put(self, near: Any, stream: pm.Stream | None = None) -> None:
        if self.buffer.nbytes < len(near):
            self.buffer.resize(len(near))
        pm.copy(self.buffer[: len(near)], near, stream=stream)

    def get(self, near: Any, stream: pm.Stream | None = None) -> None:
        pm.copy(near, self.buffer[: len(near)], stream=stream)


@contextmanager
def device(nbytes: int) -> Iterator[Far]:
    with pm.DeviceMemoryResource() as resource, resource.allocate(nbytes) as buffer:
        yield Flat(buffer)


@contextmanager
def managed(nbytes: int) -> Iterator[Far]:
    with pm.ManagedMemoryResource() as resource, resource.allocate(nbytes) as buffer:
        yield Migrating(buffer, resource.device)


@contextmanager
def pitched(nbytes: int) -> Iterator[Far]:
    width = 4000  # bytes; no multiple of what devices like, so that there is padding
    with pm.DeviceMemoryResource() as resource, resource.allocate_pitched(width, nbytes // width + 1) as buffer:
        yield Rows(buffer)


@contextmanager
def stream_ordered(_nbytes: int) -> Iterator[Far]:
    with pm.AsyncMemoryResource() as pool:
        yield StreamOrdered(pool)


@contextmanager
def growing(nbytes: int) -> Iterator[Far]:
    with pm.VirtualMemoryResource() as resource, resource.allocate_growable(1, nbytes) as buffer:
        yield Growing(buffer)


# -----------------------------------------------------------------------------
# The two ways of going there and back.
# -----------------------------------------------------------------------------

OpenNear = Callable[[int], AbstractContextManager[Any]]
OpenFar = Callable[[int], AbstractContextManager[Far]]


def synchronous(job: Job, open_near: OpenNear, open_far: OpenFar) -> None:
    """Copies without a stream: each is done when its call returns."""
    with open_near(job.chunk_nbytes) as near, open_far(job.chunk_nbytes) as far:
        for chunk in job.chunks():
            there_and_back(job, chunk, near[: len(chunk)], far)


def there_and_back(job: Job, chunk: Bytes, near: Any, far: Far) -> None:
    host_bytes(near)[:] = chunk
    far.put(near)
    host_bytes(near)[:] = WIPED
    far.get(near)
    job.verify(chunk, host_bytes(near))


def overlapped(job: Job, open_near: OpenNear, open_far: OpenFar) -> None:
    """Copies on two streams: while one lane's copies run, the host checks and fills the other lane's memory."""
    with ExitStack() as stack:
        lanes = [Lane.open(stack, job.chunk_nbytes, open_near, open_far) for _ in range(2)]
        for lane, chunk in zip(cycle(lanes), job.chunks()):
            lane.finish(job)
            lane.start(chunk)
        for lane in lanes:
            lane.finish(job)


@dataclass
class Lane:
    """A stream, with memory that no other stream touches."""

    stream: pm.Stream
    outgoing: Any
    incoming: Any
    far: Far
    chunk: Bytes | None = None  # the chunk under way

    @classmethod
    def open(cls, stack: ExitStack, nbytes: int, open_near: OpenNear, open_far: OpenFar) -> Lane:
        outgoing, incoming = (stack.enter_context(open_near(nbytes)) for _ in range(2))
        far = stack.enter_context(open_far(nbytes))
        return cls(stack.enter_context(pm.Stream()), outgoing, incoming, far)

    def start(self, chunk: Bytes) -> None:
        self.chunk = chunk
        host_bytes(self.outgoing)[: len(chunk)] = chunk
        host_bytes(self.incoming)[: len(chunk)] = WIPED
        self.far.put(self.outgoing[: len(chunk)], self.stream)
        self.far.get(self.incoming[: len(chunk)], self.stream)

    def finish(self, job: Job) -> None:
        if self.chunk is not None:
            self.stream.synchronize()  # from here on the host may read what came back
            job.verify(self.chunk, host_bytes(self.incoming)[: len(self.chunk)])
            self.chunk = None


@dataclass(frozen=True)
class Leg:
    """A kind of memory, and the ends of its way. Kinds of far memory are reached from the near memory that suits."""

    kind: str
    call: str
    near: OpenNear | None = None
    far: OpenFar = device
    missing: Callable[[pm.Capabilities], bool] = lambda able: False  # tells whether a device lacks the kind

    def run(self, job: Job, way: Callable[[Job, OpenNear, OpenFar], None]) -> None:
        way(job, self.open_near(way), self.far)

    def open_near(self, way: Callable[[Job, OpenNear, OpenFar], None]) -> OpenNear:
        return self.near or (pinned if way is overlapped else pageable)


WAYS = {"synchronous": synchronous, "overlapped on 2 streams": overlapped}

LEGS = (
    Leg("pageable", "copy", near=pageable),
    Leg("system", "copy", near=system),
    Leg("pinned", "copy", near=pinned),
    Leg("registered", "copy", near=registered, missing=lambda able: able.host_register is False),
    Leg("device", "copy", far=device),
    Leg("pitched", "copy_2d", far=pitched),
    Leg("stream-ordered", "allocate, copy, close", far=stream_ordered, missing=lambda able: not able.memory_pools),
    Leg("virtual", "resize, copy", far=growing, missing=lambda able: not able.virtual_memory),
    Leg("managed", "copy, prefetch", far=managed, missing=lambda able: able.managed_mode == "none"),
)
