"""Numba's plug: with a stand-in that has the interface of numba-cuda, with the real packages where no driver is
needed, and on a CUDA GPU."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from helpers import backend
from helpers.process import python_output
from plugins import fakes_numba

import portamem
from portamem.plugins import numba as plug

REAL = ("numba.cuda", "numba_cuda_mlir.numba_cuda")


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> Any:
    return fakes_numba.target(monkeypatch, pm.backend)


@pytest.fixture
def source(pm: ModuleType, device: Any) -> Any:
    made = pm.PoolMemoryResource(device=device, host_access=False)  # so that frees are reused at once everywhere
    yield made
    gc.collect()
    made.close()


def test_memory_is_the_resources(target: Any, source: Any, device: Any) -> None:
    with plug.use(source, module=target) as active:
        assert (active.library, active.resource, active.is_active) == ("fake.cuda", source, True)
        manager = fakes_numba.context().memory_manager
        memory = manager.memalloc(1000)
        assert (memory.size, source.live_bytes, source.live_buffers) == (1000, 1000, 1)
        assert source.size_of(memory.handle) == 1000
        del memory
        assert source.live_bytes == 0
        memory = manager.memalloc(1000)
        memory.free()
        assert source.live_bytes == 0
        del memory
        assert manager.memalloc(0).handle


def test_a_driver_that_calls_by_ctypes(monkeypatch: pytest.MonkeyPatch, target: Any, source: Any) -> None:
    """Numba's own, without numba-cuda's: its memory has ctypes' objects, and takes no numbers."""
    monkeypatch.setattr(fakes_numba, "USE_NV_BINDING", 0, raising=False)
    monkeypatch.delattr(fakes_numba, "binding")
    with plug.use(source, module=target):
        manager = fakes_numba.context().memory_manager
        memory = manager.memalloc(1000)
        assert isinstance(memory.handle, ctypes.c_uint64)
        assert source.size_of(plug.address_of(memory.handle)) == 1000
        for mapped in (False, True):
            host = manager.memhostalloc(1000, mapped=mapped)
            assert isinstance(host.host_pointer, ctypes.c_void_p)
            assert plug.address_of(host.host_pointer)
            del host
        del memory
        assert source.live_bytes == 0


def test_memory_is_taken_on_the_default_stream(target: Any, source: Any, device: Any) -> None:
    with plug.use(source, module=target):
        manager = fakes_numba.context().memory_manager
        memory = manager.memalloc(1000)
        (buffer,) = manager._held.values()
        assert buffer.stream == device.default_stream
        del memory, buffer


def test_undo_gives_contexts_their_own_manager(target: Any, source: Any) -> None:
    active = plug.use(source, module=target)
    context = fakes_numba.context()
    memory = context.memory_manager.memalloc(1000)
    former = context.memory_manager
    active.undo()
    assert not active.is_active
    assert fakes_numba._memory_manager is fakes_numba.NumbaCUDAMemoryManager
    assert isinstance(context.memory_manager, fakes_numba.NumbaCUDAMemoryManager)
    assert context.memory_manager.allocations is former.allocations
    assert context.memory_manager.memalloc(10).handle == 4096
    assert source.live_bytes == 1000
    del memory
    assert source.live_bytes == 0
    active.undo()


def test_undo_before_any_use(target: Any, source: Any) -> None:
    plug.use(source, module=target).undo()
    assert fakes_numba._memory_manager is None


def test_a_program_with_a_context_is_refused(target: Any, source: Any) -> None:
    fakes_numba.context()
    with pytest.raises(RuntimeError, match=r"fake\.cuda has a context on device 0.*before Numba is used"):
        plug.use(source, module=target)
    assert fakes_numba._memory_manager is fakes_numba.NumbaCUDAMemoryManager


def test_two_plugs(target: Any, source: Any, pm: ModuleType) -> None:
    with pm.PoolMemoryResource() as second:
        outer, inner = plug.use(source, module=target), plug.use(second, module=target)
        memory = fakes_numba.context().memory_manager.memalloc(100)
        assert (source.live_bytes, second.live_bytes) == (0, 100)
        with pytest.raises(RuntimeError, match="a later plug"):
            outer.undo()
        inner.undo()
        more = fakes_numba.context().memory_manager.memalloc(10)
        assert (source.live_bytes, second.live_bytes) == (10, 100)
        outer.undo()
        del memory, more
        assert (source.live_bytes, second.live_bytes) == (0, 0)


