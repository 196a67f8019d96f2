"""StatisticsAdaptor: current, peak and total, by tag, by thread and within scopes."""

from __future__ import annotations

import asyncio
import threading
from types import ModuleType
from typing import Any

import pytest
from helpers.waiting import close_when_empty, eventually

import portamem


@pytest.fixture
def statistics(pm: ModuleType, resource: Any) -> Any:
    """An adaptor over a resource of every kind in turn."""
    made = pm.StatisticsAdaptor(resource)
    yield made
    close_when_empty(made)


@pytest.fixture
def plain(pm: ModuleType, device_resource: Any) -> Any:
    """An adaptor over plain device memory."""
    made = pm.StatisticsAdaptor(device_resource)
    yield made
    close_when_empty(made)


def test_it_is_a_resource_over_another(pm, statistics, resource):
    assert isinstance(statistics, portamem.StatisticsAdaptor)
    assert isinstance(statistics, portamem.ResourceAdaptor)
    assert isinstance(statistics, pm.MemoryResource)
    assert statistics.upstream is resource
    assert (statistics.kind, statistics.device) == (resource.kind, resource.device)
    assert statistics.is_host_accessible == resource.is_host_accessible


def test_current_peak_and_total(statistics, stream):
    first = statistics.allocate(1000, stream=stream)
    second = statistics.allocate("4 KiB", stream=stream)
    first.close()
    third = statistics.allocate(10, stream=stream)
    counts = statistics.counts
    assert (counts.current_bytes, counts.current_count) == (4106, 2)
    assert (counts.peak_bytes, counts.peak_count) == (5096, 2)
    assert (counts.total_bytes, counts.total_count, counts.failed_count) == (5106, 3, 0)
    statistics.reset_peak()
    assert statistics.counts.peak_bytes == 4106
    second.close()
    third.close()
    assert statistics.counts.current_bytes == statistics.counts.current_count == 0


def test_its_memory_is_the_upstreams(pm, statistics, stream, resource):
    data = bytes(range(256)) * 16
    with statistics.allocate(len(data), stream=stream) as buffer:
        assert resource.live_bytes == len(data)
        pm.copy(buffer, data, stream=stream)
        back = bytearray(len(data))
        pm.copy(back, buffer, stream=stream)
        stream.synchronize()
        assert back == data


def test_scopes_nest_and_can_be_read_afterwards(plain):
    before = plain.allocate(100)
    with plain.scope() as outer:
        with plain.scope() as inner:
            buffer = plain.allocate(50)
            assert inner.counts.current_bytes == 50
            buffer.close()
        before.close()
        assert outer.counts.current_bytes == -100
    assert (inner.counts.peak_bytes, inner.counts.current_bytes, inner.counts.total_count) == (50, 0, 1)
    assert (outer.counts.peak_bytes, outer.counts.current_count) == (50, -1)
    with plain.allocate(1):
        assert outer.counts.total_bytes == 50


def test_a_scope_counts_all_threads(plain):
    with plain.scope() as scope:
        thread = threading.Thread(target=lambda: plain.allocate(64).close())
        thread.start()
        thread.join()
    assert scope.counts.total_count == 1


def test_a_scope_is_opened_before_it_is_read_and_once(plain):
    scope = plain.scope()
    with pytest.raises(ValueError, match="never entered"):
        scope.counts  # noqa: B018
    with scope, pytest.raises(RuntimeError, match="open already"):
        scope.__enter__()


def test_a_scope_ends_when_its_block_raises(plain):
    with pytest.raises(KeyError), plain.scope() as scope:  # noqa: PT012
        plain.allocate(7).close()
        raise KeyError
    assert scope.counts.total_bytes == 7
    with pytest.raises(ValueError, match="not open"):
        plain._scope_counts(1)


def test_memory_counts_for_the_tag_it_was_allocated_under(pm, plain):
    with pm.tag("solver") as outer:
        kept = plain.allocate(100)
        with pm.tag("setup") as inner:
            plain.allocate(30).close()
    assert (outer, inner, pm.current_tag()) == ("solver", "solver/setup", "")
    with pm.tag("elsewhere"):
        kept.close()
    plain.allocate(1).close()
    found = plain.by_tag
    assert set(found) == {"", "solver", "solver/setup"}
    assert (found["solver"].current_bytes, found["solver"].peak_bytes) == (0, 100)
    assert found["solver/setup"].total_bytes == 30


