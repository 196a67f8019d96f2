"""Objects of Views, which are used again once they were dropped, and the makers of them: what Python sees of that."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import portamem
from portamem import _choice

MORE_THAN_ARE_KEPT = 200


def test_a_dropped_view_is_gone_and_the_next_shows_nothing_of_it(pm: ModuleType, stream: Any) -> None:
    first = pm.empty((3, 4), "int16", stream=stream)
    gone = weakref.ref(first)
    identity = id(first)
    del first
    assert gone() is None
    second = pm.empty(5, "float64", stream=stream)
    assert id(second) == identity, "the object was not used again: this test shows nothing"
    assert (second.shape, second.dtype, second.strides, second.nbytes) == ((5,), "float64", (8,), 40)
    assert (second.is_closed, gone()) == (False, None)
    assert weakref.ref(second)() is second


def test_a_closed_view_does_not_come_back_as_one(pm: ModuleType, stream: Any) -> None:
    view = pm.empty(8, "uint8", stream=stream)
    view.close()
    with pytest.raises(ValueError, match="the view is closed"):
        _ = view.buffer
    del view
    with pm.empty(4, "uint8", stream=stream) as other:
        assert not other.is_closed
        assert other.buffer.exports == 1


def test_more_views_at_once_than_are_kept(pm: ModuleType, stream: Any) -> None:
    for _ in range(2):
        views = [pm.empty((n, 2), "int32", stream=stream) for n in range(MORE_THAN_ARE_KEPT)]
        assert [view.shape for view in views] == [(n, 2) for n in range(MORE_THAN_ARE_KEPT)]
        del views


def test_a_part_keeps_its_buffer_and_its_shape_when_the_whole_is_dropped(pm: ModuleType, stream: Any) -> None:
    whole = pm.empty((4, 6), "int32", stream=stream)
    part = whole[1:3]
    address = whole.handle
    del whole
    others = [pm.empty(9, "int8", stream=stream) for _ in range(8)]
    assert (part.shape, part.handle) == ((2, 6), address + 24)
    assert part.buffer.exports == 1
    del others


def test_references_are_balanced(pm: ModuleType, device: Any, stream: Any) -> None:
    resource = pm.current_resource(device)

    def counts() -> list[int]:
        gc.collect()  # memory that other tests have left behind goes before the first look
        return [sys.getrefcount(each) for each in (pm.View, pm.Buffer, resource, stream, np.float32)]

    def use() -> None:
        with pytest.raises(ValueError, match="negative"):
            pm.empty(-1, np.float32, resource=resource)
        pm.empty((3, 4), np.float32, resource=resource, stream=stream)
        pm.empty(5, np.float32, device=device)
        pm.zeros(5, np.float32, resource=resource)
        with resource.allocate(64, stream=stream) as buffer, buffer.view(np.float32) as view:
            assert view[2:].reshape(2, -1 + 8).shape == (2, 7)

    use()
    before = counts()
    for _ in range(100):
        use()
    assert counts() == before


def test_a_view_dropped_while_an_exception_is_on_its_way(pm: ModuleType, stream: Any) -> None:
    def fail() -> None:
        view = pm.empty(4, "int32", stream=stream)
        raise LookupError(view.dtype)

    with pytest.raises(LookupError, match="int32"):
        fail()


def test_threads_make_and_drop_views(pm: ModuleType, device: Any) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = pm.Stream(device)
            for turn in range(300):
                view = pm.zeros((number + 1, turn % 5 + 1), "uint8", stream=stream)
                parts = [view[:1], view.reshape(-1 + view.size + 1)]
                assert (view.shape, parts[1].shape) == ((number + 1, turn % 5 + 1), (view.size,))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_ravel_and_view_are_the_same_memory(pm: ModuleType, stream: Any) -> None:
    with pm.zeros((4, 6), "float32", stream=stream) as view:
        with view.ravel() as line:
            assert (line.shape, line.dtype, line.handle) == ((24,), "float32", view.handle)
        with view.view() as raw, view.view("int16") as short, view.view(dtype="B") as named:
            assert (raw.shape, raw.dtype, raw.handle) == ((4, 24), "uint8", view.handle)
            assert (short.shape, short.dtype) == ((4, 12), "int16")
            assert named.dtype == "uint8"
        with view.view("complex64") as pairs, view[1:].view("int32") as rows:
            assert (pairs.shape, pairs.dtype, rows.handle) == ((4, 3), "complex64", view.handle + 24)
        with view[0, 0] as number, number.view("int32") as same:
            assert (same.shape, same.dtype) == ((), "int32")
        assert view.buffer.exports == 1
    with pytest.raises(ValueError, match="the view is closed"):
        view.ravel()
    with pytest.raises(ValueError, match="the view is closed"):
        view.view()


def test_what_ravel_and_view_refuse(pm: ModuleType, stream: Any) -> None:
    with pm.zeros((4, 6), "float32", stream=stream) as view:
        with view.T as turned, pytest.raises(ValueError, match="not C-contiguous"):
            turned.ravel()
        with view[:, ::2] as gaps, pytest.raises(ValueError, match="not C-contiguous"):
            gaps.view("uint8")
        with pytest.raises(ValueError, match=r"float32\(4, 6\) has no whole number of complex128 along its last axis"):
            view.view("complex128")
        with view[0, 0] as number, pytest.raises(ValueError, match="along its last axis"):
            number.view("uint8")
        with view[0, 2:] as later, pytest.raises(ValueError, match="not a multiple of the 16 bytes of complex128"):
            later.view("complex128")
        with pytest.raises(ValueError, match="not an element type"):
            view.view("no such type")


class Indexed:
    """An int of a program's own."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (6, (6,)),
        ((), ()),
        ((2, 3), (2, 3)),
        ([2, 3], (2, 3)),
        (range(1, 4), (1, 2, 3)),
        (True, (1,)),
        (np.int64(6), (6,)),
        ((np.uint8(2), 3), (2, 3)),
        (Indexed(4), (4,)),
        ((0, 1 << 40), (0, 1 << 40)),
        ((1,) * 12, (1,) * 12),
    ],
)
def test_what_is_a_shape(pm: ModuleType, stream: Any, given: Any, shape: tuple[int, ...]) -> None:
    for make in (pm.empty, pm.zeros):
        with make(given, "int8", stream=stream) as view:
            assert view.shape == shape
            assert view.ndim == len(shape)


