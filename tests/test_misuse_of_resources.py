"""Misuse of resources: what they are made of, what their names are, and what they are no parents of."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portamem

OVER: dict[str, Callable[[Any, Any], object]] = {
    "PoolMemoryResource": lambda pm, upstream: pm.PoolMemoryResource(upstream),
    "FixedSizeMemoryResource": lambda pm, upstream: pm.FixedSizeMemoryResource(upstream, 64),
    "MonotonicMemoryResource": lambda pm, upstream: pm.MonotonicMemoryResource(upstream),
    "LimitingAdaptor": lambda pm, upstream: pm.LimitingAdaptor(upstream, 64),
    "FailureCallbackAdaptor": lambda pm, upstream: pm.FailureCallbackAdaptor(upstream, lambda _: False),
    "FallbackAdaptor": lambda pm, upstream: pm.FallbackAdaptor(upstream, pm.DeviceMemoryResource()),
    "PrefetchAdaptor": lambda pm, upstream: pm.PrefetchAdaptor(upstream),
    "StatisticsAdaptor": lambda pm, upstream: pm.StatisticsAdaptor(upstream),
    "TrackingAdaptor": lambda pm, upstream: pm.TrackingAdaptor(upstream),
    "LoggingAdaptor": lambda pm, upstream: pm.LoggingAdaptor(upstream, "/nonexistent/never.jsonl"),
}


@pytest.mark.parametrize("name", OVER)
@pytest.mark.parametrize("wrong", [None, 5, "device", object()], ids=["None", "int", "str", "object"])
def test_what_is_no_resource_is_no_upstream(pm: Any, name: str, wrong: Any) -> None:
    if name == "PoolMemoryResource" and wrong is None:
        return  # a pool without an upstream is one over device memory
    with pytest.raises(TypeError) as raised:
        OVER[name](pm, wrong)
    expected = f"the upstream is a MemoryResource of backend {pm.backend}, not {type(wrong).__name__}"
    assert str(raised.value) == expected


def test_what_is_no_resource_is_no_alternate(pm: Any) -> None:
    with pytest.raises(TypeError, match=f"the alternate is a MemoryResource of backend {pm.backend}, not int"):
        pm.FallbackAdaptor(pm.DeviceMemoryResource(), 3)


@pytest.mark.parametrize("name", OVER)
def test_an_upstream_that_was_closed_meanwhile_is_named(
    pm: Any, device: Any, stream: Any, name: str, tmp_path: Path
) -> None:
    if name == "PrefetchAdaptor" and device.capabilities.managed_mode == "none":
        pytest.skip("the device has no managed memory")
    upstream = (pm.ManagedMemoryResource if name == "PrefetchAdaptor" else pm.DeviceMemoryResource)(device)
    made = OVER[name](pm, upstream) if name != "LoggingAdaptor" else pm.LoggingAdaptor(upstream, tmp_path / "log")
    upstream.close()
    with pytest.raises(ValueError, match="the upstream resource is closed"):
        made.allocate(64, stream=stream)
    assert (made.live_buffers, made.live_bytes) == (0, 0)
    made.close()


def test_resources_are_not_put_over_each_other_without_end(pm: Any, device: Any, stream: Any) -> None:
    made = [pm.DeviceMemoryResource(device)]
    for _ in range(256):
        made += [pm.StatisticsAdaptor(made[-1])]
    with pytest.raises(ValueError, match="256 resources below, one over the other"):
        pm.StatisticsAdaptor(made[-1])
    made[-1].allocate(64, stream=stream).close()
    assert made[0].live_buffers == 0
    for resource in reversed(made):
        resource.close()


@pytest.mark.parametrize("option", ["host_access", "shares_idle"])
@pytest.mark.parametrize("wrong", ["no", None, 0, 1.0])
def test_options_of_a_pool_are_true_or_false(pm: Any, device: Any, wrong: Any, option: str) -> None:
    with pytest.raises(TypeError) as raised:
        pm.PoolMemoryResource(device=device, **{option: wrong})
    assert str(raised.value) == f"{option} is True or False, not {type(wrong).__name__}"


def test_host_access_may_be_numpys(pm: Any, device: Any) -> None:
    with pm.PoolMemoryResource(device=device, host_access=np.bool_(False)) as pool:
        assert not pool.is_host_accessible


@pytest.mark.parametrize(
    "share",
    [0, 1, 0.5, np.float64(0.5), np.float32(0.5), np.int64(1), Fraction(1, 3), Decimal("0.25")],
    ids=lambda share: f"{type(share).__name__}-{share}",
)
def test_a_release_is_any_number_from_0_to_1(pm: Any, device: Any, share: Any) -> None:
    pm.PoolMemoryResource(device=device, release=share).close()


@pytest.mark.parametrize(
    "share", [-0.1, 1.1, 5, float("nan"), float("inf"), 10**400, -(10**400), np.float32(2)], ids=repr
)
def test_a_release_beyond_0_and_1_is_refused(pm: Any, device: Any, share: Any) -> None:
    with pytest.raises(ValueError, match="release is a share of the peak, from 0 to 1"):
        pm.PoolMemoryResource(device=device, release=share)


@pytest.mark.parametrize("wrong", [True, np.bool_(False), "0.5", b"0", [], 1j], ids=repr)
def test_a_release_is_no_text_and_no_flag(pm: Any, device: Any, wrong: Any) -> None:
    said = r"release is a share of the peak, a number from 0 to 1, or a function of the stats, not (numpy\.)?\w+"
    with pytest.raises(TypeError) as raised:
        pm.PoolMemoryResource(device=device, release=wrong)
    assert re.fullmatch(said, str(raised.value))


def test_an_error_of_a_number_reaches_the_caller(pm: Any, device: Any) -> None:
    class Wrong:
        def __float__(self) -> float:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pm.PoolMemoryResource(device=device, release=Wrong())


def test_a_pool_that_is_closed_within_its_own_call_says_what_is_true(
    pm: Any, device: Any, device_resource: Any
) -> None:
    said: list[str] = []

    def allocate(nbytes: int, stream: Any) -> int:
        with pytest.raises(BufferError) as raised:
            pool.close()
        said.append(str(raised.value))
        return 0

    functions = pm.CallbackMemoryResource(allocate, lambda *_: None, device=device)
    pool = pm.PoolMemoryResource(functions)
    with pytest.raises(MemoryError):
        pool.allocate(64, stream=device.default_stream)
    assert set(said) == {
        "a call of the resource is under way, on another thread or further out on this one (in a callback): close it "
        "when that has returned"
    }
    pool.close()
    functions.close()


@pytest.mark.parametrize("wrong", [None, 5, b"x"], ids=repr)
def test_a_tag_is_text(pm: Any, wrong: Any) -> None:
    with pytest.raises(TypeError) as raised, pm.tag(wrong):
        pass
    assert str(raised.value) == f"a tag is text, not {type(wrong).__name__}"


def test_a_tag_ends_where_its_text_ends(pm: Any) -> None:
    with pytest.raises(ValueError, match="a tag has no NUL character"), pm.tag("x\0y"):
        pass
    with pytest.raises(ValueError, match=r"a tag is text that no encoding has: '\\ud800'"), pm.tag("\ud800"):
        pass
    assert pm.current_tag() == ""


@pytest.mark.parametrize("kind", [str, Path, str.encode])
def test_a_path_ends_where_its_text_ends(pm: Any, device_resource: Any, tmp_path: Path, kind: Any) -> None:
    with pytest.raises(ValueError, match="the path of a log has no NUL character"):
        pm.LoggingAdaptor(device_resource, kind(f"{tmp_path}/run\0tail"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cls", [portamem.PoolMemoryResource, portamem.MemoryResource, portamem.Buffer])
def test_nothing_is_derived_from_the_plain_names(cls: Any) -> None:
    with pytest.raises(TypeError, match=f"'portamem.{cls.__name__}' is not an acceptable base type"):
        type(cls)("Mine", (cls,), {})


def made_classes(pm: Any) -> list[str]:
    plain = {"View"}  # of no library's metaclass
    return sorted(name for name, value in vars(pm).items() if type(value).__name__ == "pybind11_type" or name in plain)


def test_no_object_is_made_without_its_init(pm: Any) -> None:
    names = made_classes(pm)
    assert {"Device", "Event", "MemoryInfo", "PoolMemoryResource", "Quirk", "Stream", "View"} <= set(names)
    for name in names:
        cls = getattr(pm, name)
        with pytest.raises(TypeError) as raised:
            cls.__new__(cls)
        assert str(raised.value) == f"{name}.__new__ alone makes no {name}: its __init__ would never run"
        with pytest.raises(TypeError):
            object.__new__(cls)


def test_a_class_of_somebodys_own_is_told_what_there_is_in_its_place(pm: Any) -> None:
    class Mine(pm.MemoryResource):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match=r"^Mine is derived from a class of portamem.*CallbackMemoryResource"):
        Mine()


def test_an_object_keeps_its_class(pm: Any, device: Any, stream: Any) -> None:
    """Python allows the assignment between classes of equal layout: one's methods would run on the other's data."""
    below = pm.DeviceMemoryResource(device)
    with below, below.allocate(64, stream=stream) as buf, pm.Event(device) as event:
        view = buf.view(dtype="uint8")
        kept = [stream, event, device, below, buf, view, pm.PinnedMemoryResource(), device.capabilities]
        for one in kept:
            assert one.__class__ is type(one)
            for other in kept:
                with pytest.raises(TypeError, match="its __class__ cannot be set"):
                    one.__class__ = type(other)
            with pytest.raises(TypeError, match="its __class__ cannot be set"):
                del one.__class__
        view.fill(3)
        stream.synchronize()
        assert buf.resource is below
        view.close()
