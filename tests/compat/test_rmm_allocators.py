# SPDX-License-Identifier: MIT
"""RMM's allocators for other libraries: with stand-ins that have their interfaces, and with the libraries on a GPU."""

from __future__ import annotations

import gc
import importlib
import os
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from helpers import partners
from helpers.process import python_output
from plugins import fakes_numba

import portamem

ALLOCATORS = "portamem.compat.rmm.allocators"


class Memory:
    """CuPy's memory of another library."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class External:
    """A stream that the program owns."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def fake_cupy(stream: Any) -> Any:
    return SimpleNamespace(
        cuda=SimpleNamespace(
            UnownedMemory=Memory,
            MemoryPointer=lambda mem, offset: SimpleNamespace(mem=mem, ptr=mem.ptr + offset),
            Device=lambda: SimpleNamespace(id=0),
            get_current_stream=lambda: stream,
            ExternalStream=External,
        )
    )


@pytest.fixture
def cupy_allocator(rmm: ModuleType) -> Any:
    module = importlib.import_module(f"{ALLOCATORS}.cupy")
    yield module
    module._cupy.cache_clear()


def test_memory_for_cupy(
    rmm: ModuleType, cupy_allocator: Any, stream: Any, pm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy_allocator.plug, "library", lambda: (fake_cupy(stream), portamem.backend))
    with rmm.statistics.statistics():
        pointer = cupy_allocator.rmm_cupy_allocator(42)
        assert (pointer.mem.size, pointer.mem.device_id) == (42, 0)
        assert isinstance(pointer.mem._owner, rmm.DeviceBuffer)
        assert pointer.mem._owner.stream == rmm.pylibrmm.stream.Stream(stream)
        assert portamem.size_of(pointer.ptr) == 42
        assert rmm.statistics.get_statistics().current_bytes == 42
        del pointer
        assert rmm.statistics.get_statistics().current_bytes == 0
    nothing = cupy_allocator.rmm_cupy_allocator(0)
    assert (nothing.mem.size, nothing.mem.ptr) == (0, 0)
    assert isinstance(nothing.mem._owner, rmm.DeviceBuffer)


def test_a_stream_of_cupys_that_the_program_destroys_first(
    rmm: ModuleType, cupy_allocator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = portamem.Stream()
    monkeypatch.setattr(cupy_allocator.plug, "library", lambda: (fake_cupy(External(theirs.handle)), portamem.backend))
    plain = rmm.mr.CudaMemoryResource()
    rmm.mr.set_current_device_resource(plain)
    pointer = cupy_allocator.rmm_cupy_allocator(42)
    theirs.close()
    del pointer
    gc.collect()
    assert plain.resource.live_buffers == 0


def test_cupy_of_another_backend(cupy_allocator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "hip" if portamem.backend == "cuda" else "cuda"
    monkeypatch.setattr(cupy_allocator.plug, "library", lambda: (fake_cupy(None), other))
    with pytest.raises(RuntimeError, match=f"CuPy is built for {other}.* set PORTAMEM_BACKEND={other}"):
        cupy_allocator.rmm_cupy_allocator(42)


def test_memory_for_numba(rmm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"{ALLOCATORS}.numba")
    target = fakes_numba.target(monkeypatch, portamem.backend)
    monkeypatch.setattr(module.plug, "_target", lambda _: target)
    monkeypatch.setattr(module, "check", lambda *_: None)
    manager = module.RMMNumbaManager
    assert manager is module.RMMNumbaManager
    target.set_memory_manager(manager)
    with rmm.statistics.statistics():
        memory = fakes_numba.context().memory_manager.memalloc(1000)
        assert memory.size == 1000
        assert rmm.statistics.get_statistics().current_bytes == 1000
        del memory
        gc.collect()
        assert rmm.statistics.get_statistics().current_bytes == 0
    with pytest.raises(AttributeError, match="RMMNumbaManger"):
        _ = module.RMMNumbaManger


def test_numbas_setting_names_the_module(rmm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"{ALLOCATORS}.numba")
    if portamem.backend != "cuda":
        with pytest.raises(RuntimeError, match=f"Numba is built for cuda, .* allocates from {portamem.backend}"):
            module._numba_memory_manager()
    monkeypatch.setattr(module, "check", lambda *_: None)
    assert module._numba_memory_manager().interface_version == 1


def test_memory_for_torch_is_made_when_torch_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    module = importlib.reload(importlib.import_module(f"{ALLOCATORS}.torch"))
    made = object()
    monkeypatch.setattr(module.plug, "process_allocator", lambda: SimpleNamespace(allocator=lambda: made))
    monkeypatch.setattr(module.plug, "backend", lambda: portamem.backend)
    assert module.rmm_torch_allocator.allocator() is made
    other = "hip" if portamem.backend == "cuda" else "cuda"
    monkeypatch.setattr(module.plug, "backend", lambda: other)
    with pytest.raises(RuntimeError, match=f"PyTorch is built for {other}"):
        module.rmm_torch_allocator.allocator()
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert importlib.reload(module).rmm_torch_allocator is None
    monkeypatch.undo()
    importlib.reload(module)


@pytest.mark.parametrize("name", ["cupy", "numba", "torch"])
def test_the_import_needs_no_library(name: str) -> None:
    code = f"""
        import sys
        import {ALLOCATORS}.{name}
        print({name!r} in sys.modules, "portamem._host" in sys.modules)
    """
    assert python_output(code).split() == ["False", "False"]


def on_the_gpu(code: str) -> list[str]:
    start = """
import gc, warnings
warnings.simplefilter("ignore")
import portamem.compat.rmm as rmm
rmm.statistics.enable_statistics()
count = lambda: rmm.statistics.get_statistics().current_bytes
"""
    return python_output(start + code, PYTHONPATH=os.environ.get("PYTHONPATH")).split()


def test_cupy_itself(pm: ModuleType, device: Any) -> None:
    partners.of_the_gpu("cupy", "CuPy", pm, device, lambda cupy, vendor: cupy.cuda.runtime.is_hip == (vendor == "hip"))
    assert on_the_gpu(
        """
import cupy
from portamem.compat.rmm.allocators.cupy import rmm_cupy_allocator
cupy.cuda.set_allocator(rmm_cupy_allocator)
stream = cupy.cuda.Stream()
with stream:
    x = cupy.arange(1000, dtype="f8")
    assert isinstance(x.data.mem._owner, rmm.DeviceBuffer)
    assert count() == 8000, count()
    print(float(x.sum()))
del stream, x
gc.collect()
print(count())
"""
    ) == ["499500.0", "0"]


def test_torch_itself(pm: ModuleType, device: Any) -> None:
    partners.of_the_gpu(
        "torch", "PyTorch", pm, device, lambda torch, vendor: bool(torch.version.hip) == (vendor == "hip")
    )
    assert on_the_gpu(
        """
import torch
from portamem.compat.rmm.allocators.torch import rmm_torch_allocator
torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
x = torch.arange(1000, device="cuda")
print(count(), int(x.sum()))
del x
gc.collect()
print(count())
"""
    ) == ["8000", "499500", "0"]
