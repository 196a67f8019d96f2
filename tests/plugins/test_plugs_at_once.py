"""Plugs that threads put in and take out at the same moment, with stand-ins for the libraries."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from plugins import fakes_numba, fakes_warp

from portamem.plugins import _hooks, _plug, cupy, numba, tvm_ffi, warp
from portamem.plugins._plug import Plug


class Meeting:
    """A call that waits a moment until another thread makes it too."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._barrier = threading.Barrier(2)

    def __call__(self, *arguments: Any) -> Any:
        answer = self._call(*arguments)
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(0.3)
        return answer


class Setting:
    """The allocator that a library has."""

    def __init__(self, before: Any) -> None:
        self.now = before

    def get(self, *_: Any) -> Any:
        return self.now

    def set(self, allocator: Any) -> None:
        self.now = allocator


def library_of(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    made: Any = ModuleType(name)
    made.__version__ = "99.0"
    monkeypatch.setitem(sys.modules, name, made)
    return made


def plug_of_cupy(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> tuple[Callable[[], Plug], Callable[[], Any]]:
    has = Setting("CuPy's own")
    library_of(monkeypatch, "cupy").cuda = SimpleNamespace(
        runtime=SimpleNamespace(is_hip=False), get_allocator=Meeting(has.get), set_allocator=has.set
    )
    monkeypatch.setattr(cupy, "_allocator", lambda *_: object())
    return cupy.use, has.get


def plug_of_tvm_ffi(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> tuple[Callable[[], Plug], Callable[[], Any]]:
    has = Setting(None)
    given = iter(range(1, 10))
    library_of(monkeypatch, "tvm_ffi").LIB = SimpleNamespace(
        TVMFFIEnvGetStream=0, TVMFFIEnvSetDLPackManagedTensorAllocator=lambda address, *_: has.set(address.value)
    )
    monkeypatch.setattr(_hooks, "functions", lambda *_: {"allocate": next(given)})
    monkeypatch.setattr(tvm_ffi, "_current", Meeting(has.get))
    return tvm_ffi.use, has.get


def plug_of_warp(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> tuple[Callable[[], Plug], Callable[[], Any]]:
    wp = fakes_warp.module(monkeypatch, pm)
    device = wp.devices[0]
    monkeypatch.setattr(warp, "_custom", Meeting(warp._custom))
    return lambda: warp.use(device=str(device)), lambda: device._custom_allocator


def plug_of_numba(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> tuple[Callable[[], Plug], Callable[[], Any]]:
    target = fakes_numba.target(monkeypatch, pm.backend)
    set_manager = target.set_memory_manager

    def set_it(made: Any) -> None:
        met(made)
        set_manager(made)

    set_it.__module__ = set_manager.__module__
    met = Meeting(lambda _: None)
    monkeypatch.setattr(target, "set_memory_manager", set_it)
    return lambda: numba.use(module=target), lambda: fakes_numba._memory_manager


@pytest.mark.parametrize("make", [plug_of_cupy, plug_of_numba, plug_of_tvm_ffi, plug_of_warp])
def test_plugs_of_two_threads_all_come_out(monkeypatch: pytest.MonkeyPatch, pm: ModuleType, make: Any) -> None:
    use, current = make(monkeypatch, pm)
    before = current()
    plugs: list[Plug] = []
    threads = [threading.Thread(target=lambda: plugs.append(use())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = sorted(plugs, key=_plug._plugs[plugs[0].library].index)
    with pytest.raises(RuntimeError, match="a later plug"):
        first.undo()
    second.undo()
    assert first.is_active
    assert current() != before
    first.undo()
    assert current() == before


def test_a_plug_that_cannot_be_taken_out_keeps_its_place() -> None:
    later: list[Plug] = []

    def refuse() -> None:
        later.append(Plug("a library", None, lambda: None))
        raise RuntimeError("not now")

    outer = Plug("a library", None, lambda: None)
    inner = Plug("a library", None, refuse)
    with pytest.raises(RuntimeError, match="not now"):
        inner.undo()
    assert _plug._plugs["a library"] == [outer, inner, *later]
    with pytest.raises(RuntimeError, match="a later plug"):
        inner.undo()
    assert len(later) == 1
    for plug in (later[0], inner, outer):
        plug._take_out = lambda: None
        plug.undo()
    assert not _plug._plugs["a library"]


def test_no_plug_is_put_in_while_one_is_taken_out() -> None:
    """A thread that puts a plug in would otherwise take note of an allocator that is about to go."""
    events: list[str] = []
    in_undo = threading.Event()

    def take_out() -> None:
        in_undo.set()
        other.join(0.3)
        events.append("out")

    def put_in() -> None:
        in_undo.wait()
        with _plug.changing("a library"):
            events.append("in")
            Plug("a library", None, lambda: None).undo()

    other = threading.Thread(target=put_in)
    other.start()
    Plug("a library", None, take_out).undo()
    other.join()
    assert events == ["out", "in"]
