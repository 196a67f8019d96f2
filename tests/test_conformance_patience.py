"""The conformance suite waits for memory that goes back late, and does not wait forever where none ever does."""

from __future__ import annotations

from types import ModuleType

import pytest

from portamem.conformance.harness import worker
from portamem.conformance.harness.plan import cases
from portamem.conformance.kit import expect
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.patience import FULL_S, LEAST_S, Patience
from portamem.conformance.kit.platform import platform_of


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(expect, "time", found)
    return found


def waits_in_vain(patience: Patience, clock: Clock) -> float:
    begun = clock.now
    assert not patience.eventually(lambda: False)
    return clock.now - begun


def test_waits_in_vain_become_shorter_and_never_nothing(clock: Clock) -> None:
    patience = Patience()
    waits = [waits_in_vain(patience, clock) for _ in range(500)]
    assert waits[0] == pytest.approx(FULL_S, abs=0.01)
    assert waits[1] == pytest.approx(FULL_S / 2, abs=0.01)
    assert min(waits) == pytest.approx(LEAST_S, abs=0.01)
    assert sum(waits) < 500 * 2 * LEAST_S


def test_what_comes_late_makes_the_next_wait_a_whole_one(clock: Clock) -> None:
    patience = Patience()
    for _ in range(10):
        waits_in_vain(patience, clock)
    begun = clock.now
    assert patience.eventually(lambda: clock.now > begun + LEAST_S / 2)
    assert waits_in_vain(patience, clock) == pytest.approx(FULL_S, abs=0.01)


def test_what_is_there_at_once_changes_nothing(clock: Clock) -> None:
    patience = Patience()
    for _ in range(10):
        waits_in_vain(patience, clock)
    begun = clock.now
    assert patience.eventually(lambda: True)
    assert clock.now == begun
    assert waits_in_vain(patience, clock) == pytest.approx(LEAST_S, abs=0.01)


def test_the_cases_of_a_run_share_it(pm: ModuleType, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Every case here leaves memory behind: the run tells each, and later ones sooner."""
    planned = {case.key: case for case in cases(pm.backend, ["ALLOC-07"])}
    case = planned["alloc.what_is_out_is_counted[device]"]
    monkeypatch.setattr(Env, "_left", lambda self: True)
    patience, waits = Patience(), []
    for _ in range(3):
        begun = clock.now
        found = worker.run_case(case, pm, platform_of(pm), patience)
        assert found["outcome"] == "fail"
        assert "memory was left behind" in found["detail"]
        waits.append(clock.now - begun)
    assert waits == pytest.approx([FULL_S, FULL_S / 2, FULL_S / 4], abs=0.01)
