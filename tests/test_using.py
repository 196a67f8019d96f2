"""using(): blocks that end where they should not. What a scope is for is in the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def outer(make_resource: Callable[[str], Any]) -> Any:
    return make_resource("device")


@pytest.fixture
def inner(make_resource: Callable[[str], Any]) -> Any:
    return make_resource("pinned")


@pytest.fixture(autouse=True)
def nothing_is_left(pm: ModuleType, device: Any) -> Iterator[None]:
    before = pm.current_resource(device)
    yield
    assert pm.current_resource(device) is before


def test_a_block_that_ends_too_early_ends_its_own_scope_and_says_so(pm, device, outer, inner):
    before = pm.current_resource(device)
    first, second = pm.using(outer), pm.using(inner)
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="began within it"):
        first.__exit__(None, None, None)
    assert pm.current_resource(device) is inner
    second.__exit__(None, None, None)
    assert pm.current_resource(device) is before


def test_scopes_of_one_resource_are_told_apart(pm, device, outer, inner):
    first, between, last = pm.using(outer), pm.using(inner), pm.using(outer)
    for each in (first, between, last):
        each.__enter__()
    with pytest.raises(RuntimeError, match="began within it"):
        first.__exit__(None, None, None)
    assert pm.current_resource(device) is outer
    last.__exit__(None, None, None)
    assert pm.current_resource(device) is inner
    between.__exit__(None, None, None)


def test_a_block_that_ends_too_early_hides_no_exception(pm, device, outer, inner):
    first, second = pm.using(outer), pm.using(inner)
    first.__enter__()
    second.__enter__()
    error = KeyError("mine")
    assert not first.__exit__(KeyError, error, None)
    assert pm.current_resource(device) is inner
    second.__exit__(None, None, None)


def test_tasks_that_take_turns_each_keep_their_resource_until_its_block_ends(pm, device, outer, inner):
    async def work(resource: Any, began: asyncio.Event, goes_on: asyncio.Event) -> Any:
        with pm.using(resource):
            began.set()
            await goes_on.wait()
            with pm.empty(64, "uint8", device=device) as view:
                return view.buffer.resource

    async def both() -> None:
        began, goes_on = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(work(outer, asyncio.Event(), began))
        await asyncio.sleep(0)
        second = asyncio.create_task(work(inner, began, goes_on))
        with pytest.raises(RuntimeError, match=r"take turns on a thread.*name the resource"):
            await first
        assert pm.current_resource(device) is inner
        goes_on.set()
        assert await second is inner

    asyncio.run(both())


def test_a_block_that_ends_on_another_thread_ends_nothing_there(pm, device, outer, inner):
    scope = pm.using(outer)
    thread = threading.Thread(target=scope.__enter__)
    thread.start()
    thread.join()
    with pm.using(inner):
        with pytest.raises(RuntimeError, match="not open on this thread"):
            scope.__exit__(None, None, None)
        assert pm.current_resource(device) is inner
