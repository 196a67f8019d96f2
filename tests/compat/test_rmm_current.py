# SPDX-License-Identifier: MIT
"""The current resource of a device, which is portamem's too, and RMM set up anew."""

from __future__ import annotations

import threading

import pytest


def test_the_resource_that_was_set_is_current(rmm, pm, device):
    mr = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(mr)
    assert rmm.mr.get_current_device_resource() is mr
    assert rmm.mr.get_per_device_resource(device.ordinal) is mr
    seen = []
    thread = threading.Thread(target=lambda: seen.append(rmm.mr.get_current_device_resource()))
    thread.start()
    thread.join()
    assert seen == [mr]


def test_portamem_allocates_from_it_too(rmm, pm, device):
    counted = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(counted)
    assert pm.default_resource(device) is counted.resource
    with pm.empty(100, "uint8", device=device):
        assert counted.allocation_counts.current_bytes == 100


def test_before_a_program_sets_one_it_is_portamems_default(rmm, pm, device):
    mr = rmm.mr.get_current_device_resource()
    assert mr.resource is pm.default_resource(device)
    assert rmm.mr.get_current_device_resource() is mr
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    assert (buffer.mr, buffer.tobytes()) == (mr, b"abc")


def test_a_scope_of_portamem_is_the_innermost(rmm, pm, device_resource):
    process = rmm.mr.CudaMemoryResource()
    rmm.mr.set_current_device_resource(process)
    with pm.using(device_resource):
        assert rmm.mr.get_current_device_resource().resource is device_resource
        buffer = rmm.DeviceBuffer(size=10)
        assert device_resource.live_bytes == 10
    assert rmm.mr.get_current_device_resource() is process
    assert buffer.mr.resource is device_resource
    mine = rmm.mr.ManagedMemoryResource()
    with pm.using(mine.resource):
        assert rmm.mr.get_current_device_resource() is mine


def test_what_portamem_sets_is_current_here(rmm, pm, device):
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    other = pm.ManagedMemoryResource(device)
    pm.set_default_resource(device, other)
    assert rmm.mr.get_current_device_resource().resource is other


def test_devices_have_resources_of_their_own(rmm, pm, two_devices):
    first, second = rmm.mr.CudaMemoryResource(), rmm.mr.DeviceMemoryResource(pm.DeviceMemoryResource(1))
    rmm.mr.set_per_device_resource(0, first)
    rmm.mr.set_per_device_resource(1, second)
    assert [rmm.mr.get_per_device_resource(i) for i in (0, 1)] == [first, second]
    buffer = rmm.DeviceBuffer(size=3, mr=second)
    buffer.copy_from_host(b"abc")
    assert buffer.tobytes() == b"abc"
    assert buffer.buffer.device_id == 1
    with pytest.raises(ValueError, match="device"):
        rmm.mr.set_per_device_resource(1, first)
    assert rmm.mr.get_per_device_resource(1) is second


def test_wrong_devices_and_resources(rmm):
    with pytest.raises(ValueError, match="no device 99"):
        rmm.mr.get_per_device_resource(99)
    with pytest.raises(ValueError, match="no device 99"):
        rmm.mr.set_per_device_resource(99, rmm.mr.CudaMemoryResource())
    for wrong in (None, "pool", rmm.mr.CudaMemoryResource):
        with pytest.raises(TypeError, match="`mr`"):
            rmm.mr.set_current_device_resource(wrong)


@pytest.mark.parametrize(("managed", "kind"), [(False, "device"), (True, "managed")])
def test_reinitialize(rmm, managed, kind):
    rmm.reinitialize(managed_memory=managed)
    mr = rmm.mr.get_current_device_resource()
    assert type(mr) is (rmm.mr.ManagedMemoryResource if managed else rmm.mr.CudaMemoryResource)
    assert mr.resource.kind == kind
    rmm.reinitialize(pool_allocator=True, managed_memory=managed, initial_pool_size="2kib", maximum_pool_size="1MiB")
    pool = rmm.mr.get_current_device_resource()
    assert type(pool) is rmm.mr.PoolMemoryResource
    assert 2048 <= pool.pool_size() <= pool.resource.limit == 1 << 20
    assert pool.resource.kind == kind
    assert rmm.is_initialized()


