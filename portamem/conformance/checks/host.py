# SPDX-License-Identifier: MIT
"""Shows the clauses of the CPU runtime's models and of what it pretends to be."""

from __future__ import annotations

import json
import signal
from itertools import product
from typing import Any

import portamem
from portamem import Error
from portamem.conformance.checks.device_quirks import as_the_table_says
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, pattern
from portamem.conformance.kit.together import together

PLAIN = dict.fromkeys(f"PORTAMEM_HOST_{name}" for name in ("OPEN", "GUARD", "MODEL", "CAPACITY", "COPY_DELAY", "FAIL"))
NOT_PERMITTED = 800

DEVICES = """
    found = [[d.uuid, d.pci_bus_id, d.numa_node, d.name, d.arch, d.memory_info().total] for d in pm.devices()]
    for device in pm.devices():
        with pm.DeviceMemoryResource(device) as resource, resource.allocate(4096) as buf:
            buf.fill(device.ordinal)
            out = bytearray(4096)
            buf.copy_to(out)
            assert set(out) == {device.ordinal} and pm.pointer_info(buf).device_id == device.ordinal
    print(json.dumps(found))
"""


@check("HOST-01")
def as_many_as_asked(env: Env) -> None:
    for count in (1, 3, 64):
        found = json.loads(env.output(DEVICES, PORTAMEM_HOST_DEVICES=str(count), **PLAIN))
        expect_equal(len(found), count, "the number of devices")
        expect_equal(len({uuid for uuid, *_ in found}), count, "the number of uuids")
        expect_equal(len({where for _, where, *_ in found}), count, "the number of addresses")
        for _, where, node, name, arch, total in found:
            expect(where.startswith("ffff:"), f"{where} could be a machine's address")
            expect_equal((node, name, arch), (None, "portamem host device", "host"), "numa_node, name, arch")
            expect_equal(total, 4 << 30, "the memory of a device")
    found = json.loads(env.output(DEVICES, PORTAMEM_HOST_DEVICES=None, **PLAIN))
    expect_equal(len(found), 2, "the number of devices where none is asked for")


ASK = """
    able = pm.Device(0).capabilities.as_dict()
    reach = {}
    for kind in ("Device", "Pinned", "Managed", "System"):
        resource = getattr(pm, kind + "MemoryResource")(0)
        reach[kind] = [resource.is_host_accessible, resource.is_device_accessible]
    print(json.dumps([able, reach]))
"""
ALIKE: dict[str, Any] = {
    "memory_pools": True,
    "concurrent_managed_access": True,
    "xnack": None,
    "pinned_coherent": True,
    "pinned_non_coherent": False,
    "host_register": True,
    "registered_pointer_is_device_pointer": True,
    "stream_priorities": False,
    "virtual_memory": True,
    "virtual_memory_granularity": [65536, 2097152],
    "virtual_memory_handle_types": [],
    "pool_handle_types": [],
    "ipc_memory_handles": False,
    "ipc_event_handles": False,
    "malloc_heap_kind": "limit",
    "peers": [1],
    "compute_capability": [0, 0],
    "warp_size": 1,
}
ABOUT = ("managed_mode", "pageable_memory_access", "uses_host_page_tables", "direct_host_access", "integrated")
MODELS = {
    "discrete": ("migrating", False, False, False, False),
    "apu": ("host_resident", True, True, True, True),
    "coherent": ("migrating", True, True, False, False),
}


@check("HOST-02")
def models(env: Env) -> None:
    for model in (None, *MODELS):
        values = MODELS[model or "discrete"]
        settings = {**PLAIN, "PORTAMEM_HOST_MODEL": model, "PORTAMEM_HOST_DEVICES": "2"}
        able, reach = json.loads(env.output(ASK, **settings))
        expected = {**ALIKE, **dict(zip(ABOUT, values, strict=True))}
        expect_equal({name: able[name] for name in expected}, expected, f"the capabilities with model {model}")
        _, pageable, _, direct, _ = values
        wanted = {"Device": [direct, True], "Pinned": [True, True], "Managed": [True, True], "System": [True, pageable]}
        expect_equal(reach, wanted, f"who reaches what with model {model}")


TOUCH = """
    import ctypes
    resource = getattr(pm, sys.argv[1] + "MemoryResource")(0)
    buf = resource.allocate(8192, stream=pm.Device(0).default_stream)
    buf.fill(7)
    pm.Device(0).synchronize()
    print("about to touch", flush=True)
    if sys.argv[2] == "read":
        print(ctypes.string_at(buf.handle + 4096, 1)[0])
    else:
        ctypes.memset(buf.handle + 4096, 1, 1)
        print(7)
"""


