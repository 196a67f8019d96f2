"""Random sequences of allocations, frees, sub-views, fills and copies, on all kinds of memory and several streams.

A model in plain Python holds what every live buffer must contain. After each step live ranges must not overlap, and
at the end every byte must be what the model says.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from helpers.memory import overlapping, read_back
from helpers.resources import KINDS
from helpers.waiting import close_when_empty
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

STREAMS = 3


class Memory(RuleBasedStateMachine):
    """Buffers beside bytearrays of the same contents. Every use on another stream is ordered by an event."""

    pm: ModuleType
    device: Any

    def __init__(self) -> None:
        super().__init__()
        self.streams = [self.pm.Stream(self.device) for _ in range(STREAMS)]
        self.resources = [kind.make(self.pm, self.device) for kind in KINDS.values() if self._has(kind)]
        self.live: list[tuple[Any, bytearray]] = []

    def _has(self, kind: Any) -> bool:
        return bool(kind.needs(self.device.capabilities))

    def _meet(self, stream: Any) -> None:
        """Orders a stream behind all others: what the model assumes of every step."""
        for other in self.streams:
            if other is not stream:
                stream.wait(other)

    def _pick(self, data: Any) -> int:
        return int(data.draw(st.integers(0, len(self.live) - 1)))

    def _stream(self, data: Any) -> Any:
        stream = data.draw(st.sampled_from(self.streams))
        self._meet(stream)
        return stream

    @rule(data=st.data(), nbytes=st.integers(0, 5000), value=st.integers(0, 255))
    def allocate(self, data: Any, nbytes: int, value: int) -> None:
        stream = self._stream(data)
        buf = data.draw(st.sampled_from(self.resources)).allocate(nbytes, stream=stream)
        buf.fill(value, stream=stream)
        self.live.append((buf, bytearray([value]) * nbytes))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def close(self, data: Any) -> None:
        buf, _ = self.live.pop(self._pick(data))
        buf.close(stream=self._stream(data))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        self.live.pop(self._pick(data))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), value=st.integers(0, 255))
    def fill_a_part(self, data: Any, value: int) -> None:
        buf, expected = self.live[self._pick(data)]
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, buf.nbytes)] * 2)))
        with buf[start:stop] as part:
            part.fill(value, stream=self._stream(data))
        expected[start:stop] = bytes([value]) * (stop - start)

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data())
    def copy_a_part(self, data: Any) -> None:
        first, second = data.draw(st.lists(st.sampled_from(range(len(self.live))), min_size=2, max_size=2, unique=True))
        (src, src_bytes), (dst, dst_bytes) = self.live[first], self.live[second]
        nbytes = data.draw(st.integers(0, min(src.nbytes, dst.nbytes)))
        at_src = data.draw(st.integers(0, src.nbytes - nbytes))
        at_dst = data.draw(st.integers(0, dst.nbytes - nbytes))
        with src[at_src : at_src + nbytes] as a, dst[at_dst : at_dst + nbytes] as b:
            self.pm.copy(b, a, stream=self._stream(data))
        dst_bytes[at_dst : at_dst + nbytes] = src_bytes[at_src : at_src + nbytes]

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data(), sizes=st.tuples(*[st.integers(0, 9)] * 3), padding=st.tuples(*[st.integers(0, 3)] * 4))
    def copy_a_box(self, data: Any, sizes: tuple[int, int, int], padding: tuple[int, int, int, int]) -> None:
        first, second = data.draw(st.lists(st.sampled_from(range(len(self.live))), min_size=2, max_size=2, unique=True))
        (src, src_bytes), (dst, dst_bytes) = self.live[first], self.live[second]
        width, height, depth = sizes
        src_pitch, dst_pitch = width + padding[0], width + padding[1]
        src_rows, dst_rows = height + padding[2], height + padding[3]
        if depth * src_rows * src_pitch > src.nbytes or depth * dst_rows * dst_pitch > dst.nbytes:
            return
        self.pm.copy_3d(
            dst,
            src,
            width=width,
            height=height,
            depth=depth,
            dst_pitch=dst_pitch,
            src_pitch=src_pitch,
            dst_rows=dst_rows,
            src_rows=src_rows,
            stream=self._stream(data),
        )
        for z in range(depth):
            for y in range(height):
                to, at = (z * dst_rows + y) * dst_pitch, (z * src_rows + y) * src_pitch
                dst_bytes[to : to + width] = src_bytes[at : at + width]

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def read(self, data: Any) -> None:
        buf, expected = self.live[self._pick(data)]
        self.device.synchronize()
        assert read_back(self.pm, buf) == expected

    @invariant()
    def live_ranges_do_not_overlap(self) -> None:
        assert overlapping(buf for buf, _ in self.live) == []

    def teardown(self) -> None:
        self.device.synchronize()
        for buf, expected in self.live:
            assert read_back(self.pm, buf) == expected
            buf.close()
        for resource in self.resources:
            close_when_empty(resource)
        for stream in self.streams:
            stream.close()


@pytest.mark.timeout(300)
def test_random_sequences(pm: ModuleType, device: Any) -> None:
    machine = type("MemoryOfThisBackend", (Memory,), {"pm": pm, "device": device})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
