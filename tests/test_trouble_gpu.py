"""Trouble with a device that is there: masks that hide it, memory that is nearly full, and others who hold some of it.

Masks are set in child processes, whose runtimes read them. What needs a real GPU is skipped without one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers import backend
from helpers.memory import MIB, allocate, read_back
from helpers.process import TIMEOUT_S, cli, run_python
from helpers.standin import reason_of
from helpers.waiting import eventually

import portamem
from portamem import _machine

GIB = 1 << 30
NOISE = 256 * MIB
"""Bytes that contexts and other users of the device may take or give back meanwhile."""


@pytest.fixture
def gpu(pm: ModuleType) -> ModuleType:
    """The backend under test, on a real GPU."""
    if pm.backend == "host":
        pytest.skip("concerns a real GPU")
    return pm


@pytest.fixture
def kernel_driver(gpu: ModuleType) -> None:
    """The GPU's driver, which the reasons look for, and which counts the memory of all processes."""
    if backend.is_simulated():
        pytest.skip("a stand-in has no driver behind it")


@pytest.fixture
def vendor(gpu: ModuleType) -> str:
    """The vendor whose driver serves the backend: HIP may stand on CUDA's."""
    return backend.driver()


@pytest.fixture(params=["first", "second"])
def mask(request: pytest.FixtureRequest, vendor: str) -> str:
    """The variables that hide devices from a runtime. CUDA has one of them, HIP one for each of its two layers."""
    names = {"cuda": ["CUDA_VISIBLE_DEVICES"], "hip": ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]}[vendor]
    if request.param == "second" and len(names) == 1:
        pytest.skip(f"{vendor} has one mask")
    return names[request.param == "second"]


def uuid_of_first(pm: ModuleType, vendor: str) -> str:
    """The uuid of device 0 as a mask spells it."""
    if vendor == "cuda":
        return f"GPU-{pm.Device(0).uuid}"
    known = _machine.uuids("hip")
    if len(known) != 1:
        pytest.skip("which of the uuids is device 0's is not known")
    return known[0]


def is_uuid(value: str) -> bool:
    return value.startswith("GPU-")


@pytest.mark.usefixtures("kernel_driver")
@pytest.mark.parametrize("value", ["-1", "4096", "none", "GPU-00000000-dead-beef-0000-000000000000"])
def test_a_mask_that_hides_every_device(gpu: ModuleType, mask: str, value: str) -> None:
    if is_uuid(value) and mask == "HIP_VISIBLE_DEVICES" and gpu.compiled_version() < 60_000_000:
        pytest.skip("HIP knows uuids since 6.0")
    reason = reason_of(gpu.backend, **{mask: value})
    assert reason["code"] == "hidden_by_mask"
    assert f"{mask}={value}" in reason["text"]
    assert mask in reason["fix"]


@pytest.mark.usefixtures("kernel_driver")
def test_an_empty_mask(gpu: ModuleType, vendor: str) -> None:
    name = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "ROCR_VISIBLE_DEVICES"}[vendor]
    reason = reason_of(gpu.backend, **{name: ""})
    assert reason["code"] == "hidden_by_mask"
    assert "it is empty" in reason["text"]


@pytest.mark.parametrize("value", ["0", "0,4096", "uuid", "uuid prefix", "UUID PREFIX"])
def test_a_mask_that_leaves_the_first_device(gpu: ModuleType, vendor: str, mask: str, value: str) -> None:
    """The runtime does with a mask what portamem says of it."""
    if os.environ.get(mask):
        pytest.skip(f"{mask} is set here: device 0 is counted in what it leaves")
    if value.lower().startswith("uuid"):
        if mask == "HIP_VISIBLE_DEVICES" and gpu.compiled_version() < 60_000_000:
            pytest.skip("HIP knows uuids since 6.0")
        text = uuid_of_first(gpu, vendor)
        text = text if value == "uuid" else text[: len("GPU-") + 8]
        value = text if value.islower() or text == value else f"GPU-{text[4:].upper()}"
    code = f"""
        import portamem, portamem.{gpu.backend} as pm
        print(pm.device_count(), pm.Device(0).uuid if pm.device_count() else portamem.backends()[pm.backend].reason)
    """
    done = run_python(code, **{mask: value})
    assert done.returncode == 0, done.stderr
    count, _, rest = done.stdout.strip().partition(" ")
    if count == "0":
        # Some runtimes are strict about the spelling of a uuid: then it hides, and is said to.
        assert "hidden_by_mask" in rest
        assert is_uuid(value)
        return
    assert (count, rest) == ("1", gpu.Device(0).uuid)


