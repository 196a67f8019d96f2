"""The witness tells the truth: every method against what is known of the memory, stream or device asked about."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers import backend, witnesses
from helpers.memory import MIB, read_back, write
from helpers.waiting import eventually

import portamem
from portamem.conformance.witness import (
    Counter,
    HeapReport,
    Witness,
    WitnessError,
    latch,
    pattern,
    witness_for,
)
from portamem.conformance.witness.base import DEVICE_ATTRIBUTES, HOST_LOCATION, LIMITS, POOL_ATTRIBUTES
from portamem.conformance.witness.pattern import plain_pattern

NBYTES = 100_000
PLACEMENT = 1 | 2 | 4
"""The flags that vendors number alike: portable, mapped, write-combined. AMD's runtime has coherence beside them."""


def test_the_name_says_who_it_is(witness: Witness) -> None:
    library = {"cuda": "cuda-python ", "hip": "hip-python ", "host": "libportamem "}[backend.driver()]
    assert witness.name.startswith(library)
    assert any(part[0].isdigit() for part in witness.name.split())
    assert (witness.backend, witness.ordinal) == (backend.under_test().backend, 0)


def test_there_is_one_for_each_device(pm: ModuleType, witness: Witness) -> None:
    assert witness_for(pm.backend, 0) is witness


def test_count(pm: ModuleType, witness: Witness) -> None:
    assert witness.device_count() == pm.device_count() > 0


def test_context_makes_the_device_current_and_puts_back_what_was(
    pm: ModuleType, witness: Witness, two_devices: tuple[Any, Any]
) -> None:
    first, second = two_devices
    theirs = witnesses.of(pm.backend, second.ordinal)
    before = pm.Device.current()
    try:
        first.set_current()
        with theirs.context():
            assert theirs.current_device() == witness.current_device() == second.ordinal
            with witness.context():
                assert witness.current_device() == first.ordinal
            assert witness.current_device() == second.ordinal
        assert theirs.current_device() == first.ordinal
        theirs.memory_info(), theirs.limit("stack_size")
        assert pm.Device.current() == first
    finally:
        before.set_current()


@pytest.mark.parametrize("name", DEVICE_ATTRIBUTES)
def test_device_attributes_are_numbers(witness: Witness, name: str) -> None:
    value = witness.device_attribute(name)
    assert value is None or value >= 0
    if name in ("multi_processor_count", "warp_size", "managed_memory", "can_map_host_memory", "unified_addressing"):
        assert value


def test_memory_that_it_takes_is_gone(witness: Witness) -> None:
    before, total = witness.memory_info()
    assert 0 < before <= total
    taken = witness.malloc(256 * MIB)
    assert witness.memory_info()[0] <= before - 192 * MIB
    witness.free(taken)


def test_who_it_is(witness: Witness, device: Any) -> None:
    assert witness.uuid() == device.uuid.replace("-", "")
    assert int(witness.uuid(), 16) != 0
    assert witness.pci_address() == device.pci_bus_id


def test_priorities(pm: ModuleType, witness: Witness, device: Any) -> None:
    least, greatest = device.stream_priority_range
    for priority in range(greatest, least + 1):
        with pm.Stream(device, priority=priority) as stream:
            assert witness.stream_priority(stream.handle) == priority


def test_the_access_to_a_pool(witness: Witness, device: Any, pool: Any) -> None:
    assert witness.pool_access(pool.pool_handle, device.ordinal) == "read_write"


def test_the_access_of_another_device(witness: Witness, pool: Any, two_devices: tuple[Any, Any]) -> None:
    device, other = two_devices
    assert witness.pool_access(pool.pool_handle, other.ordinal) == "none"
    if not other.can_access_peer(device):
        pytest.skip("the devices cannot reach each other's pools")
    pool.set_access(other, "read_write")
    assert witness.pool_access(pool.pool_handle, other.ordinal) == "read_write"
    pool.set_access(other, "none")
    assert witness.pool_access(pool.pool_handle, other.ordinal) == "none"