def test_undo_after_another_manager(target: Any, source: Any) -> None:
    active = plug.use(source, module=target)
    ours = fakes_numba._memory_manager
    target.set_memory_manager(fakes_numba.NumbaCUDAMemoryManager)
    with pytest.raises(RuntimeError, match=r"another memory manager since.*NumbaCUDAMemoryManager"):
        active.undo()
    assert active.is_active
    target.set_memory_manager(ours)
    active.undo()


def test_without_a_resource_the_current_one_is_taken(target: Any, pm: ModuleType, device: Any) -> None:
    with plug.use(module=target) as active, pm.PoolMemoryResource(device=device) as first:
        assert active.resource is None
        manager = fakes_numba.context().memory_manager
        with pm.using(first):
            memory = manager.memalloc(100)
        default = pm.default_resource(device).live_bytes
        other = manager.memalloc(50)
        assert (first.live_bytes, pm.default_resource(device).live_bytes) == (100, default + 50)
        del memory, other
        assert (first.live_bytes, pm.default_resource(device).live_bytes) == (0, default)


def test_another_device(target: Any, source: Any, two_devices: Any, pm: ModuleType) -> None:
    with plug.use(source, module=target):
        manager = fakes_numba.context(1).memory_manager
        with pytest.raises(ValueError, match=r"allocates on device 1, and the plugged resource is of device 0"):
            manager.memalloc(100)
    with plug.use(module=fakes_numba_again(target)):
        manager = fakes_numba.context(1).memory_manager
        with pm.PoolMemoryResource(device=1) as second, pm.using(second):
            memory = manager.memalloc(100)
            assert second.live_bytes == 100
            del memory


def fakes_numba_again(target: Any) -> Any:
    """The same target, as after ``close()``: without a context."""
    fakes_numba.driver.devices.clear()
    return target


@pytest.mark.parametrize("mapped", [False, True])
def test_page_locked_memory(target: Any, source: Any, pm: ModuleType, mapped: bool) -> None:
    before = pm.held("host")
    with plug.use(source, module=target):
        manager = fakes_numba.context().memory_manager
        memory = manager.memhostalloc(1000, mapped=mapped, portable=True)
        assert pm.pointer_info(memory.host_pointer).kind == "host"
        assert pm.held("host") - before >= 1000
        with manager.defer_cleanup():
            del memory
            assert len(manager.deallocations) == 1
            assert pm.held("host") - before >= 1000
        manager.deallocations.clear()
        assert not manager.allocations
        assert pm.held("host") == before


def test_memory_that_is_short_has_pending_frees_done(target: Any, source: Any, pm: ModuleType) -> None:
    with pm.LimitingAdaptor(source, 1000) as limited, plug.use(limited, module=target):
        manager = fakes_numba.context().memory_manager
        manager.deallocations.memory_capacity = 1 << 40
        held: list[Any] = [manager.memalloc(800)]

        def free(number: int) -> None:
            held.clear()

        manager.deallocations.add_item(free, 0, 1)
        memory = manager.memalloc(900)
        assert limited.live_bytes == 900
        with pytest.raises(portamem.OutOfMemoryError):
            manager.memalloc(900)
        del memory


def test_reset_gives_all_memory_back(target: Any, source: Any) -> None:
    with plug.use(source, module=target):
        context = fakes_numba.context()
        memory, mapped = context.memory_manager.memalloc(1000), context.memory_manager.memhostalloc(10, mapped=True)
        context.reset()
        assert (source.live_bytes, len(context.memory_manager._held)) == (0, 0)
        again = context.memory_manager.memalloc(1000)
        del memory, mapped  # the address is another's by now
        assert source.live_bytes == 1000
        del again


def test_what_numba_asks_a_manager(target: Any, source: Any, device: Any) -> None:
    with plug.use(source, module=target):
        manager = fakes_numba.context().memory_manager
        assert manager.interface_version == 1
        info = manager.get_memory_info()
        assert info.total == device.memory_info().total == manager.deallocations.memory_capacity
        assert 0 < info.free <= info.total


