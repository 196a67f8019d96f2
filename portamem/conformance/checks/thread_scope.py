# SPDX-License-Identifier: MIT
"""Shows the clauses of the current resource: a scope of the thread, read at allocation only."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.threads import in_threads, on_a_thread


@check("THREAD-13")
def allocations_in_a_scope(env: Env, resource: Any) -> None:
    pm, device = env.pm, resource.device
    before = pm.current_resource(device)
    with pm.using(resource) as given:
        expect(given is resource and pm.current_resource(device) is resource, "the scope is of another resource")
        for view in (pm.empty(32, device=device), pm.zeros(32, device=device), pm.asarray(bytes(32), device=device)):
            with view:
                expect(view.buffer.resource is resource, "memory in a scope is of another resource")
                view.fill(9)
                expect_bytes(env.read(view.buffer), b"\x09" * view.nbytes, "memory in a scope")
    expect(pm.current_resource(device) is before, "a scope goes on behind its block")
    expect_soon(lambda: resource.live_buffers, 0, "the number of live buffers")


def _raise_mine() -> None:
    raise KeyError("mine")


@check("THREAD-13")
def scopes_nest(env: Env, resource: Any) -> None:
    pm, device, inner = env.pm, resource.device, env.resource("pinned")
    before = pm.current_resource(device)
    with pm.using(resource):
        with pm.using(inner):
            expect(pm.current_resource(device) is inner, "the inner scope does not count")
            with pm.using(resource):
                expect(pm.current_resource(device) is resource, "the innermost scope does not count")
        expect(pm.current_resource(device) is resource, "the outer scope is gone with the inner one")
        with refused(KeyError, saying="mine"), pm.using(inner):
            _raise_mine()
        expect(pm.current_resource(device) is resource, "a scope that an exception has left goes on")
    expect(pm.current_resource(device) is before, "a scope goes on behind its block")


@check("THREAD-14")
def a_scope_is_of_its_thread(env: Env) -> None:
    pm, device, plain = env.pm, env.device, env.resource("device")
    with pm.using(plain):
        elsewhere = on_a_thread(lambda: pm.current_resource(device))
        expect(elsewhere is not plain, "a scope counts on another thread")

    def work(number: int) -> None:
        with pm.DeviceMemoryResource(device) as mine, pm.using(mine):
            for _ in range(50):
                with pm.empty(64, device=device) as view:
                    expect(view.buffer.resource is mine, "memory came from another thread's scope")

    in_threads(work, 4)


@check("THREAD-14")
def a_scope_is_of_one_device(env: Env) -> None:
    pm, other = env.pm, env.other_device
    there = env.resource("device", other)
    before = pm.current_resource(env.device)
    with pm.using(there):
        expect(pm.current_resource(other) is there, "the scope does not count on its device")
        expect(pm.current_resource(env.device) is before, "a scope counts on another device")
        with pm.empty(16, device=other) as view:
            expect(view.buffer.resource is there, "memory came from another resource")


@check("THREAD-14")
def tasks_that_take_turns(env: Env) -> None:
    pm, device = env.pm, env.device
    outside = pm.current_resource(device)
    resources = [pm.DeviceMemoryResource(device) for _ in range(3)]

    async def task(resource: Any, turns: int) -> None:
        expect(pm.current_resource(device) is outside, "a task sees the scope of another one")
        with pm.using(resource):
            for value in range(turns):
                with pm.empty(64, "uint8", device=device) as view:
                    expect(view.buffer.resource is resource, "memory came from another task's resource")
                    view.fill(value)
                    await asyncio.sleep(0)
                    expect_bytes(env.read(view), bytes([value]) * 64, "memory of a task")
        expect(pm.current_resource(device) is outside, "a task's scope goes on, or another one's counts")
        await asyncio.sleep(0)
        expect(pm.current_resource(device) is outside, "a scope counts in a task that has ended its own")

    async def all_tasks() -> None:
        await asyncio.gather(*(task(resource, turns) for resource, turns in zip(resources, (3, 7, 5), strict=True)))

    asyncio.run(all_tasks())
    expect(pm.current_resource(device) is outside, "a scope is left behind on the thread")
    expect_soon(lambda: [resource.live_buffers for resource in resources], [0, 0, 0], "live buffers of the tasks' own")
    for resource in resources:
        resource.close()


@check("THREAD-14")
def threads_with_a_context(env: Env) -> None:
    pm, device, mine = env.pm, env.device, env.resource("device")
    other = pm.DeviceMemoryResource(device)

    async def within() -> Any:
        with pm.using(mine):
            return await asyncio.to_thread(pm.current_resource, device)

    expect(asyncio.run(within()) is mine, "a thread that was given a context does not see its scope")
    with pm.using(mine):
        context = contextvars.copy_context()
        expect(on_a_thread(lambda: pm.current_resource(device)) is not mine, "a scope counts on another thread")
    expect(context.run(pm.current_resource, device) is mine, "a context has lost its scope")
    with pm.using(other):
        expect(context.run(pm.current_resource, device) is mine, "a scope counts in a context that it is not of")
    seen: list[Any] = []

    def nested() -> None:
        with pm.using(other):
            seen.append(pm.current_resource(device))
        seen.append(pm.current_resource(device))

    on_a_thread(lambda: context.run(nested))
    expect(seen[0] is other and seen[1] is mine, f"scopes in a given context nested as {seen}")
    other.close()


@check("THREAD-15")
def live_memory_does_not_look_it_up(env: Env) -> None:
    pm, device, plain, pinned = env.pm, env.device, env.resource("device"), env.resource("pinned")
    with pm.using(plain):
        view = pm.empty(64, "uint8", device=device)
    with pm.using(pinned):
        view.fill(1)
        part = view[:16]
        view.close()
        expect_equal((plain.live_bytes, pinned.live_bytes), (64, 0), "live bytes while a part of a view is open")
        part.close()
    expect_soon(lambda: (plain.live_buffers, pinned.live_buffers), (0, 0), "live buffers")


@check("THREAD-15")
def a_scope_keeps_its_resource(env: Env) -> None:
    pm, device = env.pm, env.device
    with pm.using(pm.DeviceMemoryResource(device)):
        gc.collect()
        with pm.empty(16, device=device) as view:
            expect_equal(view.buffer.resource.live_bytes, view.nbytes, "the bytes out of a resource nobody else holds")


@check("THREAD-16")
def the_default_resource(env: Env) -> None:
    pm, device = env.pm, env.device
    default = pm.current_resource(device)
    expect(pm.current_resource(device) is default, "the default resource is another one each time")
    expect(on_a_thread(lambda: pm.current_resource(device)) is default, "the default resource is another one elsewhere")
    expect(pm.current_resource() is pm.current_resource(pm.Device.current()), "the default of no device in particular")
    with refused(BufferError, saying="default resource"):
        default.close()
    with default:
        pass
    with pm.zeros(16, "uint8", device=device) as view:
        expect(view.buffer.resource is default, "memory without a scope is of another resource")
        expect_bytes(env.read(view.buffer), bytes(16), "memory of zeros")


@check("THREAD-17")
def what_opens_no_scope(env: Env) -> None:
    pm, device = env.pm, env.device
    before = pm.current_resource(device)
    for wrong in (None, 42, "device", pm, device):
        with refused(TypeError, saying="resource"), pm.using(wrong):
            pass
    closed = pm.DeviceMemoryResource(device)
    closed.close()
    with refused(ValueError, saying="closed"), pm.using(closed):
        pass
    expect(pm.current_resource(device) is before, "a refused scope counts")