def test_who_accesses_a_range(
    pm: ModuleType, witness: Witness, device: Any, make_resource: Callable[[str], Any]
) -> None:
    if device.capabilities.managed_mode != "migrating":
        pytest.skip("managed memory does not migrate here")
    with make_resource("managed").allocate(MIB) as buf:
        for most in (1, pm.device_count(), pm.device_count() + 2):
            assert witness.accessed_by(buf.handle, MIB, most) == []
        buf.advise("accessed_by", device)
        for most in (1, pm.device_count(), pm.device_count() + 2):
            assert witness.accessed_by(buf.handle, MIB, most) == [device.ordinal]


def test_handles_for_other_processes(
    pm: ModuleType, witness: Witness, device: Any, make_resource: Callable[[str], Any]
) -> None:
    with make_resource("device").allocate(MIB) as buf:
        given = witness.gives_ipc_handle(buf.handle)
        assert pm.pointer_info(buf).ipc_capable in (given, None)


def test_limits_have_values(device: Any, witness: Witness) -> None:
    """Each limit has a value, or both say that there is no such limit: AMD's runtime knows none of printf's."""

    def answer(ask: Callable[[str], int], name: str) -> int | str:
        try:
            return ask(name)
        except (WitnessError, portamem.Error) as refused:
            return refused.name

    found = {name: answer(witness.limit, name) for name in LIMITS}
    assert found == {name: answer(device.limit, name) for name in LIMITS}
    lacking = {name for name, value in found.items() if value == "UnsupportedLimit"}
    assert lacking <= {"printf_fifo_size"}
    assert all(isinstance(found[name], int) and found[name] > 0 for name in set(LIMITS) - lacking)


def test_a_refused_limit_has_a_name(witness: Witness) -> None:
    error = witness.set_limit("stack_size", 2**62)
    assert error is not None
    assert not error.startswith(("cuda", "hip", "error"))


def test_pointers(pm: ModuleType, witness: Witness, device: Any, memory: Any) -> None:
    for address in (memory.handle, memory.handle + 1, memory.handle + memory.nbytes - 1):
        found = witness.pointer(address)
        assert found.kind == memory.kind
        assert found.device_id == device.ordinal
        assert found.device_pointer == memory.device_handle + (address - memory.handle)
        if memory.kind != "device":
            assert found.host_pointer == address


@pytest.mark.parametrize("kind", ["device", "managed"])
def test_address_ranges(witness: Witness, make_memory: Callable[[str], Any], kind: str) -> None:
    memory = make_memory(kind)
    for address in (memory.handle, memory.handle + memory.nbytes - 1):
        found = witness.address_range(address)
        assert found is not None
        assert found[0] == memory.handle
        assert found[1] >= memory.nbytes


def test_what_the_runtime_does_not_know(witness: Witness, make_resource: Callable[[str], Any]) -> None:
    array = bytearray(64)
    address = id(array)
    assert witness.pointer(address).kind == "unregistered"
    assert witness.pointer(address).device_id is None
    assert witness.address_range(address) is None
    assert witness.host_flags(address) is None
    with make_resource("device").allocate(8 * MIB) as buf:
        freed = buf.handle
        assert witness.pointer(freed).kind == "device"
    assert witness.pointer(freed).kind == "unregistered"


@pytest.mark.parametrize("write_combined", [False, True])
def test_flags_of_pinned_memory(pm: ModuleType, device: Any, witness: Witness, write_combined: bool) -> None:
    with (
        pm.PinnedMemoryResource(device, write_combined=write_combined) as resource,
        resource.allocate(4096) as buf,
    ):
        found = witness.host_flags(buf.handle)
        assert found is not None
        assert found & PLACEMENT == pm.pointer_info(buf).flags
        assert bool(found & 4) == write_combined


def test_ranges_of_managed_memory(
    pm: ModuleType, device: Any, stream: Any, witness: Witness, make_resource: Callable[[str], Any]
) -> None:
    if device.capabilities.managed_mode != "migrating":
        pytest.skip("managed memory does not migrate here")
    with make_resource("managed").allocate(MIB) as buf:

        def asked(name: str) -> int | None:
            return witness.range_attribute(buf.handle, MIB, name)

        assert (asked("read_mostly"), asked("preferred_location"), asked("last_prefetch_location")) == (0, None, None)
        buf.advise("read_mostly")
        buf.advise("preferred_location", device)
        buf.prefetch(device, stream=stream)
        stream.synchronize()
        assert (asked("read_mostly"), asked("preferred_location"), asked("last_prefetch_location")) == (1, 0, 0)
        buf.prefetch("host", stream=stream)
        stream.synchronize()
        assert asked("last_prefetch_location") == HOST_LOCATION


