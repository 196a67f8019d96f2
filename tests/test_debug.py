# SPDX-License-Identifier: MIT
"""PORTAMEM_DEBUG=1: redzones, poison and call sites, in programs of their own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.process import run_python

HEAD = """
import ctypes
import portamem
pm = getattr(portamem, BACKEND)
device = pm.Device(0)
stream = device.default_stream

def poke(address, value=0):
    "Writes a byte anywhere, as a kernel out of bounds would."
    witness = pm.Buffer.from_handle(address, 1, device=device, stream=stream)
    pm.copy(witness, bytes([value]))
"""


def run(pm: Any, program: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    head = HEAD.replace("BACKEND", repr(pm.backend))
    return run_python(head + program, PORTAMEM_DEBUG=environment.pop("PORTAMEM_DEBUG", "1"), **environment)


MAKE = {
    "device": "pm.DeviceMemoryResource()",
    "pinned": "pm.PinnedMemoryResource()",
    "system": "pm.SystemMemoryResource()",
    "managed": "pm.ManagedMemoryResource()",
    "async": "pm.AsyncMemoryResource()",
    "blocks": "pm.FixedSizeMemoryResource(pm.PinnedMemoryResource(), 1000)",
    "arena": "pm.MonotonicMemoryResource(pm.DeviceMemoryResource())",
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_write_out_of_bounds_is_found_at_the_close(pm: Any, device: Any, make: str) -> None:
    if "Async" in make and not device.capabilities.memory_pools:
        pytest.skip("the device has no memory pools")
    if "Managed" in make and device.capabilities.managed_mode == "none":
        pytest.skip("the device has no managed memory")
    done = run(
        pm,
        f"""
resource = {make}
good = resource.allocate(1000, stream=stream)
bad = resource.allocate(1000, stream=stream)
poke(good.handle + 999, 1)
poke(bad.handle + 1000)
poke(bad.handle + 1003)
good.close()
try:
    bad.close()
except portamem.Error as error:
    print(error.name, error)
bad.close()
resource.close()
print("closed")
""",
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith(
        "Corrupted memory was written outside of an allocation: bytes 1 to 4 behind its end, of 1000"
    )
    assert re.search(r"allocated at <string>:\d+$", first)
    assert last == "closed"
    assert "portamem: debug: memory was written outside" in done.stderr
    assert "portamem: debug: 1 allocation(s) with memory written outside of them" in done.stderr


def test_a_buffer_that_is_never_closed_is_looked_at(pm: Any) -> None:
    done = run(
        pm,
        """
resource = pm.PinnedMemoryResource()
gone = resource.allocate(10)
poke(gone.handle - 1)
del gone
released = pm.DeviceMemoryResource()
poke(released.allocate(20).release() + 20)
""",
    )
    assert done.returncode == 0
    assert "byte 1 before its start, of 10 bytes" in done.stderr
    assert "byte 1 behind its end, of 20 bytes" in done.stderr
    assert "2 allocation(s)" in done.stderr


def test_frees_that_cannot_be_right(pm: Any) -> None:
    done = run(
        pm,
        """
resource, other = pm.PinnedMemoryResource(), pm.PinnedMemoryResource()
keep = resource.allocate(1)
address = resource.allocate(64).release()
for at, nbytes in ((other, 64), (resource, 63), (resource, 64), (resource, 64)):
    try:
        at.deallocate(address, nbytes)
    except ValueError as error:
        print(error)
""",
    )
    assert done.returncode == 0, done.stderr
    another, size, double = done.stdout.splitlines()
    assert another.startswith("memory is freed at another resource than it came from: 64 bytes")
    assert size.startswith("memory is freed with a size of 63, which is not its own: 64 bytes")
    assert re.search(r"freed twice: 64 bytes at 0x\w+, allocated at <string>:\d+, freed before at <string>:\d+", double)


def test_memory_is_poisoned(pm: Any) -> None:
    done = run(
        pm,
        """
blocks = pm.FixedSizeMemoryResource(pm.PinnedMemoryResource(), 100)
keep, buffer = blocks.allocate(100), blocks.allocate(100)
print(set(bytes(buffer)))
address = buffer.handle
memoryview(buffer)[:] = bytes(100)
buffer.close()
print(set(ctypes.string_at(address, 100)))
print(bytes(pm.PinnedMemoryResource().allocate(3)).hex())
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{{{0xA5}}}", f"{{{0xDB}}}", "a5a5a5"]


