"""Events: marks in a stream, queried, awaited and timed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch

import portamem


def test_a_new_event_is_done(pm: ModuleType, device: Any) -> None:
    with pm.Event(device) as event:
        assert event.handle != 0
        assert event.device == device
        assert event.query()
        assert event.is_done
        event.synchronize()
    assert event.is_closed


def test_record_makes_or_takes_an_event(pm: ModuleType, device: Any, stream: Any) -> None:
    with stream.record() as made:
        made.synchronize()
    with pm.Event(device) as event:
        assert stream.record(event) is event
        event.record(stream)
        event.synchronize()
        assert event.is_done


def test_an_event_is_done_with_the_work_before_it(stream: Any, latch: Callable[[Any], Latch]) -> None:
    held = latch(stream)
    with stream.record() as event:
        assert not event.query()
        assert not event.is_done
        held.release()
        event.synchronize()
        assert event.query()


def test_recording_again_moves_the_mark(
    pm: ModuleType, device: Any, stream: Any, latch: Callable[[Any], Latch]
) -> None:
    with pm.Event(device) as event:
        event.record(stream)
        event.synchronize()
        held = latch(stream)
        event.record(stream)
        assert not event.query()
        held.release()
        event.synchronize()


def test_without_a_stream_it_is_recorded_on_the_default_one(pm: ModuleType, device: Any) -> None:
    with pm.Event(device) as event:
        event.record()
        event.synchronize()
        assert event.is_done


@pytest.mark.parametrize("blocking", [False, True])
def test_elapsed_time(pm: ModuleType, device: Any, stream: Any, blocking: bool) -> None:
    with (
        pm.Event(device, timing=True, blocking=blocking) as start,
        pm.Event(device, timing=True, blocking=blocking) as end,
    ):
        start.record(stream)
        stream.launch_host_func(lambda: None)
        end.record(stream)
        end.synchronize()
        assert isinstance(start.elapsed_time(end), float)
        assert start.elapsed_time(end) >= 0.0


def test_elapsed_time_of_unfinished_work(
    pm: ModuleType, device: Any, stream: Any, latch: Callable[[Any], Latch]
) -> None:
    with pm.Event(device, timing=True) as start, pm.Event(device, timing=True) as end:
        start.record(stream)
        held = latch(stream)
        end.record(stream)
        with pytest.raises(portamem.Error, match="NotReady") as caught:
            start.elapsed_time(end)
        assert caught.value.code == 600
        held.release()
        end.synchronize()


def test_elapsed_time_needs_timing(pm: ModuleType, device: Any, stream: Any) -> None:
    with stream.record() as start, stream.record() as end:
        end.synchronize()
        with pytest.raises((ValueError, portamem.Error), match="timing=True"):
            start.elapsed_time(end)


def test_close_is_idempotent(pm: ModuleType, device: Any) -> None:
    event = pm.Event(device)
    event.close()
    event.close()
    assert event.is_closed
    assert "closed" in repr(event)


def test_an_event_may_be_closed_before_its_work_is_done(stream: Any, latch: Callable[[Any], Latch]) -> None:
    held = latch(stream)
    event = stream.record()
    event.close()
    held.release()
    stream.synchronize()


def test_a_borrowed_event(pm: ModuleType, device: Any, stream: Any, latch: Callable[[Any], Latch]) -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    with pm.Event(device) as event:
        borrowed = pm.Event.from_handle(event.handle, device=device, owner=owner)
        del owner
        held = latch(stream)
        event.record(stream)
        assert not borrowed.query()
        held.release()
        borrowed.synchronize()
        gc.collect()
        assert alive() is not None
        borrowed.close()
        assert not event.is_closed
        assert event.query()
    del borrowed
    gc.collect()
    assert alive() is None
