# SPDX-License-Identifier: MIT
"""Shows what becomes of failures under resources over resources: of a mixed workload, every call fails once."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from portamem.conformance.checks.error_injected import _is_still_armed, failing
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_equal
from portamem.conformance.kit.memory import KIB, MIB, overlapping
from portamem.conformance.kit.outcome import Failed
from portamem.errors import Error, OutOfMemoryError

CODES = (2, 999)
SIZES = (0, 100, 4 * KIB, 64 * KIB, MIB, 3 * MIB)
TURNS = 40

Make = Callable[[ModuleType, Any], Any]


def _pool(pm: ModuleType, device: Any) -> Any:
    return pm.PoolMemoryResource(pm.DeviceMemoryResource(device))


def _callback(pm: ModuleType, device: Any) -> Any:
    below = pm.DeviceMemoryResource(device)
    return pm.CallbackMemoryResource(
        lambda nbytes, stream: below.allocate(nbytes, stream=stream).release(),
        lambda ptr, nbytes, stream: below.deallocate(ptr, nbytes, stream=stream),
        device=device,
    )


STACKS: dict[str, Make] = {
    "a pool": _pool,
    "a pool of pinned memory": lambda pm, device: pm.PoolMemoryResource(pm.PinnedMemoryResource(device)),
    "a pool over the driver's": lambda pm, device: pm.PoolMemoryResource(pm.AsyncMemoryResource(device)),
    "statistics of a limit on a pool": lambda pm, device: pm.StatisticsAdaptor(
        pm.LimitingAdaptor(_pool(pm, device), 64 * MIB)
    ),
    "what tracks blocks of a size": lambda pm, device: pm.TrackingAdaptor(
        pm.FixedSizeMemoryResource(pm.DeviceMemoryResource(device), 3 * MIB)
    ),
    "a log of what is carved in a row": lambda pm, device: pm.LoggingAdaptor(
        pm.MonotonicMemoryResource(pm.DeviceMemoryResource(device)), os.devnull
    ),
    "a pool over functions, which may try again": lambda pm, device: pm.FailureCallbackAdaptor(
        pm.PoolMemoryResource(_callback(pm, device)), lambda nbytes: False
    ),
    "what prefetches from a pool of managed memory": lambda pm, device: pm.PrefetchAdaptor(
        pm.PoolMemoryResource(pm.ManagedMemoryResource(device))
    ),
}


class _Workload:
    """Allocations and frees of all sizes on three streams, uses of others' memory, trims; the same ones each time."""

    def __init__(self, env: Env, resource: Any, streams: list[Any]) -> None:
        self.env, self.resource, self.streams = env, resource, streams
        self.chance = random.Random(5)
        self.live: list[Any] = []
        self.operations = 0

    def run(self) -> None:
        for _ in range(TURNS):
            self.chance.choice((self.allocate, self.allocate, self.close, self.use, self.finish, self.trim))()
            self.operations += 1

    def allocate(self) -> None:
        stream = self.chance.choice(self.streams)
        self.live.append(self.resource.allocate(self.chance.choice(SIZES), stream=stream))

    def close(self) -> None:
        if self.live:
            buf = self.live[self.chance.randrange(len(self.live))]
            buf.close(stream=self.chance.choice((None, *self.streams)))
            self.live.remove(buf)

    def use(self) -> None:
        if self.live:
            self.chance.choice(self.live).fill(self.chance.randrange(256), stream=self.chance.choice(self.streams))

    def finish(self) -> None:
        self.chance.choice(self.streams).synchronize()

    def trim(self) -> None:
        for resource in _stack(self.resource):
            if hasattr(resource, "trim"):
                resource.trim(self.chance.choice((0, 4 * MIB)))

    def look(self, where: str) -> None:
        """Looks at the resource after any failure: the counters are those of what is out, no memory is out twice, and
        it goes on."""
        counted = (self.resource.live_buffers, self.resource.live_bytes)
        expect_equal(counted, (len(self.live), sum(buf.nbytes for buf in self.live)), f"{where}: buffers and bytes")
        expect_equal(overlapping(self.live), [], f"{where}: the list of overlapping buffers")
        with self.resource.allocate(4 * KIB, stream=self.streams[0]) as buf:
            buf.fill(0x5A, stream=self.streams[0])
            expect(self.env.read(buf) == b"\x5a" * 4 * KIB, f"{where}: the next allocation loses what is written")
        while self.live:
            self.live.pop().close()
        expect_equal((self.resource.live_buffers, self.resource.live_bytes), (0, 0), f"{where}: what is out at the end")


def _stack(resource: Any) -> list[Any]:
    """A resource and what it stands over, from the top down."""
    found = [resource]
    while (below := getattr(found[-1], "upstream", None)) is not None:
        found.append(below)
    return found


@check("ERROR-14", backends=("host",))
def whatever_call_fails_under_composed_resources(env: Env) -> None:
    calls = operations = 0
    for name, make in STACKS.items():
        for code in CODES:
            counted = _sweep(env, name, make, code)
            calls, operations = calls + counted[0], operations + counted[1]
    env.note(f"{calls} calls failed, one at a time, in {operations} operations over {len(STACKS)} stacks; no finding")


def _sweep(env: Env, name: str, make: Make, code: int) -> tuple[int, int]:
    """Fails the first call of a workload, then the second, and so on until it runs through."""
    held, operations = env._held(), 0
    for nth in range(1, 2000):
        where = f"{name}, call {nth} answers {code}"
        env.goes_on()
        ended, done = _fail(env, make, nth, code, where)
        operations += done
        if env._held() != held:
            gc.collect()
        expect(eventually(lambda: env._held() == held), f"{where}: {held} bytes before, {env._held()} after")
        if ended:
            expect(nth > 10, f"{where}: there were hardly any calls")
            return nth - 1, operations
    raise Failed(f"{name} never ran through")


def _fail(env: Env, make: Make, nth: int, code: int, where: str) -> tuple[bool, int]:
    """Says whether the workload ran through before the failure came, and how many operations it was."""
    streams = [env.pm.Stream(env.device) for _ in range(2)] + [env.device.default_stream]
    work = None
    with failing(env, None, nth, code):
        try:
            work = _Workload(env, make(env.pm, env.device), streams)
            work.run()
            ended = _is_still_armed(env)
        except Error as error:
            ended = False
            expect_equal(error.code, code, f"{where}: the code of {error}")
            expect((code == 2) == isinstance(error, OutOfMemoryError), f"{where}: {type(error).__name__}")
        except Exception as error:
            raise Failed(f"{where}: {type(error).__name__}: {error}") from error
    if work is not None:
        try:
            work.look(where)
            for resource in _stack(work.resource):
                where += f", closing {type(resource).__name__}"
                resource.close()
        except (Error, ValueError, BufferError) as error:
            raise Failed(f"{where}: afterwards {type(error).__name__}: {error}") from error
    for stream in streams[:2]:
        stream.close()
    return ended, work.operations if work else 0