def test_a_tag_ends_when_its_block_raises(pm):
    with pytest.raises(KeyError), pm.tag("solver"):
        raise KeyError
    assert pm.current_tag() == ""


def test_tags_of_tasks_that_take_turns_each_end_where_their_block_does(pm):
    async def work(name: str, began: asyncio.Event, goes_on: asyncio.Event) -> None:
        with pm.tag(name):
            began.set()
            await goes_on.wait()

    async def both() -> None:
        began, goes_on = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(work("first", asyncio.Event(), began))
        await asyncio.sleep(0)
        second = asyncio.create_task(work("second", began, goes_on))
        with pytest.raises(RuntimeError, match=r"before one that began within it, which stays"):
            await first
        assert pm.current_tag() == "first/second"
        goes_on.set()
        await second
        assert pm.current_tag() == ""

    asyncio.run(both())


def test_a_tag_that_ends_too_early_hides_no_exception(pm):
    outer, inner = pm.tag("outer"), pm.tag("inner")
    outer.__enter__()
    inner.__enter__()
    error = KeyError("mine")
    assert not outer.__exit__(KeyError, error, None)
    assert pm.current_tag() == "outer/inner"
    inner.__exit__(None, None, None)
    assert pm.current_tag() == ""


def test_a_tag_belongs_to_its_thread(pm):
    seen = []
    with pm.tag("main"):
        thread = threading.Thread(target=lambda: seen.append(pm.current_tag()))
        thread.start()
        thread.join()
    assert seen == [""]


def test_a_tag_has_a_name(pm):
    with pytest.raises(ValueError, match="a tag has a name"), pm.tag(""):
        pass
    with pytest.raises(TypeError), pm.tag(3):
        pass


def test_memory_counts_for_the_thread_that_allocated_it(plain):
    made = {}

    def work() -> None:
        made[threading.get_native_id()] = plain.allocate(500)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    (number, buffer), *_ = made.items()
    mine = plain.allocate(3)
    assert plain.by_thread[number].current_bytes == 500
    assert plain.by_thread[threading.get_native_id()].total_bytes == 3
    buffer.close()
    mine.close()
    assert plain.by_thread[number].current_bytes == 0


def test_what_is_given_back_has_to_be_what_was_given(plain):
    address, other = plain.allocate(1000).release(), plain.allocate(2000).release()
    with pytest.raises(ValueError, match="the block has 1000 bytes, not 999"):
        plain.deallocate(address, 999)
    with pytest.raises(ValueError, match="this address is not out"):
        plain.deallocate(address + 256, 744)
    plain.deallocate(address, 1000)
    with pytest.raises(ValueError, match="this address is not out"):
        plain.deallocate(address, 1000)
    assert plain.counts.current_bytes == plain.live_bytes == 2000
    plain.deallocate(other, 2000)


def test_what_is_refused_is_counted_and_raised(plain):
    with pytest.raises(portamem.OutOfMemoryError):
        plain.allocate(1 << 50)
    assert (plain.counts.failed_count, plain.counts.total_count) == (1, 0)


def test_an_allocation_of_nothing_counts_in_the_total(plain):
    with plain.allocate(0):
        assert (plain.counts.current_count, plain.counts.total_count, plain.live_buffers) == (0, 1, 1)


def test_a_closed_one_can_still_be_asked(plain):
    plain.allocate(9).close()
    plain.close()
    assert plain.counts.total_bytes == 9
    with pytest.raises(ValueError, match="closed"):
        plain.allocate(1)


def test_an_upstream_is_a_resource_of_the_same_backend(pm, device_resource):
    for wrong in (None, 3, pm.StatisticsAdaptor):
        with pytest.raises(TypeError):
            pm.StatisticsAdaptor(wrong)
    device_resource.close()
    with pytest.raises(ValueError, match="the upstream resource is closed"):
        pm.StatisticsAdaptor(device_resource)


def test_threads_count_together(plain):
    def work() -> None:
        for _ in range(200):
            plain.allocate(128).close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eventually(lambda: plain.live_buffers == 0)
    counts = plain.counts
    assert (counts.total_count, counts.current_bytes) == (1600, 0)
    assert 128 <= counts.peak_bytes <= 8 * 128
    assert sum(each.total_count for each in plain.by_thread.values()) == 1600
