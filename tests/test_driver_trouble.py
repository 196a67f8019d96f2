"""The CUDA build over a driver that is old, broken, busy, hidden or not open to us: the reason and what would help.

The driver is a stand-in, built here; the CUDA runtime that asks it, the device nodes' order and the words are real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import standin
from helpers.process import cli, run, run_python
from helpers.standin import build_libcuda, copy_of_installation, fake_root, needs, reason_of

import portamem

NODES = ("nvidiactl", "nvidia-uvm", "nvidia0")


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """``driver(init=46)`` is the reason for CUDA over a driver whose first call answers 46."""
    needs("cuda")
    if portamem.cuda.compiled_version() < 12000:
        pytest.skip("the stand-in answers a runtime of CUDA 12 or later")
    build_libcuda(tmp_path / "driver")

    def ask(init: int = 100, version: int = 99000, nodes: tuple[str, ...] = NODES, **env: str) -> dict[str, str]:
        variables = {"LD_LIBRARY_PATH": str(tmp_path / "driver"), "STANDIN_INIT": str(init), **env}
        root = fake_root(tmp_path / "root", *nodes)
        return reason_of("cuda", root=root, **variables, STANDIN_VERSION=str(version))

    return ask


def test_an_old_driver(driver: Callable[..., dict[str, str]]) -> None:
    """Both versions, and what to install."""
    runtime = portamem.cuda.runtime_version() // 1000
    reason = driver(init=0, version=(runtime - 1) * 1000 + 20)
    assert reason["code"] == "driver_too_old"
    assert f"CUDA {runtime - 1}.2" in reason["text"]
    assert f"CUDA {runtime}." in reason["text"]
    assert {12: "525", 13: "580"}[runtime] in reason["fix"]


@pytest.mark.parametrize(
    ("init", "code", "word"),
    [
        (46, "busy", "compute mode"),
        (100, "no_device", "driver's log"),
        (802, "busy", "fabricmanager"),
        (803, "driver_too_old", "Restart"),
        (804, "driver_too_old", "cuda-compat"),
        (999, "no_device", "driver's log"),
    ],
)
def test_a_driver_that_answers(driver: Callable[..., dict[str, str]], init: int, code: str, word: str) -> None:
    reason = driver(init=init)
    assert reason["code"] == code
    assert word in reason["fix"]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("", "empty"),
        ("-1", "negative"),
        ("3", "no device 3, as the driver has 1"),
        ("GPU-0bad", "GPU-0bad"),
        ("no", "'no'"),
    ],
)
def test_a_mask(driver: Callable[..., dict[str, str]], value: str, word: str) -> None:
    reason = driver(CUDA_VISIBLE_DEVICES=value)
    assert reason["code"] == "hidden_by_mask"
    assert f"CUDA_VISIBLE_DEVICES={value}" in reason["text"]
    assert word in reason["text"]


def test_a_driver_without_its_memory_module(driver: Callable[..., dict[str, str]]) -> None:
    reason = driver(init=999, nodes=("nvidiactl", "nvidia0"))
    assert reason["code"] == "no_driver"
    assert "nvidia-modprobe" in reason["fix"]


def test_a_container_without_its_devices(driver: Callable[..., dict[str, str]]) -> None:
    assert driver(nodes=("nvidiactl", "nvidia-uvm"))["code"] == "no_device"


def test_no_driver_at_all(tmp_path: Path) -> None:
    """A file that is no library hides this machine's driver, if it has one."""
    needs("cuda")
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    standin.build(tmp_path / "lib" / "libcuda.so.1", "int nothing(void) { return 0; }")
    reason = reason_of("cuda", root=fake_root(tmp_path / "root"), LD_LIBRARY_PATH=str(tmp_path / "lib"))
    assert reason["code"] == "no_driver"
    assert "Install the NVIDIA driver" in reason["fix"]


# In a mount namespace the machine itself shows the nodes: nothing of portamem is turned another way.

IN_NAMESPACE = """
set -e
mount -t tmpfs none /mnt
for node in null zero random urandom tty; do touch /mnt/$node; mount --bind /dev/$node /mnt/$node; done
for node in "$@"; do mkdir -p "/mnt/$(dirname "$node")"; touch "/mnt/$node"; chmod "$MODE" "/mnt/$node"; done
[ -z "$GROUP" ] || chgrp "$GROUP" "/mnt/$1"
mount --rbind /mnt /dev
exec "$PYTHON" -c "$CODE"
"""


