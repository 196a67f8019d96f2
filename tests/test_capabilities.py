"""A device's capabilities, as the command line tells them. The contract says what holds of each field."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
from helpers.process import cli


def test_what_the_runtime_does_not_know_is_not_ipc_capable(pm: ModuleType) -> None:
    array = np.zeros(8192, np.uint8)
    assert pm.pointer_info(array.ctypes.data).ipc_capable is False
    assert pm.pointer_info(0).ipc_capable is False


def test_info_has_the_whole_record(pm: ModuleType, device: Any) -> None:
    found = json.loads(cli("info", "--json").stdout)["backends"][pm.backend]["devices"][device.ordinal]
    assert set(found["capabilities"]) == set(device.capabilities.as_dict())
    assert found["probed"] is None
    assert [quirk["name"] for quirk in found["quirks"]] == [quirk.name for quirk in device.quirks]


def test_info_probes_when_asked(pm: ModuleType, device: Any) -> None:
    found = json.loads(cli("info", "--json", "--probe").stdout)["backends"][pm.backend]["devices"][device.ordinal]
    assert set(found["probed"]) == set(device.probe().as_dict())
    assert found["probed"]["pool_threshold_effective"] == device.probe().pool_threshold_effective


def test_info_is_as_short_as_before_with_it(device: Any) -> None:
    for arguments in (["info"], ["info", "--probe"]):
        lines = cli(*arguments).stdout.splitlines()
        assert len(lines) <= 25
        mine = next(line for line in lines if device.uuid in line)
        for word in ("managed", "pools", "pageable", "virtual memory", "IPC", "quirks"):
            assert word in mine
    words = {True: "yes", False: "no", None: "?"}
    for name, known in device.probe().as_dict().items():
        assert f"{name.replace('_', ' ')} {words[known]}" in mine
