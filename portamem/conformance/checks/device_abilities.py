# SPDX-License-Identifier: MIT
"""Shows the clauses of capabilities, read and probed."""

from __future__ import annotations

import json
import threading
from typing import Any

from portamem import Error
from portamem.conformance.checks.pool_figures import RESERVED, THRESHOLD, told
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.base import Witness

ANSWERS = (
    *("memory_pools", "concurrent_managed_access", "pageable_memory_access", "uses_host_page_tables"),
    *("direct_host_access", "integrated", "xnack", "pinned_coherent", "pinned_non_coherent", "host_register"),
    *("registered_pointer_is_device_pointer", "stream_priorities", "virtual_memory"),
    *("ipc_memory_handles", "ipc_event_handles"),
)
WORDS: dict[str, tuple[str | None, ...]] = {
    "managed_mode": ("none", "host_resident", "migrating"),
    "malloc_heap_kind": ("limit", "initial", "none"),
}
HANDLE_TYPES = {"posix_fd", "win32", "win32_kmt", "fabric"}
KEEP_ALL = 2**64 - 1
PROBED_BYTES = 4 * MIB
"""Bytes that the probe takes of a pool: a runtime may treat more otherwise."""

ALWAYS_KNOWN = (
    *("memory_pools", "pageable_memory_access", "integrated", "pinned_coherent", "pinned_non_coherent"),
    "concurrent_managed_access",
)

TOLD_BY_THE_DEVICE = (
    *("memory_pools", "concurrent_managed_access", "pageable_memory_access", "uses_host_page_tables", "integrated"),
    *("host_register", "registered_pointer_is_device_pointer", "stream_priorities", "virtual_memory"),
    "direct_host_access",
)
"""Capabilities that are one attribute of the device's each."""


def _is_early_hip(env: Env) -> bool:
    """HIP before 6, whose header keeps some attributes for the other vendor's devices."""
    return env.platform.vendor == "amd" and env.platform.version < (6, 0)


@check("DEVICE-10")
def the_record(env: Env) -> None:
    able, probed = env.device.capabilities, env.device.probe()
    for record in (able, probed):
        table = record.as_dict()
        names = {name for name in dir(record) if not name.startswith("_")} - {"as_dict"}
        expect_equal(set(table), names, "the names in as_dict")
        for name, value in table.items():
            expect_equal(getattr(record, name), value, name)
            expect(f"{name}={value!r}" in repr(record), f"{name} is not in the repr")
        json.dumps(table)
    told = able.as_dict()
    strange = [name for name in ANSWERS if told[name] is not None and type(told[name]) is not bool]
    expect_equal(strange, [], "the list of capabilities that are neither yes nor no nor unknown")
    strange = [name for name, value in probed.as_dict().items() if value is not None and type(value) is not bool]
    expect_equal(strange, [], "the list of probed capabilities that are neither yes nor no nor unknown")
    for name, words in WORDS.items():
        expect(told[name] in words, f"{name} is {told[name]!r}")
    for name in ("pool_handle_types", "virtual_memory_handle_types"):
        expect(set(told[name] or ()) <= HANDLE_TYPES, f"{name} is {told[name]!r}")
    silent = {"registered_pointer_is_device_pointer"} if _is_early_hip(env) else set()
    unknown = {name for name in ALWAYS_KNOWN if told[name] is None}
    expect_equal(unknown - silent, set(), "what every runtime can say, and this one does not")


@check("DEVICE-11")
def as_the_device_says(env: Env, witness: Witness) -> None:
    able = env.device.capabilities
    for name in TOLD_BY_THE_DEVICE:
        ours, theirs = getattr(able, name), witness.device_attribute(name)
        if ours is None:
            if env.platform.backend == "host":
                expect_equal(ours, theirs, name)
            continue  # these headers or this library have no such attribute
        expect_equal(ours, None if theirs is None else bool(theirs), name)
    managed = witness.device_attribute("managed_memory")
    moves = bool(
        witness.device_attribute("concurrent_managed_access")
        and not witness.device_attribute("integrated")
        and (env.platform.vendor != "amd" or witness.device_attribute("pageable_memory_access"))
    )
    mode = ("migrating" if moves else "host_resident") if managed else "none"
    expect_equal(able.managed_mode, mode, "managed_mode")
    if env.platform.vendor == "nvidia" and env.platform.backend == "cuda":
        missing = [name for name in TOLD_BY_THE_DEVICE if getattr(able, name) is None]
        expect_equal(missing, ["direct_host_access"], "the list of what CUDA is said not to say")


