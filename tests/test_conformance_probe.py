"""DEVICE-14 sees a probe that is wrong: one that denies what happens, and one that tells what does not."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from helpers import witnesses

from portamem.conformance.checks.device_abilities import what_was_probed_happens as shown
from portamem.conformance.checks.device_abilities import (
    what_was_probed_of_thresholds_happens_as_the_witness_sees_it as seen_by_the_witness,
)
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.outcome import Failed
from portamem.conformance.kit.platform import platform_of
from portamem.errors import Error

Plant = Callable[..., None]
THRESHOLDS = ("pool_threshold_accepted", "pool_threshold_effective")


@pytest.fixture
def env(pm: ModuleType, device: Any) -> Env:
    if not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
    if device.capabilities.host_register is False:
        pytest.skip(f"{device!r} registers nothing")
    return Env(pm, platform_of(pm))


@pytest.fixture
def plant(env: Env, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Makes the probe tell something else."""
    found = env.device.probe().as_dict()

    def planted(**lies: bool | None) -> None:
        monkeypatch.setattr(env.pm.Device, "probe", lambda self: SimpleNamespace(**{**found, **lies}))

    return planted


def refuse(*arguments: Any, **options: Any) -> NoReturn:
    raise Error("it is not there", code=801, name="NotSupported")


def test_what_the_probe_really_tells_happens(env: Env, plant: Plant) -> None:
    plant()
    shown(env)
    seen_by_the_witness(env, witnesses.of(env.pm.backend, env.ordinal))


@pytest.mark.parametrize("name", ["stream_capture", "host_register", *THRESHOLDS])
def test_a_probe_that_tells_the_contrary_fails(env: Env, plant: Plant, name: str) -> None:
    truth = getattr(env.device.probe(), name)
    plant(**{name: not truth})
    with pytest.raises(Failed, match=f"which the probe tells, is {truth}, and should be {not truth}"):
        shown(env)


@pytest.mark.parametrize("name", ["stream_capture", *THRESHOLDS])
def test_a_probe_that_does_not_know_what_happens_fails(env: Env, plant: Plant, name: str) -> None:
    plant(**{name: None})
    with pytest.raises(Failed):
        shown(env)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_the_witness_decides_of_thresholds(env: Env, plant: Plant, name: str) -> None:
    truth = getattr(env.device.probe(), name)
    plant(**{name: not truth})
    with pytest.raises(Failed, match=f"which the probe tells, is {truth}, and should be {not truth}"):
        seen_by_the_witness(env, witnesses.of(env.pm.backend, env.ordinal))


@pytest.mark.parametrize(
    ("name", "call", "word"),
    [("stream_capture", "Stream.begin_capture", "captured"), ("host_register", "HostRegistration", "registered")],
)
def test_what_the_runtime_refuses(
    env: Env, plant: Plant, monkeypatch: pytest.MonkeyPatch, name: str, call: str, word: str
) -> None:
    """The probe's finding is what has to happen, whatever the runtime says that it does."""
    *owner, function = call.split(".")
    monkeypatch.setattr(getattr(env.pm, owner[0]) if owner else env.pm, function, refuse)
    plant(**{name: True})
    with pytest.raises(Failed, match=f"{word}, which the probe tells, is False, and should be True"):
        shown(env)
    plant(**{name: False})
    shown(env)


def test_thresholds_that_are_ignored(env: Env, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """They read back as they were set, and the pool does as it does without one."""
    told: dict[int, int] = {}
    ignored = property(lambda pool: told[pool.pool_handle], lambda pool, value: told.update({pool.pool_handle: value}))
    monkeypatch.setattr(env.pm.AsyncMemoryResource, "release_threshold", ignored)
    plant(pool_threshold_accepted=True, pool_threshold_effective=True)
    with pytest.raises(Failed, match=r"obeyed \(\d+ and \d+ bytes were kept\), which the probe tells, is False"):
        shown(env)
    plant(pool_threshold_accepted=True, pool_threshold_effective=False)
    shown(env)


def test_thresholds_that_are_refused(env: Env, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env.pm.AsyncMemoryResource, "release_threshold", property(refuse, refuse))
    plant(pool_threshold_accepted=True, pool_threshold_effective=True)
    with pytest.raises(Failed, match="taken, which the probe tells, is False, and should be True"):
        shown(env)
    plant(pool_threshold_accepted=False, pool_threshold_effective=False)
    shown(env)
