"""Stream capture: what it forbids raises before any vendor call, and the user's capture stays valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import read_back
from helpers.waiting import eventually

import portamem

NBYTES = 4096

FORBIDDEN: dict[str, Callable[[Any], object]] = {
    "allocate on the stream": lambda at: at.pool.allocate(NBYTES, stream=at.stream),
    "fill on the stream": lambda at: at.buf.fill(1, stream=at.stream),
    "copy on the stream": lambda at: at.pm.copy(at.host, at.buf, stream=at.stream),
    "copy to pageable memory": lambda at: at.pm.copy(bytearray(NBYTES), at.buf, stream=at.stream),
    "prefetch on the stream": lambda at: at.shared.prefetch(0, stream=at.stream),
    "synchronize the stream": lambda at: at.stream.synchronize(),
    "query the stream": lambda at: at.stream.query(),
    "close the stream": lambda at: at.stream.close(),
    "close memory on the stream": lambda at: at.home.close(stream=at.stream),
    "capture again": lambda at: at.stream.begin_capture(),
    "synchronize the device": lambda at: at.device.synchronize(),
}

BESIDE: dict[str, Callable[[Any], object]] = {
    "allocate device memory": lambda at: at.plain.allocate(NBYTES).close(),
    "allocate pitched memory": lambda at: at.plain.allocate_pitched(100, 4).close(),
    "allocate pinned memory": lambda at: at.pinned.allocate(NBYTES).close(),
    "allocate managed memory": lambda at: at.managed.allocate(NBYTES).close(),
    "allocate on another stream": lambda at: at.pool.allocate(NBYTES, stream=at.other).close(),
    "register memory": lambda at: at.pm.HostRegistration(bytearray(NBYTES)).close(),
    "trim a pool": lambda at: at.pool.trim(),
    "make a pool": lambda at: at.pm.AsyncMemoryResource(at.device).close(),
    "a blocking copy": lambda at: at.pm.copy(at.host, at.buf),
    "a blocking fill": lambda at: at.buf.fill(1),
    "work on another stream": lambda at: at.buf.fill(4, stream=at.other).synchronize(),
    "another stream and event": lambda at: at.pm.Stream(at.device).record().synchronize(),
    "memory figures": lambda at: at.device.memory_info(),
    "pointers": lambda at: at.pm.pointer_info(at.buf),
}


class Scene:
    """A stream that is captured, another, and memory from before."""

    def __init__(self, pm: ModuleType, device: Any, streams: Any, make_resource: Callable[[str], Any]) -> None:
        self.pm, self.device, (self.stream, self.other) = pm, device, streams
        self.plain, self.pinned, self.managed, self.pool = (
            make_resource(kind) for kind in ("device", "pinned", "managed", "async")
        )
        self.buf, self.host = self.plain.allocate(NBYTES), self.pinned.allocate(NBYTES)
        self.shared, self.home = self.managed.allocate(NBYTES), self.pool.allocate(NBYTES, stream=self.stream)
        device.synchronize()


@pytest.fixture
def at(
    pm: ModuleType, device: Any, stream: Any, other_stream: Any, make_resource: Callable[[str], Any]
) -> Iterator[Scene]:
    scene = Scene(pm, device, (stream, other_stream), make_resource)
    yield scene
    if scene.stream.capture_status != "none":
        scene.stream.end_capture()
    for buf in (scene.buf, scene.host, scene.shared, scene.home):
        buf.close()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_a_capture_forbids(pm: ModuleType, at: Scene, name: str, mode: str) -> None:
    at.stream.begin_capture(mode)
    with pytest.raises((ValueError, portamem.Error), match=r"(?i)captur"):
        FORBIDDEN[name](at)
    assert at.stream.capture_status == "active", "the capture is unharmed"
    at.stream.end_capture()
    assert at.stream.capture_status == "none"
    at.buf.fill(1, stream=at.stream).synchronize()
    assert read_back(pm, at.buf) == b"\x01" * NBYTES


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("name", BESIDE)
def test_what_goes_on_beside_a_capture(at: Scene, name: str, mode: str) -> None:
    """What has nothing to do with the captured stream works, or is refused in words: it never harms the capture."""
    at.stream.begin_capture(mode)
    try:
        BESIDE[name](at)
    except (ValueError, portamem.Error) as refused:
        assert "captur" in str(refused)  # noqa: PT017
    assert at.stream.capture_status == "active"
    at.stream.end_capture()
    assert at.stream.capture_status == "none"


@pytest.mark.parametrize("name", ["a blocking copy", "a blocking fill"])
def test_beside_a_blocking_stream_the_default_one_is_taken(pm: ModuleType, at: Scene, device: Any, name: str) -> None:
    """The default stream orders against a blocking stream: while that is captured, work on it would harm that."""
    with pm.Stream(device, nonblocking=False) as blocking:
        blocking.begin_capture()
        with pytest.raises((ValueError, portamem.Error), match=r"(?i)captur.*stream"):
            BESIDE[name](at)
        assert blocking.capture_status == "active"
        blocking.end_capture()
    BESIDE[name](at)


def test_closing_the_memory_of_a_captured_stream(at: Scene) -> None:
    """A free is no reason to harm a capture: it is refused, the memory stays usable, and it can be closed later."""
    at.stream.begin_capture()
    with pytest.raises((ValueError, portamem.Error), match=r"(?i)captur"):
        at.home.close()
    assert not at.home.is_closed
    assert at.stream.capture_status == "active"
    at.stream.end_capture()
    at.home.close()


def test_the_garbage_collector_during_a_capture(at: Scene) -> None:
    """What nobody may refuse is put off: the memory goes back once the capture is over."""
    extra = at.pool.allocate(NBYTES, stream=at.stream)
    at.stream.begin_capture()
    del extra
    assert at.stream.capture_status == "active"
    at.stream.end_capture()
    assert eventually(lambda: at.pool.live_buffers == 1)


def test_a_captured_stream_keeps_nobody_waiting(at: Scene, latch: Any) -> None:
    held = latch(at.other)
    at.stream.begin_capture()
    at.stream.end_capture()
    assert not at.other.query()
    held.release()


def test_unknown_modes(stream: Any) -> None:
    with pytest.raises(ValueError, match="thread_local"):
        stream.begin_capture("local")
    assert stream.capture_status == "none"


def test_an_end_without_a_beginning(stream: Any) -> None:
    with pytest.raises((ValueError, portamem.Error), match=r"(?i)captur|InvalidValue"):
        stream.end_capture()
    stream.synchronize()


def test_default_streams_cannot_be_captured(device: Any) -> None:
    for default in (device.default_stream, device.per_thread_stream):
        with pytest.raises((ValueError, portamem.Error), match="default stream cannot be captured"):
            default.begin_capture()
        assert default.capture_status == "none"
