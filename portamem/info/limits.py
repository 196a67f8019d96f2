# SPDX-License-Identifier: MIT
"""Reads the operating system's limits for this process: locked memory, NUMA nodes, and its cgroup."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNLIMITED_V1 = 2**62  # cgroup v1 writes "no limit" as a number near 2**63


def limits(root: Path = Path("/")) -> dict[str, Any]:
    """Bytes and counts; None stands for no limit, or for none that can be read."""
    soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in _memlock())
    return {
        "memlock": {"soft": soft, "hard": hard},
        "numa": {"allowed": _allowed_nodes(root), "online": _text(root / "sys/devices/system/node/online")},
        "cgroup": {"memory": _least(_memory_limits(root)), "cpus": _least(_cpu_limits(root))},
    }


def _memlock() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_MEMLOCK)


def _allowed_nodes(root: Path) -> str | None:
    for line in (_text(root / "proc/self/status") or "").splitlines():
        if line.startswith("Mems_allowed_list:"):
            return line.split(":", 1)[1].strip()
    return None


def _memory_limits(root: Path) -> Iterator[float]:
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _text(folder / name)
            if text and text.isdigit() and int(text) < _UNLIMITED_V1:
                yield int(text)


def _cpu_limits(root: Path) -> Iterator[float]:
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = (_text(folder / "cpu.max") or "").partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us") or "", _text(folder / "cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's group and all groups around it, in the unified hierarchy and in the controller's own (v1)."""
    mount = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controllers if controllers else mount
        group = Path(path.lstrip("/"))
        yield from (top / folder for folder in (group, *group.parents))


def _least(found: Iterator[float]) -> float | None:
    return min(found, default=None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
