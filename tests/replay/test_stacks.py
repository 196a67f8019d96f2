"""``portamem replay --resource MODULE:FUNCTION``: a log is run against resources of the user's own making."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STACKS = """
import portamem
from portamem import host


def counted(pm, device):
    made.append(device)
    upstream = pm.LimitingAdaptor(pm.DeviceMemoryResource(device), "64 MiB")
    stacks.append(pm.StatisticsAdaptor(pm.PoolMemoryResource(upstream)))
    return stacks[-1]


def nothing(pm, device):
    return None


def current(pm, device):
    return pm.current_resource(device)


def broken(pm, device):
    raise RuntimeError("no stack today")


def strange(pm, device):
    return Strange()


def of_another_device(pm, device):
    return pm.DeviceMemoryResource(1 - device.ordinal)


class Strange:
    backend = "elsewhere"


portamem.MemoryResource.register(Strange)
made, stacks, number = [], [], 7
"""


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with functions that make resources; it can be imported as ``stacks_of_ours`` too."""
    path = tmp_path / "stacks_of_ours.py"
    path.write_text(STACKS, encoding="utf-8")
    (tmp_path / "wrong_import.py").write_text("import there_is_no_such_package\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield path
    for name in sys.modules.keys() - known:
        del sys.modules[name]


@pytest.mark.parametrize("of", ["module", "file"])
def test_a_log_runs_against_a_stack_of_ones_own(pm, recorded, replay, stacks, tmp_path, of):
    name = f"{stacks if of == 'file' else 'stacks_of_ours'}:counted"
    done = replay(recorded, "--resource", name, "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["resource"], found["allocations"], found["frees"]) == (name, 123, 122)
    assert found["peak_reserved"] >= found["peak_live"] > 0  # the pool's, below the adaptor
    if of == "module":
        module = sys.modules["stacks_of_ours"]
        assert module.made == [pm.Device(0)]  # once, and not for a file of the same name
        assert module.stacks[0].counts.total_count == 123 + found["granted"]
        assert not module.stacks[0].is_closed  # it is its maker's


@pytest.mark.parametrize("name", ["pool", "statistics-device", "statistics-pool-device", "fixedsize-device"])
def test_what_is_reserved_is_that_of_the_lowest_that_keeps(recorded, replay, tmp_path, name):
    done = replay(recorded, "--resource", name, "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["peak_reserved"] > found["peak_live"]) == (name != "statistics-device")


def test_a_stack_may_be_a_resource_that_nobody_closes(pm, recorded, replay, stacks):
    assert replay(recorded, "--resource", f"{stacks}:current").returncode == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("there_is_no_such_module:make", "there is no module 'there_is_no_such_module'"),
        ("stacks_of_ours.deeper:make", "there is no module 'stacks_of_ours.deeper'"),
        ("wrong_import:make", "wrong_import:make cannot be loaded: ModuleNotFoundError: No module named 'there_is_no"),
        ("nowhere.py:make", "nowhere.py:make cannot be loaded: there is no file nowhere.py"),
        ("stacks_of_ours:none", "stacks_of_ours has no 'none'"),
        ("stacks_of_ours:number", "stacks_of_ours:number is no function of a backend's module and a device: it is 7"),
        ("stacks_of_ours:", "stacks_of_ours has no ''"),
        (":make", ":make cannot be loaded: ValueError: Empty module name"),
    ],
)
def test_what_makes_no_stack_is_refused(replay, recorded, stacks, name, why):
    done = replay(recorded, "--resource", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "answered None, and a memory resource is expected"),
        ("broken", "stacks_of_ours:broken: RuntimeError: no stack today"),
        ("strange", "answered a resource of the elsewhere backend, and not of {backend}"),
    ],
)
def test_what_a_function_makes_wrong_stops_the_replay(pm, replay, recorded, stacks, name, why):
    done = replay(recorded, "--resource", f"stacks_of_ours:{name}")
    assert (done.returncode, done.stdout) == (1, "")
    assert why.format(backend=pm.backend) in done.stderr


def test_a_stack_is_of_the_device_that_was_asked_for(two_devices, replay, recorded, stacks):
    asked, other = two_devices
    done = replay(recorded, "--resource", "stacks_of_ours:of_another_device")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"answered a resource of {other!r}, and one of {asked!r} is expected" in done.stderr