def test_pools(device: Any, stream: Any, witness: Witness, pool: Any) -> None:
    handle = pool.pool_handle

    def figures() -> dict[str, int]:
        return {name: witness.pool_attribute(handle, name) for name in POOL_ATTRIBUTES}

    empty = figures()
    assert empty["used_current"] == 0
    with pool.allocate(5 * MIB, stream=stream):
        found = figures()
        assert found["reserved_current"] >= found["used_current"] >= 5 * MIB
        assert found["used_high"] == found["used_current"]
        assert found["reserved_high"] >= found["reserved_current"]
        assert (found["used_current"], found["reserved_current"]) == (pool.used, pool.reserved)
    stream.synchronize()
    after = figures()
    assert after["used_current"] == 0
    assert after["used_high"] >= 5 * MIB
    assert witness.set_pool_attribute(handle, "release_threshold", 7 * MIB) is None
    assert pool.release_threshold == witness.pool_attribute(handle, "release_threshold") == 7 * MIB
    for name in ("follow_event_dependencies", "allow_opportunistic", "allow_internal_dependencies"):
        for on in (0, 1):
            assert witness.set_pool_attribute(handle, f"reuse_{name}", on) is None
            assert getattr(pool, f"reuse_{name}") == witness.pool_attribute(handle, f"reuse_{name}") == on
    assert witness.set_pool_attribute(handle, "used_current", 1) is not None


def test_pools_of_the_device(pm: ModuleType, device: Any, witness: Witness, pool: Any) -> None:
    with pm.AsyncMemoryResource.default_pool(device) as default:
        assert witness.default_pool() == default.pool_handle
        assert witness.current_pool() == default.pool_handle != pool.pool_handle


def test_progress_of_streams_and_events(
    pm: ModuleType, stream: Any, other_stream: Any, kernels: Witness, device_latch: Callable[[Any], Any]
) -> None:
    before = stream.record()
    assert eventually(lambda: kernels.stream_is_done(stream.handle))
    held = device_latch(stream)
    after = stream.record()
    assert not kernels.stream_is_done(stream.handle)
    assert kernels.stream_is_done(other_stream.handle)
    assert kernels.event_is_done(before.handle)
    assert not kernels.event_is_done(after.handle)
    held.release()
    assert eventually(lambda: kernels.stream_is_done(stream.handle))
    assert kernels.event_is_done(after.handle)


def test_memory_of_its_own(pm: ModuleType, device: Any, witness: Witness) -> None:
    held = pm.held(device), pm.held("host")
    plain, pinned = witness.malloc(8 * MIB), witness.host_malloc(8 * MIB)
    try:
        assert (pm.held(device), pm.held("host")) == held
        assert (pm.pointer_info(plain).kind, pm.pointer_info(pinned).kind) == ("device", "host")
        assert witness.read(pinned, 8 * MIB) == bytes(8 * MIB)
        for address in (plain, pinned):
            witness.write(address, pattern(NBYTES, 1))
            assert witness.read(address + 17, 1000) == pattern(NBYTES, 1)[17:1017]
    finally:
        witness.free(plain)
        witness.host_free(pinned)
    assert pm.pointer_info(pinned).kind == "unregistered"


def test_its_own_failures_have_names(witness: Witness) -> None:
    with pytest.raises(WitnessError, match=r"OutOfMemory \(2\)") as failed:
        witness.malloc(2**50)
    assert (failed.value.code, failed.value.name) == (2, "OutOfMemory")
    assert "alloc" in failed.value.call


