# SPDX-License-Identifier: MIT
"""LimitingAdaptor: no more than so many bytes of another resource."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.memory import allocate, pattern, read_back, write
from helpers.waiting import eventually

import portamem


def test_no_more_than_the_limit(pm: Any, resource: Any) -> None:
    limited = pm.LimitingAdaptor(resource, "1000 B")
    assert isinstance(limited, portamem.ResourceAdaptor)
    assert limited.upstream is resource
    assert (limited.kind, limited.is_stream_ordered) == (resource.kind, resource.is_stream_ordered)
    assert (limited.limit, limited.allocated, limited.available) == (1000, 0, 1000)
    first, second = allocate(limited, 600), allocate(limited, 400)
    assert (limited.allocated, limited.available) == (1000, 0)
    with pytest.raises(portamem.OutOfMemoryError, match="asked for 1 B, the limit is 1000 B") as caught:
        allocate(limited, 1)
    assert (caught.value.asked, caught.value.used, caught.value.free) == (1, 1000, 0)
    assert (limited.live_buffers, resource.live_buffers) == (2, 2)
    write(pm, second, pattern(400, 1))
    first.close()
    assert limited.available == 600
    assert read_back(pm, second) == pattern(400, 1)
    second.close()
    assert eventually(lambda: limited.allocated == 0)
    limited.close()


def test_in_a_scope(pm: Any, device: Any, pool: Any) -> None:
    limited = pm.LimitingAdaptor(pool, "1 MiB")
    with pm.using(limited):
        array = pm.empty(1000, "float64", stream=device.default_stream)
        assert limited.allocated == 8000
        with pytest.raises(MemoryError, match="the limit is 1 MiB"):
            pm.empty(1 << 20, "float64", stream=device.default_stream)
    del array
    assert eventually(lambda: limited.allocated == 0)


def test_threads(pm: Any, pinned_resource: Any) -> None:
    limited = pm.LimitingAdaptor(pm.FixedSizeMemoryResource(pinned_resource, 300), 1000)
    most: list[int] = []

    def work() -> None:
        for _ in range(200):
            try:
                with limited.allocate(300):
                    most.append(limited.allocated)
            except MemoryError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most
    assert max(most) <= 1000
    assert limited.allocated == 0


def test_bad_arguments(pm: Any, pinned_resource: Any) -> None:
    for limit, error in ((-1, ValueError), (2**80, ValueError), (None, TypeError), (1.0, TypeError)):
        with pytest.raises(error):
            pm.LimitingAdaptor(pinned_resource, limit)
    with pytest.raises(TypeError, match="upstream is a MemoryResource"):
        pm.LimitingAdaptor(None, 1)