@check("DEVICE-12")
def no_contradiction(env: Env) -> None:
    for device in env.pm.devices():
        able = device.capabilities
        if able.managed_mode == "migrating":
            expect(able.concurrent_managed_access and not able.integrated, "managed memory migrates, and cannot")
        if able.uses_host_page_tables:
            expect(able.pageable_memory_access, "the host's page tables are used for memory that is not reached")
        expect_equal(able.xnack, _xnack_of(device.arch), "xnack, beside the architecture's name")
        expect_equal(device.ordinal in able.peers, False, "its being its own peer")
        if able.stream_priorities is False:
            expect_equal(device.stream_priority_range, (0, 0), "the priorities of a device that has none")
        least, greatest = device.stream_priority_range
        expect(greatest <= least, "the highest priority is lower than the lowest")
        if not able.memory_pools:
            expect(not able.pool_handle_types, "there are handles to pools that are not there")
        _virtual_memory_fits(able)
        if able.malloc_heap_kind != "none":
            expect(device.malloc_heap_size > 0, "there is a heap of 0 bytes")
        if able.malloc_heap_kind == "initial":
            expect_equal(device.probe().malloc_heap_settable, None, "the probed setting, which could take all memory")


def _xnack_of(arch: str) -> bool | None:
    return True if ":xnack+" in arch else (False if ":xnack-" in arch else None)


def _virtual_memory_fits(able: Any) -> None:
    if able.virtual_memory is False:
        found = (able.virtual_memory_granularity, able.virtual_memory_handle_types)
        expect_equal(found, (None, None), "granularity and handles without virtual memory")
    if able.virtual_memory:
        expect(able.virtual_memory_granularity is not None, "there is virtual memory of no granularity")
    if able.virtual_memory_granularity is not None:
        least, best = able.virtual_memory_granularity
        expect(
            least >= 4096 and least & (least - 1) == 0 and best % least == 0, f"granularity of {least}, {best} bytes"
        )


@check("DEVICE-13")
def beside_a_capture(env: Env) -> None:
    stream = env.stream()
    before = env.device.capabilities.as_dict()
    stream.begin_capture()
    try:
        expect_equal(env.device.capabilities.as_dict(), before, "the capabilities beside a capture")
        _ = (env.device.quirks, env.device.name, env.device.uuid, env.device.pci_bus_id)
        expect_equal(stream.capture_status, "active", "the capture")
    finally:
        stream.end_capture()


@check("DEVICE-14")
def what_was_probed_happens(env: Env) -> None:
    """Yes and no alike: a probe that denies what happens would excuse pools that do not do as they are told."""
    probed, stream = env.device.probe(), env.stream()
    expect_equal(probed.stream_capture is None, False, "the probe's not knowing whether streams can be captured")
    expect_equal(_is_captured(stream), probed.stream_capture, "a stream's being captured, which the probe tells,")
    able = env.device.capabilities
    if able.host_register is False:  # the runtime's own word, and there are some that deny it and register
        expect_equal(probed.host_register, False, "host_register, probed,")
    elif able.host_register or probed.host_register is not None:
        expect_equal(_is_registered(env), probed.host_register, "memory's being registered, which the probe tells,")
    _thresholds_as_probed(env, None)


@check("DEVICE-14")
def what_was_probed_of_thresholds_happens_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _thresholds_as_probed(env, witness)


def _is_captured(stream: Any) -> bool:
    try:
        stream.begin_capture()
    except Error as error:
        expect_equal(error.name, "NotSupported", "the refusal of a capture")
        return False
    status = stream.capture_status
    stream.end_capture()
    return bool(status == "active")


def _is_registered(env: Env) -> bool:
    try:
        env.pm.HostRegistration(bytearray(8192), device=env.device).close()
    except Error as error:
        expect_equal(error.name, "NotSupported", "the refusal of a registration")
        return False
    return True


def _thresholds_as_probed(env: Env, witness: Witness | None) -> None:
    probed = env.device.probe()
    if not env.device.capabilities.memory_pools:
        expect_equal((probed.pool_threshold_accepted, probed.pool_threshold_effective), (None, None), "of no pools")
        raise Unsupported(f"memory_pools is false for {env.device!r}")
    known = (probed.pool_threshold_accepted is not None, probed.pool_threshold_effective is not None)
    expect_equal(known, (True, True), "the probe's knowing of thresholds")
    keeps_all, kept = _after_use(env, KEEP_ALL, witness)
    keeps_none, left = _after_use(env, 0, witness)
    accepted = keeps_all and keeps_none
    expect_equal(accepted, probed.pool_threshold_accepted, "a threshold's being taken, which the probe tells,")
    obeyed, seen = kept >= PROBED_BYTES and left == 0, f"{kept} and {left} bytes were kept"
    expect_equal(obeyed, probed.pool_threshold_effective, f"its being obeyed ({seen}), which the probe tells,")


