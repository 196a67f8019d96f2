# SPDX-License-Identifier: MIT
"""portamem as the memory manager of Numba's CUDA target, of numba-cuda and of numba-cuda-mlir.

``use(resource)`` builds a manager (Numba's External Memory Management, version 1) and installs it::

    from portamem.plugins import numba

    plug = numba.use(pool)  # before Numba has a context
    array = numba_cuda.device_array(1000)  # the pool's

Numba names no stream where it allocates: memory is taken, and goes back, on the legacy default stream of its device.
Without a program's call, ``NUMBA_CUDA_MEMORY_MANAGER=portamem.plugins.numba`` takes the current resource.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import itertools
import weakref
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from portamem.errors import OutOfMemoryError
from portamem.plugins._plug import Plug, changing, checked, library

_BACKENDS = ("cuda",)
_VERSION = 1  # of the interface
_PACKAGES = (
    ("numba_cuda", "numba-cuda", "0.20", "numba.cuda"),
    ("numba_cuda_mlir", "numba-cuda-mlir", "0.6", "numba_cuda_mlir.numba_cuda"),
)


def use(resource: Any = None, *, module: ModuleType | None = None) -> Plug:
    """Has Numba take device memory from ``resource`` (None: the current one of the device), and page-locked memory
    from portamem.

    ``module`` is the CUDA target: ``numba.cuda`` or ``numba_cuda_mlir.numba_cuda``. None takes the one that is
    installed, the former where both are. ``undo()`` also gives the contexts that Numba has by then their former kind of
    manager; arrays that live on keep their memory.

    Raises RuntimeError where Numba has a context: it would go on with the manager that it has.
    """
    given = checked(resource, "Numba", *_BACKENDS)
    target = _target(module)
    driver = _driver_of(target)
    made = _manager_class(driver, given)

    def take_out() -> None:
        if driver._memory_manager is not made:
            raise RuntimeError(
                f"{target.__name__} has been given another memory manager since, {driver._memory_manager!r}: set the "
                "former one back first"
            )
        driver._memory_manager = former
        for context in _contexts(driver):
            if isinstance(context.memory_manager, made):
                driver._ensure_memory_manager()
                _hand_over(context, driver._memory_manager(context=context))

    with changing(target.__name__):
        devices = [context.device.id for context in _contexts(driver)]
        if devices:
            raise RuntimeError(
                f"{target.__name__} has a context on device {', '.join(map(str, devices))}, whose memory manager stays "
                f"as it is: call portamem.plugins.numba.use() before Numba is used, or {target.__name__}.close() first"
            )
        former = driver._memory_manager
        target.set_memory_manager(made)
        return Plug(target.__name__, given, take_out)


def manager(resource: Any = None, *, module: ModuleType | None = None) -> type:
    """The class of managers that ``use`` installs, for programs that call ``set_memory_manager`` themselves.

    Without a resource it is one class for each target. Raises as ``use`` does for the resource and the target.
    """
    given = checked(resource, "Numba", *_BACKENDS)
    driver = _driver_of(_target(module))
    return cast(type, _manager_of_current_resource(driver) if given is None else _manager_class(driver, given))


def _numba_memory_manager(context: Any = None) -> Any:
    """Stands for the class of a manager where NUMBA_CUDA_MEMORY_MANAGER names this module.

    Both packages read that setting, and each context tells whose it is. Without one, Numba asks for the version.
    """
    if context is None:
        return SimpleNamespace(interface_version=_VERSION)
    return _manager_of_current_resource(importlib.import_module(type(context).__module__))(context=context)


def _target(module: ModuleType | None) -> Any:
    if module is None:
        for package, project, least, name in _PACKAGES:
            if importlib.util.find_spec(package) is not None:
                library(package, project, least)
                module = library(name, project, "0")
                break
        else:
            package, project, least, _ = _PACKAGES[0]
            module = library(package, project, least)  # raises
    if not hasattr(module, "set_memory_manager"):
        name = getattr(module, "__name__", repr(module))
        raise ValueError(
            f"{name} has no set_memory_manager: name numba.cuda or numba_cuda_mlir.numba_cuda. (Numba's simulator has "
            "none either, because its memory is the host's.)"
        )
    return module


def _driver_of(target: Any) -> Any:
    """The module of the target that has its contexts and the classes of its memory."""
    return importlib.import_module(target.set_memory_manager.__module__)


def _contexts(driver: Any) -> list[Any]:
    """The contexts that Numba has. Asking starts no driver."""
    made = [getattr(device, "primary_context", None) for device in driver.driver.list_devices()]
    return [context for context in made if context is not None]


def _hand_over(context: Any, manager: Any) -> None:
    """Gives a context another manager, which goes on with the host memory that the former one has."""
    former = context.memory_manager
    if hasattr(manager, "allocations") and hasattr(manager, "deallocations"):
        manager.allocations, manager.deallocations = former.allocations, former.deallocations
    context.memory_manager = manager


def _manager_class(driver: Any, resource: Any) -> Any:
    """A class of managers, over the base classes of a target."""
    bases = (_Manager, driver.GetIpcHandleMixin, driver.HostOnlyCUDAMemoryManager)
    return type("PortamemMemoryManager", bases, {"_driver": driver, "_resource": resource, "__doc__": _Manager.__doc__})


@functools.cache
def _manager_of_current_resource(driver: Any) -> Any:
    return _manager_class(driver, None)


def address_of(pointer: Any) -> int:
    """The address in a pointer of Numba's: one of ctypes, or one of cuda.bindings."""
    return int(getattr(pointer, "value", pointer))


