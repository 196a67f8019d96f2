# SPDX-License-Identifier: MIT
"""An object is dropped while an exception is on its way: its functions run, and the exception arrives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from portamem.conformance.kit.reported import unraisable

Make = Callable[[], Any]


class Program:
    """Functions of a program's, each of which handles an exception of its own, and may then raise another."""

    def __init__(self, pm: Any, stream: Any) -> None:
        self.pm, self.stream = pm, stream
        self.told: list[str] = []
        self.raises = False
        self.out: dict[int, Any] = {}

    def tell(self, what: str) -> None:
        try:
            int("no number")
        except ValueError:
            self.told.append(what)
        if self.raises:
            raise LookupError(what)

    def allocate(self, nbytes: int, stream: Any) -> int:
        memory = np.empty(nbytes + 256, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.out[address] = memory
        return address

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        self.out.pop(address, None)  # a free that raised is tried again
        self.tell("deallocate")

    def policy(self, stats: Any) -> int:
        self.tell("policy")
        return 0

    def owner(self) -> Any:
        program = self

        class Owner:
            memory = np.zeros(64, np.uint8)

            def __del__(self) -> None:
                program.tell("owner")

        return Owner()

    def memory(self) -> Any:
        return self.pm.CallbackMemoryResource(self.allocate, self.deallocate, kind="system")


def of_a_pool_with_a_policy(p: Program) -> Any:
    return p.pm.PoolMemoryResource(release=p.policy).allocate("65 MiB", stream=p.stream)


def of_functions(p: Program) -> Any:
    return p.memory().allocate(64)


def a_pool_of_functions(p: Program) -> Any:
    pool = p.pm.PoolMemoryResource(p.memory())
    pool.allocate(64, stream=p.stream).close()
    return pool


def of_adaptors_over_functions(p: Program) -> Any:
    made = p.pm.TrackingAdaptor(p.pm.StatisticsAdaptor(p.pm.LimitingAdaptor(p.memory(), "1 MiB")))
    return made.allocate(64)


def a_view(p: Program) -> Any:
    return p.memory().allocate(64).view("float32")


def a_memoryview(p: Program) -> Any:
    return memoryview(p.memory().allocate(64))


def an_array(p: Program) -> Any:
    return np.asarray(p.memory().allocate(64))


def a_capsule(p: Program) -> Any:
    return p.memory().allocate(64).view("float32").__dlpack__()


def a_taken_tensor(p: Program) -> Any:
    return np.from_dlpack(p.memory().allocate(64).view("float32"))


def foreign_memory(p: Program) -> Any:
    owner = p.owner()
    return p.pm.Buffer.from_handle(owner.memory.ctypes.data, 64, owner=owner)


def a_foreign_stream(p: Program) -> Any:
    return p.pm.Stream.from_handle(p.stream.handle, owner=p.owner())


def a_foreign_event(p: Program) -> Any:
    return p.pm.Event.from_handle(p.stream.record().handle, owner=p.owner())


MAKERS = [
    *(of_a_pool_with_a_policy, of_functions, a_pool_of_functions, of_adaptors_over_functions, a_view, a_memoryview),
    *(an_array, a_capsule, a_taken_tensor, foreign_memory, a_foreign_stream, a_foreign_event),
]


def drop_under_an_exception(make: Make) -> None:
    print(make(), {}["on its way"])


@pytest.mark.parametrize("raises", [False, True], ids=["quiet", "raising"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_exception_arrives(pm: Any, stream: Any, make: Callable[[Program], Any], raises: bool) -> None:
    program = Program(pm, stream)
    program.raises = raises
    with unraisable() as reported:
        with pytest.raises(KeyError, match="on its way"):
            drop_under_an_exception(lambda: make(program))
        gc.collect()
    program.raises = False
    assert program.told
    assert bool(reported) == (raises and make is not a_pool_of_functions)  # a pool tries again later
    assert all(text.startswith("LookupError") for text in reported)


def test_a_weak_reference_of_a_buffer(pm: Any) -> None:
    told: list[str] = []

    def make() -> Any:
        made = pm.PinnedMemoryResource().allocate(64)
        kept.append(weakref.ref(made, lambda _: told.append("gone")))
        return made

    kept: list[Any] = []
    with pytest.raises(KeyError, match="on its way"):
        drop_under_an_exception(make)
    assert told == ["gone"]
