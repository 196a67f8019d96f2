"""TrackingAdaptor: what is out, which thread allocated it and where; and its words when a program forgets memory."""

from __future__ import annotations

import inspect
import threading
import time
from types import ModuleType
from typing import Any

import pytest
from helpers.process import run_python
from helpers.waiting import close_when_empty

import portamem


@pytest.fixture
def tracking(pm: ModuleType, resource: Any) -> Any:
    """An adaptor over a resource of every kind in turn."""
    made = pm.TrackingAdaptor(resource)
    yield made
    close_when_empty(made)


@pytest.fixture
def plain(pm: ModuleType, device_resource: Any) -> Any:
    """An adaptor over plain device memory."""
    made = pm.TrackingAdaptor(device_resource)
    yield made
    close_when_empty(made)


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_each_allocation_is_known(pm, tracking, stream):
    assert isinstance(tracking, portamem.TrackingAdaptor)
    before = time.time()
    with pm.tag("halo"):
        buffer, line = tracking.allocate(4096, stream=stream), line_here()
    with tracking.allocate(100, stream=stream):
        first, second = tracking.outstanding()
    assert (first.ptr, first.nbytes, second.nbytes) == (buffer.handle, 4096, 100)
    assert (first.stream, first.stream_device) == (stream.identity, stream.device.ordinal)
    assert before - 1 <= first.time <= second.time <= time.time() + 1
    assert first.thread == threading.get_native_id()
    assert (first.tag, second.tag) == ("halo", "")
    assert first.site == f"{__file__}:{line}"
    assert str(first).startswith(f"4096 bytes of {__file__}:{line}, tag halo, thread ")
    buffer.close()
    assert tracking.outstanding() == []


def test_the_place_is_the_nearest_one_outside_portamem(pm, plain):
    with pm.using(plain):
        array, line = pm.empty(10), line_here()
        assert plain.outstanding()[0].site == f"{__file__}:{line}"
        array.close()


def test_a_refused_close_says_where_the_memory_was_allocated(plain):
    buffers, line = [plain.allocate(n + 1) for n in range(7)], line_here()
    with pytest.raises(BufferError, match="7 live buffer") as refused:
        plain.close()
    assert f"out are 1 bytes of {__file__}:{line}, 2 bytes of " in str(refused.value)
    assert str(refused.value).endswith("and 2 more")
    for buffer in buffers:
        buffer.close()
    plain.close()


def test_what_is_given_back_has_to_be_what_was_given(plain):
    address = plain.allocate(1000).release()
    with pytest.raises(ValueError, match="the block has 1000 bytes, not 10"):
        plain.deallocate(address, 10)
    assert len(plain.outstanding()) == 1
    plain.deallocate(address, 1000)


def test_memory_that_went_with_its_last_reference_is_not_out(plain):
    buffer = plain.allocate(64)
    del buffer
    assert plain.outstanding() == []


EXIT = """
import portamem.{backend} as pm
tracking = pm.TrackingAdaptor(pm.DeviceMemoryResource())
with pm.tag("leaked"):
    tracking.allocate(1234).release()
{more}
"""


@pytest.mark.parametrize("more", ["", "del tracking"], ids=["exit", "destroyed"])
def test_what_is_out_is_reported_once(pm, more):
    done = run_python(EXIT.format(backend=pm.backend, more=more))
    assert done.returncode == 0, done.stderr
    first, second = done.stderr.splitlines()
    assert first == "portamem: 1 allocation(s) of 1.205 KiB in all are still out:"
    assert second.startswith("  1234 bytes of <string>:5, tag leaked, thread ")


def test_nothing_is_said_where_nothing_is_out(pm):
    code = f"""
    import portamem.{pm.backend} as pm
    tracking = pm.TrackingAdaptor(pm.DeviceMemoryResource())
    buffer = tracking.allocate(99)
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


LEAVING = """
import portamem.{backend} as pm
tracking = pm.TrackingAdaptor(pm.DeviceMemoryResource())
kept = tracking.allocate(1234).release()
pm.copy(tracking.allocate(99), pm.DeviceMemoryResource().allocate(99), stream=pm.Stream())
"""


@pytest.mark.host_only
@pytest.mark.parametrize("asked", ["report", "table"])
def test_what_nobody_has_any_more_is_not_out_at_the_end(pm, asked):
    """The work that still uses it holds it, and does not keep the process from its end."""
    env = {"PORTAMEM_STATS": "exit" if asked == "table" else None}
    done = run_python(LEAVING.format(backend=pm.backend), PORTAMEM_HOST_COPY_DELAY="20000000", **env)
    assert done.returncode == 0, done.stderr
    if asked == "report":
        assert "1 allocation(s) of 1.205 KiB in all are still out" in done.stderr
        assert "99 bytes" not in done.stderr
        return
    (row,) = [line for line in done.stderr.splitlines() if "TrackingAdaptor" in line]
    assert row.split()[-3:] == ["2", "1", "0"], "allocations, those that are live, and those that failed"