@pytest.mark.parametrize("is_pool", [True, False])
def test_a_handle_for_another_process(target: Any, pm: ModuleType, device: Any, is_pool: bool) -> None:
    made = pm.PoolMemoryResource(device=device) if is_pool else pm.AsyncMemoryResource(device)
    with made, plug.use(made, module=target):
        manager = fakes_numba.context().memory_manager
        memory = manager.memalloc(100)
        if pm.pointer_info(memory.handle).ipc_capable is False:
            with pytest.raises(NotImplementedError, match="cannot go to another process"):
                manager.get_ipc_handle(memory)
        else:
            assert manager.get_ipc_handle(memory).size == 100
        del memory


def test_free_on_another_thread(target: Any, source: Any) -> None:
    with plug.use(source, module=target):
        held = [fakes_numba.context().memory_manager.memalloc(1000)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert source.live_bytes == 0


def test_memory_keeps_its_resource_alive(target: Any, pm: ModuleType, device: Any) -> None:
    before = pm.held(device)
    active = plug.use(pm.PoolMemoryResource(device=device), module=target)
    memory = fakes_numba.context().memory_manager.memalloc(1000)
    active.undo()
    fakes_numba.driver.devices.clear()
    del active
    gc.collect()
    assert pm.held(device) > before
    memory.free()


def test_the_setting_of_numba(monkeypatch: pytest.MonkeyPatch, target: Any, pm: ModuleType) -> None:
    monkeypatch.setattr(fakes_numba, "setting", "portamem.plugins.numba")
    with pm.PoolMemoryResource() as pool, pm.using(pool):
        context = fakes_numba.context()
        memory = context.memory_manager.memalloc(1000)
        assert pool.live_bytes == 1000
        del memory
    with pytest.raises(RuntimeError, match="has a context on device 0"):
        plug.use(module=target)


def test_wrong_arguments(target: Any, pm: ModuleType, device: Any) -> None:
    with pytest.raises(TypeError, match="Numba takes memory from a resource of portamem, not from a str"):
        plug.use("pool", module=target)
    with pytest.raises(ValueError, match=r"has no set_memory_manager: name numba\.cuda"):
        plug.use(module=ModuleType("simulator"))
    closed = pm.PoolMemoryResource()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        plug.use(closed, module=target)
    with pytest.raises(ValueError, match="not stream-ordered"):
        plug.use(pm.DeviceMemoryResource(device), module=target)
    assert fakes_numba._memory_manager is None


def test_a_resource_that_is_closed_later(target: Any, pm: ModuleType) -> None:
    pool = pm.PoolMemoryResource()
    with plug.use(pool, module=target):
        manager = fakes_numba.context().memory_manager
        pool.close()
        with pytest.raises(ValueError, match="closed"):
            manager.memalloc(10)
        assert not manager._held


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numba_cuda", "numba_cuda_mlir"):
        monkeypatch.setitem(sys.modules, name, None)  # for Python: not there
    with pytest.raises(ImportError, match=r"install numba-cuda 0\.20 or later"):
        plug.use()


def test_importing_the_plug_imports_no_numba() -> None:
    done = python_output(
        """
        import sys
        from portamem.plugins import numba
        numba._numba_memory_manager
        print([name for name in sys.modules if name.split(".")[0] in ("numba", "numba_cuda", "numba_cuda_mlir")])
        """
    )
    assert done == "[]\n"


def real(name: str) -> Any:
    """The real package; a skip without it."""
    pytest.importorskip(name.split(".")[0])
    if name == "numba.cuda":
        pytest.importorskip("numba_cuda")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", REAL)
def test_the_real_package_takes_the_manager(name: str) -> None:
    """In a process of its own, without a driver: the package installs the class, and its memory is of its classes."""
    real(name)
    done = python_output(
        f"""
        import importlib, logging, types, warnings
        warnings.simplefilter("ignore")
        import portamem.host as pm
        from portamem.plugins import numba as plug
        plug._BACKENDS = ("host",)
        target = importlib.import_module({name!r})
        driver = importlib.import_module(target.set_memory_manager.__module__)
        driver._logger = logging.getLogger("numba")  # which the driver's start makes
        pool = pm.PoolMemoryResource()
        active = plug.use(pool, module=target)
        assert active.library == {name!r}
        assert issubclass(driver._memory_manager, target.HostOnlyCUDAMemoryManager)
        assert not driver._memory_manager.__abstractmethods__

        class Context(types.SimpleNamespace):
            pass

        context = Context(device=types.SimpleNamespace(id=0))
        context.memory_manager = manager = driver._memory_manager(context=context)
        manager.initialize()
        assert manager.deallocations.memory_capacity == pm.Device(0).memory_info().total
        memory = manager.memalloc(1000)
        assert isinstance(memory, target.MemoryPointer)
        assert pool.size_of(plug.address_of(memory.device_pointer)) == 1000 == memory.size
        part = memory.view(100, 200)
        del memory
        assert pool.live_bytes == 1000, "a part keeps the memory"
        del part
        assert pool.live_bytes == 0
        pinned = manager.memhostalloc(1000)
        assert isinstance(pinned, target.PinnedMemory)
        assert len(memoryview(pinned)) == 1000
        with manager.defer_cleanup():
            del pinned
            assert len(manager.deallocations) == 1
        manager.deallocations.clear()
        assert not manager._held
        driver.driver.devices[0] = types.SimpleNamespace(primary_context=context, id=0)
        try:
            plug.use(pool, module=target)
        except RuntimeError as refused:
            assert "has a context on device 0" in str(refused), refused
        else:
            raise AssertionError
        active.undo()
        assert type(context.memory_manager) is driver.NumbaCUDAMemoryManager
        assert driver._memory_manager is driver.NumbaCUDAMemoryManager
        driver.driver.devices.clear()

        Context.__module__ = driver.__name__
        made = plug._numba_memory_manager(context=context)
        assert isinstance(made, target.HostOnlyCUDAMemoryManager)
        target.set_memory_manager(plug._numba_memory_manager)
        print("done")
        """
    )
    assert done == "done\n"


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("by", ["use", "setting"])
def test_arrays_on_the_gpu(name: str, by: str) -> None:
    """A device array, copies both ways and a kernel's work, under the plug and after it."""
    if backend.under_test().backend != "cuda":
        pytest.skip("Numba's CUDA target needs an NVIDIA GPU, and the backend under test is another")
    real(name)
    done = python_output(
        f"""
        import gc, importlib, warnings
        warnings.simplefilter("ignore")
        import numpy as np
        import portamem.cuda as pm
        from portamem.plugins import numba as plug
        target = importlib.import_module({name!r})
        kernels = importlib.import_module({name.replace(".numba_cuda", ".cuda")!r})  # the latter compiles them
        pool = pm.PoolMemoryResource(pm.DeviceMemoryResource())
        active = plug.use(pool, module=target) if {by!r} == "use" else None
        pm.set_default_resource(0, pool)
        numbers = np.arange(100_000, dtype="f4")
        array = target.device_array(100_000, "f4")
        assert pool.live_bytes == 400_000, pool.live_bytes
        assert pool.size_of(plug.address_of(array.device_ctypes_pointer)) == 400_000
        array.copy_to_device(numbers)
        assert (array.copy_to_host() == numbers).all()

        @kernels.jit
        def double(values):
            i = kernels.grid(1)
            if i < values.size:
                values[i] *= 2

        double[(100_000 + 255) // 256, 256](array)
        assert (array.copy_to_host() == 2 * numbers).all()
        stream = target.stream()
        pinned = target.pinned_array(100_000, "f4")
        pinned[:] = numbers
        copied = target.to_device(pinned, stream=stream)
        stream.synchronize()
        assert (copied.copy_to_host() == numbers).all()
        assert pool.live_bytes == 800_000
        mapped = target.mapped_array(1000, "f4")
        mapped[:] = 1
        double[4, 256](mapped)
        target.synchronize()
        assert (np.asarray(mapped) == 2).all()
        handle = array.get_ipc_handle()
        assert handle is not None
        free, total = target.current_context().get_memory_info()
        assert 0 < free < total
        del copied, pinned, mapped, handle
        if active is not None:
            active.undo()
            other = target.device_array(1000, "f4")
            assert pool.live_bytes == 400_000
            try:
                plug.use(pool, module=target)
            except RuntimeError as refused:
                assert "has a context" in str(refused)
            else:
                raise AssertionError
        assert (array.copy_to_host() == 2 * numbers).all()
        del array
        gc.collect()
        assert pool.live_bytes == 0
        kept = target.to_device(numbers)  # its memory ends with the process
        print("done")
        """,
        NUMBA_CUDA_MEMORY_MANAGER="portamem.plugins.numba" if by == "setting" else None,
    )
    assert done == "done\n"