def test_off_nothing_is_added(pm: Any) -> None:
    program = "print((buffer := pm.PinnedMemoryResource().allocate(100)).resource.live_bytes)"
    for value, nbytes in ((None, "100"), ("0", "100"), ("1", "612")):
        done = run(pm, program, PORTAMEM_DEBUG=value)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, nbytes, "")


@pytest.mark.parametrize("value", ["2", "on", "true", "1 "])
def test_a_value_that_is_not_known_is_said_once(pm: Any, value: str) -> None:
    program = "print(pm.PinnedMemoryResource().allocate(100).resource.live_bytes)"
    done = run(pm, program, PORTAMEM_DEBUG=value)
    assert done.returncode == 0
    assert done.stderr == f"portamem: PORTAMEM_DEBUG is 1, or 0 for nothing, not '{value}': there are no redzones\n"


def test_a_clean_program_says_nothing(pm: Any) -> None:
    done = run(
        pm,
        """
import threading
def work():
    with pm.Stream(device) as own:
        for i in range(20):
            array = pm.zeros((100 + i,), "float32", stream=own)
            with pm.PinnedMemoryResource().allocate(array.nbytes) as host:
                array.copy_to(host, stream=own)
                own.synchronize()
                assert not any(bytes(host))
            del array
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_first_chunk_of_a_pool_is_no_block_of_the_programs(pm: Any) -> None:
    """The chunk of an initial size begins where one of the pool's blocks may begin."""
    done = run(
        pm,
        """
pool = pm.PoolMemoryResource(pm.DeviceMemoryResource(), initial_size="4 MiB")
above = pm.CallbackMemoryResource(
    lambda nbytes, on: pool.allocate(nbytes, stream=on).release(),
    lambda ptr, nbytes, on: pool.deallocate(ptr, nbytes, stream=on),
    stream_ordered=True,
)
for nbytes in (1000, 100_000, 2 << 20, 3 << 20):
    with above.allocate(nbytes, stream=stream) as buf:
        buf.fill(1, stream=stream)
print(pool.live_buffers)
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.parametrize("make", ["LIMITED(0), log", "log, LIMITED(0)"], ids=["alternate", "upstream"])
def test_a_use_is_told_to_the_resource_that_gave_the_memory(pm: Any, tmp_path: Path, make: str) -> None:
    path = tmp_path / "log"
    done = run(
        pm,
        f"""
log = pm.LoggingAdaptor(pm.DeviceMemoryResource(), {str(path)!r})
either = pm.FallbackAdaptor({make.replace("LIMITED(0)", "pm.LimitingAdaptor(pm.DeviceMemoryResource(), 0)")})
buffer = either.allocate(1000, stream=stream)
buffer.record_stream(pm.Stream())
buffer.close()
either.close()
log.close()
""",
    )
    assert (done.stderr, done.returncode) == ("", 0)
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    memory = {call["event"]: (call["address"], call["size"]) for call in calls if "address" in call}
    assert list(memory) == ["alloc", "record", "free"]
    assert len(set(memory.values())) == 1


SLEEPING = """
resource = pm.VirtualMemoryResource(0)
pool = pm.PoolMemoryResource(resource)
stream = pm.Stream()
buffers = [resource.allocate(1000), resource.allocate(1000), pool.allocate(1000, stream=stream)]
resource.sleep(contents="drop")
buffers.pop(0).close()
try:
    pool.allocate(1000, stream=stream)
except ValueError as refusal:
    print(refusal)
resource.wake()
for buffer in buffers:
    buffer.close()
"""


def test_memory_that_sleeps_keeps_its_redzones(pm: Any) -> None:
    done = run(pm, SLEEPING)
    if not pm.Device(0).capabilities.virtual_memory:
        assert "no virtual memory" in done.stderr
        return
    assert (done.returncode, done.stdout) == (0, "the memory resource sleeps: wake() it first\n"), done.stderr
    assert "outside of an allocation" not in done.stderr
