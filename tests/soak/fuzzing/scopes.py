# SPDX-License-Identifier: MIT
"""Blocks with calls inside: captures, current resources, tags, counts, checks of the order."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from . import values
from .call import Call, short
from .programs import allocate, copy, empty, fill
from .world import World


def some_calls(world: World, rng: random.Random) -> None:
    for _ in range(rng.randrange(4)):
        _text, call = rng.choice([allocate, copy, empty, fill])(world, rng)
        world.keep(rng, call())


def capture(world: World, rng: random.Random) -> Call:
    """A capture with calls inside, and its end."""
    device, mode = rng.choice(world.devices), rng.choice(["global", "thread_local", "relaxed"])

    def inside() -> None:
        stream = world.pm.Stream(device)
        stream.begin_capture(mode)
        try:
            some_calls(world, rng)
        finally:
            stream.end_capture()

    return f"a {mode} capture", inside


def scope(world: World, rng: random.Random) -> Call:
    """A block of one kind."""
    pm, resource = world.pm, world.draw(rng, "resources")
    name: Any = rng.choice(["setup", "a/b", "", "x" * 300]) if rng.random() < 0.9 else values.evil(rng)
    makers: dict[str, Callable[[], Any]] = {
        f"using({short(resource)})": lambda: pm.using(resource),
        f"tag({short(name)})": lambda: pm.tag(name),
        "check(raises=False)": lambda: pm.check(raises=False),
        f"{short(resource)}.scope()": lambda: resource.scope(),
        f"with {short(resource)}": lambda: resource,
    }
    text = rng.choice(list(makers))

    def inside() -> None:
        with contextlib.ExitStack() as stack:
            block = makers[text]()
            if block is None:
                raise TypeError("no block, for which Python 3.10 raises AttributeError")
            stack.enter_context(block)
            some_calls(world, rng)

    return text, inside
