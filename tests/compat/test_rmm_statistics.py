# SPDX-License-Identifier: MIT
"""RMM's statistics: counters that are stacked, and what functions and blocks allocate."""

from __future__ import annotations

import dataclasses
import gc
import threading

import pytest


@pytest.fixture
def stats(rmm):
    return rmm.statistics


def figures(found):
    """Current, peak and total bytes, and counts."""
    data = dataclasses.asdict(found)
    return tuple(data[f"{name}_{unit}"] for unit in ("bytes", "count") for name in ("current", "peak", "total"))


def test_a_block_counts_what_it_allocates(rmm, stats):
    before = rmm.mr.get_current_device_resource()
    assert stats.get_statistics() is None
    with stats.statistics():
        counting = rmm.mr.get_current_device_resource()
        assert isinstance(counting, rmm.mr.StatisticsResourceAdaptor)
        assert counting.get_upstream() is before
        first = rmm.DeviceBuffer(size=20)
        assert figures(stats.get_statistics()) == (20, 20, 20, 1, 1, 1)
        with stats.statistics():
            assert rmm.mr.get_current_device_resource() is counting
            second = rmm.DeviceBuffer(size=10)
            assert figures(stats.get_statistics()) == (10, 10, 10, 1, 1, 1)
        assert figures(stats.get_statistics()) == (30, 30, 30, 2, 2, 2)
    assert rmm.mr.get_current_device_resource() is before
    assert first.size + second.size == 30


def test_counters_are_a_stack(rmm):
    mr = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    old = rmm.DeviceBuffer(size=100, mr=mr)
    assert figures(mr.push_counters()) == (100, 100, 100, 1, 1, 1)
    new = rmm.DeviceBuffer(size=10, mr=mr)
    assert figures(mr.push_counters()) == (10, 10, 10, 1, 1, 1)
    del old
    assert figures(mr.allocation_counts) == (-100, 0, 0, -1, 0, 0)
    assert figures(mr.pop_counters()) == (-100, 0, 0, -1, 0, 0)
    assert figures(mr.allocation_counts) == (-90, 10, 10, 0, 1, 1)
    assert figures(mr.pop_counters()) == (-90, 10, 10, 0, 1, 1)
    assert figures(mr.allocation_counts) == (10, 110, 110, 1, 2, 2)
    with pytest.raises(IndexError, match="cannot pop the last counter pair"):
        mr.pop_counters()
    assert new.size == 10


def test_functions_go_to_the_current_resource(rmm, stats):
    assert stats.push_statistics() is None
    assert stats.pop_statistics() is None
    stats.enable_statistics()
    counting = rmm.mr.get_current_device_resource()
    stats.enable_statistics()
    assert rmm.mr.get_current_device_resource() is counting
    buffer = rmm.DeviceBuffer(size=5)
    assert stats.push_statistics().current_bytes == 5
    del buffer
    assert stats.pop_statistics().current_bytes == -5
    assert stats.get_statistics().peak_bytes == 5


def test_a_block_that_changes_the_resource_is_told_so(rmm, stats):
    with pytest.raises(ValueError, match="was changed in a block of statistics"), stats.statistics():
        rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())


def test_an_exception_is_not_hidden_by_a_changed_resource(rmm, stats):
    def change_and_fail():
        rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), stats.statistics():
        change_and_fail()


def test_an_exception_ends_the_block_as_well(rmm, stats):
    before = rmm.mr.get_current_device_resource()
    with pytest.raises(KeyError), stats.statistics():
        raise KeyError
    assert rmm.mr.get_current_device_resource() is before
    stats.enable_statistics()
    with pytest.raises(KeyError), stats.statistics():
        raise KeyError
    with pytest.raises(IndexError):
        stats.pop_statistics()


def test_threads_count_together(rmm, stats):
    with stats.statistics():

        def work():
            for _ in range(100):
                rmm.DeviceBuffer(size=8)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = stats.get_statistics()
        assert (found.current_bytes, found.total_bytes, found.total_count) == (0, 3200, 400)
        assert 8 <= found.peak_bytes <= 32


