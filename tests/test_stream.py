"""Streams: making, closing, identity, priorities, host functions. Their order is in test_order.py."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.memory import pattern, read_back


def test_a_new_stream(pm: ModuleType, device: Any) -> None:
    with pm.Stream(device) as stream:
        assert stream.handle != 0
        assert stream.device == device
        assert stream.backend == pm.backend
        assert stream.is_nonblocking
        assert not stream.is_default
        assert not stream.is_closed
        assert stream.capture_status == "none"
        assert stream.query()
        stream.synchronize()
    assert stream.is_closed


def test_a_stream_that_orders_against_the_legacy_one(pm: ModuleType, device: Any) -> None:
    with pm.Stream(device, nonblocking=False) as stream:
        assert not stream.is_nonblocking


def test_priorities(pm: ModuleType, device: Any) -> None:
    least, greatest = device.stream_priority_range
    for priority in range(greatest, least + 1):
        with pm.Stream(device, priority=priority) as stream:
            assert stream.priority == priority
    with pm.Stream(device, priority=greatest - 1000) as stream:
        assert stream.priority == greatest, "a priority out of range is clamped"


def test_close_is_idempotent(pm: ModuleType, device: Any) -> None:
    stream = pm.Stream(device)
    stream.close()
    stream.close()
    assert stream.is_closed


def test_identities_are_never_reused(pm: ModuleType, device: Any) -> None:
    identities = set()
    for _ in range(64):
        with pm.Stream(device) as stream:
            identities.add(stream.identity)
    assert len(identities) == 64
    assert 0 not in identities


def test_streams_compare_and_hash(stream: Any, other_stream: Any) -> None:
    assert stream == stream
    assert stream != other_stream
    assert stream != stream.handle
    assert {stream: 1, other_stream: 2}[stream] == 1


def test_a_borrowed_stream_is_the_same_queue(
    pm: ModuleType, device: Any, stream: Any, latch: Callable[[Any], Latch]
) -> None:
    borrowed = pm.Stream.from_handle(stream.handle, device=device)
    assert borrowed.handle == stream.handle
    held = latch(stream)
    assert not borrowed.query()
    held.release()
    borrowed.synchronize()


def test_a_borrowed_stream_is_not_destroyed(pm: ModuleType, device: Any, stream: Any) -> None:
    borrowed = pm.Stream.from_handle(stream.handle, device=device)
    borrowed.close()
    assert borrowed.is_closed
    assert not stream.is_closed
    stream.synchronize()


def test_a_borrowed_stream_keeps_its_owner(pm: ModuleType, device: Any, stream: Any) -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    borrowed = pm.Stream.from_handle(stream.handle, device=device, owner=owner)
    del owner
    gc.collect()
    assert alive() is not None
    borrowed.close()
    del borrowed
    gc.collect()
    assert alive() is None


def test_host_functions_run_in_order(stream: Any) -> None:
    ran: list[int] = []
    for number in range(100):
        stream.launch_host_func(lambda number=number: ran.append(number))
    stream.synchronize()
    assert ran == list(range(100))


def test_host_functions_run_on_another_thread(stream: Any) -> None:
    idents: list[int] = []
    stream.launch_host_func(lambda: idents.append(threading.get_ident()))
    stream.synchronize()
    assert idents != [threading.get_ident()]


def test_a_host_function_that_raises_is_reported(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    ran: list[bool] = []

    def broken() -> None:
        raise RuntimeError("broken on purpose")

    stream.launch_host_func(broken)
    stream.launch_host_func(lambda: ran.append(True))
    stream.synchronize()
    assert [str(each.exc_value) for each in reported] == ["broken on purpose"]
    assert ran == [True], "the stream goes on"
    reported.clear()


def test_host_functions_are_let_go_once_they_ran(stream: Any) -> None:
    class Function:
        def __call__(self) -> None:
            pass

    function = Function()
    alive = weakref.ref(function)
    stream.launch_host_func(function)
    del function
    stream.synchronize()
    gc.collect()
    assert alive() is None


def test_a_function_must_be_callable(stream: Any) -> None:
    with pytest.raises(TypeError, match=r"callable|Callable"):
        stream.launch_host_func(42)


def test_work_outlives_its_stream(
    pm: ModuleType, device: Any, pinned_resource: Any, device_resource: Any, latch: Callable[[Any], Latch]
) -> None:
    data = pattern(4096)
    with pinned_resource.allocate(4096) as source, device_resource.allocate(4096) as target:
        pm.copy(source, data)
        stream = pm.Stream(device)
        held = latch(stream)
        target.copy_from(source, stream=stream)
        stream.close()
        held.release()
        device.synchronize()
        assert read_back(pm, target) == data


def test_a_closed_stream_still_says_who_it_was(pm: ModuleType, device: Any) -> None:
    stream = pm.Stream(device)
    identity = stream.identity
    stream.close()
    assert stream.identity == identity
    assert "closed" in repr(stream)