@check("HOST-03")
def a_touch_is_a_fault(env: Env) -> None:
    guarded = {**PLAIN, "PORTAMEM_HOST_GUARD": "1"}
    touches = product(("Device", "Async"), ("read", "write"))
    for (kind, how), ended in together(lambda touch: env.run(TOUCH, *touch, **guarded), touches):
        expect_equal(ended.stdout, "about to touch\n", f"what was said before and after a {how} of {kind} memory")
        # A sanitizer turns the fault into an exit status.
        expect(ended.status in (-signal.SIGSEGV, 1), f"a {how} of {kind} memory: the program {ended.how}")
    reached = ("Pinned", "Managed", "System")
    for kind, said in together(lambda kind: env.output(TOUCH, kind, "read", **guarded), reached):
        expect_equal(said, "about to touch\n7\n", f"a read of {kind} memory")
    apu = {**guarded, "PORTAMEM_HOST_MODEL": "apu"}
    expect_equal(env.output(TOUCH, "Device", "read", **apu), "about to touch\n7\n", "a read of an APU's memory")


ALL_COPIES = """
    import itertools
    data = bytes(range(256)) * 64
    device, other = pm.Device(0), pm.Device(1)
    stream = pm.Stream(device)
    resources = [pm.DeviceMemoryResource(device), pm.DeviceMemoryResource(other), pm.PinnedMemoryResource(device),
                 pm.ManagedMemoryResource(device), pm.SystemMemoryResource(device), pm.AsyncMemoryResource(device)]
    resources[-1].set_access(other, "read_write")
    buffers = [resource.allocate(len(data), stream=stream) for resource in resources]
    stream.synchronize()
    for source, target in itertools.permutations(buffers, 2):
        pm.copy(source, data)
        target.fill(0)
        pm.copy(target, source)
        out = bytearray(len(data))
        pm.copy(out, target)
        assert out == data, (source, target)
    print("all")
"""


@check("HOST-03")
def copies_under_guard(env: Env) -> None:
    for guard in ("0", "1"):
        settings = {**PLAIN, "PORTAMEM_HOST_GUARD": guard, "PORTAMEM_HOST_DEVICES": "2"}
        expect_equal(env.output(ALL_COPIES, **settings), "all\n", f"copies with PORTAMEM_HOST_GUARD={guard}")


IN_PLACE = """
    with pm.DeviceMemoryResource(0) as resource, resource.allocate(16) as buf:
        buf.fill(7)
        try:
            with memoryview(buf) as seen:
                print(bytes(seen).hex())
                seen[:] = bytes(range(16))
            out = bytearray(16)
            buf.copy_to(out)
            print(out.hex())
        except BufferError:
            print("refused")
        print(pm.Device(0).capabilities.direct_host_access, pm.pointer_info(buf).host_pointer == buf.handle)
"""


@check("HOST-04")
def opened(env: Env) -> None:
    seen = ["07" * 16, bytes(range(16)).hex(), "True True"]
    closed = ["refused", "False False"]
    cases: tuple[tuple[dict[str, str | None], list[str]], ...] = (
        ({"PORTAMEM_HOST_OPEN": "1"}, seen),
        ({"PORTAMEM_HOST_OPEN": "1", "PORTAMEM_HOST_GUARD": "1"}, seen),
        ({"PORTAMEM_HOST_MODEL": "apu"}, seen),
        ({"PORTAMEM_HOST_OPEN": "0"}, closed),
        ({}, closed),
        ({"PORTAMEM_HOST_MODEL": "coherent"}, closed),
    )
    for (settings, wanted), said in together(lambda case: env.output(IN_PLACE, **{**PLAIN, **case[0]}), cases):
        expect_equal(said.splitlines(), wanted, f"device memory in place with {settings or 'no setting'}")


WRONG = {
    "DEVICES": ("-1", "many", "1.5", "65", "100000"),
    "MODEL": ("quantum", "Apu"),
    "GUARD": ("yes", "2"),
    "OPEN": ("2", "true"),
    "CAPACITY": ("much", "-1", "4 GB", "4GiBs", "99999999999999999999", "17179869184TiB"),
    "COPY_DELAY": ("-5", "1.5", "60000001"),
    "FAIL": ("Malloc", "Malloc:1", "Malloc:0:2", "Malloc:1:0", "Malloc:1:1000", ":1:2", "Malloc:x:2", "Malloc:1:x"),
}


@check("HOST-05")
def settings_that_are_none(env: Env) -> None:
    wrong = [(f"PORTAMEM_HOST_{name}", value) for name, values in WRONG.items() for value in values]
    asked = together(lambda one: env.run("pm.Device(0).synchronize()", **{**PLAIN, one[0]: one[1]}), wrong)
    for (setting, value), ended in asked:
        expect_equal(ended.status, 1, f"the exit status with {setting}={value}")
        expect(f"{setting}={value} is not" in ended.stderr, f"with {setting}={value} it said {ended.stderr!r}")