def _after_use(env: Env, threshold: int, witness: Witness | None) -> tuple[bool, int]:
    """Says whether a pool takes a threshold, and how much it has reserved after memory was taken, given back and waited
    for."""
    stream = env.stream()
    with env.pm.AsyncMemoryResource(env.device) as pool:
        try:
            pool.release_threshold = threshold
            (found,) = told(pool, witness, THRESHOLD, f"set to {threshold}")
        except Error:
            found = None  # refused, or not told
        buf = pool.allocate(PROBED_BYTES, stream=stream)
        buf.fill(1, stream=stream)
        buf.close(stream=stream)
        stream.synchronize()
        (reserved,) = told(pool, witness, RESERVED, f"with a threshold of {threshold}")
        return found == threshold, reserved


NO_TRACE = """
    device = pm.Device(0)
    pool = pm.AsyncMemoryResource.default_pool(device) if device.capabilities.memory_pools else None
    def look():
        state = pool and (pool.release_threshold, pool.reserved, pool.used)
        return pm.held(device), pm.held("host"), state, device.malloc_heap_size, pm.Device.current()
    before = look()
    first = device.probe().as_dict()
    assert look() == before, (before, look())
    assert device.probe().as_dict() == first
    print(json.dumps(first))
"""


@check("DEVICE-15")
def no_trace(env: Env) -> None:
    found = json.loads(env.output(NO_TRACE))
    here = env.device.probe().as_dict()
    for record in (found, here):
        del record["malloc_heap_settable"]  # CUDA: until a kernel of that process has used the heap
    expect_equal(found, here, "what another process probed")


@check("DEVICE-15")
def on_many_threads(env: Env) -> None:
    found: list[Any] = []
    devices = env.pm.devices()
    threads = [
        threading.Thread(target=lambda: found.extend((each, each.probe().as_dict()) for each in devices))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_equal(len(found), 6 * len(devices), "the number of answers")
    for device, record in found:
        expect_equal(record, device.probe().as_dict(), f"what was probed of {device!r}")


FIRST_IN_A_CAPTURE = """
    device = pm.Device(0)
    stream = pm.Stream(device)
    stream.begin_capture()
    try:
        device.probe()
        print("it went through")
    except ValueError as error:
        print(error)
    print(stream.capture_status)
    stream.end_capture()
    print(device.probe().stream_capture)
"""


@check("DEVICE-16")
def the_first_one_in_a_capture(env: Env) -> None:
    words, status, afterwards = env.output(FIRST_IN_A_CAPTURE).splitlines()
    expect("probing a device is forbidden" in words, f"it said {words!r}")
    expect_equal((status, afterwards), ("active", "True"), "the capture, and the probe after it")


WAITS_FOR_NOBODY = """
    import threading
    device, opened, entered = pm.Device(0), threading.Event(), threading.Event()
    with pm.Stream(device) as stream:
        stream.launch_host_func(lambda: (entered.set(), opened.wait(20)))
        entered.wait(20)
        device.probe()
        print("still held" if not stream.query() else "waited")
        opened.set()
"""


@check("DEVICE-17")
def it_waits_for_nobody(env: Env) -> None:
    able = env.device.capabilities
    if None in (able.host_register, able.registered_pointer_is_device_pointer):
        raise Unsupported("the runtime does not say what it can register: undoing a registration may wait")
    expect_equal(env.output(WAITS_FOR_NOBODY).strip(), "still held", "the stream that was held")


@check("DEVICE-28")
def fit_for_a_handle_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    with env.allocate(env.resource("device"), 4 * KIB) as buf:
        capable = env.pm.pointer_info(buf).ipc_capable
        if capable is None:
            raise Unsupported(f"ipc_capable is None for memory of {env.device!r}: the runtime does not say")
        expect_equal(capable, witness.gives_ipc_handle(buf.handle), "its being fit for a handle, beside the runtime's,")


@check("DEVICE-28")
def fit_for_a_handle(env: Env) -> None:
    able = env.device.capabilities
    for name in ("device", "pinned", "managed", "async"):
        with env.allocate(env.resource(name), 4 * KIB) as buf, buf[1024:2048] as part:
            env.device.synchronize()
            capable = env.pm.pointer_info(buf).ipc_capable
            expect_equal(env.pm.pointer_info(part).ipc_capable, capable, f"what is told of a part of {name} memory")
            if name != "device":
                expect(not capable, f"{name} memory is told to be fit for a handle")
            elif capable is not None and able.ipc_memory_handles is not None:
                expect_equal(capable, able.ipc_memory_handles, "what is told of plain device memory")
    plain = bytearray(8192)
    with memoryview(plain):
        expect(not env.pm.pointer_info(0).ipc_capable, "address 0 is told to be fit for a handle")
    with refused(TypeError):
        env.pm.pointer_info(plain)
