"""The words of objects for themselves in a log, and in a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import pytest
from helpers.process import python_output

from portamem import _html
from portamem._pool import PoolSnapshot, PoolStats


def test_a_resource_says_its_class_device_and_bytes(pm: ModuleType) -> None:
    head = f"portamem.{pm.backend}."
    with pm.DeviceMemoryResource(0) as plain:
        assert repr(plain) == f"<{head}DeviceMemoryResource, device 0, 0 B out>"
        with plain.allocate("4 MiB"), plain.allocate(1 << 19):
            assert repr(plain) == f"<{head}DeviceMemoryResource, device 0, 4.5 MiB out>"
    assert repr(plain) == f"<{head}DeviceMemoryResource, device 0, closed>"


def test_a_resource_says_what_is_below(pm: ModuleType) -> None:
    head = f"portamem.{pm.backend}."
    with pm.DeviceMemoryResource(0) as plain, pm.Stream(0) as stream:
        with pm.StatisticsAdaptor(plain) as counted, pm.PoolMemoryResource(counted) as pool:
            assert repr(counted) == f"<{head}StatisticsAdaptor over DeviceMemoryResource, device 0, 0 B out>"
            with pool.allocate(1024, stream=stream):
                below = "over StatisticsAdaptor over DeviceMemoryResource"
                assert repr(pool) == f"<{head}PoolMemoryResource {below}, device 0, 1 KiB out>"
            pool.close()
            assert repr(pool) == f"<{head}PoolMemoryResource {below}, device 0, closed>"
        with pm.FixedSizeMemoryResource(plain, 64) as blocks, pm.MonotonicMemoryResource(plain) as pieces:
            assert "FixedSizeMemoryResource over DeviceMemoryResource, device 0" in repr(blocks)
            assert "MonotonicMemoryResource over DeviceMemoryResource, device 0" in repr(pieces)
        with pm.LimitingAdaptor(plain, 4096) as limited:
            assert "LimitingAdaptor over DeviceMemoryResource, device 0" in repr(limited)


@pytest.mark.parametrize("name", ["PinnedMemoryResource", "SystemMemoryResource"])
def test_a_resource_says_the_kind_of_other_memory(pm: ModuleType, name: str) -> None:
    with getattr(pm, name)(0) as resource:
        kind = name.removesuffix("MemoryResource").lower()
        assert repr(resource) == f"<portamem.{pm.backend}.{name}, {kind} memory of device 0, 0 B out>"
        with pm.CallbackMemoryResource(lambda nbytes, stream: 0, lambda *args: None, kind=kind) as own:
            assert repr(own) == f"<portamem.{pm.backend}.CallbackMemoryResource, {kind} memory of device 0, 0 B out>"


def test_a_forked_child_says_it_as_well(pm: ModuleType) -> None:
    code = f"""
        import os, sys, warnings
        import portamem.{pm.backend} as pm
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: Python's, from 3.12 on
        pool = pm.PoolMemoryResource()
        plain = pm.DeviceMemoryResource()
        child = os.fork()
        if child == 0:
            print(repr(pool), repr(plain), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    assert "PoolMemoryResource over DeviceMemoryResource, device 0" in python_output(code)


class Table(HTMLParser):
    """Reads back what a table says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag in ("th", "td", "caption"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data

    def rows(self) -> dict[str, str]:
        return dict(zip(self.cells[1::2], self.cells[2::2], strict=True))


def test_text_in_tables_is_escaped() -> None:
    table = Table(_html.table("<b>title</b>", [("<i>name</i>", "<script>&amp;</script>")]))
    assert table.cells == ["<b>title</b>", "<i>name</i>", "<script>&amp;</script>"]
    assert set(table.tags) == {"table", "caption", "tr", "th", "td"}


def test_a_pools_figures_as_a_table(pm: ModuleType) -> None:
    with pm.PoolMemoryResource(device=0) as pool, pm.Stream(0) as stream, pool.allocate("1 MiB", stream=stream):
        stats, snapshot = pool.stats(), pool.snapshot()
    assert isinstance(stats, PoolStats)
    rows = Table(stats._repr_html_()).rows()
    assert list(rows) == list(PoolStats.__dataclass_fields__)
    assert rows["used"] == "1048576 (1 MiB)"
    assert rows["misses"] == "1"
    assert isinstance(snapshot, PoolSnapshot)
    assert isinstance(snapshot, dict)
    assert json.loads(json.dumps(snapshot)) == snapshot
    rows = Table(snapshot._repr_html_()).rows()
    assert rows["used"] == "1048576 (1 MiB)"
    assert rows["chunks"] == str(len(snapshot["chunks"]))
    chunk = snapshot["chunks"][0]
    assert "live 1 MiB" in rows[hex(chunk["address"])]


def test_a_pools_figures_are_text_of_three_digits() -> None:
    stats = PoolStats(1, 10, 10, 1, 9, 1 - 0.9, 5, 4, 0, 0)
    assert "free_blocks=9, fragmentation=0.1, hits=5" in repr(stats)
    assert repr(stats).startswith("PoolStats(used=1, reserved=10, peak=10, largest_free=1, ")
    assert repr(stats).endswith(", hits=5, misses=4, steals=0, releases=0)")
    assert stats.fragmentation == 1 - 0.9, "the figure itself stays as it is"


def test_a_table_of_many_chunks_ends() -> None:
    piece = {"address": 1, "nbytes": 5, "state": "free"}
    chunks = [{"address": at, "nbytes": 5, "pieces": [piece]} for at in range(1000)]
    table = Table(PoolSnapshot(used=0, reserved=5000, peak=5000, chunks=chunks)._repr_html_())
    assert table.cells[-1] == "and 980 more"


def test_memory_info_as_a_table(pm: ModuleType) -> None:
    info = pm.Device(0).memory_info()
    rows = Table(info._repr_html_()).rows()
    assert list(rows) == ["free", "total", "held", "source"]
    assert rows["total"].startswith(f"{info.total} (")


def test_a_view_of_a_type_that_numpy_does_not_know_as_a_table() -> None:
    class Shown:
        typestr, shape, nbytes, is_closed = "<V2", (4,), 8, True

        @property
        def dtype(self) -> object:
            raise ImportError("NumPy has bfloat16 by the package ml_dtypes alone")

    assert "&lt;V2" in _html.view(Shown())


def test_a_view_as_a_table(pm: ModuleType) -> None:
    with pm.DeviceMemoryResource(0) as resource, resource.allocate(48) as buffer:
        view = buffer.view("float32", (3, 4))
        rows = Table(view._repr_html_()).rows()
        assert (rows["dtype"], rows["shape"], rows["nbytes"]) == ("float32", "(3, 4)", "48 B")
        assert (rows["kind"], rows["device"], rows["address"]) == ("device", "0", hex(view.handle))
        view.close()
        assert Table(view._repr_html_()).rows()["state"] == "closed"


def test_a_table_of_a_view_waits_for_nothing_and_copies_nothing(pm: ModuleType, stream: Any, latch: Any) -> None:
    with pm.DeviceMemoryResource(0) as resource, resource.allocate(1024) as buffer, buffer.view() as view:
        held = latch(stream)
        view.fill(1, stream=stream)
        assert "uint8" in view._repr_html_()
        assert not stream.query()
        held.release()
