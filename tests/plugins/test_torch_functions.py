"""The C functions of PyTorch's plug, called as PyTorch calls them: with bare handles, with the GIL and without."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import KIB, MIB, pattern, read_back, write
from helpers.process import python_output
from helpers.torch_functions import Filter, TorchFunctions

BOTH = pytest.mark.parametrize("with_gil", [True, False], ids=["gil", "no gil"])


@pytest.fixture
def memory(pm: ModuleType, device: Any, shared: dict[str, Any]) -> Any:
    """A pool that the functions take from. What it has cached goes back after each test."""
    if "memory" not in shared:
        shared["memory"] = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), host_access=False)
    yield shared["memory"]
    device.synchronize()
    shared["memory"].trim()


@pytest.fixture
def torch(native: ModuleType, memory: Any, shared: dict[str, Any]) -> TorchFunctions:
    if "torch" not in shared:
        shared["torch"] = TorchFunctions(native, memory)
    return shared["torch"]


@pytest.fixture
def of_current(native: ModuleType, shared: dict[str, Any]) -> TorchFunctions:
    if "current" not in shared:
        shared["current"] = TorchFunctions(native, None, with_gil=True)
    return shared["current"]


@contextmanager
def lost() -> Iterator[list[str]]:
    """Collects the texts that sys.unraisablehook is told in the block."""
    told: list[str] = []
    former = sys.unraisablehook
    sys.unraisablehook = lambda failure: told.append(str(failure.exc_value))
    try:
        yield told
    finally:
        sys.unraisablehook = former


def as_buffer(pm: ModuleType, memory: Any, ptr: int, nbytes: int, stream: Any) -> Any:
    return pm.Buffer.from_handle(ptr, nbytes, owner=memory, device=stream.device)


@BOTH
def test_memory_is_the_resources_own_and_goes_back(
    pm: ModuleType, native: ModuleType, memory: Any, stream: Any, shared: dict[str, Any], with_gil: bool
) -> None:
    name = f"both {with_gil}"
    if name not in shared:
        shared[name] = TorchFunctions(native, memory, with_gil)
    torch = shared[name]
    sizes = [1, 256, 100_000, 3 * MIB]
    blocks = [(torch.allocate(nbytes, stream), nbytes) for nbytes in sizes]
    assert memory.live_bytes == sum(sizes)
    for seed, (ptr, nbytes) in enumerate(blocks):
        assert memory.size_of(ptr) == nbytes
        write(pm, as_buffer(pm, memory, ptr, nbytes, stream), pattern(nbytes, seed))
    for seed, (ptr, nbytes) in enumerate(blocks):
        assert read_back(pm, as_buffer(pm, memory, ptr, nbytes, stream)) == pattern(nbytes, seed)
    for ptr, nbytes in blocks:
        torch.free(ptr, nbytes, stream)
    assert memory.live_buffers == 0
    assert torch.hook.noted == 0


def test_the_default_stream_is_handle_0(memory: Any, torch: TorchFunctions, device: Any) -> None:
    allocate, free = torch.allocate_or_null, torch.deallocate
    first = allocate(MIB, device.ordinal, None)
    free(first, MIB, device.ordinal, None)
    assert allocate(MIB, device.ordinal, None) == first
    free(first, MIB, device.ordinal, None)
    assert memory.live_buffers == 0


def test_0_bytes_are_null(memory: Any, torch: TorchFunctions, stream: Any) -> None:
    assert torch.allocate(0, stream) == 0
    torch.free(0, 0, stream)
    assert memory.live_buffers == 0


def test_no_memory_is_null(pm: ModuleType, device: Any, native: ModuleType, stream: Any) -> None:
    limited = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), limit=4 * MIB, host_access=False)
    torch = TorchFunctions(native, limited)
    assert torch.allocate(64 * MIB, stream) == 0
    ptr = torch.allocate(MIB, stream)
    assert ptr
    torch.free(ptr, MIB, stream)
    limited.close()


def test_a_closed_resource_gives_nothing_and_takes_nothing(
    pm: ModuleType, device: Any, native: ModuleType, stream: Any
) -> None:
    closed = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), host_access=False)
    torch = TorchFunctions(native, closed, with_gil=True)
    ptr = torch.allocate(MIB, stream)
    with pytest.raises(BufferError, match="1 live buffer"):
        closed.close()
    torch.free(ptr, MIB, stream)
    closed.close()
    with lost() as told:
        torch.free(ptr, MIB, stream)
    assert len(told) == 1


def test_a_wrong_free_is_told_and_changes_nothing(memory: Any, torch: TorchFunctions, stream: Any) -> None:
    ptr = torch.allocate(MIB, stream)
    with lost() as told:
        torch.free(ptr + 256, MIB, stream)
        torch.free(ptr, MIB + 1, stream)
    assert len(told) == 2
    assert memory.live_bytes == MIB
    torch.free(ptr, MIB, stream)
    assert memory.live_bytes == 0


def test_a_recorded_stream_holds_the_memory_back(
    memory: Any, torch: TorchFunctions, stream: Any, other_stream: Any, latch: Callable[[Any], Any]
) -> None:
    ptr = torch.allocate(MIB, stream)
    held = latch(other_stream)
    torch.record_stream(ptr, other_stream.handle)
    torch.record_stream(ptr, other_stream.handle)
    assert torch.hook.noted == 1
    torch.free(ptr, MIB, stream)
    assert (torch.hook.noted, torch.hook.held) == (0, 0)
    assert memory.live_buffers == 0
    assert torch.allocate(MIB, stream) == ptr  # the next work on the stream waits for the other one
    assert not stream.query()
    held.release()
    stream.synchronize()
    torch.free(ptr, MIB, stream)


def test_a_recorded_stream_of_another_device_holds_the_memory_back(
    pm: ModuleType, two_devices: Any, memory: Any, torch: TorchFunctions, stream: Any, latch: Callable[[Any], Any]
) -> None:
    there = pm.Stream(two_devices[1])
    ptr = torch.allocate(MIB, stream)
    held = latch(there)
    torch.record_stream(ptr, there.handle)
    with lost() as told:
        torch.free(ptr, MIB, stream)
    assert (told, memory.live_buffers) == ([], 0)
    assert torch.allocate(MIB, stream) == ptr  # the next work on the stream waits for the other device's
    assert not stream.query()
    held.release()
    stream.synchronize()
    torch.free(ptr, MIB, stream)
    there.close()


def test_a_recorded_default_stream_is_that_of_the_memorys_device(
    two_devices: Any, memory: Any, torch: TorchFunctions, stream: Any, latch: Callable[[Any], Any]
) -> None:
    """Whatever device is current on the thread that frees."""
    device, other = two_devices
    ptr = torch.allocate(MIB, stream)
    held = latch(device.default_stream)
    torch.record_stream(ptr, 0)
    other.set_current()
    try:
        torch.free(ptr, MIB, stream)
        assert torch.allocate(MIB, stream) == ptr  # the next work on the stream waits for the default one
    finally:
        device.set_current()
    assert not stream.query()
    held.release()
    stream.synchronize()
    torch.free(ptr, MIB, stream)


def test_without_a_resource_the_current_one_gives(
    pm: ModuleType, memory: Any, of_current: TorchFunctions, stream: Any
) -> None:
    with pm.using(memory):
        inner = of_current.allocate(MIB, stream)
        assert memory.live_bytes == MIB
        default = pm.default_resource(stream.device)
        before = default.live_bytes
    outer = of_current.allocate(MIB, stream)
    assert default.live_bytes == before + MIB
    of_current.free(inner, MIB, stream)
    assert memory.live_bytes == 0
    with pm.using(memory):
        of_current.free(outer, MIB, stream)
    assert default.live_bytes == before
    assert of_current.hook.noted == 0


def test_another_device_gets_its_current_resource(
    pm: ModuleType, two_devices: tuple[Any, Any], memory: Any, torch: TorchFunctions
) -> None:
    other = two_devices[1] if memory.device.ordinal == two_devices[0].ordinal else two_devices[0]
    with pm.Stream(other) as away:
        default = pm.default_resource(other)
        before = default.live_bytes
        ptr = torch.allocate(MIB, away)
        assert (memory.live_bytes, default.live_bytes) == (0, before + MIB)
        torch.free(ptr, MIB, away)
        assert default.live_bytes == before


def test_a_captured_stream_gets_memory_and_stays_valid(
    memory: Any, torch: TorchFunctions, pm: ModuleType, stream: Any
) -> None:
    stream.begin_capture("relaxed")
    ptr = torch.allocate(3 * MIB, stream)
    assert ptr
    stream.end_capture()
    write(pm, as_buffer(pm, memory, ptr, 3 * MIB, stream), pattern(3 * MIB))
    torch.free(ptr, 3 * MIB, stream)
    assert memory.live_buffers == 0


def test_memory_that_captured_work_uses_is_held_until_the_capture_ends(
    memory: Any, torch: TorchFunctions, stream: Any, other_stream: Any
) -> None:
    ptr = torch.allocate(MIB, stream)
    other_stream.begin_capture("relaxed")
    torch.record_stream(ptr, other_stream.handle)
    torch.free(ptr, MIB, stream)
    assert torch.hook.held == 1
    assert memory.live_bytes == MIB
    other_stream.end_capture()
    torch.empty_cache()
    assert torch.hook.held == 0
    assert memory.live_bytes == 0


def test_a_graphs_memory_is_kept_apart_until_its_release(memory: Any, torch: TorchFunctions, stream: Any) -> None:
    ordinal = stream.device.ordinal
    named = Filter.naming(stream.handle)
    torch.begin_pool(ordinal, 7, 8, ctypes.byref(named))
    stream.begin_capture("relaxed")
    first = torch.allocate(MIB, stream)
    torch.free(first, MIB, stream)
    again = torch.allocate(MIB, stream)  # in the order of the capture
    stream.end_capture()
    torch.end_pool(ordinal, 7, 8)
    assert again == first
    torch.free(again, MIB, stream)
    apart = [torch.allocate(MIB, stream) for _ in range(8)]
    assert first not in apart  # the graph will be replayed
    for ptr in apart:
        torch.free(ptr, MIB, stream)
    torch.release_pool(ordinal, 7, 8)
    assert memory.live_buffers == 0
    assert torch.hook.noted == 0


def test_a_graph_that_is_released_while_another_is_captured(
    memory: Any, torch: TorchFunctions, stream: Any, other_stream: Any
) -> None:
    """A capture allows no wait for the device, so the memory of the first goes back afterwards."""
    ordinal = stream.device.ordinal
    first, second = Filter.naming(stream.handle), Filter.naming(other_stream.handle)
    torch.begin_pool(ordinal, 1, 1, ctypes.byref(first))
    torch.free(torch.allocate(MIB, stream), MIB, stream)
    torch.end_pool(ordinal, 1, 1)
    torch.begin_pool(ordinal, 2, 2, ctypes.byref(second))
    other_stream.begin_capture("relaxed")
    torch.release_pool(ordinal, 1, 1)
    assert memory.live_buffers > 0
    torch.free(torch.allocate(MIB, other_stream), MIB, other_stream)
    other_stream.end_capture()  # it is valid
    torch.end_pool(ordinal, 2, 2)
    torch.empty_cache()
    torch.release_pool(ordinal, 2, 2)
    assert memory.live_buffers == 0


def test_memory_of_a_graph_that_another_stream_used(
    memory: Any, torch: TorchFunctions, stream: Any, other_stream: Any
) -> None:
    """A replay uses it on both streams, so it serves no other tensor until the graph is gone."""
    ordinal = stream.device.ordinal
    named = Filter.naming(stream.handle)
    torch.begin_pool(ordinal, 5, 6, ctypes.byref(named))
    ptr = torch.allocate(MIB, stream)
    torch.record_stream(ptr, other_stream.handle)
    torch.free(ptr, MIB, stream)
    assert torch.hook.held == 1
    again = torch.allocate(MIB, stream)
    assert again != ptr
    torch.record_stream(again, other_stream.handle)
    torch.end_pool(ordinal, 5, 6)
    torch.release_pool(ordinal, 5, 6)
    assert torch.hook.held == 0
    torch.free(again, MIB, stream)  # the graph is gone: behind the work of both streams
    assert torch.hook.held == 0
    assert memory.live_buffers == 0


def test_a_graph_that_is_released_before_its_memory(memory: Any, torch: TorchFunctions, stream: Any) -> None:
    ordinal = stream.device.ordinal
    named = Filter.naming(stream.handle)
    torch.begin_pool(ordinal, 9, 9, ctypes.byref(named))
    ptr = torch.allocate(MIB, stream)
    torch.end_pool(ordinal, 9, 9)
    torch.release_pool(ordinal, 9, 9)
    assert memory.live_buffers > 0
    torch.free(ptr, MIB, stream)
    assert memory.live_buffers == 0


def test_a_pool_that_names_other_streams_changes_nothing(
    memory: Any, torch: TorchFunctions, stream: Any, other_stream: Any
) -> None:
    ordinal = stream.device.ordinal
    named = Filter.naming(other_stream.handle)
    torch.begin_pool(ordinal, 3, 4, ctypes.byref(named))
    ptr = torch.allocate(MIB, stream)
    assert memory.live_bytes == MIB
    torch.free(ptr, MIB, stream)
    torch.end_pool(ordinal, 3, 4)
    torch.release_pool(ordinal, 3, 4)
    assert memory.live_buffers == 0


def test_empty_cache_trims_and_a_fraction_limits(memory: Any, torch: TorchFunctions, stream: Any) -> None:
    ptr = torch.allocate(MIB, stream)
    torch.free(ptr, MIB, stream)
    stream.synchronize()
    assert memory.stats().reserved > 0
    torch.empty_cache()
    assert memory.stats().reserved == 0
    torch.set_fraction(0.25, stream.device.ordinal)
    assert memory.limit == stream.device.memory_info().total // 4
    torch.set_fraction(1.0, stream.device.ordinal)
    assert memory.limit == stream.device.memory_info().total
    memory.limit = None


def test_threads_on_streams_of_their_own(pm: ModuleType, memory: Any, torch: TorchFunctions, device: Any) -> None:
    failed: list[str] = []

    def work(seed: int) -> None:
        with pm.Stream(device) as own:
            for turn in range(50):
                nbytes = 1 + (turn * 7919 + seed * 131) % (64 * KIB)
                ptr = torch.allocate(nbytes, own)
                buffer = as_buffer(pm, memory, ptr, nbytes, own)
                buffer.fill(seed + 1, stream=own)
                own.synchronize()
                if read_back(pm, buffer) != bytes([seed + 1]) * nbytes:
                    failed.append(f"thread {seed}, turn {turn}")
                torch.free(ptr, nbytes, own)

    threads = [Thread(target=work, args=(seed,)) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert memory.live_buffers == 0


def test_a_process_has_16_sets_of_functions(pm: ModuleType) -> None:
    answer = python_output(
        """
        import sys
        from portamem import _loader

        native = _loader.load(sys.argv[1])
        hooks = [native._LibraryHook(None) for _ in range(17)]
        sets = [hook.torch_functions() for hook in hooks[:16]]
        assert len({each["deallocate"] for each in sets}) == 16
        for _ in range(2):
            try:
                hooks[16].torch_functions()
            except ValueError as refused:
                print(refused)
        """,
        pm.backend,
    )
    assert answer.count("16 different resources") == 2


def test_memory_that_is_out_when_the_process_ends(pm: ModuleType) -> None:
    """PyTorch frees its tensors when its own static objects go."""
    answer = python_output(
        """
        import atexit, ctypes, sys
        from portamem import _loader

        native = _loader.load(sys.argv[1])
        functions = native._LibraryHook(None).torch_functions()
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        ptr = allocate(functions["allocate_or_null"])(1 << 20, 0, None)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        free = free(functions["deallocate"])
        at_exit = ctypes.CFUNCTYPE(None)(lambda: free(ptr, 1 << 20, 0, None))
        atexit.register(at_exit)
        kept = allocate(functions["allocate_or_null"])(1 << 20, 0, None)
        print("end")
        """,
        pm.backend,
    )
    assert answer.strip() == "end"
