# SPDX-License-Identifier: MIT
"""Streams, events, resources and registrations are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from . import values
from .call import Call, argument, short
from .world import World


def make_stream(world: World, rng: random.Random) -> Call:
    """A stream or an event."""
    kind = rng.choice([world.pm.Stream, world.pm.Event])
    words = {"device": rng.choice(world.devices) if rng.random() < 0.9 else values.evil(rng)}
    return f"{kind.__name__}(device={short(words['device'])})", lambda: kind(**words)


def make_resource(world: World, rng: random.Random) -> Call:
    """A resource of memory of its own, or over another one."""
    pm, device = world.pm, rng.choice(world.devices)
    upstream = world.draw(rng, "resources")
    limit: Any = rng.choice([256, 4096, "1 MiB", 8 << 20, 0, -1, 2**70])
    makers: list[Callable[[], Any]] = [
        lambda: pm.DeviceMemoryResource(device),
        lambda: pm.PinnedMemoryResource(device),
        lambda: pm.PrefaultedPinnedMemoryResource(device),
        lambda: pm.SystemMemoryResource(device),
        lambda: pm.ManagedMemoryResource(device),
        lambda: pm.AsyncMemoryResource(device),
        lambda: pm.AsyncMemoryResource.default_pool(device),
        lambda: pm.current_resource(device),
        lambda: pm.PoolMemoryResource(upstream),
        lambda: pm.PoolMemoryResource(upstream, limit=limit),
        lambda: pm.LimitingAdaptor(upstream, limit),
        lambda: pm.StatisticsAdaptor(upstream),
        lambda: pm.TrackingAdaptor(upstream),
        lambda: pm.LoggingAdaptor(upstream, world.log_file()),
        lambda: pm.FailureCallbackAdaptor(upstream, lambda nbytes: False),
        lambda: pm.FallbackAdaptor(upstream, upstream),
        lambda: pm.PrefetchAdaptor(upstream),
        lambda: pm.FixedSizeMemoryResource(upstream, rng.choice([256, "64 KiB", 0, 3])),
        lambda: pm.MonotonicMemoryResource(upstream),
    ]
    number = rng.randrange(len(makers))
    return f"resource {number} over {short(upstream)}, limit {short(limit)}", makers[number]


def make_callback_resource(world: World, rng: random.Random) -> Call:
    """A user's own resource: right, raising, out of memory, or no function at all."""
    system = world.pm.SystemMemoryResource(rng.choice(world.devices))
    taken: dict[int, Any] = {}
    how = rng.choice(["right", "right", "raising", "null", "no function"])

    def give(nbytes: int, *_: Any) -> int:
        if how == "raising" and rng.random() < 0.5:
            raise ZeroDivisionError("the user's own")
        if how == "null" and rng.random() < 0.5:
            return 0
        buf = system.allocate(nbytes)
        taken[buf.handle] = buf
        return int(buf.handle)

    def take_back(ptr: int, *_: Any) -> None:
        taken.pop(ptr, None)

    kind = rng.choice(["pinned", "system", "device", "managed", "host"])
    allocate = rng.choice([None, "x", 1.5, ()]) if how == "no function" else give
    text = f"CallbackMemoryResource that is {how}, of {kind}"
    return text, lambda: world.pm.CallbackMemoryResource(allocate, take_back, kind=kind)


def make_over_foreign(world: World, rng: random.Random) -> Call:
    """Objects over handles of others: those live as long as their owner, which nothing else knows."""
    pm, device = world.pm, rng.choice(world.devices)

    def memory() -> Any:
        owner = np.zeros(rng.choice([1, 4096]), np.uint8)
        return pm.Buffer.from_handle(owner.ctypes.data, owner.nbytes, owner=owner)

    def stream() -> Any:
        owner = pm.Stream(device)
        return pm.Stream.from_handle(owner.handle, device=device, owner=owner)

    def event() -> Any:
        owner = pm.Event(device)
        return pm.Event.from_handle(owner.handle, device=device, owner=owner)

    def pool() -> Any:
        owner = pm.AsyncMemoryResource(device)
        return pm.AsyncMemoryResource.from_handle(owner.pool_handle, device, owner=owner)

    make = rng.choice([memory, stream, event, pool])
    return f"a foreign {make.__name__} on {short(device)}", make


def register(world: World, rng: random.Random) -> Call:
    """A registration of memory of Python's."""
    memory = values.host_memory(rng) if rng.random() < 0.8 else argument(world, rng)
    return f"HostRegistration({short(memory)})", lambda: world.pm.HostRegistration(memory)
