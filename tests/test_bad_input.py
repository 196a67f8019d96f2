"""Misuse: every wrong argument is refused before any runtime call, by an exception that says what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import backend

import portamem
from portamem.enums import MemoryAdvice

NBYTES = 4096


class Case(NamedTuple):
    """A call on ``at`` (see the fixture), the exception that it must raise, and what its message must tell."""

    call: Callable[[Any], object]
    error: type[Exception]
    message: str


@pytest.fixture
def at(pm: ModuleType, device: Any, stream: Any, make_resource: Callable[[str], Any]) -> Iterator[SimpleNamespace]:
    """Open and closed objects of every kind."""
    resource, pinned = make_resource("device"), make_resource("pinned")
    closed_stream, closed_event, closed_resource = pm.Stream(device), pm.Event(device), pm.DeviceMemoryResource(device)
    closed_buf = resource.allocate(NBYTES)
    for each in (closed_buf, closed_stream, closed_event, closed_resource):
        each.close()
    with resource.allocate(NBYTES) as buf, resource.allocate(NBYTES) as other, pinned.allocate(NBYTES) as host:
        yield SimpleNamespace(
            pm=pm,
            device=device,
            stream=stream,
            resource=resource,
            buf=buf,
            other=other,
            host=host,
            closed_buf=closed_buf,
            closed_stream=closed_stream,
            closed_event=closed_event,
            closed_resource=closed_resource,
        )


CASES = {
    # devices
    "negative device": Case(lambda at: at.pm.Device(-1), ValueError, r"no device -1|device -1"),
    "device beyond the last": Case(lambda at: at.pm.Device(4096), ValueError, r"no device 4096.*from 0 to"),
    "device beyond any int": Case(lambda at: at.pm.Device(2**40), ValueError, r"1099511627776"),
    "device as text": Case(lambda at: at.pm.Device("0"), TypeError, r"device.*int.*str"),
    "device as bool": Case(lambda at: at.pm.Device(True), TypeError, r"device.*int.*bool"),
    "device as float": Case(lambda at: at.pm.Device(0.0), TypeError, r"device.*int.*float"),
    "stream on no device": Case(lambda at: at.pm.Stream(4096), ValueError, r"4096"),
    "resource on no device": Case(lambda at: at.pm.DeviceMemoryResource(4096), ValueError, r"4096"),
    # sizes that are not those of allocate have their table in test_sizes.py
    "pitched memory of negative width": Case(lambda at: at.resource.allocate_pitched(-1, 4), ValueError, r"negative"),
    "pitched memory of negative height": Case(lambda at: at.resource.allocate_pitched(4, -1), ValueError, r"negative"),
    "pitched memory of half a row": Case(lambda at: at.resource.allocate_pitched(4, 1.5), TypeError, r"int.*float"),
    "foreign memory of negative size": Case(lambda at: at.pm.Buffer.from_handle(4096, -1), ValueError, r"negative"),
    "foreign memory at a negative address": Case(lambda at: at.pm.Buffer.from_handle(-1, 1), ValueError, r"negative"),
    "foreign memory that nobody can read": Case(
        lambda at: at.pm.Buffer.from_handle(4096, 16), ValueError, r"0x1000.*cannot read.*freed.*heap of kernels"
    ),
    "foreign memory at null": Case(lambda at: at.pm.Buffer.from_handle(0, 16), ValueError, r"null|address|0"),
    # closed things
    "fill a closed buffer": Case(lambda at: at.closed_buf.fill(0), ValueError, r"buffer is closed"),
    "copy from a closed buffer": Case(lambda at: at.buf.copy_from(at.closed_buf), ValueError, r"closed"),
    "copy to a closed buffer": Case(lambda at: at.buf.copy_to(at.closed_buf), ValueError, r"closed"),
    "view of a closed buffer": Case(lambda at: at.closed_buf.view(), ValueError, r"buffer is closed"),
    "part of a closed buffer": Case(lambda at: at.closed_buf[:4], ValueError, r"buffer is closed"),
    "address of a closed buffer": Case(lambda at: at.closed_buf.handle, ValueError, r"buffer is closed"),
    "release of a closed buffer": Case(lambda at: at.closed_buf.release(), ValueError, r"buffer is closed"),
    "record_stream of a closed buffer": Case(
        lambda at: at.closed_buf.record_stream(at.stream), ValueError, r"buffer is closed"
    ),
    "prefetch of a closed buffer": Case(lambda at: at.closed_buf.prefetch(0), ValueError, r"buffer is closed"),
    "memoryview of a closed buffer": Case(lambda at: memoryview(at.closed_buf), (ValueError, BufferError), r"closed"),
    "synchronize a closed stream": Case(lambda at: at.closed_stream.synchronize(), ValueError, r"stream is closed"),
    "query a closed stream": Case(lambda at: at.closed_stream.query(), ValueError, r"stream is closed"),
    "handle of a closed stream": Case(lambda at: at.closed_stream.handle, ValueError, r"stream is closed"),
    "record on a closed stream": Case(lambda at: at.closed_stream.record(), ValueError, r"stream is closed"),
    "wait on a closed stream": Case(
        lambda at: at.closed_stream.wait(at.stream.record()), ValueError, r"stream is closed"
    ),
    "host function on a closed stream": Case(
        lambda at: at.closed_stream.launch_host_func(print), ValueError, r"stream is closed"
    ),
    "fill on a closed stream": Case(
        lambda at: at.buf.fill(0, stream=at.closed_stream), ValueError, r"stream is closed"
    ),
    "copy on a closed stream": Case(
        lambda at: at.pm.copy(at.buf, at.other, stream=at.closed_stream), ValueError, r"stream is closed"
    ),
    "the protocol of a closed stream": Case(
        lambda at: at.closed_stream.__cuda_stream__(), ValueError, r"stream is closed"
    ),
    "query a closed event": Case(lambda at: at.closed_event.query(), ValueError, r"event is closed"),
    "synchronize a closed event": Case(lambda at: at.closed_event.synchronize(), ValueError, r"event is closed"),
    "record a closed event": Case(lambda at: at.closed_event.record(at.stream), ValueError, r"event is closed"),
    "wait for a closed event": Case(lambda at: at.stream.wait(at.closed_event), ValueError, r"event is closed"),
    "allocate from a closed resource": Case(
        lambda at: at.closed_resource.allocate(16), ValueError, r"resource is closed"
    ),
    # copies
    "copy too much": Case(lambda at: at.buf.copy_from(bytes(NBYTES + 1)), ValueError, r"4097 .*4096"),
    "copy too little": Case(lambda at: at.buf.copy_from(bytes(NBYTES - 1)), ValueError, r"4095 .*4096"),
    "copy onto itself": Case(lambda at: at.buf.copy_from(at.buf), ValueError, r"overlap"),
    "copy onto its neighbour": Case(lambda at: at.buf[1:].copy_from(at.buf[:-1]), ValueError, r"overlap"),
    "copy from a number": Case(lambda at: at.buf.copy_from(42), TypeError, r"source is a int.*buffer protocol"),
    "copy from text": Case(lambda at: at.buf.copy_from("text"), TypeError, r"source is a str"),
    "copy from None": Case(lambda at: at.buf.copy_from(None), TypeError, r"source is a NoneType"),
    "copy to bytes": Case(lambda at: at.buf.copy_to(bytes(NBYTES)), ValueError, r"target is read-only"),
    "copy to a read-only array": Case(
        lambda at: at.buf.copy_to(np.frombuffer(bytes(NBYTES), np.uint8)), ValueError, r"target is read-only"
    ),
    "copy from every other element": Case(
        lambda at: at.buf.copy_from(np.zeros(2 * NBYTES, np.uint8)[::2]),
        ValueError,
        r"source is not C-contiguous.*ascontiguousarray",
    ),
    "copy to a transposed array": Case(
        lambda at: at.buf.copy_to(np.zeros((64, 64), np.uint8, order="F")), ValueError, r"target is not C-contiguous"
    ),
    "fill_2d of plain memory": Case(lambda at: at.pm.fill_2d(at.buf, 0), TypeError, r"(?i)pitched|incompatible"),
    # kinds mixed wrongly
    "prefetch of device memory": Case(lambda at: at.buf.prefetch(0), ValueError, r"managed memory.*device"),
    "advice on pinned memory": Case(
        lambda at: at.host.advise(MemoryAdvice.READ_MOSTLY), ValueError, r"managed memory.*pinned"
    ),
    "View of a number": Case(lambda at: at.pm.View(42), TypeError, r"(?i)buffer"),
    "wait for a number": Case(lambda at: at.stream.wait(42), TypeError, r"(?i)event|stream"),
    "an event of a number": Case(lambda at: at.stream.record(42), TypeError, r"(?i)event"),
}


@pytest.mark.parametrize("name", CASES)
def test_misuse(at: SimpleNamespace, name: str) -> None:
    case = CASES[name]
    with pytest.raises(case.error, match=case.message):
        case.call(at)
    for _ in range(2):  # nothing is broken by it
        at.buf.fill(1, stream=at.stream).synchronize()
        at.pm.copy(at.host, at.buf)
        assert bytes(memoryview(at.host)) == b"\x01" * NBYTES


RUNTIME_REFUSES = {
    "free of an unknown pointer": lambda at: at.resource.deallocate(0x1000, 16),
    "free of an interior pointer": lambda at: at.resource.deallocate(at.buf.handle + 16, 16),
    "free of somebody's host memory": lambda at: at.resource.deallocate(np.zeros(4).ctypes.data, 16),
    "free of pinned memory as device memory": lambda at: at.resource.deallocate(at.host.handle, NBYTES),
}


@pytest.mark.parametrize("name", RUNTIME_REFUSES)
def test_wrong_frees(pm: ModuleType, at: SimpleNamespace, name: str) -> None:
    if pm.backend == "hip" and "pinned" in name:
        pytest.skip("HIP frees both kinds by either call")
    with pytest.raises(portamem.Error, match=r"Free.*InvalidValue") as caught:
        RUNTIME_REFUSES[name](at)
    assert caught.value.code == 1
    at.buf.fill(1)
    at.host.fill(1)


def test_double_free(pm: ModuleType, device_resource: Any) -> None:
    """The runtime's own answer to a double free. A Buffer cannot get there: its close is idempotent."""
    keeper = device_resource.allocate(NBYTES)
    address = device_resource.allocate(NBYTES).release()
    device_resource.deallocate(address, NBYTES)
    with pytest.raises(portamem.Error, match="InvalidValue"):
        device_resource.deallocate(address, NBYTES)
    assert (device_resource.live_buffers, device_resource.live_bytes) == (1, NBYTES)
    keeper.close()