def test_functions_and_blocks_are_profiled(rmm, stats):
    records = stats.ProfilerRecords()

    @stats.profiler(records=records)
    def inner():
        return [rmm.DeviceBuffer(size=100) for _ in range(3)]

    @stats.profiler(records=records, name="outer")
    def outer():
        inner()
        return rmm.DeviceBuffer(size=50)

    outer()
    assert records.records == {}
    stats.enable_statistics()
    kept = outer(), outer()
    with stats.profiler(records=records, name="frees"):
        del kept
    record = stats.ProfilerRecords.MemoryRecord
    name = stats._get_descriptive_name_of_object(inner)
    assert name.startswith(__file__)
    assert name.endswith("(test_functions_and_blocks_are_profiled.<locals>.inner)")
    expected = {
        name: record(num_calls=2, memory_total=600, memory_peak=300),
        "outer": record(num_calls=2, memory_total=700, memory_peak=300),
        "frees": record(num_calls=1),
    }
    assert records.records == expected
    assert inner.__name__ == "inner"


def test_a_profile_counts_where_an_exception_ends_it(rmm, stats):
    stats.enable_statistics()
    records = stats.ProfilerRecords()

    @stats.profiler(records=records, name="fails")
    def fails():
        rmm.DeviceBuffer(size=9)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert records.records["fails"].memory_total == 9


def test_a_report_is_a_table(stats):
    records = stats.ProfilerRecords()
    assert "No data" in records.report()
    large, often = stats.Statistics(0, 0, 5000, 1, 5000, 1), stats.Statistics(0, 0, 10, 1, 10, 1)
    records.add("large", large)
    for _ in range(3):
        records.add("often", often)
    rows = [line.split() for line in records.report().splitlines()[3:]]
    assert rows == [["1", "5,000", "5,000", "large"], ["3", "10", "30", "often"]]
    assert [line.split()[3] for line in records.report("num_calls").splitlines()[3:]] == ["often", "large"]
    assert str(records) == records.report("memory_peak")
    assert "num_calls=3" in repr(records)
    with pytest.raises(ValueError, match="ordered_by is"):
        records.report("size")


def test_a_profiled_block_has_a_name(stats):
    with pytest.raises(ValueError, match="a block that is profiled has a name"), stats.profiler():
        pass
    assert stats.profiler.__kwdefaults__["records"] is stats.default_profiler_records


def test_a_block_of_using_is_not_made_the_process_default(pm, rmm, stats, tmp_path):
    before = pm.default_resource(0)
    mine = pm.PoolMemoryResource()
    with pm.using(mine):
        for change in (stats.enable_statistics, lambda: rmm.enable_logging(tmp_path / "log.csv")):
            with pytest.raises(ValueError, match="using"):
                change()
        with pytest.raises(ValueError, match="using"), stats.statistics():
            pass
        assert rmm.DeviceBuffer(size=10).mr.resource is mine
    assert pm.default_resource(0) is before
    counting = rmm.mr.StatisticsResourceAdaptor(rmm.mr.DeviceMemoryResource(mine))
    with pm.using(counting.resource), stats.statistics():
        kept = rmm.DeviceBuffer(size=10)
        assert stats.get_statistics().current_bytes == 10
    del kept


def test_a_block_leaves_nothing_set_that_was_not(rmm, stats, tmp_path):
    with stats.statistics():
        assert rmm.get_log_filenames() == {0: None}
    assert rmm.get_log_filenames() == {}
    rmm.enable_logging(tmp_path / "log.csv")
    rmm.disable_logging()
    assert rmm.get_log_filenames() == {}


def test_a_profiler_takes_off_what_it_put_on(rmm, stats):
    records = stats.ProfilerRecords()

    def enables_and_fails():
        with stats.profiler(name="late", records=records):
            stats.enable_statistics()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        enables_and_fails()
    assert records.records == {}
    counting = rmm.mr.get_current_device_resource()
    with stats.profiler(name="changed", records=records):
        first = rmm.DeviceBuffer(size=100)
        rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
        second = rmm.DeviceBuffer(size=1000)
    assert records.records["changed"].memory_total == 100
    with pytest.raises(IndexError):
        counting.pop_counters()
    assert first.size + second.size == 1100


def test_a_function_that_runs_in_a_collection_of_garbage_may_be_profiled(stats):
    records = stats.ProfilerRecords()

    class Spills:
        def __init__(self):
            self.own = self

        def __del__(self):
            records.add("spilled", stats.Statistics(0, 0, 0, 0, 0, 0))

    records.add("first", stats.Statistics(0, 0, 0, 0, 0, 0))
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            Spills()
            assert "first" in records.records
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert records.records["spilled"].num_calls == 50
