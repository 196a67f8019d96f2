"""``portamem info``: short enough to paste, whole as JSON, and unharmed by whatever a vendor library does."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from helpers import backend
from helpers.process import cli, run

import portamem
from portamem.reasons import CODES

MOST_LINES = 25


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = cli("info", "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_shape(found: dict[str, Any]) -> None:
    assert set(found["backends"]) == set(backend.NAMES)
    for name, state in found["backends"].items():
        assert {"built", "loadable", "reason", "devices"} <= set(state)
        assert state["built"] == backend.is_built(name)
        assert isinstance(state["loadable"], bool)
        assert state["built"] or not state["loadable"]
        assert isinstance(state["devices"], list)
        if state["reason"] is None:
            assert state["devices"]
        else:
            assert set(state["reason"]) == {"code", "text", "fix"}
            assert state["reason"]["code"] in CODES
            assert state["devices"] == []


def test_it_says_what_the_library_says(found: dict[str, Any]) -> None:
    for name, info in portamem.backends().items():
        state = found["backends"][name]
        assert (state["built"], state["loadable"], len(state["devices"])) == (
            info.built,
            info.loadable,
            info.device_count,
        )
        assert (state["reason"] or {}).get("code") == (info.reason.code if info.reason else None)


def test_host_is_ready(found: dict[str, Any]) -> None:
    state = found["backends"]["host"]
    assert state["built"]
    assert state["loadable"]
    assert state["reason"] is None
    for device in state["devices"]:
        assert {"name", "arch", "uuid", "pci_bus_id", "numa_node", "capabilities"} <= set(device)
        assert "managed_mode" in device["capabilities"]
        assert "memory_pools" in device["capabilities"]


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_no_driver_is_told_from_no_device(found: dict[str, Any], name: str) -> None:
    state = found["backends"][name]
    if state["devices"] or not state["loadable"]:
        pytest.skip(f"{name}: {state['reason'] or 'has devices'}")
    nodes = ("/dev/nvidiactl", "/dev/nvidia-uvm") if name == "cuda" else ("/dev/kfd",)
    if not any(os.path.exists(node) for node in nodes):
        assert state["reason"]["code"] == "no_driver"
    else:
        assert state["reason"]["code"] != "no_driver"


def test_the_text_fits_a_ticket() -> None:
    done = cli("info")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert 5 <= len(lines) <= MOST_LINES
    for word in (portamem.__version__, sys.version.split()[0], *backend.NAMES, "memlock", "NUMA", "cgroup", "mask"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout, "no colours in a pipe"


def test_many_devices_still_fit() -> None:
    done = cli("info", PORTAMEM_HOST_DEVICES="64")
    assert len(done.stdout.splitlines()) <= MOST_LINES
    assert "--json" in done.stdout
    everything = json.loads(cli("info", "--json", PORTAMEM_HOST_DEVICES="64").stdout)
    assert len(everything["backends"]["host"]["devices"]) == 64


def test_masks_and_settings_are_shown() -> None:
    done = cli("info", CUDA_VISIBLE_DEVICES="7", PORTAMEM_HOST_DEVICES="1")
    assert "CUDA_VISIBLE_DEVICES=7" in done.stdout
    assert "PORTAMEM_HOST_DEVICES=1" in done.stdout


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("3", "copies of 4 MiB and more by 3 threads"),
        ("1", "copies of 4 MiB and more by 1 thread"),
        ("off", "large copies by the runtime"),
    ],
)
def test_it_says_who_carries_large_copies(setting: str, words: str) -> None:
    done = cli("info", PORTAMEM_COPY_THREADS=setting)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[lines.index(words) - 1].startswith(tuple(backend.NAMES)), done.stdout
    state = json.loads(cli("info", "--json", PORTAMEM_COPY_THREADS=setting).stdout)["backends"]["host"]
    assert state["copies"] == {"threads": 0 if setting == "off" else int(setting), "from_bytes": 4 << 20}


def test_a_number_of_threads_that_cannot_be_read_is_a_warning() -> None:
    done = cli("info", PORTAMEM_COPY_THREADS="many")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PORTAMEM_COPY_THREADS=many is no number of threads") == 1
    assert "large copies" not in done.stdout


def test_memory_is_asked_for_by_name(found: dict[str, Any]) -> None:
    """Figures of memory create contexts on a GPU: they come only when asked for."""
    assert all("memory" not in device for device in found["backends"]["host"]["devices"])
    done = cli("info", "--json", "--memory")
    for device in json.loads(done.stdout)["backends"]["host"]["devices"]:
        assert 0 < device["memory"]["free"] <= device["memory"]["total"]


def test_a_device_that_does_not_say_how_much_memory_it_has() -> None:
    """A context may be refused, by another process for one: the rest is shown all the same."""
    done = cli(
        "info", "--memory", PORTAMEM_HOST_FAIL="MemGetInfo:1:46", PORTAMEM_HOST_DEVICES="2", PORTAMEM_REQUIRE=None
    )
    assert done.returncode == 0, done.stderr
    assert "host  ready, 2 devices" in done.stdout
    assert "warning: host:0 does not say how much memory it has: host MemGetInfo: DevicesUnavailable" in done.stdout
    assert "free (host MemGetInfo)" in next(line for line in done.stdout.splitlines() if line.startswith("host:1"))


@pytest.mark.parametrize("how", ["os.abort()", "os._exit(3)", "raise RuntimeError('mine')"])
def test_a_backend_that_ends_its_process_is_a_reason(tmp_path: Any, how: str) -> None:
    """A vendor library that aborts takes its child process along, and nothing else."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Break:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'portamem._host' and sys.argv[1:2] != ['info'] and '-m' not in sys.orig_argv: {how}\n"
        "sys.meta_path.insert(0, Break())\n",
        encoding="utf-8",
    )
    done = cli("info", "--json", PYTHONPATH=str(tmp_path), PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)["backends"]["host"]
    assert not state["loadable"]
    assert state["devices"] == []
    assert state["reason"]["text"]
    assert set(json.loads(done.stdout)["backends"]) == set(backend.NAMES)


def test_the_command_itself_opens_no_vendor_library() -> None:
    code = (
        "import sys; from portamem.cli import main; sys.argv = ['portamem', 'info']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(open('/proc/self/maps').read())"
    )
    done = run(sys.executable, "-c", code)
    for library in ("libcuda.so", "libamdhip64", "_host.", "_cuda.", "_hip."):
        assert library not in done.stdout.split("limits", 1)[-1].replace("loaded:", "") or library in cli("info").stdout


def test_unknown_options() -> None:
    done = cli("info", "--everything")
    assert done.returncode == 2
    assert "--everything" in done.stderr


def test_help_and_version() -> None:
    for arguments in (["--help"], ["info", "--help"], ["demo", "--help"]):
        done = cli(*arguments)
        assert done.returncode == 0
        assert "portamem" in done.stdout
    assert portamem.__version__ in cli("--version").stdout


def test_without_a_command() -> None:
    done = cli()
    assert done.returncode == 2
    assert "required" in done.stderr
    assert "Traceback" not in done.stderr
