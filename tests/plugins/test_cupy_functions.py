"""The C functions of CuPy's plug, called as CuPy calls them: with the GIL, its current stream asked by a C function."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, pattern, read_back, write

from portamem import errors

CURRENT = ctypes.CFUNCTYPE(ctypes.c_ssize_t)
# Python's exceptions pass through functions of this kind.
ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
FREE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class LibraryOutOfMemoryError(MemoryError):
    """Stands for the class that CuPy has for no memory: it is made of two sizes and a limit."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        super().__init__(f"{size} {total} {limit}")


class BothError(errors.OutOfMemoryError, LibraryOutOfMemoryError):
    pass


class Functions:
    """A CuPy whose current stream is a variable, and its allocator over a resource."""

    def __init__(self, native: ModuleType, resource: Any) -> None:
        self.current = 0
        self._current_stream = CURRENT(lambda: self.current)
        self.hook = native._LibraryHook(resource)
        address = ctypes.cast(self._current_stream, ctypes.c_void_p).value
        self.owner: Any = None
        self._addresses = self.hook.cupy_functions(address, lambda: self.owner, BothError)
        self._allocate, self._free = ALLOCATE(self._addresses["allocate"]), FREE(self._addresses["deallocate"])

    def allocate(self, nbytes: int, device: int) -> int:
        return self._allocate(self._addresses["hook"], nbytes, device)

    def free(self, ptr: int) -> None:
        self._free(self._addresses["hook"], ptr, 0)


@pytest.fixture
def memory(pm: ModuleType, device: Any) -> Any:
    made = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), limit="64 MiB", host_access=False)
    yield made
    device.synchronize()
    made.close()


@pytest.fixture
def cupy(native: ModuleType, memory: Any) -> Functions:
    return Functions(native, memory)


def test_memory_is_the_resources_own_and_goes_back_by_its_address(
    pm: ModuleType, memory: Any, cupy: Functions, device: Any
) -> None:
    sizes = [1, 256, 100_000, 3 * MIB]
    blocks = [cupy.allocate(nbytes, device.ordinal) for nbytes in sizes]
    assert memory.live_bytes == sum(sizes)
    for seed, (ptr, nbytes) in enumerate(zip(blocks, sizes, strict=True)):
        buffer = pm.Buffer.from_handle(ptr, nbytes, owner=memory, device=device)
        write(pm, buffer, pattern(nbytes, seed))
        assert read_back(pm, buffer) == pattern(nbytes, seed)
    assert cupy.hook.noted == len(sizes)
    for ptr in blocks:
        cupy.free(ptr)
    assert memory.live_buffers == 0
    assert cupy.hook.noted == 0


def test_memory_goes_back_to_the_stream_that_was_current_at_its_allocation(
    memory: Any, cupy: Functions, device: Any, stream: Any, other_stream: Any, latch: Any
) -> None:
    cupy.current = stream.handle
    ptr = cupy.allocate(MIB, device.ordinal)
    held = latch(stream)
    cupy.current = other_stream.handle
    cupy.free(ptr)
    assert cupy.allocate(0, device.ordinal) == 0
    cupy.current = stream.handle
    assert cupy.allocate(MIB, device.ordinal) == ptr  # in the order of the stream, whose work still runs
    cupy.free(ptr)
    held.release()
    stream.synchronize()


def test_an_array_outlives_the_stream_that_it_was_made_on(
    pm: ModuleType, memory: Any, cupy: Functions, device: Any
) -> None:
    """CuPy destroys a stream with its last reference."""

    class Owner:
        """Stands for CuPy's stream object."""

        def __init__(self) -> None:
            self.stream = pm.Stream(device)
            self.ptr = self.stream.handle

    for turn in range(40):
        cupy.owner = Owner()
        cupy.current = cupy.owner.ptr
        ptr = cupy.allocate(MIB, device.ordinal)
        again = cupy.allocate(MIB, device.ordinal)
        cupy.owner = None
        cupy.current = 0
        buffer = pm.Buffer.from_handle(ptr, MIB, owner=memory, device=device)
        write(pm, buffer, pattern(MIB, turn))
        assert read_back(pm, buffer) == pattern(MIB, turn)
        cupy.free(ptr)
        cupy.free(again)
    assert memory.live_buffers == 0
    assert memory.stats().reserved <= 16 * MIB


def test_no_memory_is_both_libraries_error(memory: Any, cupy: Functions, device: Any) -> None:
    with pytest.raises(LibraryOutOfMemoryError) as refused:
        cupy.allocate(1 << 40, device.ordinal)
    assert isinstance(refused.value, errors.OutOfMemoryError)
    assert refused.value.asked == 1 << 40
    assert memory.live_buffers == 0
    ptr = cupy.allocate(MIB, device.ordinal)
    cupy.free(ptr)


def test_a_closed_resource_is_named(pm: ModuleType, native: ModuleType, device: Any) -> None:
    closed = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), host_access=False)
    cupy = Functions(native, closed)
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        cupy.allocate(MIB, device.ordinal)


def test_without_a_resource_the_current_one_gives(pm: ModuleType, native: ModuleType, memory: Any, device: Any) -> None:
    cupy = Functions(native, None)
    with pm.using(memory):
        inner = cupy.allocate(MIB, device.ordinal)
    assert memory.live_bytes == MIB
    default = pm.default_resource(device)
    before = default.live_bytes
    outer = cupy.allocate(MIB, device.ordinal)
    assert default.live_bytes == before + MIB
    cupy.free(inner)
    cupy.free(outer)
    assert (memory.live_bytes, default.live_bytes) == (0, before)


def test_a_free_of_other_memory_is_told(
    memory: Any, cupy: Functions, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda failure: told.append(str(failure.exc_value)))
    ptr = cupy.allocate(MIB, device.ordinal)
    cupy.free(ptr + 256)
    assert len(told) == 1
    assert "has not given" in told[0]
    cupy.free(ptr)
    cupy.free(ptr)
    assert len(told) == 2
    assert memory.live_buffers == 0


def test_a_free_while_an_exception_is_on_its_way(memory: Any, cupy: Functions, device: Any) -> None:
    """CuPy frees where an array goes, which may be while Python unwinds."""

    class Array:
        def __init__(self) -> None:
            self.ptr = cupy.allocate(MIB, device.ordinal)

        def __del__(self) -> None:
            cupy.free(self.ptr)

    def fail() -> None:
        array = Array()
        raise KeyError(array.ptr)

    with pytest.raises(KeyError):
        fail()
    assert memory.live_buffers == 0