@pytest.mark.parametrize("name", backend.others())
def test_memory_of_another_backend(pm: ModuleType, device_resource: Any, name: str) -> None:
    """No backend reads another's device memory: the message sends the copy through the host."""
    if not portamem.backends()[name].loadable:
        pytest.skip(f"{name}: {portamem.backends()[name].reason}")
    other = getattr(portamem, name)
    with device_resource.allocate(16) as buf:
        if buf.is_host_accessible:
            pytest.skip("this memory is the host's as well")
        with pytest.raises(TypeError, match=rf"backend {pm.backend}.*{name}.*host memory"):
            other.copy(buf, bytes(16))
        with pytest.raises(TypeError, match=rf"backend {pm.backend}.*{name}.*host memory"):
            other.copy(bytearray(16), buf)


@pytest.mark.parametrize("name", backend.others())
def test_a_device_of_another_backend(pm: ModuleType, device: Any, name: str) -> None:
    if not portamem.backends()[name].loadable:
        pytest.skip(f"{name}: {portamem.backends()[name].reason}")
    with pytest.raises(TypeError, match=rf"backend {pm.backend}.*{name}"):
        getattr(portamem, name).Stream(device)


def test_unknown_backend() -> None:
    with pytest.raises(AttributeError, match="sycl"):
        portamem.sycl  # noqa: B018


def test_a_stream_of_another_device(pm: ModuleType, two_devices: tuple[Any, Any], pool: Any) -> None:
    with pm.Stream(two_devices[1]) as stream, pytest.raises(ValueError, match=r"device 1.*device 0"):
        pool.allocate(16, stream=stream)


def test_a_read_only_source_is_fine(pm: ModuleType, at: SimpleNamespace) -> None:
    at.buf.copy_from(bytes(NBYTES))
    at.buf.copy_from(np.frombuffer(bytes(NBYTES), np.uint8))


@pytest.mark.parametrize("name", ["Device", "Stream", "Event", "HostRegistration", "View"])
def test_positional_nonsense(pm: ModuleType, name: str) -> None:
    with pytest.raises(TypeError):
        getattr(pm, name)(0, 1, 2, 3, 4, 5, 6)
    with pytest.raises(TypeError):
        getattr(pm, name)(nonsense=1)
