"""The per-thread default stream: its handle means another stream on every other thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.memory import read_back

NBYTES = 1 << 16


def on_a_thread(work: Callable[[], object]) -> Any:
    """Runs work on a thread of its own and gives what it answers, or raises what it raises."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append((work(), None))
        except Exception as error:
            answers.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    answer, error = answers[0]
    if error is not None:
        raise error
    return answer


def test_each_thread_has_its_own(device: Any) -> None:
    assert device.per_thread_stream == device.per_thread_stream
    assert on_a_thread(lambda: device.per_thread_stream.identity) != device.per_thread_stream.identity


@pytest.mark.parametrize(
    "use",
    [
        lambda pm, stream, buf: stream.synchronize(),
        lambda pm, stream, buf: stream.query(),
        lambda pm, stream, buf: stream.record(),
        lambda pm, stream, buf: stream.launch_host_func(lambda: None),
        lambda pm, stream, buf: buf.fill(1, stream=stream),
    ],
)
def test_another_thread_may_not_use_it(pm: ModuleType, device: Any, device_resource: Any, use: Any) -> None:
    theirs = on_a_thread(lambda: device.per_thread_stream)
    with device_resource.allocate(16) as buf, pytest.raises(ValueError, match="its own thread"):
        use(pm, theirs, buf)


def test_another_thread_may_wait_for_it(pm: ModuleType, device: Any, stream: Any, device_resource: Any) -> None:
    with device_resource.allocate(NBYTES) as buf:
        theirs = on_a_thread(lambda: (device.per_thread_stream, buf.fill(7, stream=device.per_thread_stream))[0])
        stream.wait(theirs)
        stream.synchronize()
        assert read_back(pm, buf) == b"\7" * NBYTES


def test_memory_freed_by_another_thread_goes_back_behind_its_work(
    pm: ModuleType, device: Any, pool: Any, stream: Any, latch: Callable[[Any], Latch]
) -> None:
    """The work queued on the thread's stream is over before anybody else has the memory."""

    def queue() -> tuple[Any, Latch]:
        own = device.per_thread_stream
        buf = pool.allocate(NBYTES, stream=own)
        held = latch(own)
        buf.fill(0xAA, stream=own)
        return buf, held

    buf, held = on_a_thread(queue)
    held.release_soon()
    buf.close()
    with pool.allocate(NBYTES, stream=stream) as new:
        new.fill(0x11, stream=stream)
        stream.synchronize()
        device.synchronize()
        assert read_back(pm, new) == b"\x11" * NBYTES
