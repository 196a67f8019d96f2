"""PORTAMEM_LOG and PORTAMEM_STATS: every allocation of a process that knows nothing of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.process import LAUNCHERS, run_python

PROGRAM = """
import os, threading
import portamem.{backend} as pm
device = pm.DeviceMemoryResource()
buffers = [device.allocate(1000 * (n + 1)) for n in range(3)]
statistics = pm.StatisticsAdaptor(device)
with pm.Stream() as stream:
    buffers.append(statistics.allocate(5000, stream=stream))
    buffers[-1].record_stream(pm.Device(0).default_stream)
rows = device.allocate_pitched(100, 7)
thread = threading.Thread(target=lambda: pm.PinnedMemoryResource().allocate(77).close())
thread.start()
thread.join()
try:
    device.allocate(1 << 50)
except MemoryError:
    pass
for buffer in buffers:
    buffer.close()
rows.close()
"""


def run(pm: ModuleType, code: str = PROGRAM, **env: str | None) -> Any:
    launcher = dict.fromkeys(LAUNCHERS)
    return run_python(
        code.format(backend=pm.backend), **{"PORTAMEM_LOG": None, "PORTAMEM_STATS": None, **launcher, **env}
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_without_them_nothing_is_written_and_nothing_said(pm):
    done = run(pm)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_log_has_every_call_of_every_resource(pm, tmp_path):
    done = run(pm, PORTAMEM_LOG=f"{tmp_path}/run.%r.jsonl", SLURM_PROCID="3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = read(tmp_path / "run.3.jsonl")
    assert (lines[0]["format"], lines[0]["version"], lines[0]["rank"]) == ("portamem-log", 1, 3)
    classes = {each["id"]: each["class"] for each in lines if each.get("event") == "resource"}
    assert sorted(classes.values()) == ["DeviceMemoryResource", "PinnedMemoryResource", "StatisticsAdaptor"]
    allocated = [each for each in lines if each.get("event") == "alloc" and "error" not in each]
    freed = [each for each in lines if each.get("event") == "free"]
    sizes = sorted((classes[each["resource"]], each["depth"], each["size"]) for each in allocated)
    pitched = next(size for name, _, size in sizes if size not in (77, 1000, 2000, 3000, 5000) and "Device" in name)
    assert sizes == sorted(
        [
            *(("DeviceMemoryResource", 0, size) for size in (1000, 2000, 3000, pitched)),
            ("DeviceMemoryResource", 1, 5000),
            ("PinnedMemoryResource", 0, 77),
            ("StatisticsAdaptor", 0, 5000),
        ]
    )
    assert pitched >= 700
    assert sorted(map(key, allocated)) == sorted(map(key, freed))
    assert [each["size"] for each in lines if each.get("event") == "alloc" and "error" in each] == [1 << 50]
    assert {each["size"] for each in lines if each.get("event") == "record"} == {5000}
    assert len({each["thread"] for each in allocated}) == 2
    assert lines[-1]["event"] == "end"
    sites = {each["id"]: each["text"] for each in lines if each.get("event") == "site"}
    assert all(re.fullmatch(r"<string>:\d+", sites[each["site"]]) for each in allocated)


def key(call: dict[str, Any]) -> tuple[int, str, int]:
    return call["resource"], call["address"], call["size"]


def test_statistics_are_printed_at_exit(pm):
    done = run(pm, PORTAMEM_STATS="exit")
    assert done.returncode == 0
    title, columns, *rows = done.stderr.splitlines()
    assert re.fullmatch(r"portamem: statistics of process \d+, rank 0", title)
    assert columns.split() == ["resource", "now", "peak", "total", "allocations", "live", "failed"]
    (statistics,) = [row for row in rows if "StatisticsAdaptor" in row]
    assert re.search(r" 0 B +4\.883 KiB +4\.883 KiB +1 +0 +0$", statistics)
    (device,) = [row for row in rows if "DeviceMemoryResource" in row]
    assert re.search(rf"^  {pm.backend} device 0 .* 5 +0 +1$", device)


def test_both_at_once(pm, tmp_path):
    done = run(pm, PORTAMEM_STATS="exit", PORTAMEM_LOG=f"{tmp_path}/%p.%h.jsonl")
    assert done.returncode == 0
    assert "DeviceMemoryResource" in done.stderr
    (path,) = tmp_path.iterdir()
    assert read(path)[-1]["event"] == "end"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PORTAMEM_LOG": "/nonexistent/run.jsonl"}, "the log /nonexistent/run.jsonl cannot be opened: No such file"),
        ({"PORTAMEM_LOG": "/tmp/%z.jsonl"}, "but /tmp/%z.jsonl has a '%z'"),
        ({"PORTAMEM_LOG": "/dev/full"}, "the log /dev/full cannot be written: No space left on device"),
        ({"PORTAMEM_STATS": "yes"}, "PORTAMEM_STATS is exit, for a table when the program ends, not 'yes'"),
    ],
    ids=["folder", "percent", "full", "stats"],
)
def test_what_cannot_be_done_is_said_once_and_breaks_nothing(pm, env, said):
    done = run(pm, **env)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_program_that_allocates_nothing_leaves_no_log(pm, tmp_path):
    done = run(pm, "import portamem.{backend} as pm; pm.device_count()", PORTAMEM_LOG=f"{tmp_path}/run.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_leaves_the_log_alone(pm, tmp_path):
    code = """
    import os
    import warnings
    import portamem
    import portamem.{backend} as pm
    warnings.simplefilter("ignore")
    device = pm.DeviceMemoryResource()
    first = device.allocate(100)
    if os.fork() == 0:
        try:
            device.allocate(200)
        except portamem.Error:
            raise SystemExit(0)
        raise SystemExit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    first.close()
    """
    path = tmp_path / "run.jsonl"
    done = run(pm, code, PORTAMEM_LOG=str(path), PORTAMEM_STATS="exit")
    assert done.returncode == 0, done.stderr
    lines = read(path)
    assert [each["event"] for each in lines if "seq" in each] == ["alloc", "free", "end"]
    assert done.stderr.count("portamem: statistics") == 1
