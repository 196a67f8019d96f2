# SPDX-License-Identifier: MIT
"""Checks: the functions that show clauses. Their parameters are what they need, by name.

``env``       the backend under test, its device, streams, latches (``Env``); every check takes it
``resource``  a resource of each kind that the clause binds, one after the other; closed afterwards
``witness``   the vendor's own Python package; without it the clause is not shown
``kernels``   the same, and it can launch kernels
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

_PARAMETERS = ("env", "resource", "witness", "kernels")


@dataclass(frozen=True)
class Check:
    """A function that shows clauses, and how it has to be run."""

    ids: tuple[str, ...]
    run: Callable[..., None]
    own_process: bool = False
    """It changes what a process cannot put back: each case gets a process of its own."""
    exclusive: bool = False
    """It takes so much of the device that others would fail beside it: it runs when they have ended."""
    without_device: bool = False
    """It is also run, and only then if ``only_without``, where the backend has no device."""
    only_without: bool = False
    backends: tuple[str, ...] = ()
    """The backends that it runs on; empty: all those that its clauses bind."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that its own process is started with."""
    unordered: bool = False
    """It looks, on purpose, at memory that other work may be using: the order checker is not asked about it."""

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.run).parameters)


CHECKS: list[Check] = []


def check(
    *ids: str,
    own_process: bool = False,
    exclusive: bool = False,
    without_device: bool = False,
    only_without: bool = False,
    backends: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    unordered: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function as showing these clauses. A process of its own is implied by an environment, and by being
    exclusive."""

    def registered(function: Callable[..., None]) -> Callable[..., None]:
        made = Check(
            ids,
            function,
            own_process=own_process or exclusive or bool(environment),
            exclusive=exclusive,
            without_device=without_device or only_without,
            only_without=only_without,
            backends=backends,
            environment=dict(environment or {}),
            unordered=unordered,
        )
        strange = set(made.parameters) - set(_PARAMETERS)
        if strange or not ids:
            raise TypeError(f"{made.name}: a check names its clauses and takes {', '.join(_PARAMETERS)}; not {strange}")
        CHECKS.append(made)
        return function

    return registered
