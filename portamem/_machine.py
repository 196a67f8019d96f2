# SPDX-License-Identifier: MIT
"""What this machine shows without asking any vendor: GPU device nodes and visibility masks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MASKS = {
    "host": (),
    "cuda": ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "hip": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
"""The variables that hide devices, in the order in which they apply: each counts what the one before it left."""

_CONTAINER_MASK = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Mask:
    """A visibility mask that is set."""

    name: str
    value: str

    def hides_all(self, devices: int) -> bool:
        """Whether it certainly leaves nothing of ``devices`` devices: it ends at its first entry that names none."""
        if self.name == _CONTAINER_MASK:
            return self.value in ("", "none", "void")
        first = self.value.split(",")[0].strip()
        if re.fullmatch(r"-?\d+", first):
            return int(first) < 0 or 0 < devices <= int(first)  # 0 devices: who hides them is not known
        return not first or first == "NoDevFiles"

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class GpuNodes:
    """A vendor's device nodes: the driver's own, one for each device, and those that this process may not open."""

    driver: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def masks(backend: str, environ: Mapping[str, str] = os.environ) -> list[Mask]:
    """The masks that are set for a backend, in the order in which they apply."""
    names = list(MASKS[backend])
    if backend == "hip" and "HIP_VISIBLE_DEVICES" in environ:
        names.remove("CUDA_VISIBLE_DEVICES")  # HIP reads it only where its own name is not set
    return [Mask(name, environ[name]) for name in names if name in environ]


def gpu_nodes(backend: str, dev: Path = Path("/dev")) -> GpuNodes:
    """The device nodes of a backend's vendor; none for host."""
    if backend == "cuda":
        driver = [path for path in (dev / "nvidiactl", dev / "nvidia-uvm") if path.exists()]
        devices = sorted(path for path in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))
    elif backend == "hip":
        driver = [path for path in (dev / "kfd",) if path.exists()]
        devices = sorted(dev.glob("dri/renderD*")) if driver else []
    else:
        return GpuNodes()
    # One render node of another vendor's card may be closed to us for good reason; all of them closed is the fault.
    closed = _closed(driver) or (_closed(devices) if len(_closed(devices)) == len(devices) else [])
    return GpuNodes(_texts(driver), _texts(devices), _texts(closed))


def visible_gpus() -> dict[str, str]:
    """Backend name to a device node, for each vendor whose GPU this machine shows."""
    found = {name: gpu_nodes(name) for name in ("cuda", "hip")}
    return {name: (nodes.devices + nodes.driver)[0] for name, nodes in found.items() if nodes.devices + nodes.driver}


def _closed(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if not os.access(path, os.R_OK | os.W_OK)]


def _texts(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(str(path) for path in paths)
