"""What a device says that it can do, held against what it does with memory."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import MIB, allocate, pattern, read_back, write
from helpers.process import cli, python_output

ANSWERS = (
    *("memory_pools", "concurrent_managed_access", "pageable_memory_access", "uses_host_page_tables"),
    *("direct_host_access", "integrated", "xnack", "pinned_coherent", "pinned_non_coherent", "host_register"),
    *("registered_pointer_is_device_pointer", "stream_priorities", "virtual_memory"),
    *("ipc_memory_handles", "ipc_event_handles"),
)
HANDLE_TYPES = {"posix_fd", "win32", "win32_kmt", "fabric"}


@pytest.fixture
def able(device: Any) -> Any:
    return device.capabilities


def plain_array(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Page-aligned memory of malloc, in pages of its own."""
    whole = np.zeros(nbytes + 8192, np.uint8)
    start = -whole.ctypes.data % 4096
    return whole[start : start + nbytes]


# ---- the record ----


def test_every_field_is_in_the_dict(device: Any) -> None:
    for record in (device.capabilities, device.probe()):
        names = {name for name in dir(record) if not name.startswith("_")} - {"as_dict"}
        assert set(record.as_dict()) == names
        for name, value in record.as_dict().items():
            assert getattr(record, name) == value
            assert f"{name}={value!r}" in repr(record)
        json.dumps(record.as_dict())


def test_answers_are_yes_no_or_unknown(device: Any, able: Any) -> None:
    table = able.as_dict()
    for name in ANSWERS:
        assert table[name] in (True, False, None), name
        assert table[name] is None or type(table[name]) is bool, name
    assert all(value in (True, False, None) for value in device.probe().as_dict().values())
    assert table["managed_mode"] in ("none", "host_resident", "migrating")
    assert table["malloc_heap_kind"] in ("limit", "initial", "none", None)
    for name in ("pool_handle_types", "virtual_memory_handle_types"):
        assert table[name] is None or set(table[name]) <= HANDLE_TYPES
    assert len(table["compute_capability"]) == 2
    assert table["multi_processor_count"] > 0
    assert table["warp_size"] > 0


def test_what_every_runtime_can_say_is_known(able: Any) -> None:
    for name in ("memory_pools", "pageable_memory_access", "integrated", "pinned_coherent", "pinned_non_coherent"):
        assert getattr(able, name) is not None
    assert able.malloc_heap_kind is not None


def test_fields_agree(pm: ModuleType, device: Any, able: Any) -> None:
    if able.managed_mode == "migrating":
        assert able.concurrent_managed_access
        assert not able.integrated
    if able.uses_host_page_tables:
        assert able.pageable_memory_access
    if able.xnack is not None:
        assert ("xnack+" in device.arch) == able.xnack
    else:
        assert "xnack" not in device.arch
    peers = [other for other in range(pm.device_count()) if device.can_access_peer(other)]
    assert able.peers == tuple(peers)
    assert device.ordinal not in able.peers


def test_granularity_divides(able: Any) -> None:
    if able.virtual_memory is False:
        assert able.virtual_memory_granularity is None
        assert able.virtual_memory_handle_types is None
    if able.virtual_memory:
        assert able.virtual_memory_granularity is not None
    if able.virtual_memory_granularity is not None:
        least, best = able.virtual_memory_granularity
        assert least >= 4096
        assert least & (least - 1) == 0
        assert best % least == 0


def test_the_record_is_read_beside_a_capture(device: Any, stream: Any) -> None:
    stream.begin_capture()
    assert device.capabilities.as_dict()
    assert device.quirks is not None
    assert stream.capture_status == "active"
    stream.end_capture()


# ---- each field against behaviour ----


def test_pageable_access_is_access(pm: ModuleType, device: Any, able: Any) -> None:
    """Where the device reaches memory of malloc, a resource says so, and a fill by the device arrives."""
    with pm.SystemMemoryResource(device) as resource:
        assert resource.is_device_accessible == bool(able.pageable_memory_access)
    array = plain_array(MIB)
    reach = pm.pointer_info(array.ctypes.data).device_pointer
    assert (reach is not None) == bool(able.pageable_memory_access)
    if not able.pageable_memory_access:
        pytest.skip(f"{device!r} does not reach memory of malloc")
    with pm.SystemMemoryResource(device) as resource, resource.allocate(MIB) as buf:
        buf.fill(7)
        assert ctypes.string_at(buf.handle, MIB) == b"\7" * MIB


def test_direct_host_access_is_access(device_resource: Any, pm: ModuleType, device: Any, able: Any) -> None:
    data = pattern(4096)
    with device_resource.allocate(4096) as buf:
        write(pm, buf, data)
        assert buf.is_host_accessible == bool(able.direct_host_access)
        if able.direct_host_access:
            with memoryview(buf) as seen:
                assert bytes(seen) == data
        else:
            with pytest.raises(BufferError):
                memoryview(buf)


