# SPDX-License-Identifier: MIT
"""Shows that any sequence of work that is ordered by events leaves the right bytes: random ones, against a model."""

from __future__ import annotations

import random
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_bytes, expect_equal
from portamem.conformance.kit.kinds import KINDS
from portamem.conformance.kit.memory import overlapping


class _Model:
    """Buffers beside bytearrays of the same contents. Every use on another stream is ordered by events."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env, self.chance = env, random.Random(seed)
        self.streams = [env.stream() for _ in range(3)]
        capabilities = env.device.capabilities
        self.resources = [env.resource(name) for name, kind in KINDS.items() if kind.needs(capabilities)]
        self.live: list[tuple[Any, bytearray]] = []

    def stream(self) -> Any:
        """One of the streams, behind all others."""
        chosen = self.chance.choice(self.streams)
        for other in self.streams:
            chosen.wait(other)
        return chosen

    def part(self, nbytes: int) -> tuple[int, int]:
        start, stop = sorted(self.chance.randint(0, nbytes) for _ in range(2))
        return start, stop

    def allocate(self) -> None:
        stream, value = self.stream(), self.chance.randrange(256)
        buf = self.chance.choice(self.resources).allocate(self.chance.randint(0, 5000), stream=stream)
        buf.fill(value, stream=stream)
        self.live.append((buf, bytearray([value]) * buf.nbytes))

    def take(self) -> tuple[Any, bytearray]:
        return self.live.pop(self.chance.randrange(len(self.live)))

    def close(self) -> None:
        buf, expected = self.take()
        if self.chance.random() < 0.5:
            expect_bytes(self.env.read(buf), bytes(expected), repr(buf))
        buf.close(stream=self.stream())

    def forget(self) -> None:
        self.take()

    def fill_a_part(self) -> None:
        buf, expected = self.chance.choice(self.live)
        start, stop = self.part(buf.nbytes)
        value = self.chance.randrange(256)
        with buf[start:stop] as part:
            part.fill(value, stream=self.stream())
        expected[start:stop] = bytes([value]) * (stop - start)

    def copy_a_part(self) -> None:
        (source, source_bytes), (target, target_bytes) = self.chance.choice(self.live), self.chance.choice(self.live)
        if source is target:
            return
        nbytes = self.chance.randint(0, min(source.nbytes, target.nbytes))
        here, there = (self.chance.randint(0, buf.nbytes - nbytes) for buf in (source, target))
        with source[here : here + nbytes] as a, target[there : there + nbytes] as b:
            self.env.pm.copy(b, a, stream=self.stream())
        target_bytes[there : there + nbytes] = source_bytes[here : here + nbytes]

    def step(self) -> None:
        steps = (self.allocate, self.allocate, self.fill_a_part, self.copy_a_part, self.copy_a_part, self.close)
        (self.chance.choice((*steps, self.forget)) if self.live else self.allocate)()
        expect_equal(overlapping(buf for buf, _ in self.live), [], "the list of overlapping buffers")

    def end(self) -> None:
        for buf, expected in self.live:
            expect_bytes(self.env.read(buf), bytes(expected), repr(buf))
            buf.close()


@check("ORDER-27")
def random_sequences(env: Env) -> None:
    for seed in range(12):
        model = _Model(env, seed)
        for _ in range(80):
            model.step()
        model.end()
