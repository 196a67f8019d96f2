# SPDX-License-Identifier: MIT
"""Why a backend cannot be used, as a code, a sentence and what would help.

Everything here turns facts into words. The facts come from ``_loader`` (does the module load, what did the runtime
answer first), from ``_libraries`` (which files there are), and from ``_machine`` and ``_masks`` (what the machine
shows, and what is hidden).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portamem._machine import GpuNodes, ShutNode
from portamem._masks import Mask, hiding

CODES = (
    "not_built",
    "library_missing",
    "library_wrong_major",
    "library_too_old",
    "no_driver",
    "driver_too_old",
    "no_permission",
    "hidden_by_mask",
    "busy",
    "no_device",
    "crashed",
    "forked",
)

_AGAIN = "Install portamem again."
_FROM_SOURCE = "Install portamem from source on this machine."
_LISTS_DEVICES = {"cuda": "`nvidia-smi -L`", "hip": "`rocminfo`"}

_INSUFFICIENT_DRIVER = 35
_CALL_REQUIRES_NEWER_DRIVER = 36
_DEVICES_UNAVAILABLE = 46
_NOT_YET_INITIALIZED = 802
_DRIVER_MISMATCH = 803
_COMPATIBILITY_NOT_SUPPORTED = 804
_UNKNOWN = 999

_DRIVER_FOR = {12: "525", 13: "580"}  # the first of NVIDIA's drivers that serves a major version of the runtime


@dataclass(frozen=True)
class Reason:
    """Why a backend cannot be used. ``code`` is one of CODES, which do not change; ``text`` says why and ``fix`` what
    to do, in words for people."""

    code: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.text} [{self.code}]. {self.fix}"


@dataclass(frozen=True)
class Built:
    """A module's build: the version of its headers, and the library that the loader has to find."""

    headers: str = ""
    library: str = ""


@dataclass(frozen=True)
class Machine:
    """Facts by which a runtime's first answer is read. Versions are text, and empty where there is none."""

    driver_version: str = ""
    runtime_version: str = ""
    nodes: GpuNodes = field(default_factory=GpuNodes)
    shut: ShutNode | None = None
    masks: Sequence[Mask] = ()
    uuids: Sequence[str] = ()


def not_built(backend: str, why: str = "") -> Reason:
    """The module is not in this installation. ``why`` is what the build wrote down when it left it out."""
    text = f"this installation has no {backend} module" + (f" ({why.rstrip('.')})" if why else "")
    fix = f'Install again on a machine that has what it needs, with PORTAMEM_BACKENDS="host;{backend}" to be told what.'
    return Reason("not_built", text, _AGAIN if backend == "host" else fix)


def source_folder(path: str) -> Reason:
    """Python has imported the sources of a checkout, which have no compiled module."""
    text = f"this is portamem's source folder {path}, and not the installed package"
    return Reason("not_built", text, "Run Python in another folder. `pip install .` in this one installs portamem.")


def from_import_error(backend: str, message: str, built: Built, found: Sequence[str] = ()) -> Reason:
    """The module is there and does not load. ``found``: files on this machine that go by its library's name."""
    # The loader's own words: it names the file whose version is too old, and not the one that lacks a symbol.
    if older := re.match(r"(\S+): version `(\S+)' not found", message):
        if Path(older[1]).name.startswith("libportamem"):
            text = f"{older[1]} is of another version than the {backend} module: it lacks {older[2]}"
            fix = f"{_AGAIN} Or take that file off LD_PRELOAD and LD_LIBRARY_PATH."
            return Reason("library_wrong_major", text, fix)
        return _too_old_library(backend, built, older[1], older[2])
    lacks = re.search(r"undefined symbol: ([^\s,]+)", message)
    if lacks and built.library and not re.match(r"portamem_|pmh[A-Z]", lacks[1]):
        path = next((path for path in found if Path(path).name == built.library), built.library)
        return _too_old_library(backend, built, path, lacks[1])
    missing = re.match(r"(\S+): cannot open shared object file", message)
    if missing and built.library and not missing[1].startswith("libportamem"):
        return _missing(backend, missing[1], built, found)
    damaged = built.library and built.library in message.partition(":")[0]
    fix = "Install the vendor's runtime again." if damaged else _AGAIN
    return Reason("library_missing", f"the {backend} module does not load: {message}", fix)


