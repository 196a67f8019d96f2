# SPDX-License-Identifier: MIT
"""Any method, attribute and function of the API, with any arguments."""

from __future__ import annotations

import random
import re
from typing import Any

from .call import Call, argument, calling, short, stream_words
from .world import World

#: Not called at random: they take any address for memory, give memory away, import partners, or change the process.
LEFT_OUT = {
    "from_handle",
    "release",
    "deallocate",
    "begin_capture",
    "set_current",
    "set_quirk",
    "to_torch",
    "to_cupy",
    "to_jax",
    "to_numba",
    "knobs",
    "CallbackMemoryResource",  # an int is the address of a function there
}

#: Arguments that are an address or a file, whatever they look like.
ADDRESSES = {"ptr", "path"}


def any_method(world: World, rng: random.Random) -> Call:
    """A method or an attribute of an object of portamem's."""
    target = world.object_of_api(rng)
    names = [name for name in dir(type(target)) if not name.startswith("_") and name not in LEFT_OUT]
    if not names:
        return "nothing", lambda: None
    name = rng.choice(names)
    if not callable(getattr(type(target), name)):
        if rng.random() < 0.1:
            value = argument(world, rng)
            return f"{short(target)}.{name} = {short(value)}", lambda: set_attribute(target, name, value)
        return f"{short(target)}.{name}", lambda: getattr(target, name)
    args = tuple(argument(world, rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3])))
    words = keywords(world, rng, getattr(type(target), name)) | (stream_words(world, rng) if rng.random() < 0.2 else {})
    return calling(target, name, args, words)


def keywords(world: World, rng: random.Random, function: Any) -> dict[str, Any]:
    """Seldom some: of the names in the function's signature."""
    if rng.random() < 0.8:
        return {}
    names = set(re.findall(r"[(,] ?(\w+)", function.__text_signature__ or "")) - ADDRESSES - {"self"}
    return {rng.choice(sorted(names or {"no_such_name"})): argument(world, rng) for _ in range(rng.randrange(1, 3))}


def set_attribute(target: Any, name: str, value: Any) -> None:
    """Sets an attribute. Python itself says AttributeError where there is nothing to set."""
    try:
        setattr(target, name, value)
    except AttributeError as error:
        if not any(words in str(error) for words in ("has no setter", "can't set", "not writable")):
            raise


def any_function(world: World, rng: random.Random) -> Call:
    """A function or a class of the module."""
    names = [name for name in dir(world.pm) if not name.startswith("_") and name not in LEFT_OUT]
    name = rng.choice([name for name in names if callable(getattr(world.pm, name))])
    args = tuple(argument(world, rng) for _ in range(rng.randrange(4)))
    if name == "pointer_info":  # a number is an address there
        args = (world.draw(rng, "buffers"),)
    if name == "LoggingAdaptor":  # a text is a file there
        args = (argument(world, rng), world.log_file())
    made = getattr(world.pm, name)
    return calling(
        world.pm, name, args, keywords(world, rng, vars(made).get("__init__", made) if isinstance(made, type) else made)
    )
