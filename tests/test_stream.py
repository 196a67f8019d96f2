"""Streams and events as Python objects. What they promise is in the conformance suite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from helpers.process import python_output


@pytest.mark.parametrize("make", ["Stream", "Event"])
def test_what_is_closed_says_so(pm: ModuleType, device: Any, make: str) -> None:
    made = getattr(pm, make)(device)
    assert str(made.handle) in repr(made)
    assert f"portamem.{pm.backend}.{make}" in repr(made)
    made.close()
    assert "closed" in repr(made)


def test_a_stream_of_another_thread_has_a_text(pm: ModuleType, device: Any) -> None:
    with ThreadPoolExecutor(1) as other:
        stream = other.submit(lambda: device.per_thread_stream).result()
        assert f"portamem.{pm.backend}.Stream of another thread on device" in repr(stream)
        assert f"portamem.{pm.backend}.Stream " in other.submit(repr, stream).result()


CLOSED_MEANWHILE = """
import sys, threading
import portamem
pm = getattr(portamem, BACKEND)
sys.setswitchinterval(1e-5)
plain = pm.DeviceMemoryResource()
over = {"plain": lambda r: r, "pool": pm.PoolMemoryResource, "blocks": lambda r: pm.FixedSizeMemoryResource(r, 8192)}
resource = over[sys.argv[1]](plain)
streams, met, closed = [pm.Stream() for _ in range(4)], set(), threading.Event()

def use(number):
    turn = 0
    while not closed.is_set():
        turn += 1
        try:
            buffer = resource.allocate(4000, stream=streams[(turn + number) % 4])
            buffer.fill(1, stream=streams[(turn + number + 1) % 4])
            buffer.close()
        except Exception as error:
            met.add(f"{type(error).__name__}: {error}")
        buffer = None

threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for turn in range(300):
    stream, streams[turn % 4] = streams[turn % 4], pm.Stream()
    stream.close()
closed.set()
for thread in threads:
    thread.join()
for stream in streams:
    stream.close()
assert all(text.startswith("ValueError: the stream") and "closed" in text for text in met), met
resource.close()  # refused while a buffer is out
plain.close()
print("nothing is lost")
"""


@pytest.mark.parametrize("debug", ["0", "1"])
@pytest.mark.parametrize("kind", ["plain", "pool", "blocks"])
def test_streams_closed_by_another_thread_lose_nothing(pm: ModuleType, device: Any, kind: str, debug: str) -> None:
    program = CLOSED_MEANWHILE.replace("BACKEND", repr(pm.backend))
    assert python_output(program, kind, PORTAMEM_DEBUG=debug) == "nothing is lost\n"
