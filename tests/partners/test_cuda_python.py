"""Memory, pools and streams of cuda-python in portamem, and portamem's in cuda-python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import MIB, pattern, read_back, write
from helpers.partners import check

import portamem
from portamem.conformance.witness import Witness

NBYTES = 100_000


@pytest.mark.parametrize("options", [{}, {"write_combined": True}, {"portable": False}, {"mapped": False}])
def test_flags_of_pinned_memory(pm: ModuleType, runtime: ModuleType, device: Any, options: dict[str, bool]) -> None:
    asked = {"portable": True, "mapped": True, "write_combined": False, **options}
    with pm.PinnedMemoryResource(device, **asked) as resource, resource.allocate(4096) as buf:
        flags = check(runtime.cudaHostGetFlags(buf.handle))
        assert pm.pointer_info(buf).flags == flags
        assert flags & runtime.cudaHostAllocPortable or not asked["portable"]
        assert flags & runtime.cudaHostAllocMapped or not asked["mapped"]
        assert bool(flags & runtime.cudaHostAllocWriteCombined) == asked["write_combined"]


def test_registered_memory_is_reached_at_their_address(runtime: ModuleType, make_memory: Callable[[str], Any]) -> None:
    memory = make_memory("registered")
    assert memory.device_handle == check(runtime.cudaHostGetDevicePointer(memory.handle, 0))


def test_a_pool_of_theirs(pm: ModuleType, runtime: ModuleType, device: Any, stream: Any, witness: Witness) -> None:
    properties = runtime.cudaMemPoolProps()
    properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
    properties.location.id = device.ordinal
    theirs = check(runtime.cudaMemPoolCreate(properties))
    try:
        with pm.AsyncMemoryResource.from_handle(int(theirs), device, owner=theirs) as ours:
            with ours.allocate(MIB, stream=stream) as buf:
                write(pm, buf, pattern(MIB))
                assert ours.used == witness.pool_attribute(int(theirs), "used_current") >= MIB
                assert read_back(pm, buf) == pattern(MIB)
            stream.synchronize()
        attribute = runtime.cudaMemPoolAttr.cudaMemPoolAttrUsedMemCurrent
        assert int(check(runtime.cudaMemPoolGetAttribute(theirs, attribute))) == 0
    finally:
        check(runtime.cudaMemPoolDestroy(theirs))


@pytest.mark.parametrize("nonblocking", [False, True])
def test_our_streams_as_they_see_them(pm: ModuleType, runtime: ModuleType, device: Any, nonblocking: bool) -> None:
    least, greatest = check(runtime.cudaDeviceGetStreamPriorityRange())
    assert device.stream_priority_range == (least, greatest)
    for priority in {least, greatest}:
        with pm.Stream(device, nonblocking=nonblocking, priority=priority) as ours:
            flags = check(runtime.cudaStreamGetFlags(ours.handle))
            assert bool(flags & runtime.cudaStreamNonBlocking) == nonblocking == ours.is_nonblocking
            assert check(runtime.cudaStreamGetPriority(ours.handle)) == priority == ours.priority
            assert int(runtime.cudaStreamQuery(ours.handle)[0]) == 0


@pytest.mark.parametrize("nonblocking", [False, True])
def test_their_streams_as_we_see_them(pm: ModuleType, runtime: ModuleType, device: Any, nonblocking: bool) -> None:
    for priority in set(check(runtime.cudaDeviceGetStreamPriorityRange())):
        flags = runtime.cudaStreamNonBlocking if nonblocking else runtime.cudaStreamDefault
        theirs = check(runtime.cudaStreamCreateWithPriority(flags, priority))
        try:
            with pm.Stream.from_handle(int(theirs), device=device, owner=theirs) as ours:
                assert (ours.is_nonblocking, ours.priority) == (nonblocking, priority)
                assert ours.device == device
                assert not ours.is_default
                assert ours.query()
            check(runtime.cudaStreamSynchronize(theirs))  # closing ours left theirs alone
        finally:
            check(runtime.cudaStreamDestroy(theirs))


def device_attribute(runtime: ModuleType, device: Any, name: str) -> int:
    return int(check(runtime.cudaDeviceGetAttribute(getattr(runtime.cudaDeviceAttr, name), device.ordinal)))


def test_figures_of_the_device(runtime: ModuleType, device: Any) -> None:
    able = device.capabilities
    assert able.multi_processor_count == device_attribute(runtime, device, "cudaDevAttrMultiProcessorCount")
    assert able.warp_size == device_attribute(runtime, device, "cudaDevAttrWarpSize")
    names = ("cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor")
    major, minor = (device_attribute(runtime, device, name) for name in names)
    assert able.compute_capability == (major, minor)
    assert device.arch == f"sm_{major}{minor}"
    managed = device_attribute(runtime, device, "cudaDevAttrManagedMemory")
    assert (able.managed_mode != "none") == bool(managed)


def test_identity_of_the_device(runtime: ModuleType, driver: ModuleType, device: Any) -> None:
    """The uuid is the driver's: of the slice under MIG, where the runtime's properties may name the card."""
    uuid = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)(check(driver.cuDeviceGet(device.ordinal)))
    assert device.uuid.replace("-", "") == bytes(check(uuid).bytes).hex()
    properties = check(runtime.cudaGetDeviceProperties(device.ordinal))
    assert device.name == properties.name.split(b"\0")[0].decode()
    address = check(runtime.cudaDeviceGetPCIBusId(32, device.ordinal)).split(b"\0")[0].decode()
    assert device.pci_bus_id == address.lower()


def test_count_and_driver_version(pm: ModuleType, runtime: ModuleType) -> None:
    assert pm.device_count() == check(runtime.cudaGetDeviceCount())
    assert pm.driver_version() == check(runtime.cudaDriverGetVersion())


def test_they_read_what_we_wrote(pm: ModuleType, runtime: ModuleType, memory: Any) -> None:
    data = pattern(memory.nbytes, 1)
    write(pm, memory.object, data)
    out = np.zeros(memory.nbytes, np.uint8)
    kind = runtime.cudaMemcpyKind.cudaMemcpyDefault
    check(runtime.cudaMemcpy(out.ctypes.data, memory.handle, memory.nbytes, kind))
    assert out.tobytes() == data


def test_we_read_what_they_wrote(pm: ModuleType, runtime: ModuleType, memory: Any) -> None:
    data = np.frombuffer(pattern(memory.nbytes, 2), np.uint8)
    kind = runtime.cudaMemcpyKind.cudaMemcpyDefault
    check(runtime.cudaMemcpy(memory.handle, data.ctypes.data, memory.nbytes, kind))
    check(runtime.cudaDeviceSynchronize())
    assert read_back(pm, memory.object) == data.tobytes()


def test_rows_of_pitched_memory(pm: ModuleType, runtime: ModuleType, device_resource: Any) -> None:
    width, height = 1000, 50
    data = np.frombuffer(pattern(width * height, 3), np.uint8)
    out = np.zeros(width * height, np.uint8)
    with device_resource.allocate_pitched(width, height) as buf:
        pm.copy_2d(buf, data)
        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(runtime.cudaMemcpy2D(out.ctypes.data, width, buf.handle, buf.pitch, width, height, kind))
    assert out.tobytes() == data.tobytes()


def _their_pitched(runtime: ModuleType) -> int:
    return int(check(runtime.cudaMallocPitch(1000, 100))[0])


THEIRS: dict[str, tuple[Callable[[ModuleType], Any], str, str, bool]] = {
    "malloc": (lambda rt: check(rt.cudaMalloc(NBYTES)), "cudaFree", "device", False),
    "pitched": (_their_pitched, "cudaFree", "device", False),
    "managed": (lambda rt: check(rt.cudaMallocManaged(NBYTES, rt.cudaMemAttachGlobal)), "cudaFree", "managed", True),
    "host": (lambda rt: check(rt.cudaHostAlloc(NBYTES, rt.cudaHostAllocDefault)), "cudaFreeHost", "host", True),
    "async": (lambda rt: check(rt.cudaMallocAsync(NBYTES, 0)), "cudaFree", "device", False),
}


@contextmanager
def their_memory(runtime: ModuleType, name: str) -> Iterator[int]:
    make, free, _, _ = THEIRS[name]
    address = int(make(runtime))
    check(runtime.cudaDeviceSynchronize())
    try:
        yield address
    finally:
        check(runtime.cudaDeviceSynchronize())
        check(getattr(runtime, free)(address))


@pytest.mark.parametrize("name", THEIRS)
def test_their_memory_as_a_buffer(pm: ModuleType, runtime: ModuleType, device: Any, stream: Any, name: str) -> None:
    _, _, kind, is_host_accessible = THEIRS[name]
    held = pm.held(device), pm.held("host")
    with their_memory(runtime, name) as address, pm.Buffer.from_handle(address, NBYTES) as buf:
        assert pm.pointer_info(buf).kind == kind
        assert buf.kind == "foreign"
        assert buf.is_host_accessible == is_host_accessible
        assert buf.is_device_accessible
        assert buf.device == device
        assert (buf.device_id == -1) == (kind == "host")
        assert (pm.held(device), pm.held("host")) == held
        data = pattern(NBYTES, 4)
        write(pm, buf, data)
        out = np.zeros(NBYTES, np.uint8)
        check(runtime.cudaMemcpy(out.ctypes.data, address, NBYTES, runtime.cudaMemcpyKind.cudaMemcpyDefault))
        assert out.tobytes() == data
        buf.fill(0x5A, stream=stream)
        stream.synchronize()
        assert read_back(pm, buf) == b"\x5a" * NBYTES
        if is_host_accessible:
            assert bytes(memoryview(buf)) == b"\x5a" * NBYTES


def test_closing_our_buffer_leaves_their_memory(pm: ModuleType, runtime: ModuleType) -> None:
    with their_memory(runtime, "malloc") as address:
        pm.Buffer.from_handle(address, NBYTES).close()
        assert pm.pointer_info(address).kind == "device"
        check(runtime.cudaMemset(address, 1, NBYTES))


def test_registered_by_them(pm: ModuleType, runtime: ModuleType, stream: Any, device_resource: Any) -> None:
    array = np.frombuffer(pattern(NBYTES, 5), np.uint8).copy()
    check(runtime.cudaHostRegister(array.ctypes.data, NBYTES, runtime.cudaHostRegisterMapped))
    try:
        assert pm.pointer_info(array.ctypes.data).kind == "host"
        with pytest.raises(portamem.Error, match="HostMemoryAlreadyRegistered"):
            pm.HostRegistration(array)
        with device_resource.allocate(NBYTES) as buf:
            source = pm.Buffer.from_handle(array.ctypes.data, NBYTES, owner=array)
            buf.copy_from(source, stream=stream).synchronize()
            assert read_back(pm, buf) == array.tobytes()
            source.close()
    finally:
        check(runtime.cudaHostUnregister(array.ctypes.data))
