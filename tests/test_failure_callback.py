# SPDX-License-Identifier: MIT
"""FailureCallbackAdaptor: a chance for the program to make room when there is no memory."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.memory import allocate, pattern, read_back, write

import portamem


def test_it_is_asked_until_there_is_memory(pm: Any, device_resource: Any) -> None:
    limited = pm.LimitingAdaptor(device_resource, 1000)
    cache: list[Any] = []
    asked: list[int] = []

    def make_room(nbytes: int) -> bool:
        asked.append(nbytes)
        if not cache:
            return False
        cache.pop().close()
        return True

    resource = pm.FailureCallbackAdaptor(limited, make_room)
    cache += [allocate(resource, 300) for _ in range(3)]
    with allocate(resource, 700) as large:
        assert asked == [700, 700]
        write(pm, large, pattern(700, 1))
        assert read_back(pm, large) == pattern(700, 1)
        with pytest.raises(portamem.OutOfMemoryError, match="asked for 1001 B, the limit is 1000 B"):
            allocate(resource, 1001)
    assert not cache


def test_a_memory_error_of_a_callback_resource_counts(pm: Any) -> None:
    error = MemoryError("no more")

    def take(nbytes: int, stream: Any) -> int:
        raise error

    calls: list[int] = []

    def make_room(nbytes: int) -> bool:
        calls.append(nbytes)
        return len(calls) < 3

    resource = pm.FailureCallbackAdaptor(pm.CallbackMemoryResource(take, take, kind="system"), make_room)
    with pytest.raises(MemoryError) as caught:
        resource.allocate(10)
    assert caught.value is error
    assert calls == [10, 10, 10]


def test_what_it_raises_reaches_the_caller(pm: Any, pinned_resource: Any) -> None:
    limited = pm.LimitingAdaptor(pinned_resource, 100)
    error = LookupError("no room")

    def fail(nbytes: int) -> bool:
        raise error

    resource = pm.FailureCallbackAdaptor(limited, fail)
    with pytest.raises(LookupError) as caught:
        resource.allocate(101)
    assert caught.value is error
    with pytest.raises(TypeError, match=r"True .* or False, not NoneType"):
        pm.FailureCallbackAdaptor(limited, lambda nbytes: None).allocate(101)
    with pytest.raises(ValueError, match="aligns to"):
        resource.allocate(10, alignment=4096)
    assert (resource.live_buffers, limited.allocated) == (0, 0)


def test_it_may_use_the_resource_that_it_serves(pm: Any, pinned_resource: Any) -> None:
    limited = pm.LimitingAdaptor(pinned_resource, 1024)
    blocks = pm.FixedSizeMemoryResource(limited, 512, blocks_per_chunk=2)
    cache: list[Any] = []

    def make_room(nbytes: int) -> bool:
        if not cache:
            return False
        cache.pop().close()
        resource.allocate(1).close()
        blocks.trim()
        return True

    resource = pm.FailureCallbackAdaptor(blocks, make_room)
    cache += [resource.allocate(512), resource.allocate(512)]
    with resource.allocate(512) as buffer:
        write(pm, buffer, pattern(512, 1))
        assert len(cache) == 1
    cache.pop().close()
    blocks.close()  # the callback and the resource hold each other


def test_bad_arguments(pm: Any, pinned_resource: Any) -> None:
    with pytest.raises(TypeError, match="callback is a function of a number of bytes, not int"):
        pm.FailureCallbackAdaptor(pinned_resource, 3)
    with pytest.raises(TypeError, match="upstream is a MemoryResource"):
        pm.FailureCallbackAdaptor(print, print)