class _Manager:
    """Numba's memory manager over portamem: one for each context. Pinning and managed memory stay Numba's own."""

    _driver: Any  # the module of Numba that has the classes of memory
    _resource: Any
    context: Any
    allocations: Any
    deallocations: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _above(super()).__init__(*args, **kwargs)
        self._held: dict[int, Any] = {}  # buffers by number: an address may come again before its last user is gone
        self._numbers = itertools.count()
        self._pinned: dict[tuple[bool, bool, bool], Any] = {}

    @property
    def interface_version(self) -> int:
        """The version of the interface, which Numba asks for before it takes the manager."""
        return _VERSION

    def initialize(self) -> None:
        """Lets Numba's own frees of host memory wait until they are a share of the device's memory, as it has them."""
        if self.deallocations.memory_capacity == 0:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> Any:
        """Device memory of the resource, as a MemoryPointer."""
        held, number = self._held, next(self._numbers)
        held[number] = buffer = self._allocate(self._source(), size)

        def give_back() -> None:
            held.pop(number, None)

        pointer = self._of_device(buffer.handle)
        return self._driver.MemoryPointer(weakref.proxy(self.context), pointer, size, finalizer=give_back)

    def memhostalloc(self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> Any:
        """Page-locked memory of portamem, as a MappedMemory or a PinnedMemory."""
        key = (bool(mapped), bool(portable), bool(wc))
        if key not in self._pinned:
            self._pinned[key] = self._backend().PinnedMemoryResource(
                self.context.device.id, mapped=key[0], portable=key[1], write_combined=key[2]
            )
        held, allocations, deallocations = self._held, self.allocations, self.deallocations
        number = next(self._numbers)
        held[number] = buffer = self._allocate(self._pinned[key], size)
        name = f"portamem {number}"  # Numba's own keys are addresses

        def give_back(number: int) -> None:
            held.pop(number, None)

        def finalize() -> None:
            allocations.pop(name, None)
            deallocations.add_item(give_back, number, size if mapped else 0)  # which defer_cleanup() holds up

        context = weakref.proxy(self.context)
        if not mapped:
            return self._driver.PinnedMemory(context, self._of_host(buffer.handle), size, finalizer=finalize)
        memory = self._driver.MappedMemory(context, self._of_host(buffer.handle), size, finalizer=finalize)
        allocations[name] = memory
        return memory.own()

    def get_ipc_handle(self, memory: Any) -> Any:
        """Numba's handle of the allocation that the memory is part of: of a pool, that is a whole chunk."""
        address = address_of(memory.handle)
        if self._backend().pointer_info(address).ipc_capable is False:
            raise NotImplementedError(
                f"the memory at {address:#x} cannot go to another process by a legacy IPC handle: take a "
                "PoolMemoryResource over DeviceMemoryResource for Numba"
            )
        return _above(super()).get_ipc_handle(memory)

    def get_memory_info(self) -> Any:
        """Free and total bytes of the device. What a pool keeps idle is not free."""
        info = self._backend().Device(self.context.device.id).memory_info()
        return self._driver.MemoryInfo(free=info.free, total=info.total)

    def reset(self) -> None:
        """Gives all memory of the context back. Numba does so before it destroys the context."""
        _above(super()).reset()
        self._held.clear()

    def _of_device(self, address: int) -> Any:
        """An address of the device as Numba's driver has it: a CUdeviceptr, or ctypes' number."""
        return self._driver.binding.CUdeviceptr(address) if self._has_bindings() else ctypes.c_uint64(address)

    def _of_host(self, address: int) -> Any:
        """An address of the host as Numba's driver has it: a number, or ctypes' pointer."""
        return address if self._has_bindings() else ctypes.c_void_p(address)

    def _has_bindings(self) -> bool:
        """False for the driver in Numba itself, which calls by ctypes unless CUDA_USE_NVIDIA_BINDING is set."""
        return bool(getattr(self._driver, "USE_NV_BINDING", True))

    def _backend(self) -> Any:
        name = _BACKENDS[0] if self._resource is None else self._resource.backend
        return importlib.import_module(f"portamem.{name}")

    def _source(self) -> Any:
        device = self.context.device.id
        if self._resource is None:
            return self._backend().current_resource(device)
        if self._resource.device.ordinal != device:
            raise ValueError(
                f"Numba allocates on device {device}, and the plugged resource is of device "
                f"{self._resource.device.ordinal}: for several devices, call use() without a resource, and "
                "portamem.set_default_resource() for each device"
            )
        return self._resource

    def _allocate(self, resource: Any, size: int) -> Any:
        stream = self._backend().Device(self.context.device.id).default_stream
        take: Callable[[], Any] = functools.partial(resource.allocate, max(size, 1), stream=stream)
        try:
            return take()
        except OutOfMemoryError:
            self.deallocations.clear()  # managed and page-locked memory that Numba has not given back yet
            return take()


def _above(classes: Any) -> Any:
    """super() without the types that are only known when Numba is there."""
    return cast(Any, classes)
