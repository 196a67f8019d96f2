"""cuda-python as a witness of what portamem says and does, and memory of every kind to ask both about.

cuda-python, the cuda backend and the hip backend on the NVIDIA platform each bring a CUDA runtime of their own, linked
statically. All of them sit on one driver and share the device's primary context, so that pointers, streams, events and
pools of one mean the same to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import backend, partners, witnesses
from helpers.memory import allocate

from portamem.conformance.witness import Counter, DeviceLatch, Witness

NBYTES = 100_000  # neither whole pages nor whole words


@pytest.fixture
def cuda(pm: ModuleType, device: Any) -> Iterator[None]:
    """The context of the device under test is the thread's current one, as calls of cuda-python expect."""
    if backend.driver() != "cuda":
        pytest.skip(f"cuda-python speaks to NVIDIA's driver, and the backend under test, {pm.backend}, does not")
    with witnesses.of(pm.backend, device.ordinal).context():
        yield


@pytest.fixture
def runtime(cuda: None) -> ModuleType:
    return partners.cuda_runtime()


@pytest.fixture
def driver(cuda: None) -> ModuleType:
    return partners.cuda_driver()


@pytest.fixture
def core(cuda: None, device: Any) -> Any:
    core = partners.cuda_core()
    core.Device(device.ordinal).set_current()
    return core


@pytest.fixture
def counter(kernels: Witness) -> Iterator[Counter]:
    """Counts what kernels find wrong."""
    with kernels.counter() as made:
        yield made


@pytest.fixture
def device_latch(device: Any, kernels: Witness) -> Iterator[Callable[[Any], DeviceLatch]]:
    """``device_latch(stream)`` holds a stream by a kernel, until released, at the latest when the test ends.

    Memory is allocated before: some of those calls wait for the device.
    """
    held: list[DeviceLatch] = []

    def hold(stream: Any) -> DeviceLatch:
        held.append(kernels.latch(stream.handle))
        return held[-1].hold()

    yield hold
    for each in held:
        each.release()
    device.synchronize()
    timed_out = [each.timed_out for each in held]
    for each in held:
        each.close()
    assert not any(timed_out), "a call waited for a kernel that only this thread could release"


@dataclass(frozen=True)
class Memory:
    """Memory of portamem: what copies take, where it is to host and device, and what ``pointer_info`` has to say."""

    object: Any
    handle: int
    device_handle: int
    nbytes: int
    kind: str
    base: int


_KINDS = {
    "device": "device",
    "pinned": "host",
    "pinned-non_coherent": "host",
    "managed": "managed",
    "async": "device",
    "async-default_pool": "device",
}
MEMORY = (*_KINDS, "interior", "pitched", "registered")


class _Maker:
    def __init__(self, pm: ModuleType, stream: Any, make_resource: Callable[[str], Any], stack: ExitStack) -> None:
        self._pm, self._stream, self._make_resource, self._stack = pm, stream, make_resource, stack

    def make(self, name: str) -> Memory:
        if name == "registered":
            return self._registered()
        buf = self._stack.enter_context(self._buffer(name))
        base = buf.handle
        if name == "interior":
            buf = self._stack.enter_context(buf[4099 : 4099 + NBYTES])
        self._stream.synchronize()
        kind = _KINDS.get(name, "device")
        device_handle = buf.handle if kind == "device" else self._pm.pointer_info(buf).device_pointer
        return Memory(buf, buf.handle, device_handle, buf.nbytes, kind, base)

    def _buffer(self, name: str) -> Any:
        if name == "pitched":
            return self._make_resource("device").allocate_pitched(1000, 100)
        if name == "interior":
            return self._make_resource("device").allocate(2 * NBYTES)
        resource = self._make_resource(name)
        return allocate(resource, NBYTES, self._stream if resource.is_stream_ordered else None)

    def _registered(self) -> Memory:
        array = np.zeros(NBYTES, np.uint8)
        registered = self._stack.enter_context(self._pm.HostRegistration(array))
        return Memory(registered, registered.handle, registered.device_handle, NBYTES, "host", registered.handle)


@pytest.fixture
def make_memory(pm: ModuleType, stream: Any, make_resource: Callable[[str], Any]) -> Iterator[Callable[[str], Memory]]:
    with ExitStack() as stack:
        yield _Maker(pm, stream, make_resource, stack).make


@pytest.fixture(params=MEMORY)
def memory(request: pytest.FixtureRequest, make_memory: Callable[[str], Memory]) -> Memory:
    """Memory of every kind in turn."""
    return make_memory(request.param)


@pytest.fixture
def warm(pm: ModuleType, stream: Any, other_stream: Any, make_memory: Callable[[str], Any]) -> None:
    """Every kind of work has run once: what the driver loads at first use it could not load beside a held kernel."""
    first, second = make_memory("device").object, make_memory("device").object
    near = make_memory("pinned").object
    for each in (stream, other_stream):
        first.fill(0, stream=each)
        pm.copy(second, first, stream=each)
        pm.copy(near, second, stream=each)
        pm.copy(first, near, stream=each)
        each.synchronize()