def test_registered_pointers(pm: ModuleType, device: Any, able: Any) -> None:
    if able.host_register is False:
        pytest.skip(f"{device!r} registers nothing")
    array = plain_array(8192)
    with pm.HostRegistration(array, device=device) as registered:
        same = registered.device_handle == array.ctypes.data
        if able.registered_pointer_is_device_pointer is not None:
            assert same == able.registered_pointer_is_device_pointer
        probed = device.probe()
        assert probed.host_register is True
        assert probed.registered_pointer_is_device_pointer in (same, None)
        pm.copy(registered, bytes(range(256)) * 32)
        assert bytes(array) == bytes(range(256)) * 32


def test_a_non_coherent_kind_keeps_bytes_too(pm: ModuleType, device: Any, able: Any) -> None:
    assert able.pinned_coherent is not None
    for coherence in ("default", "coherent", "non_coherent"):
        with pm.PinnedMemoryResource(device, coherence=coherence) as resource, resource.allocate(4096) as buf:
            write(pm, buf, pattern(4096))
            assert read_back(pm, buf) == pattern(4096)


def test_stream_priorities(device: Any, able: Any) -> None:
    least, greatest = device.stream_priority_range
    if able.stream_priorities is False:
        assert (least, greatest) == (0, 0)


def test_the_kind_of_the_device_heap(device: Any, able: Any) -> None:
    if able.malloc_heap_kind == "limit":
        assert device.malloc_heap_size > 0
    if able.malloc_heap_kind == "initial":
        assert device.probe().malloc_heap_settable is None, "setting it could take all memory"


IPC_KINDS = ("device", "pinned", "managed", "async", "async-default_pool")


@pytest.mark.parametrize("kind", IPC_KINDS)
def test_ipc_capable(pm: ModuleType, device: Any, make_resource: Callable[[str], Any], able: Any, kind: str) -> None:
    """Only plain device memory goes by a legacy handle; what the runtime says holds when it is asked for one."""
    with allocate(make_resource(kind), 4096) as buf, buf[1024:2048] as part:
        device.synchronize()
        capable = pm.pointer_info(buf).ipc_capable
        assert pm.pointer_info(part).ipc_capable == capable
        if kind != "device":
            assert not capable
        elif capable is not None and able.ipc_memory_handles is not None:
            assert capable == able.ipc_memory_handles
        if pm.backend == "cuda":
            assert capable is not None
            runtime = pytest.importorskip("cuda.bindings.runtime")
            error, _ = runtime.cudaIpcGetMemHandle(buf.handle)
            assert (error == runtime.cudaError_t.cudaSuccess) == capable
            runtime.cudaGetLastError()


def test_what_the_runtime_does_not_know_is_not_ipc_capable(pm: ModuleType) -> None:
    array = plain_array(4096)
    assert pm.pointer_info(array.ctypes.data).ipc_capable is False
    assert pm.pointer_info(0).ipc_capable is False


# ---- what is found by trying ----


def test_the_threshold_as_probed_is_as_a_pool_does(pm: ModuleType, device: Any, stream: Any, able: Any) -> None:
    probed = device.probe()
    if not able.memory_pools:
        assert probed.pool_threshold_accepted is None
        assert probed.pool_threshold_effective is None
        pytest.skip(f"{device!r} has no pools")
    assert probed.pool_threshold_accepted is not None
    assert probed.pool_threshold_effective is not None
    for threshold in (2**64 - 1, 0):
        with pm.AsyncMemoryResource(device, release_threshold=threshold) as pool:
            if probed.pool_threshold_accepted:
                assert pool.release_threshold == threshold
            buf = pool.allocate(8 * MIB, stream=stream)
            buf.fill(1, stream=stream)
            buf.close(stream=stream)
            stream.synchronize()
            if probed.pool_threshold_effective:
                assert (pool.reserved >= 8 * MIB) == (threshold > 0)


def test_a_probe_leaves_no_trace(pm: ModuleType, device: Any, able: Any) -> None:
    code = f"""
        import portamem.{pm.backend} as pm
        device = pm.Device({device.ordinal})
        pool = pm.AsyncMemoryResource.default_pool(device) if device.capabilities.memory_pools else None
        look = lambda: (pm.held(device), pool and (pool.release_threshold, pool.reserved, pool.used))
        before = look()
        current = pm.Device.current()
        first = device.probe().as_dict()
        assert look() == before
        assert pm.Device.current() == current
        assert device.probe().as_dict() == first
        print(first["stream_capture"])
    """
    assert python_output(code).strip() == str(device.probe().stream_capture)


def test_probing_works_where_capturing_does(device: Any, stream: Any) -> None:
    probed = device.probe().stream_capture
    assert probed is not None
    if probed:
        stream.begin_capture()
        assert stream.capture_status == "active"
        stream.end_capture()


def test_a_capture_refuses_the_first_probe_and_stays_whole(pm: ModuleType) -> None:
    code = f"""
        import portamem.{pm.backend} as pm
        device = pm.Device(0)
        stream = pm.Stream(device)
        stream.begin_capture()
        try:
            device.probe()
        except ValueError as error:
            print(error)
        print(stream.capture_status)
        stream.end_capture()
        print(device.probe().stream_capture)
    """
    refused, status, after = python_output(code).splitlines()
    assert "probing a device is forbidden" in refused
    assert (status, after) == ("active", "True")


