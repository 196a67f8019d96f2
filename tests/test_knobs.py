"""The knobs of the host runtime. What becomes of the failures that they cause is in the conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import read_back

import portamem

pytestmark = pytest.mark.host_only


def test_copies_can_be_slow(
    pm: ModuleType, stream: Any, pinned_resource: Any, device_resource: Any, knobs: Any
) -> None:
    with pinned_resource.allocate(16) as src, device_resource.allocate(16) as dst:
        src.fill(1)
        knobs.set_copy_delay(20_000)
        done = dst.copy_from(src, stream=stream)
        assert not done.query()
        done.synchronize()
        assert read_back(pm, dst) == b"\x01" * 16


@pytest.mark.parametrize(
    "call",
    [
        lambda knobs: knobs.fail_call("Malloc", -1, 2),
        lambda knobs: knobs.fail_call("Malloc", 1, 0),
        lambda knobs: knobs.fail_call("Malloc", 1, 1000),
        lambda knobs: knobs.fail_call("Malloc", 1, 2**40),
        lambda knobs: knobs.fail_call("Malloc\0x", 1, 2),
        lambda knobs: knobs.fail_call("Malloc\ud800", 1, 2),
        lambda knobs: knobs.fail_call(b"Malloc", 1, 2),
        lambda knobs: knobs.fail_call("Malloc", "1", 2),
        lambda knobs: knobs.set_copy_delay(-1),
        lambda knobs: knobs.set_copy_delay(1.5),
        lambda knobs: knobs.set_copy_delay(2**64),
        lambda knobs: knobs.set_capacity(0, -1),
        lambda knobs: knobs.set_capacity(0, 2**80),
        lambda knobs: knobs.set_capacity(-1, 1),
        lambda knobs: knobs.set_capacity(99, 1),
    ],
)
def test_knobs_refuse_nonsense_in_words_of_their_own(knobs: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises((ValueError, TypeError, portamem.Error)) as refused:
        call(knobs)
    assert "incompatible function arguments" not in str(refused.value)
    assert "Invoked with" not in str(refused.value)
    assert "an argument is not valid" not in str(refused.value)