@pytest.mark.parametrize(
    ("given", "error", "saying"),
    [
        (-1, ValueError, r"negative extent: \(-1,\)"),
        ((2, -3), ValueError, r"negative extent: \(2, -3\)"),
        (2.5, TypeError, "float"),
        ("12", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (1 << 70, ValueError, "size is larger than any memory: 9444732965739290427392"),
        ((1 << 40, 1 << 40), ValueError, "size is larger than any memory: 9671406556917033397649408"),
        ((1 << 40, 1 << 40, 0), ValueError, "larger than any memory"),
        ((1 << 70, 0), ValueError, "larger than any memory"),
    ],
)
def test_what_is_no_shape(pm: ModuleType, given: Any, error: type[Exception], saying: str) -> None:
    for make in (pm.empty, pm.zeros):
        with pytest.raises(error, match=saying):
            make(given, "float64")


def test_arguments_of_the_makers(pm: ModuleType) -> None:
    with pytest.raises(TypeError, match="shape"):
        pm.empty()
    with pytest.raises(TypeError, match="positional"):
        pm.empty(1, "int8", None)
    with pytest.raises(TypeError, match="colour"):
        pm.zeros(1, colour="red")
    with pytest.raises(TypeError, match="not a memory resource"):
        pm.empty(1, resource=object())


def test_an_element_type_of_a_programs_own_may_change_its_mind(pm: ModuleType, stream: Any) -> None:
    class Mine:
        dtype: Any = np.dtype("float32")

    assert pm.empty(1, Mine, stream=stream).dtype == "float32"
    Mine.dtype = np.dtype("int16")
    assert pm.empty(1, Mine, stream=stream).dtype == "int16"


def make_held_pool(pm: ModuleType, device: Any, latch: Any) -> Any:
    """A pool whose free memory of 1 KiB is the default stream's, which is held, and the latch that holds it."""
    default = device.default_stream
    resource = pm.PoolMemoryResource(pm.DeviceMemoryResource(device), host_access=False)
    resource.allocate(1024, stream=default).close()  # found again at once, in the order of the stream
    held = latch(default)
    with pm.empty(1024, "uint8", resource=resource, stream=default):
        pass
    return resource, held


def test_zeros_without_a_stream_are_there_on_return(pm: ModuleType, device: Any, latch: Any) -> None:
    resource, held = make_held_pool(pm, device, latch)
    threading.Timer(0.05, held.release).start()
    with pm.zeros(1024, "uint8", resource=resource):
        assert device.default_stream.query()


ADDRESSES: dict[str, Callable[[ModuleType, Any], object]] = {
    "handle": lambda pm, view: view.handle,
    "buffer": lambda pm, view: view.buffer.handle,
    "part": lambda pm, view: view[1:].handle,
    "pointer_info": lambda pm, view: pm.pointer_info(view),
    "interface": lambda pm, view: view.__cuda_array_interface__,
    "dlpack": lambda pm, view: view.__dlpack__(max_version=(1, 0)),
}


@pytest.mark.parametrize("ask", ADDRESSES)
def test_empty_without_a_stream_waits_when_its_address_is_told(
    pm: ModuleType, device: Any, latch: Any, ask: str
) -> None:
    if pm.backend == "host" and ask in ("interface", "dlpack"):  # they have no word for memory that stands for a GPU's
        with pm.empty(1024, "uint8") as view, pytest.raises((AttributeError, BufferError)):
            ADDRESSES[ask](pm, view)
        return
    resource, held = make_held_pool(pm, device, latch)
    with pm.empty(1024, "uint8", resource=resource) as view:
        assert not device.default_stream.query(), "the call waited for work that it has no need of"
        threading.Timer(0.05, held.release).start()
        told = ADDRESSES[ask](pm, view)
        assert device.default_stream.query()
        del told


def test_memory_of_empty_can_be_used_in_stream_order_before_it_is_there(
    pm: ModuleType, device: Any, latch: Any, stream: Any
) -> None:
    resource, held = make_held_pool(pm, device, latch)
    with pm.empty(1024, "uint8", resource=resource) as view:
        filled = view.fill(5, stream=stream)
        assert not filled.query(), "the stream does not wait for the memory"
        threading.Timer(0.05, held.release).start()
        assert (view.to_numpy() == 5).all()


def test_releasing_memory_of_empty_waits_for_it(pm: ModuleType, device: Any, latch: Any) -> None:
    resource, held = make_held_pool(pm, device, latch)
    buffer = pm.empty(1024, "uint8", resource=resource).buffer
    threading.Timer(0.05, held.release).start()
    address = buffer.release()
    assert device.default_stream.query()
    resource.deallocate(address, 1024, stream=device.default_stream)


def test_the_plain_names_are_the_chosen_backends_own(pm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_choice, "_chosen", pm)
    monkeypatch.setattr(_choice, "_taken", [])
    for name in ("empty", "copy"):
        vars(portamem).pop(name, None)
    assert portamem.empty is pm.empty
    assert vars(portamem)["empty"] is pm.empty, "each call asks for the backend again"
    with monkeypatch.context() as other:
        other.setenv("PORTAMEM_BACKEND", pm.backend)
        _choice.use(None)
    assert "empty" not in vars(portamem), "a choice was made, and the plain name is the former backend's"
    assert portamem.empty is pm.empty