def test_a_probe_waits_for_nobody(pm: ModuleType) -> None:
    """Work that is held on a user's stream does not hold the probe up."""
    code = f"""
        import threading
        import portamem.{pm.backend} as pm
        device, opened = pm.Device(0), threading.Event()
        able = device.capabilities
        if None in (able.host_register, able.registered_pointer_is_device_pointer):
            print("it may wait")  # undoing a registration does, where that has to be tried
        else:
            with pm.Stream(device) as stream:
                stream.launch_host_func(lambda: opened.wait(20))
                device.probe()
                print("still held" if not stream.query() else "waited")
                opened.set()
    """
    assert python_output(code).strip() in ("still held", "it may wait")


def test_many_threads_probe(pm: ModuleType) -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(device.probe().as_dict() for device in pm.devices()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 * pm.device_count()
    assert all(record["stream_capture"] is not None for record in found)


@pytest.mark.host_only
@pytest.mark.parametrize(
    ("call", "unknown"),
    [
        ("StreamCreateWithPriority", "stream_capture"),
        ("StreamBeginCapture", "stream_capture"),
        ("MemPoolCreate", "pool_threshold_effective"),
        ("MallocFromPoolAsync", "pool_threshold_effective"),
        ("StreamSynchronize", "pool_threshold_effective"),
    ],
)
def test_what_could_not_be_tried_is_unknown_and_tried_again(call: str, unknown: str) -> None:
    code = f"""
        import portamem.host as pm
        device = pm.Device(0)
        pm.knobs.fail_call("{call}", nth=1, code=2)
        print(device.probe().{unknown})
        pm.knobs.reset()
        print(device.probe().{unknown}, pm.held(device))
    """
    assert python_output(code).split() == ["None", "True", "0"]


# ---- the host runtime's models ----

MODELS = {
    "discrete": {
        "managed_mode": "migrating",
        "pageable_memory_access": False,
        "uses_host_page_tables": False,
        "direct_host_access": False,
        "integrated": False,
    },
    "apu": {
        "managed_mode": "host_resident",
        "pageable_memory_access": True,
        "uses_host_page_tables": True,
        "direct_host_access": True,
        "integrated": True,
    },
    "coherent": {
        "managed_mode": "migrating",
        "pageable_memory_access": True,
        "uses_host_page_tables": True,
        "direct_host_access": False,
        "integrated": False,
    },
}
ALIKE = {
    "memory_pools": True,
    "xnack": None,
    "pinned_coherent": True,
    "pinned_non_coherent": False,
    "host_register": True,
    "registered_pointer_is_device_pointer": True,
    "virtual_memory": False,
    "virtual_memory_granularity": None,
    "pool_handle_types": [],
    "ipc_memory_handles": False,
    "ipc_event_handles": False,
    "malloc_heap_kind": "limit",
    "peers": [1],
}
PLAIN = {"PORTAMEM_HOST_OPEN": None, "PORTAMEM_HOST_GUARD": None, "PORTAMEM_HOST_DEVICES": "2"}


@pytest.mark.host_only
@pytest.mark.parametrize("model", MODELS)
def test_models(model: str) -> None:
    code = "import json, portamem.host as pm; print(json.dumps(pm.Device(0).capabilities.as_dict()))"
    found = json.loads(python_output(code, PORTAMEM_HOST_MODEL=model, **PLAIN))
    expected = {**ALIKE, **MODELS[model]}
    assert {name: found[name] for name in expected} == expected


# ---- the command line ----


def test_info_has_the_whole_record(pm: ModuleType, device: Any) -> None:
    found = json.loads(cli("info", "--json").stdout)["backends"][pm.backend]["devices"][device.ordinal]
    assert set(found["capabilities"]) == set(device.capabilities.as_dict())
    assert found["probed"] is None
    assert [quirk["name"] for quirk in found["quirks"]] == [quirk.name for quirk in device.quirks]


def test_info_probes_when_asked(pm: ModuleType, device: Any) -> None:
    found = json.loads(cli("info", "--json", "--probe").stdout)["backends"][pm.backend]["devices"][device.ordinal]
    assert set(found["probed"]) == set(device.probe().as_dict())
    assert found["probed"]["pool_threshold_effective"] == device.probe().pool_threshold_effective


def test_info_is_as_short_as_before_with_it(device: Any) -> None:
    for arguments in (["info"], ["info", "--probe"]):
        lines = cli(*arguments).stdout.splitlines()
        assert len(lines) <= 25
        mine = next(line for line in lines if device.uuid in line)
        for word in ("managed", "pools", "pageable", "virtual memory", "IPC", "quirks"):
            assert word in mine
    words = {True: "yes", False: "no", None: "?"}
    for name, known in device.probe().as_dict().items():
        assert f"{name.replace('_', ' ')} {words[known]}" in mine
