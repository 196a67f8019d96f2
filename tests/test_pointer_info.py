"""What the runtime says of an address."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate

EXPECTED = {
    "device": "device",
    "pinned": "host",
    "managed": "managed",
    "async": "device",
    "async-default_pool": "device",
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_every_kind(pm: ModuleType, device: Any, make_resource: Callable[[str], Any], kind: str) -> None:
    with allocate(make_resource(kind), 4096) as buf:
        device.synchronize()
        info = pm.pointer_info(buf)
        assert info.kind == EXPECTED[kind]
        assert info.device_id == (device.ordinal if EXPECTED[kind] == "device" else info.device_id)
        assert info.device_pointer is not None
        assert (info.host_pointer is None) == (
            EXPECTED[kind] == "device" and not device.capabilities.direct_host_access
        )
        assert EXPECTED[kind] in repr(info)


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_inside_an_allocation(pm: ModuleType, make_resource: Callable[[str], Any], kind: str) -> None:
    with make_resource(kind).allocate(4096) as buf, buf[1000:2000] as part, buf.view(offset=1000) as view:
        for what in (part, view, buf.handle + 1000):
            info = pm.pointer_info(what)
            assert info.kind == EXPECTED[kind]
            if info.base is not None:
                assert info.base == buf.handle
                assert info.nbytes is not None
                assert info.nbytes >= 4096


def test_after_a_free(pm: ModuleType, device_resource: Any) -> None:
    buf = device_resource.allocate(4096)
    address = buf.handle
    buf.close()
    assert pm.pointer_info(address).kind == "unregistered"


def test_plain_host_memory(pm: ModuleType, device: Any) -> None:
    array = np.zeros(16)
    info = pm.pointer_info(array.ctypes.data)
    assert info.kind == "unregistered"
    assert info.host_pointer == array.ctypes.data
    assert info.device_pointer == (array.ctypes.data if device.capabilities.pageable_memory_access else None)
    assert (info.device_id, info.base, info.nbytes, info.flags) == (None, None, None, 0)


def test_null(pm: ModuleType) -> None:
    info = pm.pointer_info(0)
    assert (info.kind, info.host_pointer) == ("unregistered", None)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("0x10", TypeError), (True, TypeError)],
)
def test_what_is_no_address(pm: ModuleType, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"(?i)address|pointer|int|bool|negative|large"):
        pm.pointer_info(wrong)


def test_closed_memory(pm: ModuleType, device_resource: Any) -> None:
    buf = device_resource.allocate(16)
    buf.close()
    with pytest.raises(ValueError, match="closed"):
        pm.pointer_info(buf)
