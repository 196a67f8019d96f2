# SPDX-License-Identifier: MIT
"""CallbackMemoryResource: memory of the program's own two functions, in Python or C."""

from __future__ import annotations

import ctypes
import gc
import threading
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate, pattern, read_back, write
from helpers.waiting import eventually

import portamem
from portamem.conformance.kit.reported import unraisable


class Heap:
    """Aligned host memory, and a record of what was asked of it."""

    def __init__(self) -> None:
        self.out: dict[int, Any] = {}
        self.calls: list[tuple[Any, ...]] = []

    def allocate(self, nbytes: int, stream: Any) -> int:
        memory = np.empty(nbytes + 256, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.out[address] = memory
        self.calls.append(("allocate", nbytes, stream))
        return address

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        self.calls.append(("deallocate", nbytes, stream))
        del self.out[address]


@pytest.fixture
def heap() -> Heap:
    return Heap()


@pytest.fixture
def system(pm: Any, heap: Heap) -> Any:
    return pm.CallbackMemoryResource(heap.allocate, heap.deallocate, kind="system")


def test_memory_of_python_functions(pm: Any, heap: Heap, system: Any, stream: Any) -> None:
    assert isinstance(system, portamem.CallbackMemoryResource)
    assert (system.kind, system.device_id, system.is_host_accessible) == ("system", -1, True)
    with system.allocate(1000, stream=stream) as buffer:
        assert list(heap.out) == [buffer.handle]
        write(pm, buffer, pattern(1000, 1))
        assert read_back(pm, buffer) == pattern(1000, 1)
        assert memoryview(buffer)[:10] == pattern(1000, 1)[:10]
    assert heap.calls == [("allocate", 1000, stream), ("deallocate", 1000, stream)]
    assert not heap.out
    system.allocate(0).close()
    assert len(heap.calls) == 2
    system.close()


def test_memory_of_another_resource(pm: Any, resource: Any, device: Any) -> None:
    """Every kind, through ``release`` and ``deallocate``."""

    def take(nbytes: int, stream: Any) -> int:
        return resource.allocate(nbytes, stream=stream).release()

    def give(address: int, nbytes: int, stream: Any) -> None:
        resource.deallocate(address, nbytes, stream=stream)

    made = pm.CallbackMemoryResource(
        take,
        give,
        device=device,
        kind=resource.kind,
        host_accessible=resource.is_host_accessible,
        stream_ordered=resource.is_stream_ordered,
    )
    assert (made.kind, made.device_id) == (resource.kind, resource.device_id)
    with allocate(made, 1000) as buffer:
        write(pm, buffer, pattern(1000, 2))
        assert read_back(pm, buffer) == pattern(1000, 2)
        assert resource.live_buffers == 1
    assert resource.live_buffers == 0


@pytest.mark.parametrize("error", [KeyError("no"), KeyboardInterrupt(), MemoryError("none"), portamem.Error("odd")])
def test_what_a_function_raises_reaches_the_caller(pm: Any, heap: Heap, error: BaseException) -> None:
    fails = True

    def take(nbytes: int, stream: Any) -> int:
        if fails:
            raise error
        return heap.allocate(nbytes, stream)

    def give(address: int, nbytes: int, stream: Any) -> None:
        if fails:
            raise error
        heap.deallocate(address, nbytes, stream)

    made = pm.CallbackMemoryResource(take, give, kind="system")
    for resource in (made, pm.LimitingAdaptor(made, 1000), pm.FixedSizeMemoryResource(made, 100, blocks_per_chunk=1)):
        fails = True
        with pytest.raises(type(error)) as caught:
            resource.allocate(100)
        assert caught.value is error
        assert "take" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert (resource.live_buffers, made.live_buffers) == (0, 0)
        fails = False
        buffer = resource.allocate(100)
        write(pm, buffer, pattern(100, 3))
        fails = True
        if not isinstance(resource, pm.FixedSizeMemoryResource):
            with pytest.raises(type(error)) as caught:
                buffer.close()
            assert caught.value is error
            assert read_back(pm, buffer) == pattern(100, 3)
        fails = False
        buffer.close()
        if resource is not made:
            resource.close()
    assert not heap.out


def test_addresses_that_are_none(pm: Any, heap: Heap) -> None:
    answer: Any = 0
    given: list[int] = []
    made = pm.CallbackMemoryResource(
        lambda nbytes, stream: answer, lambda address, nbytes, stream: given.append(address), kind="system"
    )
    with pytest.raises(portamem.OutOfMemoryError, match="gave no address for 300 B"):
        made.allocate(300)
    for wrong, error, text in (
        (None, TypeError, "the address that the allocate function returned is an int, not NoneType"),
        ("0x1000", TypeError, "not str"),
        (True, TypeError, "not bool"),
        (4096.0, TypeError, "not float"),
        (-256, ValueError, "negative"),
        (2**70, ValueError, "beyond all addresses"),
    ):
        answer = wrong
        with pytest.raises(error, match=text):
            made.allocate(300)
    assert given == []
    answer = 0x10010
    with pytest.raises(ValueError, match="0x10010, which is not a multiple of 256"):
        made.allocate(300)
    assert given == [0x10010]
    with pytest.raises(ValueError, match="aligns to 256"):
        made.allocate(300, alignment=512)
    assert made.live_buffers == 0


def test_bad_arguments(pm: Any) -> None:
    def take(nbytes: int, stream: Any) -> int:
        return 0

    for wrong in (None, "take", True):
        with pytest.raises(TypeError, match="allocate is a"):
            pm.CallbackMemoryResource(wrong, take)
    with pytest.raises(ValueError, match="deallocate is a null pointer"):
        pm.CallbackMemoryResource(take, 0)
    with pytest.raises(ValueError, match="kind is 'device'"):
        pm.CallbackMemoryResource(take, take, kind="fast")
    with pytest.raises(ValueError, match="no device"):
        pm.CallbackMemoryResource(take, take, device=4711)


def test_c_functions(pm: Any, stream: Any) -> None:
    """The C library's own, by ctypes: aligned_alloc has its arguments in another order, so Python stands between."""
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype = ctypes.c_void_p
    libc.aligned_alloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    libc.free.argtypes = (ctypes.c_void_p,)
    seen: list[tuple[Any, ...]] = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
    def take(nbytes: int, on: int, user_data: int) -> int:
        seen.append((nbytes, on, user_data))
        return int(libc.aligned_alloc(256, -(-nbytes // 256) * 256))

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
    def give(address: int, nbytes: int, on: int, user_data: int) -> None:
        seen.append((nbytes, on, user_data))
        libc.free(address)

    class Cfunc:
        """An object that knows its function's address, as Numba's does."""

        def __init__(self, function: Any) -> None:
            self.address = ctypes.cast(function, ctypes.c_void_p).value

    for functions in ((take, give), (Cfunc(take), Cfunc(give)), (Cfunc(take).address, Cfunc(give).address)):
        seen.clear()
        made = pm.CallbackMemoryResource(*functions, kind="system", user_data=77)
        with made.allocate(1000, stream=stream) as buffer:
            write(pm, buffer, pattern(1000, 4))
            assert read_back(pm, buffer) == pattern(1000, 4)
        assert seen == [(1000, stream.handle, 77)] * 2


def test_a_function_may_use_what_stands_on_it(pm: Any, heap: Heap) -> None:
    above: list[Any] = []
    depth = 0

    def take(nbytes: int, stream: Any) -> int:
        nonlocal depth
        depth += 1
        if depth == 1:
            above[0].allocate(64, stream=stream).close()
        depth -= 1
        return heap.allocate(nbytes, stream)

    made = pm.CallbackMemoryResource(take, heap.deallocate, kind="system")
    above.append(pm.FixedSizeMemoryResource(made, 64, blocks_per_chunk=1))
    with above[0].allocate(64) as buffer:
        assert len(heap.out) == 2
        write(pm, buffer, pattern(64, 5))
    above.pop().close()
    assert not heap.out


def test_threads_call_at_once(pm: Any, system: Any) -> None:
    """Each with the GIL when it runs Python, and without while it waits."""

    def work(number: int) -> None:
        for i in range(50):
            with system.allocate(100 + i) as buffer:
                memoryview(buffer)[:] = pattern(100 + i, number)
                assert bytes(buffer) == pattern(100 + i, number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert system.live_buffers == 0


def test_functions_live_as_long_as_the_memory(pm: Any) -> None:
    heap = Heap()
    gone = weakref.ref(heap)
    buffer = pm.CallbackMemoryResource(heap.allocate, heap.deallocate, kind="system").allocate(100)
    del heap
    gc.collect()
    assert gone() is not None
    buffer.close()
    del buffer
    gc.collect()
    assert gone() is None


def test_what_a_function_raises_where_nobody_waits_is_reported_and_the_memory_goes_back_later(
    pm: Any, heap: Heap, stream: Any
) -> None:
    is_now = False
    asked: list[tuple[int, int]] = []

    def give(address: int, nbytes: int, stream: Any) -> None:
        asked.append((address, nbytes))
        if not is_now:
            raise LookupError("not now")
        heap.deallocate(address, nbytes, stream)

    made = pm.CallbackMemoryResource(heap.allocate, give, kind="system")
    buffer = made.allocate(1000, stream=stream)
    address = buffer.handle
    with unraisable() as reported:
        del buffer
        gc.collect()
        assert eventually(lambda: len(asked) > 3), "a dropped buffer is offered again"
    assert reported == ["LookupError: not now"]
    assert made.live_buffers == 1
    is_now = True
    assert eventually(lambda: made.live_buffers == 0)
    assert not heap.out
    assert set(asked) == {(address, 1000)}
    made.close()
