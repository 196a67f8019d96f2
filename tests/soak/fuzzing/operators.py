# SPDX-License-Identifier: MIT
"""The operations that Python has for any object: operators, texts, copies, weak references."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import sys
import weakref
from collections.abc import Callable
from typing import Any

from .call import Call, argument, short
from .world import World


def set_item(target: Any, value: Any) -> None:
    target[value] = value


def delete_item(target: Any, value: Any) -> None:
    del target[value]


#: By name: each takes the object, and any value.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda target, value: repr(target),
    "str": lambda target, value: str(target),
    "format": lambda target, value: format(target, str(value)[:9]),
    "len": lambda target, value: len(target),
    "bool": lambda target, value: bool(target),
    "int": lambda target, value: int(target),
    "float": lambda target, value: float(target),
    "hash": lambda target, value: hash(target),
    "bytes": lambda target, value: bytes(target) if hasattr(target, "nbytes") else None,
    "memoryview": lambda target, value: memoryview(target),
    "dir": lambda target, value: dir(target),
    "==": lambda target, value: target == value,
    "<": lambda target, value: target < value,
    "+": lambda target, value: target + value,
    "in": lambda target, value: value in target,
    "[...]": lambda target, value: target[value],
    "[...] =": set_item,
    "del [...]": delete_item,
    "iter": lambda target, value: [each for each, _ in zip(target, range(3), strict=False)],
    "call": lambda target, value: target(value),
    "isinstance": lambda target, value: isinstance(value, type(target)),
    "copy": lambda target, value: copy.copy(target),
    "deepcopy": lambda target, value: copy.deepcopy(target),
    "pickle": lambda target, value: pickle.dumps(target),
    "weakref": lambda target, value: weakref.ref(target)() is target,
    "sizeof": lambda target, value: sys.getsizeof(target),
    "referents": lambda target, value: len(gc.get_referents(target)),
    "new": lambda target, value: target.__class__.__new__(target.__class__),
    "init": lambda target, value: target.__init__(value),
    "attribute": lambda target, value: setattr(target, "no_such_name", value),
}


def any_operator(world: World, rng: random.Random) -> Call:
    """One of them on an object of portamem's."""
    target, value, name = (
        world.object_of_api(rng),
        argument(world, rng),
        rng.choice(list(OPERATORS)),
    )
    return f"{name} of {short(target)} and {short(value)}", lambda: OPERATORS[name](target, value)
