# SPDX-License-Identifier: MIT
"""The calls of the fuzzer: their form, their text, and arguments for calls of which nothing is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import values
from .world import World

#: A call about to be made: its text for the trail, and the call itself.
Call = tuple[str, Callable[[], Any]]

#: Makes one call.
Maker = Callable[[World, random.Random], Call]

SHOWN = 60  # characters of one value


def short(value: Any) -> str:
    """A value in a call's text. Of resources the class says more than what kind of memory they give."""
    if isinstance(value, ModuleType):
        return "pm"
    try:
        text = repr(value)
    except Exception as error:
        if type(value).__module__.startswith("portamem"):
            raise  # each of its objects has a text at any time
        text = f"<{type(value).__name__}: {error}>"
    name = type(value).__name__
    if name.endswith(("Resource", "Adaptor")):
        text = f"{name} of {text.partition('.')[2].rstrip('>')}"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def calling(what: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
    """A call of a method."""
    given = [short(arg) for arg in args] + [f"{key}={short(value)}" for key, value in keywords.items()]
    return f"{short(what)}.{name}({', '.join(given)})", lambda: getattr(what, name)(*args, **keywords)


def argument(world: World, rng: random.Random) -> Any:
    """One argument for a call of which nothing is known."""
    chance = rng.random()
    if chance < 0.35:
        return world.anything(rng)
    if chance < 0.5:
        return values.nbytes(rng)
    if chance < 0.6:
        return world.memory(rng)
    if chance < 0.7:
        return rng.choice(values.DTYPES)
    return values.evil(rng)


def stream_words(world: World, rng: random.Random) -> dict[str, Any]:
    """The keyword ``stream``: left out, a stream, or seldom anything else."""
    chance = rng.random()
    if chance < 0.3:
        return {}
    return {"stream": world.draw(rng, "streams") if chance < 0.95 else values.evil(rng)}