@check("HOST-14")
def a_function_of_a_stream(env: Env) -> None:
    stream, device, event = env.stream(), env.device, env.pm.Event(env.device)
    found: list[str] = []

    def call() -> None:
        for use in (device.synchronize, device.memory_info, stream.query, event.query, lambda: env.pm.Event(device)):
            try:
                use()
                found.append("it went through")
            except Error as error:
                found.append(f"{error.name} {error.code}")

    with env.allocate(env.resource("device"), KIB) as buf:
        stream.launch_host_func(call)
        buf.fill(3, stream=stream)
        stream.synchronize()
        expect_equal(found, [f"NotPermitted {NOT_PERMITTED}"] * 5, "what calls in a function of a stream got")
        expect_bytes(env.read(buf), b"\x03" * KIB, "what the stream did after it")
    event.close()


@check("HOST-15")
def limits(env: Env) -> None:
    names = ("stack_size", "printf_fifo_size", "malloc_heap_size")
    before = {name: env.device.limit(name) for name in names}
    try:
        for mib, name in enumerate(names, 1):
            env.device.set_limit(name, f"{mib} MiB")
        for mib, name in enumerate(names, 1):
            expect_equal(env.device.limit(name), mib << 20, name)
        expect_equal(env.device.malloc_heap_size, 3 << 20, "malloc_heap_size")
        env.device.malloc_heap_size = 5 << 20
        expect_equal(env.device.limit("malloc_heap_size"), 5 << 20, "the heap by its property")
        total = env.device.memory_info().total
        with refused(Error, name="InvalidValue"):
            env.device.set_limit("stack_size", total + 1)
        expect_equal(env.device.limit("stack_size"), 1 << 20, "the limit after one that is too large")
        env.device.set_limit("stack_size", total)
        expect_equal(env.device.limit("stack_size"), total, "a limit of all memory")
    finally:
        for name, value in before.items():
            env.device.set_limit(name, value)


@check("HOST-16")
def the_reference(env: Env) -> None:
    pm = env.pm
    with as_the_table_says(env):
        expect_equal([device.quirks for device in pm.devices()], [()] * pm.device_count(), "the quirks")
    for device in pm.devices():
        expect_equal(device.stream_priority_range, (0, 0), "the priorities")
    versions = {pm.version_text(number()) for number in (pm.runtime_version, pm.driver_version, pm.compiled_version)}
    expect_equal(versions, {portamem.__version__}, "the versions")
    with pm.PinnedMemoryResource(env.device, coherence="non_coherent") as resource, resource.allocate(KIB) as buf:
        env.write(buf, pattern(KIB))
        expect_bytes(bytes(memoryview(buf)), pattern(KIB), "memory that was asked to be non-coherent")


@check("HOST-17")
def they_are_peers(env: Env) -> None:
    devices = env.pm.devices()
    for device in devices:
        others = tuple(other.ordinal for other in devices if other != device)
        expect_equal(device.capabilities.peers, others, "the peers")
    other = env.other_device
    for _ in range(2):
        env.device.enable_peer_access(other)
        other.enable_peer_access(env.device)
        env.device.disable_peer_access(other)
        with refused(Error, name="PeerAccessNotEnabled"):
            env.device.disable_peer_access(other)
        other.disable_peer_access(env.device)
    with refused(Error, name="PeerAccessUnsupported"):
        env.device.enable_peer_access(env.device)


@check("HOST-18")
def coherences(env: Env) -> None:
    with env.pm.DeviceMemoryResource(env.device, coherence="fine_grained") as resource:
        with resource.allocate(KIB) as buf:
            env.write(buf, pattern(KIB))
            expect_bytes(env.read(buf), pattern(KIB), "fine-grained memory")
        with refused(ValueError, saying="default coherence"):
            resource.allocate_pitched(16, 16)
    with env.pm.DeviceMemoryResource(env.device, coherence="uncached") as none, refused(Error, name="NotSupported"):
        none.allocate(KIB)


@check("HOST-29")
def nothing_is_excused(env: Env) -> None:
    able, found = env.device.capabilities, env.device.probe()
    for name in ("memory_pools", "concurrent_managed_access", "host_register", "registered_pointer_is_device_pointer"):
        expect_equal(getattr(able, name), True, name)
    expect(able.managed_mode in ("migrating", "host_resident"), f"managed_mode is {able.managed_mode!r}")
    for name in ("pool_threshold_accepted", "pool_threshold_effective", "stream_capture"):
        expect_equal(getattr(found, name), True, name)