@pytest.mark.usefixtures("kernel_driver")
def test_everything_says_that_a_mask_hides(gpu: ModuleType, vendor: str) -> None:
    """The plain names warn and take the CPU, the command line tells it, and a requirement makes it an error."""
    masked: dict[str, Any] = {
        {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "ROCR_VISIBLE_DEVICES"}[vendor]: "-1",
        **dict.fromkeys(("PORTAMEM_BACKEND", "PORTAMEM_REQUIRE", "PORTAMEM_TEST_BACKEND")),
    }
    choose = "import portamem; print(portamem.Device().backend)"
    done = run_python(choose, **masked)
    assert done.stdout == "host\n", done.stderr
    assert "this machine shows a GPU" in done.stderr
    assert "hidden_by_mask" in done.stderr
    done = run_python(choose, **{**masked, "PORTAMEM_REQUIRE": gpu.backend})
    assert done.returncode == 1
    assert "hidden_by_mask" in done.stderr
    done = cli("info", **masked)
    assert done.returncode == 0
    assert "hidden_by_mask" in done.stdout
    assert cli("info", **{**masked, "PORTAMEM_REQUIRE": "gpu"}).returncode == 1


# Memory. These run on every backend: the CPU's devices have a capacity too.


@pytest.fixture
def spare(device: Any) -> int:
    """The bytes that "nearly full" leaves: 1 GiB, or less on a small device."""
    free = int(device.memory_info().free)
    return min(GIB, free // 8)


def test_memory_that_is_nearly_full(pm: ModuleType, device: Any, device_resource: Any, spare: int) -> None:
    """One buffer takes all but a spare part; twice that part is refused with the figures, and a part of it is given."""
    before = device.memory_info()
    filled = before.free - spare
    if filled <= 0:
        pytest.skip("the device is full already")
    with device_resource.allocate(filled) as held:
        during = device.memory_info()
        assert during.held == before.held + filled
        assert during.free <= spare + NOISE
        with pytest.raises(portamem.OutOfMemoryError) as caught:
            device_resource.allocate(2 * spare + NOISE)
        error = caught.value
        assert error.asked == 2 * spare + NOISE
        assert error.free is not None
        assert error.used is not None
        assert error.used_by_others is not None
        assert error.free <= spare + NOISE
        assert error.used == during.held
        assert abs(during.total - error.free - error.used - error.used_by_others) <= NOISE
        text = str(error)
        for words in ("asked for", "free", "buffers hold", "used by others", "close buffers"):
            assert words in text
        # It was refused, and nothing is broken: what there is still works, at both ends of the large buffer.
        with allocate(device_resource, spare // 4) as small:
            small.fill(3)
            assert read_back(pm, small[:MIB]) == b"\x03" * MIB
        for part in (held[:MIB], held[filled - MIB :]):
            part.fill(7)
            assert read_back(pm, part) == b"\x07" * MIB
            part.close()
    assert eventually(lambda: device.memory_info().free >= before.free - NOISE)
    with device_resource.allocate(2 * spare) as again:
        again[:MIB].fill(1)


def fill_with_marks(pool: Any, stream: Any, wanted: int) -> list[tuple[Any, int]]:
    """Blocks of all sizes until `wanted` bytes are out, each with its number at both ends."""
    blocks: list[tuple[Any, int]] = []
    sizes = random.Random(3)
    largest, out = GIB, 0
    while out < wanted:
        nbytes = min(sizes.choice((256 << 10, 5 * MIB, 64 * MIB, GIB)), largest) + 256 * sizes.randrange(99)
        try:
            block = pool.allocate(nbytes, stream=stream)
        except portamem.OutOfMemoryError:
            if largest < MIB:
                break
            largest //= 2
            continue
        number = len(blocks) % 251
        for end in (block[: 64 << 10], block[nbytes - (64 << 10) :]):
            end.fill(number, stream=stream)
            end.close()
        blocks.append((block, number))
        out += nbytes
    return blocks


def test_a_pool_fills_the_device_and_gives_it_back(pm: ModuleType, device: Any, stream: Any) -> None:
    """The pool fills 95 %, frees every second block, runs out of memory in words, frees all and trims: within 2 MiB of
    before."""
    with pm.PoolMemoryResource(pm.DeviceMemoryResource(0)) as pool:
        pool.allocate(GIB // 4, stream=stream).close()  # memory that the driver sets up once is no loss
        pool.trim()
        free = int(device.memory_info().free)
        blocks = fill_with_marks(pool, stream, free * 95 // 100)
        assert sum(block.nbytes for block, _ in blocks) >= free * 95 // 100
        assert device.memory_info().free <= free * 6 // 100
        for block, number in blocks:
            for start in (0, block.nbytes - (64 << 10)):
                with block[start : start + (64 << 10)] as end:
                    assert read_back(pm, end) == bytes([number]) * (64 << 10)
        for block, _ in blocks[::2]:
            block.close()
        del block
        stats = pool.stats()
        assert stats.free_blocks > 1
        assert 0 < stats.largest_free < stats.reserved
        with pytest.raises(portamem.OutOfMemoryError) as caught:
            pool.allocate(free * 9 // 10, stream=stream)
        for words in (f"the pool was asked for {free * 9 // 10} bytes", " cached", "the largest free block has"):
            assert words in str(caught.value)
        while blocks:
            blocks.pop()[0].close()
        assert (pool.live_buffers, pool.live_bytes) == (0, 0)
        pool.trim()
        assert pool.stats().reserved == 0
        assert abs(free - device.memory_info().free) <= 2 * MIB


HOLDER = """
import sys
import portamem
pm = getattr(portamem, sys.argv[1])
buffer = pm.DeviceMemoryResource(0).allocate(int(sys.argv[2]))
buffer.fill(1)
print(pm.Device(0).memory_info().held, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(gpu: ModuleType, kernel_driver: None) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds 1 GiB of device 0 from its first line on until its input ends."""
    command = [sys.executable, "-c", HOLDER, gpu.backend, str(GIB)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        yield process
        process.kill()


def test_memory_that_another_process_holds(
    gpu: ModuleType, device: Any, device_resource: Any, request: pytest.FixtureRequest
) -> None:
    """It is missing from what is free, it is not ours, and the error names it."""
    with device_resource.allocate(MIB):
        before = device.memory_info()
        if before.free < 4 * GIB:
            pytest.skip("the device is too full")
        holder = request.getfixturevalue("holder")
        assert int(holder.stdout.readline()) == GIB
        during = device.memory_info()
        assert during.held == before.held
        assert before.free - during.free >= GIB - NOISE
        with pytest.raises(portamem.OutOfMemoryError) as caught:
            device_resource.allocate(2 * during.total)
        assert caught.value.used_by_others is not None
        assert caught.value.used_by_others >= GIB - NOISE
        assert caught.value.used == before.held
        assert "used by others" in str(caught.value)
        holder.stdin.close()
        assert holder.wait(TIMEOUT_S) == 0
        assert eventually(lambda: device.memory_info().free >= before.free - NOISE, seconds=30)


def test_info_shows_what_others_hold(gpu: ModuleType, holder: subprocess.Popen[str]) -> None:
    assert holder.stdout is not None
    assert int(holder.stdout.readline()) == GIB
    done = cli("info", "--json", "--memory", PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    memory = json.loads(done.stdout)["backends"][gpu.backend]["devices"][0]["memory"]
    assert memory["total"] - memory["free"] >= GIB
    assert memory["held"] == 0
