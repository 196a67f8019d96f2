"""Order and asynchrony: seen with a latch at a stream's head, never with a clock.

While a latch holds a stream, its query is False, a copy queued behind it has returned, and the target is unchanged.
One end of each copy is a device's: copies from host to host may block their caller on every vendor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.memory import pattern, read_back, write
from helpers.resources import ASYNC_COPYABLE

NBYTES = 64 << 10
OLD = bytes(NBYTES)
NEW = pattern(NBYTES)


class Ends:
    """A pinned source with NEW and a target with OLD. The target is watched through a stream of its own."""

    def __init__(self, pm: ModuleType, device: Any, source: Any, target: Any, pinned: Any) -> None:
        self._side = pm.Stream(device)
        # The side stream is also where the memory is at home: nothing in it waits for the default stream.
        self.source, self.target, self._seen = (
            resource.allocate(NBYTES, stream=self._side) for resource in (source, target, pinned)
        )
        self._bytes = memoryview(self._seen)
        write(pm, self.source, NEW)
        write(pm, self.target, OLD)
        device.synchronize()

    def contents(self) -> bytes:
        """What the target holds now: the copy is ordered after nothing else."""
        self._seen.copy_from(self.target, stream=self._side)
        self._side.synchronize()
        return bytes(self._bytes)

    def close(self) -> None:
        self._bytes.release()
        for each in (self.source, self.target, self._seen, self._side):
            each.close()


@pytest.fixture
def make_ends(pm: ModuleType, device: Any, make_resource: Callable[[str], Any]) -> Iterator[Callable[..., Ends]]:
    made: list[Ends] = []

    def make(source: str = "pinned", target: str = "device") -> Ends:
        made.append(Ends(pm, device, *(make_resource(kind) for kind in (source, target, "pinned"))))
        return made[-1]

    yield make
    device.synchronize()
    for each in made:
        each.close()


@pytest.fixture
def ends(make_ends: Callable[..., Ends]) -> Ends:
    return make_ends()


@pytest.mark.parametrize(
    ("source", "target"), [ends for ends in product(ASYNC_COPYABLE, repeat=2) if ends != ("pinned", "pinned")]
)
def test_a_copy_waits_for_its_stream(
    stream: Any, latch: Callable[[Any], Latch], make_ends: Callable[..., Ends], source: str, target: str
) -> None:
    ends = make_ends(source, target)
    held = latch(stream)
    done = ends.target.copy_from(ends.source, stream=stream)
    assert not stream.query()
    assert not done.query()
    assert ends.contents() == OLD
    held.release()
    done.synchronize()
    assert ends.contents() == NEW
    stream.synchronize()
    assert stream.query()


@pytest.mark.parametrize("target", ASYNC_COPYABLE)
def test_a_fill_waits_for_its_stream(
    stream: Any, latch: Callable[[Any], Latch], make_ends: Callable[..., Ends], target: str
) -> None:
    ends = make_ends(target=target)
    held = latch(stream)
    done = ends.target.fill(0xA5, stream=stream)
    assert not done.query()
    assert ends.contents() == OLD
    held.release()
    done.synchronize()
    assert ends.contents() == b"\xa5" * NBYTES


def test_work_of_one_stream_runs_in_order(stream: Any, ends: Ends) -> None:
    for value in range(50):
        ends.target.fill(value, stream=stream)
    ends.target.copy_from(ends.source, stream=stream)
    stream.synchronize()
    assert ends.contents() == NEW


@pytest.mark.parametrize("how", ["event", "event_of_copy", "stream"])
def test_a_stream_waits_for_another(
    pm: ModuleType, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], ends: Ends, how: str
) -> None:
    held = latch(stream)
    if how == "event":
        other_stream.wait(stream.record())
    elif how == "event_of_copy":
        other_stream.wait(ends.source.fill(3, stream=stream))
    else:
        other_stream.wait(stream)
    ends.target.copy_from(ends.source, stream=other_stream)
    assert not other_stream.query()
    assert ends.contents() == OLD
    held.release()
    other_stream.synchronize()
    assert ends.contents() == (b"\x03" * NBYTES if how == "event_of_copy" else NEW)


def test_an_event_never_recorded_is_no_wait(
    pm: ModuleType, device: Any, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    held = latch(stream)
    with pm.Event(device) as event:
        other_stream.wait(event)
        ends.target.copy_from(ends.source, stream=other_stream)
        other_stream.synchronize()
    assert ends.contents() == NEW
    held.release()


def test_a_wait_is_for_the_mark_at_that_moment(
    pm: ModuleType, device: Any, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    with pm.Event(device) as event:
        event.record(stream)
        other_stream.wait(event)
        held = latch(stream)
        event.record(stream)
        ends.target.copy_from(ends.source, stream=other_stream)
        other_stream.synchronize()
        assert not event.query()
        held.release()
    assert ends.contents() == NEW


def test_streams_do_not_wait_for_each_other_unasked(
    stream: Any, other_stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    held = latch(stream)
    ends.target.copy_from(ends.source, stream=other_stream)
    other_stream.synchronize()
    assert not stream.query()
    assert ends.contents() == NEW
    held.release()


def test_the_legacy_stream_waits_for_blocking_streams(
    pm: ModuleType, device: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    with pm.Stream(device, nonblocking=False) as blocking:
        held = latch(blocking)
        done = ends.target.copy_from(ends.source, stream=device.default_stream)
        assert not done.query()
        assert ends.contents() == OLD
        held.release()
        done.synchronize()
        assert ends.contents() == NEW


def test_blocking_streams_wait_for_the_legacy_stream(
    pm: ModuleType, device: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    with pm.Stream(device, nonblocking=False) as blocking:
        held = latch(device.default_stream)
        done = ends.target.copy_from(ends.source, stream=blocking)
        assert not done.query()
        assert ends.contents() == OLD
        held.release()
        done.synchronize()
        assert ends.contents() == NEW


def test_the_per_thread_stream_is_a_blocking_stream(device: Any, latch: Callable[[Any], Latch], ends: Ends) -> None:
    held = latch(device.default_stream)
    done = ends.target.copy_from(ends.source, stream=device.per_thread_stream)
    assert not done.query()
    assert ends.contents() == OLD
    held.release()
    done.synchronize()
    assert ends.contents() == NEW


def test_two_blocking_streams_are_free_of_each_other(
    pm: ModuleType, device: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    with pm.Stream(device, nonblocking=False) as first, pm.Stream(device, nonblocking=False) as second:
        held = latch(first)
        ends.target.copy_from(ends.source, stream=second)
        second.synchronize()
        assert ends.contents() == NEW
        held.release()


def test_nonblocking_streams_are_free_of_the_legacy_stream(
    device: Any, stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    held = latch(device.default_stream)
    ends.target.copy_from(ends.source, stream=stream)
    stream.synchronize()
    assert not device.default_stream.query()
    assert ends.contents() == NEW
    held.release()


def test_a_blocking_copy_comes_after_what_was_declared(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    held = latch(stream)
    ends.target.copy_from(ends.source, stream=stream)
    held.release_soon()
    assert read_back(pm, ends.target) == NEW


def test_the_device_waits_for_all_its_streams(
    device: Any, stream: Any, latch: Callable[[Any], Latch], ends: Ends
) -> None:
    held = latch(stream)
    done = ends.target.copy_from(ends.source, stream=stream)
    held.release_soon()
    device.synchronize()
    assert done.query()
    assert ends.contents() == NEW


def test_prefetch_is_in_stream_order(
    device: Any, stream: Any, latch: Callable[[Any], Latch], make_resource: Callable[[str], Any]
) -> None:
    with make_resource("managed").allocate(NBYTES) as buf:
        held = latch(stream)
        done = buf.prefetch(device, stream=stream)
        assert not done.query()
        held.release()
        done.synchronize()