def wrong_major(backend: str, built: Built, loaded: str, path: str) -> Reason:
    """The vendor's library is of another major version, whose enums and structs mean something else."""
    text = f"the {backend} module was built for {_version(built)}, and {path or 'the library here'} answers as {loaded}"
    fix = f"{_FROM_SOURCE} Or take {Path(path).parent} off LD_LIBRARY_PATH." if path else _FROM_SOURCE
    return Reason("library_wrong_major", text, fix)


def from_crash(backend: str, how: str) -> Reason:
    """The vendor's library took the probing process with it, or never came back."""
    fix = f"See what `python -m portamem._probe {backend}` prints; reload or update the driver."
    return Reason("crashed", f"asking the {backend} runtime for its devices {how}", fix)


def forked() -> Reason:
    """A runtime that was loaded before a fork does not work in the child."""
    text = "this process is the child of a fork, in which device runtimes do not work"
    return Reason("forked", text, "Start it with spawn or exec.")


def from_probe(vendor: str, code: int, text: str, machine: Machine) -> Reason:
    """The reason, on this machine, why the runtime found no device and answered ``code`` and ``text``.

    ``vendor`` is "cuda" or "hip" after whose driver and devices these are, or "host".
    """
    if vendor == "host":
        return Reason("no_device", text, "Look at PORTAMEM_HOST_DEVICES and the other PORTAMEM_HOST_* settings.")
    if machine.shut is not None:
        return _dead(machine.shut) if machine.shut.is_dead else _no_permission(machine.shut)
    if vendor == "hip" and not machine.nodes.driver:
        fix = "Install the amdgpu kernel driver, or pass /dev/kfd and /dev/dri into the container."
        return Reason("no_driver", "there is no AMD kernel driver here: /dev/kfd does not exist", fix)
    if vendor == "cuda" and (reason := _by_code(code, text, machine)):
        return reason
    if hidden := hiding(machine.masks, len(machine.nodes.devices), machine.uuids):
        return _hidden(vendor, f"{hidden.mask} hides every device: {hidden.why}", hidden.mask)
    if not machine.nodes.devices:
        return _no_nodes(vendor, text, machine)
    if chosen := [mask for mask in machine.masks if not _takes_all(mask)]:
        names = " and ".join(map(str, chosen))
        return _hidden(vendor, f"the driver shows no device under {names}: {text}", chosen[-1])
    fix = "Check the card and the driver's log."
    return Reason("no_device", f"the driver is there and shows no device: {text}", fix)


def _version(built: Built) -> str:
    return " ".join(filter(None, ["HIP", built.headers, f"({built.library})" if built.library else ""]))


def _too_old_library(backend: str, built: Built, path: str, lacks: str) -> Reason:
    with_it = f"the {backend} module was built with {_version(built)}" if built.library in path else ""
    text = f"{path} is too old: it lacks {lacks}" + (f", and {with_it}" if with_it and built.library else "")
    return Reason("library_too_old", text, f"Update that library. Or {_FROM_SOURCE[0].lower()}{_FROM_SOURCE[1:]}")


def _missing(backend: str, library: str, built: Built, found: Sequence[str]) -> Reason:
    """A library that the loader does not find. ROCm's folder is often one where it does not look."""
    if library != built.library:
        fix = "Install it, or put its folder on LD_LIBRARY_PATH."
        return Reason("library_missing", f"{library} is not found, which the {backend} module needs", fix)
    if same := [path for path in found if Path(path).name == library]:
        folder = Path(same[0]).parent
        text = f"{library} is in {folder}, where the loader does not look"
        return Reason("library_missing", text, f"Put {folder} on LD_LIBRARY_PATH.")
    if found:
        text = f"the {backend} module was built for {_version(built)}, and this machine has {' and '.join(found)}"
        return Reason(
            "library_wrong_major", text, f"{_FROM_SOURCE} Or put the folder of a {library} on LD_LIBRARY_PATH."
        )
    fix = f"Install the vendor's runtime that has {library}, or put its folder on LD_LIBRARY_PATH."
    return Reason("library_missing", f"{library} is not found", fix)


