# SPDX-License-Identifier: MIT
"""Reads this machine without asking any vendor: GPU device nodes, the accounts that may open them, and uuids."""

from __future__ import annotations

import errno
import importlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
"""The folder that holds dev, proc and sys."""


def is_main_interpreter() -> bool:
    """True in the process's first interpreter. In another one a native module would wait for that one's GIL."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    import ctypes  # which is not for every interpreter

    interpreter, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    interpreter.restype = main.restype = ctypes.c_void_p
    return bool(interpreter() == main())


@dataclass(frozen=True)
class GpuNodes:
    """A vendor's device nodes: the driver's own, and one for each device."""

    driver: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShutNode:
    """A device node that this process cannot open, and the errno of its attempt.

    ``group`` is None where the group has no name here. ``is_in`` says whether this process is in it, ``is_listed``
    whether its user is by now.
    """

    path: str
    errno: int
    mode: int
    gid: int
    group: str | None
    is_in: bool
    is_listed: bool

    @property
    def is_dead(self) -> bool:
        """True where no driver answers behind the node."""
        return self.errno in (errno.ENXIO, errno.ENODEV)

    @property
    def lets_group_in(self) -> bool:
        return self.mode & 0o060 == 0o060


def gpu_nodes(backend: str, root: Path | None = None) -> GpuNodes:
    """The device nodes of a backend's vendor; none for host."""
    dev = (root or ROOT) / "dev"
    if backend == "cuda":
        driver = [path for path in (dev / "nvidiactl", dev / "nvidia-uvm") if path.exists()]
        devices = sorted(path for path in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))
    elif backend == "hip":
        driver = [path for path in (dev / "kfd",) if path.exists()]
        devices = sorted(dev.glob("dri/renderD*")) if driver else []
    else:
        return GpuNodes()
    return GpuNodes(tuple(map(str, driver)), tuple(map(str, devices)))


def visible_gpus() -> dict[str, str]:
    """Backend name to a device node, for each vendor whose GPU this machine shows."""
    found = {name: gpu_nodes(name) for name in ("cuda", "hip")}
    return {name: (nodes.devices + nodes.driver)[0] for name, nodes in found.items() if nodes.devices + nodes.driver}


def shut_node(nodes: GpuNodes) -> ShutNode | None:
    """The node that keeps this process from its devices, if one does.

    The driver's nodes are opened for it. A device's is not, since that may wake the device. One device closed to us
    may be another's for good reason; all of them closed is the fault.
    """
    for path in nodes.driver:
        if number := _cannot_open(path):
            return _shut(path, number)
    closed = [path for path in nodes.devices if not os.access(path, os.R_OK | os.W_OK)]
    return _shut(closed[0], errno.EACCES) if closed and len(closed) == len(nodes.devices) else None


def uuids(backend: str, root: Path | None = None) -> list[str]:
    """The uuids of a vendor's devices as masks spell them, from the kernel: it may know more than we may use."""
    top = root or ROOT
    if backend == "cuda":
        files = sorted((top / "proc/driver/nvidia/gpus").glob("*/information"))
        lines = [re.search(r"GPU UUID:\s*(GPU-\S+)", text) for text in _texts(files)]
        return [line[1] for line in lines if line]
    if backend == "hip":
        files = sorted((top / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
        numbers = [re.search(r"^unique_id (\d+)$", text, re.MULTILINE) for text in _texts(files)]
        return [f"GPU-{int(number[1]):016x}" for number in numbers if number and int(number[1])]
    return []


def _cannot_open(path: str) -> int:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _shut(path: str, number: int) -> ShutNode:
    import grp
    import pwd

    status = os.stat(path)
    gid = status.st_gid
    try:
        group = grp.getgrgid(gid)
        user = pwd.getpwuid(os.geteuid()).pw_name
        name, listed = group.gr_name, user in group.gr_mem
    except KeyError:
        name, listed = None, False
    is_in = gid in (os.getegid(), *os.getgroups())
    return ShutNode(path, number, stat.S_IMODE(status.st_mode), gid, name, is_in, listed)


def _texts(files: list[Path]) -> Iterator[str]:
    for file in files:
        try:
            yield file.read_text(encoding="utf-8")
        except OSError:
            continue
