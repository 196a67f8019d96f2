"""Misuse of devices, streams, events and advice: each is refused before any runtime call, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

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
    closed_stream, closed_event = pm.Stream(device), pm.Event(device)
    closed_buf = resource.allocate(NBYTES)
    for each in (closed_buf, closed_stream, closed_event):
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
    "foreign memory that nobody can read": Case(
        lambda at: at.pm.Buffer.from_handle(4096, 16), ValueError, r"0x1000.*cannot read.*freed.*heap of kernels"
    ),
    # closed things
    "prefetch of a closed buffer": Case(lambda at: at.closed_buf.prefetch(0), ValueError, r"buffer is closed"),
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
    "copy of a box on a closed stream": Case(
        lambda at: at.pm.copy_3d(at.buf, at.other, width=4, height=4, depth=4, stream=at.closed_stream),
        ValueError,
        r"stream is closed",
    ),
    "the protocol of a closed stream": Case(
        lambda at: at.closed_stream.__cuda_stream__(), ValueError, r"stream is closed"
    ),
    "query a closed event": Case(lambda at: at.closed_event.query(), ValueError, r"event is closed"),
    "synchronize a closed event": Case(lambda at: at.closed_event.synchronize(), ValueError, r"event is closed"),
    "record a closed event": Case(lambda at: at.closed_event.record(at.stream), ValueError, r"event is closed"),
    "wait for a closed event": Case(lambda at: at.stream.wait(at.closed_event), ValueError, r"event is closed"),
    # kinds mixed wrongly
    "prefetch of device memory": Case(lambda at: at.buf.prefetch(0), ValueError, r"managed memory.*device"),
    "advice on pinned memory": Case(
        lambda at: at.host.advise(MemoryAdvice.READ_MOSTLY), ValueError, r"managed memory.*pinned"
    ),
    "copy of a box from text": Case(
        lambda at: at.pm.copy_3d(at.buf, "text", width=1, height=1, depth=4), TypeError, r"source.*str"
    ),
    "copy of a box to bytes": Case(
        lambda at: at.pm.copy_3d(bytes(64), at.buf, width=4, height=4, depth=4), ValueError, r"target.*read-only"
    ),
    "copy of a box of unknown height": Case(
        lambda at: at.pm.copy_3d(at.buf, at.other, width=4, height=None, depth=4), TypeError, r"height.*int.*None"
    ),
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


@pytest.mark.parametrize("name", backend.others())
def test_a_device_of_another_backend(pm: ModuleType, device: Any, name: str) -> None:
    if not portamem.backends()[name].loadable:
        pytest.skip(f"{name}: {portamem.backends()[name].reason}")
    with pytest.raises(TypeError, match=rf"backend {pm.backend}.*{name}"):
        getattr(portamem, name).Stream(device)


def test_unknown_backend() -> None:
    with pytest.raises(AttributeError, match="sycl"):
        portamem.sycl  # noqa: B018


@pytest.mark.parametrize("name", ["Device", "Stream", "Event", "HostRegistration", "View"])
def test_positional_nonsense(pm: ModuleType, name: str) -> None:
    with pytest.raises(TypeError):
        getattr(pm, name)(0, 1, 2, 3, 4, 5, 6)
    with pytest.raises(TypeError):
        getattr(pm, name)(nonsense=1)
