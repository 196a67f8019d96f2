"""Copies between every two kinds of memory and Python objects, blocking and on a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import MIB, allocate, pattern, read_back, write
from helpers.resources import KINDS

NBYTES = 10_007
DATA = pattern(NBYTES)


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("on_stream", [False, True], ids=["blocking", "stream"])
def test_between_every_two_kinds(
    pm: ModuleType, stream: Any, make_resource: Callable[[str], Any], source: str, target: str, on_stream: bool
) -> None:
    with allocate(make_resource(source), NBYTES) as src, allocate(make_resource(target), NBYTES) as dst:
        write(pm, src, DATA)
        dst.fill(0)
        done = pm.copy(dst, src, stream=stream if on_stream else None)
        if on_stream:
            done.synchronize()
        else:
            assert done is None
        assert read_back(pm, dst) == DATA


def test_the_three_spellings_are_one(pm: ModuleType, stream: Any, resource: Any) -> None:
    with allocate(resource, NBYTES) as src, allocate(resource, NBYTES) as dst:
        write(pm, src, DATA)
        for copy in (
            lambda: pm.copy(dst, src, stream=stream),
            lambda: dst.copy_from(src, stream=stream),
            lambda: src.copy_to(dst, stream=stream),
        ):
            dst.fill(0)
            copy().synchronize()
            assert read_back(pm, dst) == DATA


def test_python_objects_on_a_stream(pm: ModuleType, stream: Any, resource: Any) -> None:
    target = bytearray(NBYTES)
    with allocate(resource, NBYTES) as buf:
        pm.copy(buf, DATA, stream=stream)
        pm.copy(target, buf, stream=stream).synchronize()
    assert bytes(target) == DATA


def test_between_python_objects(pm: ModuleType, stream: Any) -> None:
    target = bytearray(NBYTES)
    assert pm.copy(target, DATA) is None
    assert bytes(target) == DATA
    array = np.zeros(NBYTES, np.uint8)
    pm.copy(array, DATA, stream=stream).synchronize()
    assert array.tobytes() == DATA


def test_shapes_do_not_matter_but_bytes_do(pm: ModuleType, device_resource: Any) -> None:
    array = np.arange(48, dtype=np.float32).reshape(2, 4, 6)
    out = np.zeros((6, 8), np.float32)
    with device_resource.allocate(192) as buf, buf.view("float32", (48,)) as view:
        pm.copy(view, array)
        pm.copy(out, view)
    assert np.array_equal(out.ravel(), array.ravel())


def test_parts_of_one_buffer(pm: ModuleType, resource: Any) -> None:
    with allocate(resource, 4096) as buf:
        write(pm, buf, pattern(4096))
        with buf[:1024] as low, buf[1024:2048] as high:
            pm.copy(high, low)
            assert read_back(pm, high) == pattern(4096)[:1024]


def test_a_chain_over_two_streams(
    pm: ModuleType, stream: Any, other_stream: Any, make_resource: Callable[[str], Any]
) -> None:
    """Chunks alternate between two streams and meet again at the end: the shape of an overlapped pipeline."""
    data = pattern(4 * MIB)
    pinned, device = make_resource("pinned"), make_resource("device")
    with pinned.allocate(4 * MIB) as src, device.allocate(4 * MIB) as mid, pinned.allocate(4 * MIB) as dst:
        write(pm, src, data)
        for number in range(8):
            part = slice(number * MIB // 2, (number + 1) * MIB // 2)
            lane = (stream, other_stream)[number % 2]
            with src[part] as a, mid[part] as b, dst[part] as c:
                b.copy_from(a, stream=lane)
                c.copy_from(b, stream=lane)
        stream.wait(other_stream)
        stream.synchronize()
        assert read_back(pm, dst) == data


@contextmanager
def opened_to(resource: Any, peer: Any) -> Iterator[None]:
    """Lets a peer at a pool's memory, which the vendors ask for before they copy to or from it."""
    if resource.kind != "async":
        yield
        return
    if not peer.can_access_peer(resource.device):
        pytest.skip("the devices cannot reach each other's pools")
    before = resource.access(peer)
    resource.set_access(peer, "read_write")
    yield
    resource.set_access(peer, before)


def test_between_devices(pm: ModuleType, two_devices: tuple[Any, Any], kind: Any) -> None:
    first, second = two_devices
    with (
        kind(pm, first) as here,
        kind(pm, second) as there,
        opened_to(here, second),
        opened_to(there, first),
        allocate(here, NBYTES) as src,
        allocate(there, NBYTES) as dst,
    ):
        write(pm, src, DATA)
        pm.copy(dst, src)
        assert read_back(pm, dst) == DATA
        dst.fill(0)
        with pm.Stream(second) as stream:
            pm.copy(dst, src, stream=stream).synchronize()
        assert read_back(pm, dst) == DATA


@pytest.mark.parametrize("source", ["device", "pinned", "managed", "system"])
def test_registered_memory(pm: ModuleType, stream: Any, make_resource: Callable[[str], Any], source: str) -> None:
    target = np.zeros(NBYTES, np.uint8)
    with make_resource(source).allocate(NBYTES) as buf, pm.HostRegistration(target) as registered:
        write(pm, buf, DATA)
        pm.copy(registered, buf, stream=stream).synchronize()
        assert target.tobytes() == DATA
        buf.fill(0)
        pm.copy(buf, registered)
        assert read_back(pm, buf) == DATA


def test_many_megabytes(pm: ModuleType, stream: Any, make_resource: Callable[[str], Any]) -> None:
    nbytes = 64 * MIB + 1
    data = pattern(nbytes)
    with make_resource("device").allocate(nbytes) as buf:
        pm.copy(buf, data, stream=stream).synchronize()
        assert read_back(pm, buf) == data
