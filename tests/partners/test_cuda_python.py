"""What the runtime says of memory, pools, limits, streams and devices: cuda-python and portamem agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import backend
from helpers.memory import MIB, pattern, read_back, write
from helpers.partners import check
from helpers.waiting import eventually

import portamem

NBYTES = 100_000


def kind_of(runtime: ModuleType, attributes: Any) -> str:
    types = runtime.cudaMemoryType
    return {
        types.cudaMemoryTypeUnregistered: "unregistered",
        types.cudaMemoryTypeHost: "host",
        types.cudaMemoryTypeDevice: "device",
        types.cudaMemoryTypeManaged: "managed",
    }[attributes.type]


def test_pointer_attributes(pm: ModuleType, runtime: ModuleType, memory: Any) -> None:
    for address in (memory.handle, memory.handle + 1, memory.handle + memory.nbytes - 1):
        theirs, ours = check(runtime.cudaPointerGetAttributes(address)), pm.pointer_info(address)
        assert ours.kind == kind_of(runtime, theirs) == memory.kind
        assert ours.device_id == (None if theirs.device == runtime.cudaInvalidDeviceId else theirs.device)
        assert (ours.device_pointer or 0) == int(theirs.devicePointer or 0)
        assert (ours.host_pointer or 0) == int(theirs.hostPointer or 0)


def test_address_ranges(pm: ModuleType, driver: ModuleType, memory: Any) -> None:
    for address in (memory.handle, memory.handle + memory.nbytes - 1):
        error, base, nbytes = driver.cuMemGetAddressRange(address)
        ours = pm.pointer_info(address)
        if int(error) != 0:
            assert (ours.base, ours.nbytes) == (None, None)
            continue
        assert (ours.base, ours.nbytes) == (int(base), int(nbytes))
        assert int(base) <= memory.base
        assert memory.handle + memory.nbytes <= int(base) + int(nbytes)


@pytest.mark.parametrize("kind", ["device", "managed"])
def test_device_memory_begins_where_the_driver_says(
    driver: ModuleType, make_memory: Callable[[str], Any], kind: str
) -> None:
    memory = make_memory(kind)
    base, nbytes = check(driver.cuMemGetAddressRange(memory.handle + 1))
    assert int(base) == memory.handle
    assert int(nbytes) >= memory.nbytes


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_after_a_free_neither_knows_it(
    pm: ModuleType, runtime: ModuleType, make_resource: Callable[[str], Any], kind: str
) -> None:
    with make_resource(kind).allocate(8 * MIB) as buf:
        address = buf.handle
    theirs = runtime.cudaPointerGetAttributes(address)
    assert pm.pointer_info(address).kind == "unregistered"
    assert int(theirs[0]) != 0 or kind_of(runtime, theirs[1]) == "unregistered"


def test_plain_host_memory(pm: ModuleType, runtime: ModuleType) -> None:
    array = np.zeros(16)
    theirs, ours = check(runtime.cudaPointerGetAttributes(array.ctypes.data)), pm.pointer_info(array.ctypes.data)
    assert ours.kind == kind_of(runtime, theirs) == "unregistered"
    assert ours.device_id is None
    assert (ours.device_pointer or 0) == int(theirs.devicePointer or 0)


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


def test_free_and_total(runtime: ModuleType, device: Any) -> None:
    """Others may take memory meanwhile, so that the two need to meet only once."""

    def agree() -> bool:
        ours = device.memory_info()
        return (ours.free, ours.total) == tuple(check(runtime.cudaMemGetInfo()))

    assert eventually(agree)


def test_each_sees_the_memory_that_the_other_takes(
    pm: ModuleType, runtime: ModuleType, device: Any, device_resource: Any
) -> None:
    taken = 256 * MIB
    slack = 64 * MIB  # of other users of the card
    before = check(runtime.cudaMemGetInfo())[0]
    with device_resource.allocate(taken):
        assert check(runtime.cudaMemGetInfo())[0] <= before - taken + slack
    before, held = device.memory_info().free, pm.held(device)
    theirs = check(runtime.cudaMalloc(taken))
    try:
        assert device.memory_info().free <= before - taken + slack
        assert pm.held(device) == held, "held is what portamem's own resources have out"
    finally:
        check(runtime.cudaFree(theirs))


POOL = {
    "used": "cudaMemPoolAttrUsedMemCurrent",
    "used_high": "cudaMemPoolAttrUsedMemHigh",
    "reserved": "cudaMemPoolAttrReservedMemCurrent",
    "reserved_high": "cudaMemPoolAttrReservedMemHigh",
    "release_threshold": "cudaMemPoolAttrReleaseThreshold",
    "reuse_follow_event_dependencies": "cudaMemPoolReuseFollowEventDependencies",
    "reuse_allow_opportunistic": "cudaMemPoolReuseAllowOpportunistic",
    "reuse_allow_internal_dependencies": "cudaMemPoolReuseAllowInternalDependencies",
}


def pool_attribute(runtime: ModuleType, pool: Any, name: str) -> int:
    attribute = getattr(runtime.cudaMemPoolAttr, POOL[name])
    return int(check(runtime.cudaMemPoolGetAttribute(pool.pool_handle, attribute)))


def assert_pools_agree(runtime: ModuleType, pool: Any) -> None:
    ours = {name: int(getattr(pool, name)) for name in POOL}
    assert ours == {name: pool_attribute(runtime, pool, name) for name in POOL}


@pytest.mark.parametrize("name", ["async", "async-default_pool"])
def test_pools(runtime: ModuleType, stream: Any, make_resource: Callable[[str], Any], name: str) -> None:
    pool = make_resource(name)
    assert_pools_agree(runtime, pool)
    first, second = pool.allocate(3 * MIB, stream=stream), pool.allocate(MIB, stream=stream)
    assert_pools_agree(runtime, pool)
    assert pool_attribute(runtime, pool, "used") >= 4 * MIB
    first.close(stream=stream)
    stream.synchronize()
    assert_pools_agree(runtime, pool)
    assert pool_attribute(runtime, pool, "used_high") >= pool_attribute(runtime, pool, "used") + 3 * MIB
    pool.reset_high()
    assert_pools_agree(runtime, pool)
    assert pool_attribute(runtime, pool, "used_high") == pool_attribute(runtime, pool, "used")
    second.close(stream=stream)
    stream.synchronize()
    pool.trim()
    assert_pools_agree(runtime, pool)


def test_settings_of_a_pool_made_by_either(runtime: ModuleType, driver: ModuleType, pool: Any) -> None:
    for nbytes in (0, 5 * MIB, 2**64 - 1):
        pool.release_threshold = nbytes
        assert pool_attribute(runtime, pool, "release_threshold") == nbytes
        attribute = runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
        check(runtime.cudaMemPoolSetAttribute(pool.pool_handle, attribute, driver.cuuint64_t(nbytes // 2)))
        assert pool.release_threshold == nbytes // 2
    for name in ("follow_event_dependencies", "allow_opportunistic", "allow_internal_dependencies"):
        for on in (False, True):
            setattr(pool, f"reuse_{name}", on)
            assert pool_attribute(runtime, pool, f"reuse_{name}") == on
            attribute = getattr(runtime.cudaMemPoolAttr, POOL[f"reuse_{name}"])
            check(runtime.cudaMemPoolSetAttribute(pool.pool_handle, attribute, int(not on)))
            assert getattr(pool, f"reuse_{name}") is not on


def test_the_default_pool_is_the_drivers(pm: ModuleType, runtime: ModuleType, device: Any) -> None:
    theirs = check(runtime.cudaDeviceGetDefaultMemPool(device.ordinal))
    with pm.AsyncMemoryResource.default_pool(device) as ours:
        assert ours.pool_handle == int(theirs)
        assert not ours.owns_pool


def test_a_pool_of_theirs(pm: ModuleType, runtime: ModuleType, device: Any, stream: Any) -> None:
    properties = runtime.cudaMemPoolProps()
    properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
    properties.location.id = device.ordinal
    theirs = check(runtime.cudaMemPoolCreate(properties))
    try:
        with pm.AsyncMemoryResource.from_handle(int(theirs), device, owner=theirs) as ours:
            with ours.allocate(MIB, stream=stream) as buf:
                write(pm, buf, pattern(MIB))
                assert_pools_agree(runtime, ours)
                assert pool_attribute(runtime, ours, "used") >= MIB
                assert read_back(pm, buf) == pattern(MIB)
            stream.synchronize()
        attribute = runtime.cudaMemPoolAttr.cudaMemPoolAttrUsedMemCurrent
        assert int(check(runtime.cudaMemPoolGetAttribute(theirs, attribute))) == 0
    finally:
        check(runtime.cudaMemPoolDestroy(theirs))


LIMITS = {
    "stack_size": "cudaLimitStackSize",
    "printf_fifo_size": "cudaLimitPrintfFifoSize",
    "malloc_heap_size": "cudaLimitMallocHeapSize",
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_set_by_either(runtime: ModuleType, device: Any, name: str) -> None:
    which = getattr(runtime.cudaLimit, LIMITS[name])
    before = device.limit(name)
    assert check(runtime.cudaDeviceGetLimit(which)) == before
    try:
        device.set_limit(name, before + 512)
    except portamem.Error as refused:  # a kernel that uses the heap has run in this process: its size is settled
        (error,) = runtime.cudaDeviceSetLimit(which, before + 512)
        assert refused.code == int(error)  # noqa: PT017
        return
    try:
        assert check(runtime.cudaDeviceGetLimit(which)) == device.limit(name) >= before + 512
        check(runtime.cudaDeviceSetLimit(which, before + 1024))
        assert check(runtime.cudaDeviceGetLimit(which)) == device.limit(name) >= before + 1024
    finally:
        device.set_limit(name, before)
    assert check(runtime.cudaDeviceGetLimit(which)) == before


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


FLAGS = {
    "memory_pools": "cudaDevAttrMemoryPoolsSupported",
    "concurrent_managed_access": "cudaDevAttrConcurrentManagedAccess",
    "pageable_memory_access": "cudaDevAttrPageableMemoryAccess",
    "uses_host_page_tables": "cudaDevAttrPageableMemoryAccessUsesHostPageTables",
    "integrated": "cudaDevAttrIntegrated",
    "host_register": "cudaDevAttrHostRegisterSupported",
    "registered_pointer_is_device_pointer": "cudaDevAttrCanUseHostPointerForRegisteredMem",
    "stream_priorities": "cudaDevAttrStreamPrioritiesSupported",
}


def device_attribute(runtime: ModuleType, device: Any, name: str) -> int:
    return int(check(runtime.cudaDeviceGetAttribute(getattr(runtime.cudaDeviceAttr, name), device.ordinal)))


@pytest.mark.parametrize("name", FLAGS)
def test_capabilities(runtime: ModuleType, device: Any, name: str) -> None:
    """HIP's headers do not know all of them on the NVIDIA platform: there a capability may be missing, never added."""
    ours, theirs = getattr(device.capabilities, name), bool(device_attribute(runtime, device, FLAGS[name]))
    if device.backend == backend.driver():
        assert ours == theirs
    else:
        assert theirs or not ours


def test_virtual_memory(driver: ModuleType, device: Any) -> None:
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    theirs = bool(check(driver.cuDeviceGetAttribute(attribute, device.ordinal)))
    assert theirs or not device.capabilities.virtual_memory
    assert device.backend != backend.driver() or device.capabilities.virtual_memory == theirs


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
