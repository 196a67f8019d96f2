"""Streams, events and memory both ways between portamem and cuda-python: its bindings, and cuda.core above them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import read_back, write
from helpers.partners import check

from portamem.conformance.witness import Counter, DeviceLatch, Witness, nvrtc, pattern
from portamem.conformance.witness.sources import source

NBYTES = 100_000

Hold = Callable[[Any], DeviceLatch]


class ForeignStream:
    """A stream of a library with ``__cuda_stream__``."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


@pytest.fixture
def core_device(core: Any, device: Any) -> Any:
    return core.Device(device.ordinal)


def needs_their_classes(pm: ModuleType) -> None:
    """cuda-python's own classes say CUDA, and another backend refuses them by that: test_foreign_streams.py."""
    if pm.backend != "cuda":
        pytest.skip(f"the {pm.backend} backend takes handles and protocols, not classes of cuda-python")


def test_their_runtime_streams(pm: ModuleType, runtime: ModuleType, make_resource: Callable[[str], Any]) -> None:
    needs_their_classes(pm)
    theirs = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
    with make_resource("async").allocate(NBYTES, stream=theirs) as buf:
        assert pm.Stream.wrap(theirs).handle == int(theirs) == buf.stream.handle
        buf.fill(0x21, stream=theirs)
        check(runtime.cudaStreamSynchronize(theirs))
        assert read_back(pm, buf) == b"\x21" * NBYTES
    check(runtime.cudaStreamSynchronize(theirs))
    check(runtime.cudaStreamDestroy(theirs))


def test_their_driver_streams(pm: ModuleType, driver: ModuleType, device: Any, device_resource: Any) -> None:
    needs_their_classes(pm)
    theirs = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    ours = pm.Stream.wrap(theirs)
    assert ours.handle == int(theirs)
    assert ours.device == device
    assert ours.is_nonblocking
    with device_resource.allocate(NBYTES) as buf:
        buf.fill(0x22, stream=theirs)
        check(driver.cuStreamSynchronize(theirs))
        assert read_back(pm, buf) == b"\x22" * NBYTES
    ours.close()
    check(driver.cuStreamDestroy(theirs))


def test_their_events(pm: ModuleType, runtime: ModuleType, stream: Any, device_latch: Hold) -> None:
    needs_their_classes(pm)
    theirs = check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
    held = device_latch(stream)
    check(runtime.cudaEventRecord(theirs, stream.handle))
    event = pm.Event.wrap(theirs)
    assert event.handle == int(theirs)
    assert not event.query()
    held.release()
    event.synchronize()
    assert int(runtime.cudaEventQuery(theirs)[0]) == 0
    event.close()
    check(runtime.cudaEventDestroy(theirs))


@pytest.mark.parametrize("name", ["cudaStreamLegacy", "cudaStreamPerThread"])
def test_their_numbers_of_default_streams(
    pm: ModuleType, runtime: ModuleType, device: Any, device_resource: Any, name: str
) -> None:
    number = int(getattr(runtime, name))
    wrapped = pm.Stream.wrap(ForeignStream(number))
    assert wrapped.is_default
    assert wrapped == (device.default_stream if name == "cudaStreamLegacy" else device.per_thread_stream)
    with device_resource.allocate(NBYTES) as buf:
        buf.fill(0x23, stream=wrapped)
        check(runtime.cudaStreamSynchronize(number))
        assert read_back(pm, buf) == b"\x23" * NBYTES


def test_core_makes_a_stream_of_ours(
    pm: ModuleType, core_device: Any, stream: Any, device_latch: Hold, make_resource: Callable[[str], Any]
) -> None:
    theirs = core_device.create_stream(stream)
    assert int(theirs.handle) == stream.handle
    assert theirs.is_nonblocking == stream.is_nonblocking
    with make_resource("pinned").allocate(NBYTES) as near, make_resource("device").allocate(NBYTES) as far:
        write(pm, near, pattern(NBYTES, 1))
        far.fill(0)
        held = device_latch(stream)
        far.copy_from(near, stream=stream)
        event = theirs.record()
        assert not event.is_done
        held.release()
        theirs.sync()
        assert event.is_done
        assert stream.query()
        assert read_back(pm, far) == pattern(NBYTES, 1)


def test_core_keeps_our_stream_alive(pm: ModuleType, device: Any, core_device: Any) -> None:
    ours = pm.Stream(device)
    alive = weakref.ref(ours)
    theirs = core_device.create_stream(ours)
    del ours
    gc.collect()
    assert alive() is not None
    theirs.sync()
    del theirs
    gc.collect()
    assert alive() is None


def test_we_take_a_stream_of_core(
    pm: ModuleType, core_device: Any, device: Any, device_latch: Hold, make_resource: Callable[[str], Any]
) -> None:
    theirs = core_device.create_stream()
    ours = pm.Stream.wrap(theirs)
    assert ours.handle == int(theirs.handle)
    assert ours.device == device
    assert (ours.is_nonblocking, ours.priority) == (theirs.is_nonblocking, theirs.priority)
    with make_resource("async").allocate(NBYTES, stream=theirs) as buf:
        buf.fill(0)
        held = device_latch(ours)
        done = buf.fill(0x24, stream=theirs)
        assert not done.query()
        held.release()
        theirs.sync()
        assert done.query()
        assert read_back(pm, buf) == b"\x24" * NBYTES
    ours.synchronize()
    ours.close()
    theirs.sync()  # closing ours left theirs alone


