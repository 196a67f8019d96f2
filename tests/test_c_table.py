"""The C table of the capsule: what other extension modules find, and when it is the resource of the calling task."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

BACKENDS = {"cuda": 0, "hip": 1, "host": 2}


class _Ops(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p)
        for name in (
            "allocate",
            "deallocate",
            "is_host_accessible",
            "is_device_accessible",
            "device_id",
            "retain",
            "release",
            "cached",
            "trim",
        )
    ]


class _Resource(ctypes.Structure):
    _fields_ = [("ops", ctypes.POINTER(_Ops)), ("self", ctypes.c_void_p)]


class _Table(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint32), ("size", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p)
        for name in (
            "version",
            "forked",
            "new_identity",
            "account",
            "held",
            "scope_push",
            "scope_pop",
            "scope_current",
            "offer_default_resource",
            "default_resource",
            "scope_end",
            "set_default_resource",
            "default_changes",
            "current_resource",
        )
    ]


class CTable:
    """Calls the functions of the table as a module would that knows nothing else of portamem."""

    def __init__(self, pm: ModuleType) -> None:
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.table = _Table.from_address(pointer_of(pm._c_api, b"portamem.c_api"))
        self.backend = BACKENDS[pm.backend]

    def current(self, device: int, *, with_gil: bool = True) -> _Resource:
        of = ctypes.PYFUNCTYPE if with_gil else ctypes.CFUNCTYPE
        found = _Resource()
        call = of(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Resource))(self.table.current_resource)
        assert call(self.backend, device, ctypes.byref(found)) == 0
        return found

    def is_of(self, found: _Resource, resource: Any) -> bool:
        """Returns whether a resource of the table is that one, which counts what is allocated of it. Releases it."""
        ops, ptr = found.ops.contents, ctypes.c_void_p()
        take = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        )(ops.allocate)
        give = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(
            ops.deallocate
        )
        before = resource.live_bytes
        assert take(found.self, 512, None, ctypes.byref(ptr)) == 0
        is_it = resource.live_bytes == before + 512
        assert give(found.self, ptr, 512, None) == 0
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ops.release)(found.self)
        return bool(is_it)


@pytest.fixture
def table(pm: ModuleType) -> CTable:
    return CTable(pm)


def test_the_table_is_as_long_as_it_says(table):
    assert table.table.abi_version == 1
    assert table.table.size >= ctypes.sizeof(_Table)


def test_c_code_finds_what_python_has_set(pm, device, table, make_resource: Callable[[str], Any]):
    ordinal = device.ordinal
    assert table.is_of(table.current(ordinal), pm.default_resource(device))
    mine, scoped = make_resource("device"), make_resource("device")
    pm.set_default_resource(device, mine)
    try:
        assert table.is_of(table.current(ordinal), mine)
        with pm.using(scoped):
            assert table.is_of(table.current(ordinal), scoped)
            assert table.is_of(table.current(ordinal, with_gil=False), scoped)
        assert table.is_of(table.current(ordinal), mine)
    finally:
        pm.set_default_resource(device, None)
    assert table.is_of(table.current(ordinal), pm.default_resource(device))


def test_python_finds_what_c_code_has_set(pm, device, table, make_resource: Callable[[str], Any]):
    mine = make_resource("device")
    with pm.using(mine):
        found = table.current(device.ordinal)
    set_default = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, _Resource)(table.table.set_default_resource)
    set_default(table.backend, device.ordinal, found)
    try:
        assert pm.default_resource(device) is mine
        with pm.empty(64, "uint8", device=device) as view:
            assert view.buffer.resource is mine
    finally:
        set_default(table.backend, device.ordinal, _Resource())
    assert pm.default_resource(device) is not mine
    assert table.is_of(found, mine)


def test_c_code_with_the_gil_finds_the_scope_of_its_task(pm, device, table, make_resource: Callable[[str], Any]):
    outside = pm.current_resource(device)

    async def task(resource: Any) -> None:
        with pm.using(resource):
            for _ in range(3):
                await asyncio.sleep(0)
                assert table.is_of(table.current(device.ordinal), resource)
        await asyncio.sleep(0)
        assert table.is_of(table.current(device.ordinal), outside)

    async def all_tasks() -> None:
        await asyncio.gather(*(task(make_resource("device")) for _ in range(3)))

    def on_a_new_thread() -> None:
        asyncio.run(all_tasks())
        assert table.is_of(table.current(device.ordinal, with_gil=False), outside)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(on_a_new_thread).result()
