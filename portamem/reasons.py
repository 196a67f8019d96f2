# SPDX-License-Identifier: MIT
"""Why a backend cannot be used, as a code, a sentence and what would help.

Everything here turns facts into words. The facts come from ``_loader`` (does the module load, what did the runtime
answer first) and from ``_machine`` (what the machine shows).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from portamem._machine import GpuNodes, Mask

CODES = (
    "not_built",
    "library_missing",
    "library_wrong_major",
    "no_driver",
    "driver_too_old",
    "no_permission",
    "hidden_by_mask",
    "busy",
    "no_device",
    "crashed",
)

_FROM_SOURCE = "Install portamem from source on this machine."

_INSUFFICIENT_DRIVER = 35
_DEVICES_UNAVAILABLE = 46
_NOT_YET_INITIALIZED = 802
_DRIVER_MISMATCH = 803


@dataclass(frozen=True)
class Reason:
    """``code`` is one of CODES and stable; ``text`` and ``fix`` are for people."""

    code: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.text} [{self.code}]. {self.fix}"


def not_built(backend: str, why: str = "") -> Reason:
    """The module is not in this installation. ``why`` is what the build wrote down when it left it out."""
    text = f"this installation has no {backend} module" + (f" ({why.rstrip('.')})" if why else "")
    fix = f'Install again on a machine that has what it needs, with PORTAMEM_BACKENDS="host;{backend}" to be told what.'
    return Reason("not_built", text, "Install portamem again." if backend == "host" else fix)


def from_import_error(backend: str, message: str, other_libraries: Sequence[str] = ()) -> Reason:
    """The module is there and does not load. ``other_libraries``: found versions of the one that it misses."""
    missing = re.match(r"(\S+): cannot open shared object file", message)
    if missing and other_libraries:
        return wrong_major(backend, missing[1], " and ".join(other_libraries))
    if missing and backend != "host":
        fix = "Install the vendor's runtime, or put its folder on LD_LIBRARY_PATH."
        return Reason("library_missing", f"{missing[1]} is not found", fix)
    if "undefined symbol" in message:
        text = f"the library on this machine is not the one that the {backend} module was built for: {message}"
        return Reason("library_wrong_major", text, _FROM_SOURCE)
    return Reason("library_missing", f"the {backend} module does not load: {message}", "Install portamem again.")


def wrong_major(backend: str, wanted: str, found: str) -> Reason:
    """The vendor's library is of another major version, whose enums and structs mean something else."""
    text = f"the {backend} module was built for {wanted}, and this machine has {found}"
    return Reason("library_wrong_major", text, _FROM_SOURCE)


def from_crash(backend: str, how: str) -> Reason:
    """The vendor's library took the probing process with it, or never came back."""
    fix = f"See what `python -m portamem._probe {backend}` prints; reload or update the driver."
    return Reason("crashed", f"asking the {backend} runtime for its devices {how}", fix)


def from_probe(
    vendor: str, code: int, text: str, *, driver_version: int, nodes: GpuNodes, masks: Sequence[Mask]
) -> Reason:
    """What it means on this machine that the runtime found no device and answered ``code`` and ``text``.

    ``vendor`` is "cuda" or "hip" after whose driver and devices these are, or "host".
    """
    if vendor == "host":
        return Reason("no_device", text, "Look at PORTAMEM_HOST_DEVICES and the other PORTAMEM_HOST_* settings.")
    if nodes.denied:
        return _no_permission(vendor, nodes.denied[0])
    if vendor == "hip" and not nodes.driver:
        fix = "Install the amdgpu kernel driver, or pass /dev/kfd and /dev/dri into the container."
        return Reason("no_driver", "there is no AMD kernel driver here: /dev/kfd does not exist", fix)
    if code == _INSUFFICIENT_DRIVER and driver_version == 0:
        fix = "Install the NVIDIA driver, or start the container with GPU access."
        return Reason("no_driver", "there is no NVIDIA driver here: libcuda answers no version", fix)
    if code in (_INSUFFICIENT_DRIVER, _DRIVER_MISMATCH):
        fix = "Update the driver (and reload it), or install portamem built with an older toolkit."
        return Reason("driver_too_old", f"the driver is too old or does not fit: {text}", fix)
    if code in (_DEVICES_UNAVAILABLE, _NOT_YET_INITIALIZED):
        fix = "Wait for the other process, or set the device's compute mode to default."
        return Reason("busy", f"the devices are taken or not ready: {text}", fix)
    for mask in masks:
        if mask.hides_all(len(nodes.devices)):
            return Reason("hidden_by_mask", f"{mask} hides every device", f"Unset {mask.name}.")
    return Reason(
        "no_device", f"the driver is there and shows no device: {text}", "Check the card and the driver's log."
    )


def _no_permission(vendor: str, node: str) -> Reason:
    access = "Give the container or the user access to it."
    fix = "Add this user to the groups render and video." if vendor == "hip" else access
    return Reason("no_permission", f"{node} is there, and this process may not open it", fix)
