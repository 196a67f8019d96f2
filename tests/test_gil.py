"""Calls that block let other Python threads run: each call here ends only because another thread releases a latch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.process import run_python

NBYTES = 4096

CALLS: dict[str, Callable[[ModuleType, Any, Any], object]] = {
    "Stream.synchronize": lambda pm, stream, buf: stream.synchronize(),
    "Event.synchronize": lambda pm, stream, buf: stream.record().synchronize(),
    "Device.synchronize": lambda pm, stream, buf: stream.device.synchronize(),
    "copy to pageable memory": lambda pm, stream, buf: pm.copy(bytearray(NBYTES), buf),
    "copy from pageable memory": lambda pm, stream, buf: pm.copy(buf, bytes(NBYTES)),
    "copy on a stream, waited for": lambda pm, stream, buf: pm.copy(buf, bytes(NBYTES), stream=stream).synchronize(),
    "fill": lambda pm, stream, buf: buf.fill(2),
    "prefetch": lambda pm, stream, buf: buf.prefetch("host"),
    "to_numpy": lambda pm, stream, buf: buf.view().to_numpy(),
    "close": lambda pm, stream, buf: buf.close(),
    "Stream.close": lambda pm, stream, buf: stream.close(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_may_block(
    pm: ModuleType,
    stream: Any,
    latch: Callable[[Any], Latch],
    make_resource: Callable[[str], Any],
    name: str,
) -> None:
    with make_resource("managed").allocate(NBYTES) as buf:
        held = latch(stream)
        buf.fill(1, stream=stream)
        held.release_soon()
        CALLS[name](pm, stream, buf)
        assert not held.timed_out
        held.release()


def test_the_garbage_collector_blocks_no_other_thread(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], pinned_resource: Any
) -> None:
    buf = pinned_resource.allocate(NBYTES)
    held = latch(stream)
    buf.fill(1, stream=stream)
    held.release_soon()
    del buf
    stream.synchronize()
    assert not held.timed_out


MISUSE_WHILE_COLLECTING = """
import gc, importlib, sys
pm = importlib.import_module("portamem." + sys.argv[1])
buf = pm.DeviceMemoryResource().allocate(16)
refused = []
def misuse(*_):
    try:
        buf.close(wrong=1)
    except TypeError as error:
        refused.append(str(error))
gc.collect()
gc.callbacks.append(misuse)
gc.set_threshold(1)
misuse()
gc.set_threshold(0)
gc.callbacks.clear()
print(len(set(refused)))
"""


def test_misuse_while_garbage_is_collected(pm: ModuleType) -> None:
    """The first error of a process may meet a collection, and that code which makes the same error."""
    done = run_python(MISUSE_WHILE_COLLECTING, pm.backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]