def _by_code(code: int, text: str, machine: Machine) -> Reason | None:
    """The reason that NVIDIA's code alone tells."""
    if code == _INSUFFICIENT_DRIVER and not machine.driver_version:
        fix = "Install the NVIDIA driver, or start the container with GPU access."
        for mask in machine.masks:
            if mask.shuts_the_container:
                fix = f"This container was started with {mask}: start it with {mask.name}=all, or install the driver."
        return Reason("no_driver", "there is no NVIDIA driver here: libcuda answers no version", fix)
    if code in (_INSUFFICIENT_DRIVER, _CALL_REQUIRES_NEWER_DRIVER):
        return _too_old(text, machine)
    if code == _DRIVER_MISMATCH:
        fix = "Restart the machine, or reload the kernel modules: the driver was updated under way."
        return Reason("driver_too_old", f"the driver's library and its kernel module do not fit: {text}", fix)
    if code == _COMPATIBILITY_NOT_SUPPORTED:
        fix = "Take the compatibility package (cuda-compat) off LD_LIBRARY_PATH, or install a newer driver."
        return Reason("driver_too_old", f"this card does not take a newer libcuda than its driver's: {text}", fix)
    if code == _NOT_YET_INITIALIZED:
        fix = "Start the service nvidia-fabricmanager, of the driver's version, and wait for it."
        return Reason("busy", f"the devices are not ready: {text}", fix)
    if code == _DEVICES_UNAVAILABLE:
        fix = "Wait for the other process, or set the device's compute mode to default: nvidia-smi -c 0."
        return Reason("busy", f"the devices are taken: {text}", fix)
    if code == _UNKNOWN and machine.nodes.driver and not any(path.endswith("-uvm") for path in machine.nodes.driver):
        fix = "Run nvidia-modprobe -u -c=0 as root, or pass /dev/nvidia-uvm into the container."
        return Reason("no_driver", "the driver's module for memory is not there: /dev/nvidia-uvm does not exist", fix)
    return None


def _too_old(text: str, machine: Machine) -> Reason:
    runtime, driver = machine.runtime_version, machine.driver_version
    if not (runtime and driver):
        words = f"the driver is too old for this module's runtime: {text}"
        return Reason("driver_too_old", words, "Update the driver.")
    major, driver_major = (int(version.split(".")[0]) for version in (runtime, driver))
    words = f"the driver serves CUDA {driver} at most, and this module's runtime is CUDA {runtime}"
    newer = f"Install NVIDIA's driver {_DRIVER_FOR[major]} or later" if major in _DRIVER_FOR else "Update the driver"
    older = f", or portamem built with CUDA {driver_major}" if 12 <= driver_major < major else ""
    return Reason("driver_too_old", words, f"{newer}{older}.")


def _no_permission(node: ShutNode) -> Reason:
    name = f"the group {node.group}" if node.group else f"group {node.gid}"
    if node.errno == errno.EPERM or (node.is_in and node.lets_group_in):
        text = f"{node.path} is there, and this container may not open it"
        return Reason("no_permission", text, "Start the container with this device (--gpus all, or --device).")
    if not node.lets_group_in:
        text = f"{node.path} is there, and its mode {node.mode:04o} keeps this user out"
        return Reason("no_permission", text, "Have its owner open it to a group of this user.")
    text = f"{node.path} belongs to {name}, and this process is not in it"
    if node.is_listed:
        return Reason("no_permission", text, "Log in again: this user is in that group by now.")
    fix = f"Add this user to {name} and log in again (in a container: --group-add {node.gid})."
    return Reason("no_permission", text, fix)


def _dead(node: ShutNode) -> Reason:
    fix = "Load the kernel driver (see dmesg for why it did not), or restart the machine."
    return Reason("no_driver", f"{node.path} is there, and no kernel driver answers behind it", fix)


def _hidden(vendor: str, text: str, mask: Mask) -> Reason:
    listed = _LISTS_DEVICES[vendor]
    return Reason("hidden_by_mask", text, f"Unset {mask.name}, or name a device that {listed} lists.")


def _no_nodes(vendor: str, text: str, machine: Machine) -> Reason:
    """The driver is there, and none of its devices."""
    for mask in machine.masks:
        if mask.shuts_the_container:
            text = f"{mask} kept every device out of this container"
            return Reason("hidden_by_mask", text, f"Start the container with {mask.name}=all.")
    nodes, fix = {
        "cuda": ("/dev/nvidia0 and the like", "Start the container with a GPU, or check the card (lspci, dmesg)."),
        "hip": ("/dev/dri/renderD*", "Pass /dev/dri into the container, or check the card (lspci, dmesg)."),
    }[vendor]
    return Reason("no_device", f"the driver is there, and no device node ({nodes}): {text}", fix)


def _takes_all(mask: Mask) -> bool:
    return mask.name == "NVIDIA_VISIBLE_DEVICES" or not mask.value
