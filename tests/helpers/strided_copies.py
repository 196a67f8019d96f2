"""Copies between random parts of host arrays and of device memory, each byte compared, while other streams work."""

from __future__ import annotations

import random
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DTYPES = ("uint8", "int16", "float32", "complex128")
UNTOUCHED = 0xEE
BUSY_BYTES = 1 << 18


class Layout:
    """A random way to take a part of an array: bounds, steps of either sign, and an order of the axes."""

    def __init__(self, draw: random.Random, nbytes: int) -> None:
        self.dtype = np.dtype(draw.choice(DTYPES))
        room = max(nbytes // self.dtype.itemsize, 1)
        shape = []
        for _ in range(draw.randrange(3)):
            shape.append(int(room ** draw.random()))
            room //= shape[-1]
        shape.append(room)
        draw.shuffle(shape)
        self.shape = tuple(shape)
        self.axes = tuple(draw.sample(range(len(shape)), len(shape)))
        self.index = tuple(self._slice(draw, length) for length in shape)

    @staticmethod
    def _slice(draw: random.Random, length: int) -> slice:
        first, last = draw.randrange((length + 3) // 4), length - 1 - draw.randrange((length + 3) // 4)
        step = draw.choice((1, 1, 1, 2, 5, -1, -2))
        if step > 0:
            return slice(first, max(first, last) + 1, step)
        return slice(max(first, last), None if first == 0 else first - 1, step)

    def part_of(self, whole: Array) -> Array:
        return whole[self.index].transpose(self.axes)


class Copies:
    """Random copies on a device. close() waits for all streams."""

    def __init__(self, pm: ModuleType, device: Any, draw: random.Random) -> None:
        self.pm, self.draw = pm, draw
        self._stack = ExitStack()
        self.streams = [self._stack.enter_context(pm.Stream(device)) for _ in range(3)]
        self.resource = self._stack.enter_context(pm.DeviceMemoryResource(device))
        self._busy = [self._stack.enter_context(self.resource.allocate(BUSY_BYTES)) for _ in self.streams]

    def close(self) -> None:
        for stream in self.streams:
            stream.synchronize()
        self._stack.close()

    def work(self) -> None:
        """Queues fills and copies of other memory on every stream."""
        for stream, memory in zip(self.streams, self._busy, strict=True):
            memory.fill(self.draw.randrange(256), stream=stream)
            half = BUSY_BYTES // 2
            self.pm.copy(memory[half:], memory[:half], stream=stream)

    def turn(self, nbytes: int) -> int:
        """Sends a part of an array of about ``nbytes`` to a part of device memory, and takes it back into a part of
        another array. Returns the bytes that went each way."""
        draw = self.draw
        layout = Layout(draw, nbytes)
        bits = np.frombuffer(draw.randbytes(251), np.uint8)
        nbytes = int(np.prod(layout.shape)) * layout.dtype.itemsize
        source = np.resize(bits, nbytes).view(layout.dtype).reshape(layout.shape)
        part = layout.part_of(source)
        sent = np.ascontiguousarray(part).tobytes()
        before, behind = draw.randrange(100), draw.randrange(100)
        stream = draw.choice((None, *self.streams))
        with self.resource.allocate(before + len(sent) + behind, stream=stream) as memory:
            memory.fill(UNTOUCHED, stream=stream)
            self.work()
            with memory[before : before + len(sent)] as middle:
                arrived = middle.copy_from(part, stream=stream)
                self.work()
                target = np.full(nbytes, UNTOUCHED, np.uint8).view(layout.dtype).reshape(layout.shape)
                returned = middle.copy_to(layout.part_of(target), stream=stream)
            assert (arrived is None) == (returned is None) == (stream is None)
            if returned is not None:
                returned.synchronize()
            whole = bytearray(memory.nbytes)
            memory.copy_to(whole)
        edges = bytes([UNTOUCHED])
        assert whole == edges * before + sent + edges * behind, f"sent: {layout.shape} {layout.index} {layout.axes}"
        expected = np.full(nbytes, UNTOUCHED, np.uint8).view(layout.dtype).reshape(layout.shape)
        layout.part_of(expected)[...] = part
        assert target.tobytes() == expected.tobytes(), f"returned: {layout.shape} {layout.index} {layout.axes}"
        return len(sent)