def test_memory_outlives_a_reinitialize(rmm):
    rmm.reinitialize(pool_allocator=True, initial_pool_size="1MiB")
    buffer = rmm.DeviceBuffer.to_device(b"kept")
    rmm.reinitialize()
    assert buffer.tobytes() == b"kept"
    assert type(rmm.DeviceBuffer(size=1).mr) is rmm.mr.CudaMemoryResource


def test_devices_that_are_not_named_get_portamems_default_back(rmm, pm, two_devices):
    rmm.reinitialize(devices=[0, 1], managed_memory=True)
    assert [pm.default_resource(i).kind for i in (0, 1)] == ["managed", "managed"]
    assert [rmm.mr.get_per_device_resource(i).resource.device_id for i in (0, 1)] == [0, 1]
    current = pm.Device().ordinal
    rmm.reinitialize(devices=1)
    assert [type(pm.default_resource(i)).__name__ for i in (0, 1)] == ["PoolMemoryResource", "DeviceMemoryResource"]
    assert pm.Device().ordinal == current
    rmm.reinitialize(devices=None)
    assert set(rmm.get_log_filenames()) == {0}


def test_a_reinitialize_that_fails_leaves_the_default(rmm, pm, device):
    rmm.reinitialize()
    with pytest.raises(RuntimeError, match="Initial pool size exceeds the maximum pool size"):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=2048, maximum_pool_size=1024)
    assert type(pm.default_resource(device)) is pm.PoolMemoryResource
    mr = rmm.mr.CudaMemoryResource()
    rmm.mr.set_current_device_resource(mr)
    with pytest.raises(ValueError, match="Could not parse '2k'"):
        rmm.reinitialize(pool_allocator=True, initial_pool_size="2k")
    assert rmm.mr.get_current_device_resource() is mr
    rmm.reinitialize(initial_pool_size="2k")  # said of no pool
    assert rmm.is_initialized()


def test_a_closed_resource_is_not_initialized(rmm):
    mr = rmm.mr.CudaMemoryResource()
    rmm.mr.set_current_device_resource(mr)
    mr.resource.close()
    assert not rmm.is_initialized()
    with pytest.raises(ValueError, match="closed"):
        rmm.DeviceBuffer(size=1)


def test_hooks_run_newest_first_until_they_are_forgotten(rmm):
    seen = []

    def add(value):
        seen.append(value)

    def last():
        seen.append("last")

    assert rmm.register_reinitialize_hook(add, 1) is add
    rmm.register_reinitialize_hook(last)
    rmm.register_reinitialize_hook(add, value=3)
    try:
        rmm.reinitialize()
        assert seen == [3, "last", 1]
        rmm.unregister_reinitialize_hook(add)
        rmm.reinitialize()
        assert seen == [3, "last", 1, "last"]
    finally:
        rmm.unregister_reinitialize_hook(add)
        rmm.unregister_reinitialize_hook(last)
    rmm.reinitialize()
    assert len(seen) == 4


def test_a_hook_may_register_and_free(rmm):
    rmm.reinitialize()
    kept = [rmm.DeviceBuffer(size=10)]
    mr = kept[0].mr

    def let_go():
        kept.clear()
        rmm.unregister_reinitialize_hook(let_go)

    rmm.register_reinitialize_hook(let_go)
    rmm.reinitialize()
    assert kept == []
    assert mr.resource.live_buffers == 0


def test_free_and_total_memory(rmm, device):
    rmm.reinitialize()
    free, total = rmm.mr.available_device_memory()
    assert 0 < free <= total == device.memory_info().total
    buffer = rmm.DeviceBuffer(size=1 << 24)
    assert rmm.mr.available_device_memory()[1] == total
    assert buffer.size == 1 << 24


def test_devices_as_programs_ask_for_them(rmm, pm, device):
    gpu = rmm._cuda.gpu
    assert gpu.getDevice() == pm.Device().ordinal
    assert gpu.getDeviceCount() == pm.device_count()
    assert gpu.deviceGetName(0) == device.name
    assert (gpu.driverGetVersion(), gpu.runtimeGetVersion()) == (pm.driver_version(), pm.runtime_version())
    gpu.setDevice(0)
    with pytest.raises(ValueError, match="no device 99"):
        gpu.setDevice(99)