def in_namespace(code: str, *nodes: str, mode: str = "0666", group: str = "", **env: str) -> str:
    """Returns what Python prints where /dev has these nodes; a skip where no mount namespace is to be had."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace here")
    masks = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PORTAMEM_BACKEND", "PORTAMEM_REQUIRE"))
    settings = {"MODE": mode, "GROUP": group, "PYTHON": sys.executable, "CODE": code}
    command = ["unshare", "--mount", "bash", "-c", IN_NAMESPACE, "bash", *nodes]
    done = run(*command, env={**masks, **settings, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_gpu_that_cannot_be_used_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    """``auto`` falls back to the CPU, and says why."""
    needs("cuda")
    standin.build(tmp_path / "libcuda.so.1", "int nothing(void) { return 0; }")
    code = (
        "import warnings, portamem\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    print(portamem.Device().backend, portamem.Device().backend)\n"
        "print(len(told), told[0].message)\n"
    )
    lines = in_namespace(code, *NODES, LD_LIBRARY_PATH=str(tmp_path)).splitlines()
    assert lines[0] == "host host"
    assert lines[1].startswith("1 this machine shows a GPU (/dev/nvidia0), and the CPU is used instead")
    assert "no_driver" in lines[1]


def test_a_node_that_is_shut(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can take another user's place")
    build_libcuda(tmp_path)
    needs("cuda")
    # Everything is imported before root's rights go: a Python of root's may be closed to others.
    code = (
        "import grp, os, pwd, portamem, portamem.cuda, portamem.reasons\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(portamem.backends()['cuda'].reason)\n"
    )
    env = {"LD_LIBRARY_PATH": str(tmp_path), "STANDIN_INIT": "100", "STANDIN_VERSION": "99000"}
    told = in_namespace(code, *NODES, mode="0660", group="4242", **env)
    assert "/dev/nvidiactl belongs to group 4242" in told
    assert "[no_permission]" in told


# Not built, and gone.


@pytest.mark.parametrize(("backend", "node"), [("cuda", "nvidia0"), ("hip", "kfd")])
def test_a_gpu_with_no_module_for_it(tmp_path: Path, backend: str, node: str) -> None:
    """The warning of ``auto`` says that the module is missing, and how to get it."""
    package = copy_of_installation(tmp_path / "copy", without=backend)
    reason = reason_of(backend, package=package)
    assert reason["code"] == "not_built"
    assert f'PORTAMEM_BACKENDS="host;{backend}"' in reason["fix"]
    code = f"""
        import pathlib, warnings
        from portamem import _machine
        import portamem
        _machine.ROOT = pathlib.Path({str(fake_root(tmp_path / "root", node))!r})
        with warnings.catch_warnings(record=True) as told:
            print(portamem.Device().backend)
        print(len(told), told[0].message)
    """
    # A GPU that this machine may have is hidden from the other backend.
    env: dict[str, Any] = {"CUDA_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(package)}
    done = run_python(code, **env, PORTAMEM_BACKEND=None, PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("host\n1 this machine shows a GPU")
    assert "not_built" in done.stdout
    done = run_python(code, **env, PORTAMEM_BACKEND=None, PORTAMEM_REQUIRE=backend)
    assert done.returncode == 1
    assert "[not_built]" in done.stderr


@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_libportamem_is_gone(tmp_path: Path, backend: str) -> None:
    needs(backend)
    package = copy_of_installation(tmp_path / "copy")
    next((package / "portamem").glob("libportamem.so.*")).unlink()
    reason = reason_of(backend, package=package)
    assert reason["code"] == "library_missing"
    assert "libportamem.so" in reason["text"]
    assert reason["fix"] == "Install portamem again."


def test_info_tells_all_of_it(tmp_path: Path) -> None:
    """The command line shows the same words, and exits 0: what stands in the way is an answer."""
    needs("cuda")
    build_libcuda(tmp_path)
    env: dict[str, Any] = {"LD_LIBRARY_PATH": str(tmp_path), "STANDIN_INIT": "46", "STANDIN_VERSION": "99000"}
    done = cli("info", **env, PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    assert "cuda  busy: the devices are taken" in done.stdout
    assert "nvidia-smi -c 0" in done.stdout


def test_a_device_that_another_process_holds_for_itself() -> None:
    """Its count is answered, and the first call that needs a context is not: that error names the likely cause."""
    code = """
        import portamem.host as pm, portamem
        try:
            pm.DeviceMemoryResource().allocate(64)
        except portamem.Error as error:
            print(error.code, error.name, error)
    """
    done = run_python(code, PORTAMEM_HOST_FAIL="Malloc:1:46")
    assert done.stdout.startswith("46 DevicesUnavailable"), done.stderr
    assert "another process may hold the device for itself (its compute mode)" in done.stdout