def test_nothing_is_current_that_was_not(witness: Witness) -> None:
    """Calls of the witness leave the current device of a thread alone, also of one that has none yet."""
    seen: list[int | None] = []

    def work() -> None:
        seen.append(witness.current_device())
        witness.memory_info(), witness.limit("stack_size"), witness.pointer(id(seen)), witness.device_count()
        witness.pool_attribute(witness.default_pool(), "used_current"), witness.device_attribute("memory_pools")
        witness.free(witness.malloc(64))
        seen.append(witness.current_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    work()
    assert len(seen) == 4
    assert (seen[0], seen[2]) == (seen[1], seen[3])


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_fill_writes_the_pattern(
    pm: ModuleType, stream: Any, kernels: Witness, device_resource: Any, seed: int
) -> None:
    with device_resource.allocate(NBYTES) as buf:
        buf.fill(0)
        kernels.fill(stream.handle, buf.handle + 3, NBYTES - 7, seed)
        stream.synchronize()
        assert read_back(pm, buf) == bytes(3) + pattern(NBYTES - 7, seed) + bytes(4)


def test_verify_counts_each_wrong_byte(pm: ModuleType, stream: Any, kernels: Witness, device_resource: Any) -> None:
    data = bytearray(pattern(NBYTES, 5))
    for at in (0, 1, 7777, NBYTES - 1):
        data[at] ^= 1
    with device_resource.allocate(NBYTES) as buf:
        write(pm, buf, bytes(data))
        with kernels.verify(stream.handle, buf.handle, NBYTES, 5) as wrong:
            assert wrong.read() == wrong.read() == 4
        buf.fill(9)
        with kernels.verify_value(stream.handle, buf.handle, NBYTES, 9) as wrong:
            assert wrong.read() == 0
            kernels.verify_value(stream.handle, buf.handle, NBYTES, 8, wrong)
            assert wrong.read() == NBYTES


def test_copy(pm: ModuleType, stream: Any, kernels: Witness, device_resource: Any) -> None:
    with device_resource.allocate(NBYTES) as source, device_resource.allocate(NBYTES) as target:
        write(pm, source, pattern(NBYTES, 6))
        target.fill(0)
        kernels.copy(stream.handle, target.handle, source.handle, 5000)
        stream.synchronize()
        assert read_back(pm, target) == pattern(5000, 6) + bytes(NBYTES - 5000)


def test_a_closed_counter_stays_closed(kernels: Witness) -> None:
    counter = Counter(kernels)
    address = counter.address
    assert kernels.pointer(address).kind == "device"
    counter.close()
    counter.close()
    assert counter.address == 0


def test_a_latch_holds_until_released(stream: Any, kernels: Witness) -> None:
    held = kernels.latch(stream.handle)
    assert kernels.stream_is_done(stream.handle)
    with held:
        assert not stream.query()
        with pytest.raises(RuntimeError, match="once"):
            held.hold()
        held.release()
        stream.synchronize()
    assert not held.timed_out
    held.close()


def test_a_latch_that_nobody_releases_opens_by_itself(
    stream: Any, kernels: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latch, "TIMEOUT_S", 0.5)
    held = kernels.latch(stream.handle).hold()
    stream.synchronize()
    assert held.timed_out
    held.close()
    assert held.timed_out


def test_a_latch_that_never_held(stream: Any, kernels: Witness) -> None:
    kernels.latch(stream.handle).close()
    stream.synchronize()


def test_the_pattern_moves() -> None:
    """A shifted, swapped or missing page shows: neighbours, pages and seeds differ."""
    data = pattern(3 * 4096, 1)
    assert len(set(data[:256])) > 100
    assert data[:4096] != data[4096:8192] != data[8192:]
    assert data != pattern(3 * 4096, 2)


@pytest.mark.parametrize("seed", [0, 3, 2**32 - 5])
def test_the_pattern_without_numpy(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    by_numpy = pattern(5000, seed)
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert pattern(5000, seed) == plain_pattern(5000, seed) == by_numpy


def test_reports_are_values() -> None:
    assert HeapReport(1, 0, 0, 0).is_clean
    assert not any(HeapReport(*bad).is_clean for bad in ((1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)))


def test_an_alignment_that_the_compiler_lacks(kernels: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(kernels), "has_aligned_heap", False)
    for call in (kernels.heap_per_thread, kernels.heap_per_block, kernels.heap_keep):
        with pytest.raises(ValueError, match="has_aligned_heap"):
            call(0, 1, 1, 16, align=64)
