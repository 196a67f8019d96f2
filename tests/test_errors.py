"""The exceptions: one hierarchy for all backends, with readable fields, that survives pickling."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from helpers import backend

import portamem
from portamem.reasons import Reason

REASON = Reason("no_driver", "there is no driver here", "Install one.")

ERRORS = [
    portamem.Error("text", code=1, name="InvalidValue", call="Free", backend="host"),
    portamem.OutOfMemoryError("text", call="Malloc", backend="host", asked=10, used=3),
    portamem.BackendUnavailableError("cuda", REASON),
]


def test_hierarchy() -> None:
    assert issubclass(portamem.Error, RuntimeError)
    assert issubclass(portamem.OutOfMemoryError, portamem.Error)
    assert issubclass(portamem.OutOfMemoryError, MemoryError)
    assert issubclass(portamem.BackendUnavailableError, portamem.Error)


@pytest.mark.parametrize("clone", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_they_survive_pickling(error: portamem.Error, clone: Callable[[Any], Any]) -> None:
    again = clone(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_giving_back_what_was_never_taken(device_resource: Any) -> None:
    device_resource.deallocate(0, 0)
    with pytest.raises(ValueError, match="no live allocations"):
        device_resource.deallocate(0x1000, 16)
    with device_resource.allocate(16) as buf:
        buf.fill(1)


@pytest.mark.parametrize("name", backend.NAMES)
def test_one_except_catches_all_backends(name: str) -> None:
    """The runtime refuses where a backend has devices; where it has none, that is the refusal."""
    caught: list[portamem.Error] = []
    try:
        module = getattr(portamem, name)
        module.DeviceMemoryResource(0).allocate(2**50)
    except portamem.Error as error:
        caught.append(error)
    assert len(caught) == 1
    assert caught[0].backend == name
    assert str(caught[0])


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_without_a_device_calls_say_why(name: str) -> None:
    info = portamem.backends()[name]
    if not info.loadable or info.device_count:
        pytest.skip(f"{name} is not loadable, or has devices")
    module = getattr(portamem, name)
    assert module.device_count() == 0
    for call in (
        lambda: module.Device(0),
        lambda: module.Stream(),
        lambda: module.Event(),
        lambda: module.DeviceMemoryResource(),
        lambda: module.zeros(4),
    ):
        with pytest.raises(portamem.Error, match=r"(?i)no .*(device|driver)|driver.*insufficient|NoDevice|Driver"):
            call()
