# SPDX-License-Identifier: MIT
"""Collects what ``portamem info`` tells. Each backend is asked in a child process."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import portamem
from portamem import _build, _libraries, _loader, reasons
from portamem._machine import gpu_nodes, uuids, visible_gpus
from portamem._masks import cut_short, masks
from portamem._sizes import format_size
from portamem.info.limits import limits

_SECONDS = 60
_SMALL_MEMLOCK = 64 << 20

# Not `-m portamem._probe`: that would put the working directory first, and with it a checkout that may be there.
_CHILD = "import sys; sys.path[0] = sys.argv.pop(1); from portamem._probe import main; main()"
_PACKAGE_PARENT = str(Path(portamem.__file__).resolve().parent.parent)


def collect(*, memory: bool, probe: bool = False) -> dict[str, Any]:
    """Everything that ``portamem info --json`` prints."""
    wanted = [*(["--memory"] if memory else []), *(["--probe"] if probe else [])]
    children = {name: _start(name, wanted) for name in _loader.BACKENDS}
    backends = {name: _finish(name, child) for name, child in children.items()}
    found = {
        "portamem": {
            "version": portamem.__version__,
            "path": str(Path(portamem.__file__).parent),
            "compiler": _build.info().get("compiler"),
        },
        "python": platform.python_version(),
        "platform": platform.platform(),
        "backends": backends,
        "masks": {name: [asdict(mask) for mask in masks(name)] for name in _loader.BACKENDS},
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith("PORTAMEM_")},
        "limits": limits(),
    }
    return {**found, "warnings": _warnings(found)}


def _start(backend: str, wanted: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CHILD, _PACKAGE_PARENT, backend, *wanted]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish(backend: str, child: subprocess.Popen[str]) -> dict[str, Any]:
    """The child's answer; a child that died or hung becomes a reason."""
    try:
        out, err = child.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return _crashed(backend, f"took more than {_SECONDS} s")
    if child.returncode == 0:
        answer: dict[str, Any] = json.loads(out)
        return answer
    last_line = (err.strip().splitlines() or ["it printed nothing"])[-1]
    how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit status {child.returncode}"
    return _crashed(backend, f"ended its process with {how}: {last_line}")


def _crashed(backend: str, how: str) -> dict[str, Any]:
    module = _build.module_path(backend)
    return {
        "built": module is not None,
        "loadable": False,
        "reason": asdict(reasons.from_crash(backend, how)),
        "compiled_version": _build.info()["backends"].get(backend, {}).get("headers"),
        "runtime_version": None,
        "driver_version": None,
        "module": str(module) if module else None,
        "libraries": [],
        "copies": None,
        "devices": [],
    }


def _warnings(found: dict[str, Any]) -> list[str]:
    warnings = []
    backends = found["backends"]
    for name, node in visible_gpus().items():
        if backends[name]["reason"]:
            warnings.append(f"this machine shows a GPU ({node}), and portamem.{name} cannot use it")
    for name in visible_gpus():
        warnings += map(str, cut_short(masks(name), len(gpu_nodes(name).devices), uuids(name)))
    hips = [path for path in backends["hip"]["libraries"] if "libamdhip64" in path]
    if len(hips) > 1:
        warnings.append(_libraries.two_runtimes(hips))
    carriers = [state["copies"] for state in backends.values() if state["copies"]]
    warnings += dict.fromkeys(copies["error"] for copies in carriers if "error" in copies)
    every_device = [device for state in backends.values() for device in state["devices"]]
    warnings += dict.fromkeys(device["quirks_error"] for device in every_device if "quirks_error" in device)
    for name, state in backends.items():
        for device in state["devices"]:
            if "memory_error" in device:
                warnings.append(
                    f"{name}:{device['ordinal']} does not say how much memory it has: {device['memory_error']}"
                )
    soft = found["limits"]["memlock"]["soft"]
    if soft is not None and soft < _SMALL_MEMLOCK and (backends["cuda"]["built"] or backends["hip"]["built"]):
        warnings.append(f"memlock is {format_size(soft)}: page-locked memory may be refused (raise it with ulimit -l)")
    return warnings
