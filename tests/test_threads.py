"""Many threads at once: allocating, copying and freeing on their own streams; races that must end in order."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from helpers.memory import allocate, pattern, read_back, write

THREADS = 8
TURNS = 40


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Runs ``work(number)`` in threads that start together, and raises what any of them raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            start.wait(10)
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if raised:
        raise raised[0]


def test_each_thread_on_its_own_stream(pm: ModuleType, device: Any, resource: Any) -> None:
    def work(number: int) -> None:
        chance = random.Random(number)
        with pm.Stream(device) as stream:
            for turn in range(TURNS):
                data = pattern(chance.randrange(1, 20_000), seed=number * TURNS + turn)
                out = bytearray(len(data))
                with resource.allocate(len(data), stream=stream) as buf:
                    pm.copy(buf, data, stream=stream)
                    pm.copy(out, buf, stream=stream)
                    stream.synchronize()
                    assert out == data

    in_threads(work)
    assert resource.live_buffers == 0


def test_all_threads_on_one_stream(pm: ModuleType, stream: Any, device_resource: Any) -> None:
    def work(number: int) -> None:
        for _ in range(TURNS):
            with device_resource.allocate(4096) as buf:
                buf.fill(number, stream=stream).synchronize()
                assert read_back(pm, buf) == bytes([number]) * 4096

    in_threads(work)


def test_close_against_copy(pm: ModuleType, device: Any, resource: Any) -> None:
    """One thread closes what another copies: a copy happens whole, or is refused with "closed"."""
    data = pattern(4096)
    refusals: list[str] = []
    for _ in range(TURNS):
        buf = allocate(resource, 4096)
        write(pm, buf, data)

        def work(number: int, buf: Any = buf) -> None:
            try:
                if number == 0:
                    buf.close()
                else:
                    assert read_back(pm, buf) == data
            except (ValueError, BufferError) as refused:
                refusals.append(str(refused))

        in_threads(work, count=3)
        buf.close()
    assert all("closed" in text or "use" in text or "export" in text for text in refusals)


def test_close_against_close(resource: Any) -> None:
    for _ in range(TURNS):
        buf = allocate(resource, 4096)
        in_threads(lambda number, buf=buf: buf.close(), count=4)
    assert resource.live_buffers == 0


def test_sub_views_against_close(resource: Any) -> None:
    for _ in range(TURNS):
        buf = allocate(resource, 4096)

        def work(number: int, buf: Any = buf) -> None:
            try:
                if number == 0:
                    buf.close()
                else:
                    buf[:16].close()
            except (ValueError, BufferError):
                pass

        in_threads(work, count=3)
        buf.close()
    assert resource.live_buffers == 0


def test_streams_come_and_go(pm: ModuleType, device: Any, pool: Any) -> None:
    def work(number: int) -> None:
        for _ in range(TURNS):
            with pm.Stream(device) as stream, pool.allocate(1000, stream=stream) as buf:
                buf.fill(number, stream=stream)

    in_threads(work)
    device.synchronize()
    assert pool.used == 0


def test_memory_freed_by_another_thread(pm: ModuleType, device: Any, resource: Any) -> None:
    made: list[Any] = []
    in_threads(lambda number: made.append(allocate(resource, 1000)))
    in_threads(lambda number: made[number].close())
    assert resource.live_buffers == 0


def test_counting_stays_right(pm: ModuleType, device: Any, resource: Any) -> None:
    before = pm.held(device), pm.held("host")

    def work(number: int) -> None:
        live = [allocate(resource, 100 + number) for _ in range(TURNS)]
        for buf in live:
            buf.close()

    in_threads(work)
    device.synchronize()
    assert (resource.live_buffers, resource.live_bytes) == (0, 0)
    assert (pm.held(device), pm.held("host")) == before


def test_close_against_a_close_that_waits(pm: ModuleType, stream: Any, make_resource: Any, latch: Any) -> None:
    """The second close must not take the memory apart under the first, which waits for declared work."""
    resource = make_resource("pinned")
    buf = resource.allocate(4096)
    held = latch(stream)
    buf.record_stream(stream)
    threads = [threading.Thread(target=buf.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    held.release_soon()
    for thread in threads:
        thread.join()
    assert buf.is_closed
    assert resource.live_buffers == 0


def test_recording_an_event_counts_its_references_right(pm: ModuleType, device: Any) -> None:
    event = pm.Event(device)
    before = sys.getrefcount(event)
    stop = threading.Event()

    def hold() -> None:
        while not stop.is_set():
            _ = [event] * 50

    def record() -> None:
        with pm.Stream(device) as stream:
            for _ in range(5000):
                stream.record(event)

    holder = threading.Thread(target=hold)
    recorders = [threading.Thread(target=record) for _ in range(3)]
    for thread in (holder, *recorders):
        thread.start()
    for thread in recorders:
        thread.join()
    stop.set()
    holder.join()
    assert sys.getrefcount(event) == before
