# SPDX-License-Identifier: MIT
"""The two ends of a copy, and how the target is watched while the copy's stream is held."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from portamem.conformance.kit.env import Env
from portamem.conformance.kit.memory import KIB, pattern

NBYTES = 64 * KIB
OLD = bytes(NBYTES)
NEW = pattern(NBYTES)


class Ends:
    """A source with NEW and a target with OLD. The target is seen through a stream that waits for no other.

    That stream is also where the memory is at home, so that nothing in it waits for the default stream. Leave the
    block with no latch held: closing memory may wait for its work.
    """

    def __init__(self, env: Env, source: Any, target: Any) -> None:
        self._side = env.stream()
        self.source, self.target, self._seen = (
            resource.allocate(NBYTES, stream=self._side) for resource in (source, target, env.resource("pinned"))
        )
        self._bytes = memoryview(self._seen)
        env.write(self.source, NEW)
        env.write(self.target, OLD)
        self._side.synchronize()

    def contents(self) -> bytes:
        """Reads the target as it is now: the copy is ordered after nothing else."""
        self._seen.copy_from(self.target, stream=self._side)
        self._side.synchronize()
        return bytes(self._bytes)

    def __enter__(self) -> Ends:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._bytes.release()
        for each in (self.source, self.target, self._seen):
            each.close()


def device_ends(env: Env) -> Ends:
    """The ends are pinned and device memory: a copy between them never blocks the thread that queues it."""
    return Ends(env, env.resource("pinned"), env.resource("device"))


def other_end(env: Env, resource: Any) -> Any:
    """A resource so that a copy between its memory and this one's never blocks the thread that queues it: vendors block
    copies from host to host."""
    return env.resource("device" if resource.kind == "pinned" else "pinned")
