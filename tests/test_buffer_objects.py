"""Python uses the objects of closed buffers again, for memory that a pool has cached and for memory of every other
resource. A program never sees anything of one buffer in the next.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, Queue
from types import ModuleType
from typing import Any

import pytest
from helpers.waiting import eventually

from portamem.conformance.kit.reported import unraisable

KIB = 1 << 10
MANY = 300  # more than objects of buffers are kept


@pytest.fixture
def warm(pm: ModuleType, device_resource: Any, stream: Any) -> Iterator[Any]:
    """A pool whose cache for `stream` has blocks of 4 KiB.

    The host does not reach them: what it reaches is at hand only when its work has run.
    """
    upstream = device_resource
    if upstream.is_host_accessible:
        upstream = pm.AsyncMemoryResource(device_resource.device)
    with pm.PoolMemoryResource(upstream) as pool:
        for buffer in [pool.allocate(4 * KIB, stream=stream) for _ in range(8)]:
            buffer.close()
        yield pool
        assert eventually(lambda: pool.live_buffers == 0)


@pytest.fixture(params=["at hand", "asked"])
def giving(request: pytest.FixtureRequest, pm: ModuleType) -> Any:
    """The pool, or a resource that calls the runtime each time."""
    if request.param == "at hand":
        return request.getfixturevalue("warm")
    return request.getfixturevalue("device_resource")


ENDS: dict[str, Callable[[list[Any]], None]] = {
    "close": lambda held: held.pop().close(),
    "drop": lambda held: held.clear(),
    "with": lambda held: held.pop().__exit__(None, None, None),
    "close, then drop": lambda held: (held[0].close(), held.clear())[1],
}


@pytest.mark.parametrize("end", ENDS)
def test_memory_comes_and_goes_and_is_counted(pm: ModuleType, giving: Any, stream: Any, end: str) -> None:
    addresses = set()
    for _ in range(MANY):
        held = [giving.allocate(4 * KIB, stream=stream)]
        addresses.add(held[0].handle)
        assert (giving.live_buffers, giving.live_bytes) == (1, 4 * KIB)
        ENDS[end](held)
        # A resource that asks the runtime takes a dropped buffer back once a mark on its stream has happened.
        assert eventually(lambda: (giving.live_buffers, giving.live_bytes) == (0, 0))
    if isinstance(giving, pm.PoolMemoryResource):
        assert len(addresses) == 1, "the block freed last is the one that is found again"


def test_many_streams_on_one_thread_lose_nothing(pm: ModuleType, warm: Any, stream: Any) -> None:
    """More than a thread finds at first sight: some are searched for."""
    streams = [pm.Stream(stream.device) for _ in range(40)]
    for turn in range(3):
        for own in streams:
            first, second = (warm.allocate(4 * KIB, stream=own) for _ in range(2))
            assert (warm.live_buffers, warm.live_bytes) == (2, 8 * KIB), turn
            assert first.handle != second.handle
            first.close()
            second.close()
            assert (warm.live_buffers, warm.live_bytes) == (0, 0), turn


def test_a_buffer_shows_nothing_of_the_one_before(pm: ModuleType, giving: Any, stream: Any, other_stream: Any) -> None:
    before = giving.allocate(4 * KIB, stream=stream)
    seen = weakref.ref(before)
    before.fill(7, stream=stream)
    del before
    assert seen() is None
    after = giving.allocate(100, stream=other_stream)
    again = giving.allocate(100, stream=stream)
    for buffer, on in ((after, other_stream), (again, stream)):
        assert (buffer.nbytes, buffer.exports, buffer.is_closed) == (100, 0, False)
        assert buffer.stream is on
        assert buffer.resource is giving
        assert buffer.owner is None
        mark = weakref.ref(buffer)
        assert mark() is buffer
    after.close()
    again.close()
    assert mark() is again


def test_a_closed_buffer_stays_closed(giving: Any, stream: Any) -> None:
    closed = giving.allocate(4 * KIB, stream=stream)
    closed.close()
    others = [giving.allocate(4 * KIB, stream=stream) for _ in range(8)]
    assert closed.is_closed
    for use in (lambda: closed.handle, lambda: closed.stream, lambda: closed[:1], lambda: closed.view("uint8")):
        with pytest.raises(ValueError, match="closed"):
            use()
    closed.close()
    assert len({other.handle for other in others}) == 8
    assert giving.live_buffers == 8


def test_more_at_once_than_are_kept(giving: Any, stream: Any) -> None:
    for _ in range(3):
        buffers = [giving.allocate(4 * KIB, stream=stream) for _ in range(MANY)]
        assert len({buffer.handle for buffer in buffers}) == MANY
        assert giving.live_buffers == MANY
        random.Random(5).shuffle(buffers)
        while buffers:
            buffers.pop()
        assert eventually(lambda: giving.live_buffers == 0)


@pytest.mark.parametrize("kind", ["at hand", "asked"])
def test_resource_and_stream_live_as_long_as_the_buffer_is_open(
    pm: ModuleType, device_resource: Any, kind: str
) -> None:
    for end in ("close", "drop"):
        pool = pm.PoolMemoryResource(device_resource) if kind == "at hand" else pm.DeviceMemoryResource(0)
        stream = pm.Stream(0)
        pool.allocate(4 * KIB, stream=stream).close()
        buffer = pool.allocate(4 * KIB, stream=stream)
        seen = weakref.ref(pool), weakref.ref(stream)
        del pool, stream
        gc.collect()
        # The very objects where it was at hand; under a memory checker nothing is.
        assert seen[0]() in (None, buffer.resource)
        assert seen[1]() in (None, buffer.stream)
        assert buffer.resource.live_buffers == 1
        buffer.fill(3, stream=buffer.stream)
        if end == "close":
            buffer.close()
        else:
            del buffer
        gc.collect()
        # Work that was still to be run may hold the memory for a moment.
        assert eventually(lambda seen=seen: [each() for each in seen] == [None, None]), end


def test_references_are_balanced(pm: ModuleType, giving: Any, stream: Any, other_stream: Any) -> None:
    def counts() -> tuple[int, int]:
        gc.collect()
        return sys.getrefcount(giving), sys.getrefcount(stream)

    def shared() -> None:
        buffer = giving.allocate(4 * KIB, stream=stream)
        part = buffer[100:200]
        with pytest.raises(BufferError):
            buffer.close()
        del buffer
        assert part.nbytes == 100

    def used_elsewhere() -> None:
        buffer = giving.allocate(4 * KIB, stream=stream)
        buffer.record_stream(other_stream)
        buffer.close()

    def released() -> None:
        buffer = giving.allocate(4 * KIB, stream=stream)
        giving.deallocate(buffer.release(), 4 * KIB, stream=stream)

    def refused() -> None:
        with pytest.raises(ValueError, match="power of two"):
            giving.allocate(4 * KIB, stream=stream, alignment=3)

    def elsewhere() -> None:
        with giving.allocate(4 * KIB, stream=stream) as buffer:
            buffer.close(stream=other_stream)

    def is_as(before: tuple[int, int]) -> bool:
        return counts() == before

    for what in (shared, used_elsewhere, released, refused, elsewhere):
        what()
        before = counts()
        for _ in range(50):
            what()
        pm.Device(0).synchronize()
        assert eventually(partial(is_as, before)), what.__name__


def test_parts_keep_the_memory_and_what_is_in_it(pm: ModuleType, giving: Any, stream: Any) -> None:
    np = pytest.importorskip("numpy")
    buffer = giving.allocate(4 * KIB, stream=stream)
    view = buffer.view("int32")
    view.copy_from(np.arange(KIB, dtype=np.int32), stream=stream)
    part = view[KIB // 2 :]
    view.close()
    del buffer, view
    others = [giving.allocate(4 * KIB, stream=stream) for _ in range(8)]
    for other in others:
        other.fill(0, stream=stream)
    assert part.to_numpy(stream=stream).tolist() == list(range(KIB // 2, KIB))


def test_memory_of_another_streams_work_waits_for_it(pm: ModuleType, warm: Any, stream: Any, latch: Any) -> None:
    """It is handed to a stream only behind the work that was declared on it."""
    with pm.Stream(0) as worker:
        source = warm.allocate(4 * KIB, stream=worker)
        source.fill(9)
        target = warm.allocate(4 * KIB, stream=stream)
        stream.synchronize()
        held = latch(worker)
        pm.copy(target, source, stream=worker)
        address = target.handle
        target.close()
        again = [warm.allocate(4 * KIB, stream=stream) for _ in range(8)]
        for buffer in again:
            buffer.fill(1, stream=stream)
        held.release()
        assert address in {buffer.handle for buffer in again}
        for buffer in again:
            assert set(buffer.view("uint8").to_numpy(stream=stream).tolist()) == {1}
        source.close()


def test_a_closed_stream_gives_nothing_and_takes_what_is_out(pm: ModuleType, device_resource: Any) -> None:
    with pm.PoolMemoryResource(device_resource) as pool:
        stream = pm.Stream(0)
        left = [pool.allocate(4 * KIB, stream=stream) for _ in range(4)]
        left.pop().close()
        stream.close()
        with pytest.raises(ValueError, match="the stream is closed"):
            pool.allocate(4 * KIB, stream=stream)
        left.pop().close()
        left.clear()
        assert pool.live_buffers == 0


def test_a_closed_pool_gives_nothing(pm: ModuleType, device_resource: Any, stream: Any) -> None:
    pool = pm.PoolMemoryResource(device_resource)
    pool.allocate(4 * KIB, stream=stream).close()
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.allocate(4 * KIB, stream=stream)


def test_threads_hand_buffers_to_each_other(pm: ModuleType, giving: Any) -> None:
    queue: Queue[Any] = Queue(maxsize=32)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            dice = random.Random(seed)
            with pm.Stream(0) as stream:
                own: list[Any] = []
                for _ in range(400):
                    own.append(giving.allocate(dice.choice((256, 4 * KIB, 70 * KIB)), stream=stream))
                    if dice.random() < 0.3:
                        queue.put(own.pop())
                    elif dice.random() < 0.5:
                        own.pop(dice.randrange(len(own))).close()
                    if dice.random() < 0.3:
                        with contextlib.suppress(Empty):
                            own.append(queue.get_nowait())
                    del own[20:]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    drained = threading.Event()

    def drain() -> None:
        while not drained.is_set() or not queue.empty():
            try:
                queue.get_nowait()
            except Empty:
                drained.wait(0.001)

    taker = threading.Thread(target=drain)
    taker.start()
    for thread in threads:
        thread.join()
    drained.set()
    taker.join()
    assert not failures, failures
    gc.collect()
    assert giving.live_buffers == 0


def raising(pm: ModuleType, out: dict[int, Any], asked: list[str], refused: set[str]) -> Any:
    """Host memory by functions that count how often they are asked, and raise while their name is among `refused`."""

    def allocate(nbytes: int, stream: Any) -> int:
        asked.append("allocate")
        if "allocate" in refused:
            raise RuntimeError("no memory today")
        memory = bytearray(nbytes + 256)
        address = -(-ctypes.addressof(ctypes.c_char.from_buffer(memory)) // 256) * 256
        out[address] = memory
        return address

    def deallocate(address: int, nbytes: int, stream: Any) -> None:
        asked.append("deallocate")
        if "deallocate" in refused:
            raise RuntimeError("not now")
        del out[address]

    return pm.CallbackMemoryResource(allocate, deallocate, kind="system")


def test_what_is_refused_is_asked_once_and_leaves_all_as_it_was(pm: ModuleType, stream: Any) -> None:
    out: dict[int, Any] = {}
    asked: list[str] = []
    refused: set[str] = set()
    with raising(pm, out, asked, refused) as resource:
        held = [resource.allocate(4 * KIB, stream=stream) for _ in range(3)]
        refused.add("allocate")
        del asked[:]
        for _ in range(MANY):
            with pytest.raises(RuntimeError, match="no memory today"):
                resource.allocate(4 * KIB, stream=stream)
        assert asked == ["allocate"] * MANY
        assert resource.live_buffers == 3
        refused.add("deallocate")
        del asked[:]
        with pytest.raises(RuntimeError, match="not now"):
            held[0].close()
        with pytest.raises(RuntimeError, match="not now"), held[1]:
            pass
        assert asked == ["deallocate"] * 2
        for buffer in held:
            memoryview(buffer)[:4] = b"open"
            assert bytes(memoryview(buffer)[:4]) == b"open"
        del buffer
        with unraisable() as reported:
            held.pop()
        assert reported == ["RuntimeError: not now"]
        assert len(out) == 3, "what was dropped is not lost, and is asked for again later"
        refused.clear()
        while held:
            held.pop().close()
        assert eventually(lambda: not out)
        assert eventually(lambda: resource.live_buffers == 0)


def test_a_buffer_dropped_while_an_exception_is_on_its_way(pm: ModuleType, stream: Any) -> None:
    """Its memory goes back once, by functions that see nothing of the exception, and the exception arrives."""
    out: dict[int, Any] = {}
    asked: list[str] = []
    resource = raising(pm, out, asked, set())
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            print(resource.allocate(4 * KIB, stream=stream), 1 // 0)
    assert asked == ["allocate", "deallocate"] * 3
    assert (len(out), resource.live_buffers) == (0, 0)
    resource.close()


def test_threads_close_one_buffer_at_once(pm: ModuleType, stream: Any) -> None:
    """One of them gives the memory back; the others find it closed, also while it is on its way."""
    out: dict[int, Any] = {}
    asked: list[str] = []
    resource = raising(pm, out, asked, set())
    for _ in range(100):
        buffer = resource.allocate(4 * KIB, stream=stream)
        start = threading.Barrier(4)

        def close(buffer: Any = buffer, start: threading.Barrier = start) -> None:
            start.wait()
            buffer.close()
            assert buffer.is_closed

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del buffer, close
    assert asked == ["allocate", "deallocate"] * 100
    assert eventually(lambda: not out)
    resource.close()
