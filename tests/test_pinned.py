"""Page-locked host memory and its options."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import pattern, read_back, write


@pytest.mark.parametrize(("portable", "mapped", "write_combined"), list(itertools.product([False, True], repeat=3)))
def test_every_flag(pm: ModuleType, device: Any, portable: bool, mapped: bool, write_combined: bool) -> None:
    data = pattern(4096)
    with (
        pm.PinnedMemoryResource(device, portable=portable, mapped=mapped, write_combined=write_combined) as resource,
        resource.allocate(4096) as buf,
    ):
        write(pm, buf, data)
        assert read_back(pm, buf) == data
        assert bytes(memoryview(buf)) == data
        assert buf.device_id == -1
        flags = pm.pointer_info(buf).flags
        assert bool(flags & 4) == write_combined
        # CUDA takes small pieces out of a larger block and tells the block's flags; with unified addressing all pinned
        # memory is portable and mapped. So these two are seen by what every device does with the memory.
        for each in pm.devices():
            with pm.DeviceMemoryResource(each) as on_device, on_device.allocate(4096) as far:
                far.copy_from(buf)
                buf.fill(0)
                far.copy_to(buf)
                assert bytes(memoryview(buf)) == data


@pytest.mark.parametrize(
    ("asked", "got"), [("default", "coherent"), ("coherent", "coherent"), ("non_coherent", "non_coherent")]
)
def test_coherence(pm: ModuleType, device: Any, asked: str, got: str) -> None:
    """Pinned memory is coherent unless it is asked not to be: also on HIP, where some flags alone would change that."""
    with pm.PinnedMemoryResource(device, coherence=asked) as resource, resource.allocate(4096) as buf:
        assert resource.coherence in (asked, got)
        buf.fill(1)
        assert bytes(memoryview(buf)) == b"\x01" * 4096


@pytest.mark.parametrize("wrong", ["fine_grained", "uncached", "sometimes"])
def test_coherence_that_pinned_memory_has_not(pm: ModuleType, device: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match="non_coherent"):
        pm.PinnedMemoryResource(device, coherence=wrong)


def test_device_coherence(pm: ModuleType, device: Any) -> None:
    with pytest.raises(ValueError, match="fine_grained"):
        pm.DeviceMemoryResource(device, coherence="non_coherent")
    with pm.DeviceMemoryResource(device, coherence="default") as resource:
        assert resource.coherence == "default"


def test_the_device_reaches_it(pm: ModuleType, pinned_resource: Any) -> None:
    with pinned_resource.allocate(4096) as buf:
        info = pm.pointer_info(buf)
        assert info.kind == "host"
        assert info.host_pointer == buf.handle
        assert info.device_pointer
        assert buf.is_device_accessible


def test_it_is_aligned(pinned_resource: Any) -> None:
    """Not to pages: CUDA puts several small pieces into one."""
    with pinned_resource.allocate(100) as first, pinned_resource.allocate(100) as second:
        assert first.handle % 256 == second.handle % 256 == 0
