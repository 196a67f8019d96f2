"""The backend under test, its device, every kind of resource, latches, and a leak check after every test."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers import backend, order, witnesses
from helpers.latch import Latch
from helpers.required import RequiredGpu
from helpers.resources import KINDS, make
from helpers.waiting import close_when_empty, eventually

import portamem
from portamem.conformance.witness import Witness


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run that may not be ends here, with one error and not one for each test.

    With PORTAMEM_REQUIRE, a GPU's test is skipped for a known reason or fails.
    """
    required, name = os.environ.get("PORTAMEM_REQUIRE"), backend.under_test().backend
    if required and name != "host":
        session.config.pluginmanager.register(RequiredGpu(name, required))


def pytest_report_header() -> list[str]:
    pm = backend.under_test()
    return [f"portamem {portamem.__version__} from {portamem.__file__}", f"backend under test: {pm.backend}"]


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # imported objects stay: the collections that tests ask for look at their own objects only


def pytest_runtest_setup(item: pytest.Item) -> None:
    name = backend.under_test().backend
    if item.get_closest_marker("host_only") and name != "host":
        pytest.skip(f"concerns the host runtime's own knobs; the backend under test is {name}")


@pytest.fixture(scope="session")
def pm() -> ModuleType:
    """The backend module under test: ``portamem.host``, ``portamem.cuda`` or ``portamem.hip``."""
    module = backend.under_test()
    if module.device_count() == 0:
        backend.without_gpu(f"{module.backend} has no device: {portamem.backends()[module.backend].reason}")
    return module


@pytest.fixture
def device(pm: ModuleType) -> Any:
    return pm.Device(0)


@pytest.fixture
def two_devices(pm: ModuleType) -> tuple[Any, Any]:
    if pm.device_count() < 2:
        pytest.skip(f"{pm.backend} has one device here")
    return pm.Device(0), pm.Device(1)


@pytest.fixture
def stream(pm: ModuleType, device: Any) -> Iterator[Any]:
    with pm.Stream(device) as made:
        yield made


@pytest.fixture
def other_stream(pm: ModuleType, device: Any) -> Iterator[Any]:
    with pm.Stream(device) as made:
        yield made


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of each kind of resource in turn."""
    return str(request.param)


@pytest.fixture
def resource(pm: ModuleType, device: Any, kind: str) -> Iterator[Any]:
    """A resource of every kind in turn."""
    made = make(kind, pm, device)
    yield made
    close_when_empty(made)


@pytest.fixture
def make_resource(pm: ModuleType, device: Any) -> Iterator[Callable[[str], Any]]:
    """Makes resources by their name in the table; they are closed after the test."""
    made: list[Any] = []

    def make_one(name: str) -> Any:
        made.append(make(name, pm, device))
        return made[-1]

    yield make_one
    for resource in reversed(made):
        close_when_empty(resource)


@pytest.fixture
def device_resource(make_resource: Callable[[str], Any]) -> Any:
    return make_resource("device")


@pytest.fixture
def pinned_resource(make_resource: Callable[[str], Any]) -> Any:
    return make_resource("pinned")


@pytest.fixture
def pool(make_resource: Callable[[str], Any]) -> Any:
    """A stream-ordered resource with a pool of its own."""
    return make_resource("async")


@pytest.fixture
def latch(pm: ModuleType, device: Any) -> Iterator[Callable[[Any], Latch]]:
    """``latch(stream)`` holds a stream until released, at the latest when the test ends. A timeout fails the test."""
    held: list[Latch] = []

    def hold(stream: Any) -> Latch:
        held.append(Latch())
        return held[-1].hold(stream)

    yield hold
    for each in held:
        each.release()
    device.synchronize()
    assert not any(each.timed_out for each in held), "a call waited for a latch that only this thread could release"


@pytest.fixture
def witness(pm: ModuleType, device: Any) -> Witness:
    """An independent caller of the runtime, for the device under test."""
    return witnesses.of(pm.backend, device.ordinal)


@pytest.fixture
def kernels(witness: Witness, pm: ModuleType, device: Any) -> Witness:
    """The same, where it has kernels."""
    return witnesses.with_kernels(pm.backend, device.ordinal)


@pytest.fixture
def knobs(pm: ModuleType) -> Iterator[Any]:
    """The host runtime's knobs, reset after the test."""
    yield pm.knobs
    pm.knobs.reset()


def _held(pm: ModuleType) -> list[int]:
    return [pm.held("host"), *(pm.held(ordinal) for ordinal in range(pm.device_count()))]


@pytest.fixture(autouse=True)
def is_ordered(pm: ModuleType, request: pytest.FixtureRequest) -> Iterator[None]:
    """With PORTAMEM_CHECK=1: nothing in the test uses memory that no order covers."""
    with order.checked(pm, request.node.originalname):
        yield


@pytest.fixture(autouse=True)
def nothing_leaks(pm: ModuleType) -> Iterator[None]:
    """portamem holds the same, on the host and on every device, before and after each test."""
    before = _held(pm)
    yield
    for ordinal in range(pm.device_count()):
        pm.Device(ordinal).synchronize()
    if _held(pm) != before:
        gc.collect()
    assert eventually(lambda: _held(pm) == before), f"this test left memory behind: {before} before, {_held(pm)} after"


@pytest.fixture(autouse=True)
def the_current_device_stays(pm: ModuleType) -> Iterator[None]:
    """Code that makes another device current puts back the one that was: what runs next is for that one."""
    before = pm.Device.current()
    yield
    after = pm.Device.current()
    if after != before:
        before.set_current()
    assert after == before, f"this test left {after!r} current, and {before!r} was"
