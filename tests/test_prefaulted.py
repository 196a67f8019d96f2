"""Pinned memory of pages that were prefaulted: what is no promise of the contract."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.process import python_output

import portamem

MIB = 1 << 20


@pytest.fixture
def prefaulted(pm: ModuleType, device: Any) -> Any:
    with pm.PrefaultedPinnedMemoryResource(device) as resource:
        yield resource


def test_it_registers_where_the_capabilities_say_that_it_may(prefaulted: Any, device: Any) -> None:
    can = device.capabilities
    says = can.host_register, can.registered_pointer_is_device_pointer, can.pinned_coherent
    with prefaulted.allocate(MIB):
        assert prefaulted.registers == all(bool(each) for each in says)


def test_it_is_page_locked_and_shared(pm: ModuleType, prefaulted: Any, device_resource: Any, stream: Any) -> None:
    nbytes = 5 * MIB + 3
    with prefaulted.allocate(nbytes, stream=stream) as pinned, device_resource.allocate(nbytes) as device_memory:
        info = pm.pointer_info(pinned.handle)
        assert info.kind == "host"
        assert info.device_pointer == pinned.handle
        array = np.asarray(pinned)
        wanted = np.arange(nbytes, dtype=np.uint32).astype(np.uint8)
        array[:] = wanted
        device_memory.copy_from(pinned, stream=stream)
        stream.synchronize()
        array[:] = 0
        pinned.copy_from(device_memory, stream=stream)
        stream.synchronize()
        assert np.array_equal(array, wanted)
        del array
    assert prefaulted.live_bytes == 0


def test_new_memory_is_zero(prefaulted: Any) -> None:
    if not prefaulted.registers:
        pytest.skip("HostMalloc promises nothing of what is in its memory")
    for _ in range(3):
        with prefaulted.allocate("3 MiB") as buf:
            array = np.asarray(buf)
            assert not array.any()
            array[:] = 1
            del array


def test_it_is_listed(pm: ModuleType, prefaulted: Any) -> None:
    assert isinstance(prefaulted, portamem.PrefaultedPinnedMemoryResource)
    assert isinstance(prefaulted, portamem.MemoryResource)
    assert prefaulted.kind == "pinned"
    assert prefaulted.device_id == -1


@pytest.mark.host_only
def test_a_runtime_that_registers_nothing_has_its_own_memory_used(knobs: Any, prefaulted: Any) -> None:
    knobs.fail_call("HostRegister", 1, 801)
    buffers = [prefaulted.allocate(nbytes) for nbytes in ("1 MiB", "2 MiB", "4 MiB", "8 MiB", "3 MiB")]
    assert not prefaulted.registers
    for buf in buffers:
        array = np.asarray(buf)
        array[:] = 7
        assert int(array.sum()) == 7 * buf.nbytes
        del array
        buf.close()


def test_exit_with_memory_out(pm: ModuleType) -> None:
    """The process ends well with registered memory out, and with memory of HostMalloc."""
    code = f"""
        import portamem.{pm.backend} as pm
        resource = pm.PrefaultedPinnedMemoryResource(0)
        buffers = [resource.allocate(n << 20) for n in (4, 8)]
        if pm.backend == "host":
            pm.knobs.fail_call("HostRegister", 1, 801)
        buffers += [resource.allocate(n << 20) for n in (16, 32, 64)]
        print("done")
    """
    assert python_output(code) == "done\n"


def test_a_pool_over_it(pm: ModuleType, prefaulted: Any, stream: Any) -> None:
    """Blocks that a pool cuts from its chunks: the host's and the device's, and reused when work has run."""
    with pm.PoolMemoryResource(prefaulted) as pool:
        for turn in range(3):
            buffers = [pool.allocate(nbytes, stream=stream) for nbytes in (100, 4096, MIB, 3 * MIB)]
            for buf in buffers:
                buf.fill(turn + 1, stream=stream)
            stream.synchronize()
            for buf in buffers:
                array = np.asarray(buf)
                assert (array == turn + 1).all()
                del array
                buf.close()
        assert prefaulted.live_buffers > 0
        pool.trim()
    assert prefaulted.live_buffers == 0


@pytest.mark.host_only
def test_a_pool_over_plain_pinned_memory_has_the_same_pages(
    pm: ModuleType, device: Any, knobs: Any, stream: Any
) -> None:
    with pm.PinnedMemoryResource(device) as pinned, pm.PoolMemoryResource(pm.StatisticsAdaptor(pinned)) as pool:
        knobs.fail_call("HostMalloc", 1, 999)
        with pool.allocate("3 MiB", stream=stream) as buf:
            array = np.asarray(buf)
            array[:] = 7
            assert int(array.sum()) == 7 * buf.nbytes
            assert pm.pointer_info(buf.handle).kind == "host"
            del array
        with pytest.raises(portamem.Error):
            pinned.allocate("3 MiB")  # a call of the runtime each time, and the first one of HostMalloc


def test_a_forked_child_reads_what_is_in_a_pools_chunk_and_the_parents_pages_stay_the_devices(
    pm: ModuleType, device: Any
) -> None:
    code = f"""
        import os, platform, warnings
        import numpy as np
        import portamem.{pm.backend} as pm

        warnings.simplefilter("ignore")  # that the process has threads
        device, nbytes = pm.Device(0), 4 << 20
        stream = pm.Stream(device)
        pool = pm.PoolMemoryResource(pm.PinnedMemoryResource(device))
        buf, there = pool.allocate(nbytes, stream=stream), pm.DeviceMemoryResource(device).allocate(nbytes)
        buf.fill(7, stream=stream)
        stream.synchronize()
        seen = np.asarray(buf)
        child = os.fork()
        if child == 0:
            os._exit(0 if (seen == 7).all() else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen[:] = 9
        there.copy_from(buf, stream=stream)
        buf.fill(5, stream=stream)
        stream.synchronize()
        is_written_by_the_device = bool((seen == 5).all())
        buf.copy_from(there, stream=stream)
        stream.synchronize()
        release = tuple(int(part) for part in platform.release().split(".")[:2])
        print(is_written_by_the_device, bool((seen == 9).all()), status, release >= (5, 12))
    """
    of_the_device, of_the_host, status, is_copied = python_output(code).split()
    assert (of_the_device, of_the_host) == ("True", "True")
    can = device.capabilities
    if can.host_register and can.registered_pointer_is_device_pointer and can.pinned_coherent:
        assert int(status) == 0 or is_copied == "False"
