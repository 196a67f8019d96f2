# SPDX-License-Identifier: MIT
"""Helpers for checks of pools: pools like the one under test with other settings, and loops that run them full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.outcome import Failed
from portamem.errors import OutOfMemoryError


@contextmanager
def pool_like(env: Env, resource: Any, **options: Any) -> Iterator[Any]:
    """Another pool over a resource of the kind below, with options of its own; closed at the end of the block."""
    below = env.kind_of(resource).upstream
    if below is None:
        raise Failed(f"{resource!r} stands over nothing")
    with env.pm.PoolMemoryResource(below.make(env.pm, env.device), **options) as pool:
        yield pool


class Filled:
    """Buffers with a pattern each, which are looked at when they go."""

    def __init__(self, env: Env, pool: Any, stream: Any) -> None:
        self._env, self._pool, self._stream = env, pool, stream
        self._live: list[tuple[int, Any]] = []
        self._seed = 0

    def __len__(self) -> int:
        return len(self._live)

    @property
    def nbytes(self) -> int:
        return sum(buf.nbytes for _, buf in self._live)

    def take(self, nbytes: int) -> Any:
        """One more buffer; its first and its last bytes are written."""
        buf = self._pool.allocate(nbytes, stream=self._stream)
        self._seed += 1
        self._live.append((self._seed, buf))
        for part in _ends(buf):
            with part:
                self._env.pm.copy(part, pattern(part.nbytes, self._seed), stream=self._stream)
        return buf

    def until_full(self, sizes: Iterator[int]) -> OutOfMemoryError:
        """Takes buffers until there is no more memory, and then smaller ones as long as there is any; answers the first
        refusal."""
        largest, refused = 1 << 62, None
        while largest >= 256:
            try:
                while True:
                    self.take(min(next(sizes), largest))
            except OutOfMemoryError as error:
                refused = refused or error
                largest = min(largest, 4 * MIB) // 2
        if refused is None:
            raise Failed("the memory never ran out")
        return refused

    def drop(self, step: int = 1) -> None:
        """Closes every ``step``-th buffer, after a look at what is in it."""
        gone = self._live[::step]
        self._live = [each for number, each in enumerate(self._live) if number % step] if step > 1 else []
        for seed, buf in gone:
            for part in _ends(buf):
                with part:
                    found = self._env.read(part)
                    expect(found == pattern(part.nbytes, seed), f"a buffer of {buf.nbytes} bytes was written by others")
            buf.close()


def _ends(buf: Any, nbytes: int = 512) -> tuple[Any, ...]:
    if buf.nbytes <= 2 * nbytes:
        return (buf[:],)
    return (buf[:nbytes], buf[max(buf.nbytes - nbytes, 0) :])
