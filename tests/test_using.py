"""using(): blocks that end where they should not. What a scope is for is in the conformance suite."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
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


def test_a_task_that_a_block_starts_keeps_its_scope_and_its_resource(pm, device, outer):
    async def work(goes_on: asyncio.Event) -> Any:
        await goes_on.wait()
        with pm.empty(64, "uint8", device=device) as view:
            return view.buffer.resource

    async def starts() -> None:
        goes_on = asyncio.Event()
        before = pm.current_resource(device)
        with pm.using(outer):
            task = asyncio.create_task(work(goes_on))
            await asyncio.sleep(0)
        assert pm.current_resource(device) is before
        goes_on.set()
        assert await task is outer

    asyncio.run(starts())


def test_generators_that_take_turns_are_told_to_name_the_resource(pm, device, outer, inner):
    def within(resource: Any) -> Iterator[Any]:
        with pm.using(resource):
            yield pm.current_resource(device)

    first, second = within(outer), within(inner)
    assert next(first) is outer
    assert next(second) is inner
    with pytest.raises(RuntimeError, match=r"take turns on a thread.*name the resource"):
        next(first, None)
    assert pm.current_resource(device) is inner
    assert next(second, None) is None


def test_a_block_that_ends_in_another_context_ends_nothing_there(pm, device, outer, inner):
    scope = pm.using(outer)
    context = contextvars.copy_context()
    context.run(scope.__enter__)
    with pytest.raises(RuntimeError, match="not open in this context"):
        scope.__exit__(None, None, None)
    assert context.run(pm.current_resource, device) is outer
    other = pm.using(inner)
    context.run(other.__enter__)
    context.run(other.__exit__, None, None, None)
    assert context.run(pm.current_resource, device) is outer


def test_a_block_that_ends_in_its_context_on_another_thread_is_refused(pm, device, outer):
    scope, context = pm.using(outer), contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(scope.__enter__,))
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="not open on this thread"):
        context.run(scope.__exit__, None, None, None)
    assert context.run(pm.current_resource, device) is pm.current_resource(device)


def test_a_scope_that_has_ended_keeps_nothing(pm, device):
    resource = pm.DeviceMemoryResource(device)
    seen = weakref.ref(resource)
    with pm.using(resource):
        pm.empty(16, device=device).close()
    del resource
    gc.collect()
    assert seen() is None


def test_a_block_that_ends_on_another_thread_ends_nothing_there(pm, device, outer, inner):
    scope = pm.using(outer)
    thread = threading.Thread(target=scope.__enter__)
    thread.start()
    thread.join()
    with pm.using(inner):
        with pytest.raises(RuntimeError, match="not open in this context"):
            scope.__exit__(None, None, None)
        assert pm.current_resource(device) is inner