def test_events_of_core(pm: ModuleType, core_device: Any, device: Any, stream: Any, device_latch: Hold) -> None:
    theirs = core_device.create_stream()
    held = device_latch(pm.Stream.wrap(theirs))
    event = theirs.record()
    with pm.Event.from_handle(int(event.handle), device=device, owner=event) as ours:
        stream.wait(ours)
        behind = stream.record()
        assert not behind.query()
        held.release()
        behind.synchronize()
        assert ours.query()
    assert event.is_done


def test_core_waits_for_our_stream(
    pm: ModuleType, core_device: Any, stream: Any, device_latch: Hold, device_resource: Any
) -> None:
    theirs = core_device.create_stream()
    with device_resource.allocate(NBYTES) as buf:
        buf.fill(0)
        held = device_latch(stream)
        buf.fill(0x25, stream=stream)
        theirs.wait(stream)
        event = theirs.record()
        assert not event.is_done
        held.release()
        event.sync()
        assert stream.query()
        assert read_back(pm, buf) == b"\x25" * NBYTES


def test_memory_of_core_as_a_buffer(
    pm: ModuleType, core_device: Any, device: Any, kernels: Witness, counter: Counter
) -> None:
    theirs_on = core_device.create_stream()
    theirs = core_device.allocate(NBYTES, stream=theirs_on)
    with pm.Buffer.from_handle(int(theirs.handle), theirs.size, owner=theirs, stream=theirs_on) as ours:
        assert (ours.kind, ours.device_id, ours.nbytes) == ("foreign", device.ordinal, NBYTES)
        assert ours.owner is theirs
        assert not ours.is_host_accessible
        assert ours.stream.handle == int(theirs_on.handle)
        ours.fill(0x26, stream=theirs_on)
        kernels.verify_value(int(theirs_on.handle), ours.handle, NBYTES, 0x26, counter)
        assert counter.read() == 0
        kernels.fill(int(theirs_on.handle), ours.handle, NBYTES, 2)
        theirs_on.sync()
        assert read_back(pm, ours) == pattern(NBYTES, 2)
    kernels.verify(int(theirs_on.handle), int(theirs.handle), NBYTES, 2, counter)
    assert counter.read() == 0, "closing ours left theirs alone"
    theirs.close(theirs_on)
    theirs_on.sync()


def test_a_buffer_keeps_memory_of_core_alive(
    pm: ModuleType, core_device: Any, kernels: Witness, counter: Counter
) -> None:
    stream = core_device.create_stream()
    theirs = core_device.allocate(NBYTES, stream=stream)
    ours = pm.Buffer.from_handle(int(theirs.handle), NBYTES, owner=theirs)
    part = ours[1000:2000]
    stream.sync()
    del theirs
    gc.collect()
    ours.fill(0x27)
    next_user = core_device.allocate(NBYTES, stream=stream)
    assert int(next_user.handle) != ours.handle, "the memory was given back while a buffer held it"
    kernels.verify_value(int(stream.handle), part.handle, 1000, 0x27, counter)
    assert counter.read() == 0
    part.close()
    ours.close()
    next_user.close(stream)
    stream.sync()


def test_core_copies_our_memory(
    pm: ModuleType, core: Any, core_device: Any, stream: Any, make_resource: Callable[[str], Any]
) -> None:
    theirs_on = core_device.create_stream(stream)
    with make_resource("pinned").allocate(NBYTES) as near, make_resource("device").allocate(NBYTES) as far:
        write(pm, far, pattern(NBYTES, 3))
        source, target = (core.Buffer.from_handle(each.handle, each.nbytes) for each in (far, near))
        source.copy_to(target, stream=theirs_on)
        stream.synchronize()
        assert bytes(memoryview(near)) == pattern(NBYTES, 3)
        write(pm, near, pattern(NBYTES, 4))
        source.copy_from(target, stream=theirs_on)
        theirs_on.sync()
        assert read_back(pm, far) == pattern(NBYTES, 4)


def test_core_launches_on_our_stream(
    pm: ModuleType,
    core: Any,
    core_device: Any,
    device: Any,
    stream: Any,
    kernels: Witness,
    make_memory: Callable[[str], Any],
) -> None:
    """The stream goes in by its protocol; sizes go in as NumPy scalars of the kernel's own widths."""
    theirs_on = core_device.create_stream(stream)
    major, minor = device.capabilities.compute_capability
    program = core.ObjectCode.from_cubin(nvrtc.machine_code(source("memory"), 10 * major + minor))
    fill = program.get_kernel("fill")
    config = core.LaunchConfig(grid=8, block=128)
    for kind in ("device", "pinned", "managed", "async"):
        memory = make_memory(kind)
        core.launch(theirs_on, config, fill, memory.device_handle, np.uint64(NBYTES), np.uint32(5))
        done = stream.record()
        done.synchronize()
        assert read_back(pm, memory.object) == pattern(NBYTES, 5)


def test_the_handles_are_the_runtimes(
    pm: ModuleType, runtime: ModuleType, core_device: Any, device: Any, stream: Any
) -> None:
    """One stream under four names: portamem's, the protocol's, the bindings' and cuda.core's."""
    theirs = core_device.create_stream(stream)
    assert stream.__cuda_stream__() == theirs.__cuda_stream__() == (0, stream.handle)
    assert int(runtime.cudaStream_t(stream.handle)) == stream.handle
    assert pm.Stream.wrap(theirs).handle == stream.handle
    assert core_device.device_id == device.ordinal
