# SPDX-License-Identifier: MIT
"""Visibility masks: variables that hide devices from a process, and what they leave."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MASKS = {
    "host": (),
    "cuda": ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "hip": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
"""The variables that hide devices, in the order in which they apply: each counts what the one before it left.

GPU_DEVICE_ORDINAL is none of them: AMD's runtime reads it for OpenCL only.
"""

CONTAINER_MASK = "NVIDIA_VISIBLE_DEVICES"
"""Read by the container's runtime when it starts the container, and by no program inside."""

_ORDINAL = re.compile(r"[+-]?\d+")
_UUID = re.compile(r"(GPU|MIG)-", re.IGNORECASE)


@dataclass(frozen=True)
class Mask:
    """A visibility mask that is set."""

    name: str
    value: str

    @property
    def entries(self) -> list[str]:
        return [entry.strip() for entry in self.value.split(",")]

    @property
    def shuts_the_container(self) -> bool:
        """True where the mask had the container started without GPUs."""
        return self.name == CONTAINER_MASK and self.value in ("", "none", "void")

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


def masks(backend: str, environ: Mapping[str, str] = os.environ) -> list[Mask]:
    """The masks that are set for a backend, in the order in which they apply."""
    names = list(MASKS[backend])
    if backend == "hip":
        # HIP reads one of its two, CUDA's where its own says nothing, and an empty one hides nothing from it.
        own = "HIP_VISIBLE_DEVICES" if environ.get("HIP_VISIBLE_DEVICES") else "CUDA_VISIBLE_DEVICES"
        names = ["ROCR_VISIBLE_DEVICES", *([own] if environ.get(own) else [])]
    return [Mask(name, environ[name]) for name in names if name in environ]


@dataclass(frozen=True)
class Hidden:
    """A mask that leaves no device, and why."""

    mask: Mask
    why: str


@dataclass(frozen=True)
class Cut:
    """A mask that ends before its last entry, at one that names no device, and why that one does not.

    ``index`` counts the mask's entries from 0.
    """

    mask: Mask
    index: int
    why: str

    @property
    def entry(self) -> str:
        return self.mask.entries[self.index]

    def __str__(self) -> str:
        entry = f"{self.entry}: {self.why}" if self.entry else f"{self.index + 1}, which is empty"
        return f"{self.mask} ends before its entry {entry}"


def hiding(found: Sequence[Mask], devices: int, uuids: Sequence[str] = ()) -> Hidden | None:
    """The first mask that certainly leaves nothing of ``devices`` devices (0: their number is not known).

    ``uuids`` are those that the machine knows of, as the masks spell them; none where it does not say.
    """
    for mask, left, why in _followed(found, devices, uuids):
        if left == 0:
            return Hidden(mask, why)
    return None


def cut_short(found: Sequence[Mask], devices: int, uuids: Sequence[str] = ()) -> list[Cut]:
    """The masks that certainly leave some devices, and fewer than they name: a comma at the end names nothing more."""
    followed = _followed(found, devices, uuids)
    return [Cut(mask, left, why) for mask, left, why in followed if left and why and any(mask.entries[left:])]


def _followed(found: Sequence[Mask], devices: int, uuids: Sequence[str]) -> Iterator[tuple[Mask, int, str]]:
    """Each mask in turn with the number of its entries that count, and why the next one does not, if one is left.

    A mask ends at its first entry that names no device, and the next mask counts what it left.
    """
    counted = "the driver has"
    for mask in found:
        if mask.name == CONTAINER_MASK:
            continue
        left, why = 0, ""
        for entry in mask.entries:
            why = _names_none(entry, devices, uuids, counted)
            if why:
                break
            left += 1
        yield mask, left, why
        devices, counted = left, f"{mask} leaves"


def _names_none(entry: str, devices: int, uuids: Sequence[str], counted: str) -> str:
    """Why an entry certainly names no device; empty where it does, or may."""
    if not entry:
        return "it is empty"
    if _ORDINAL.fullmatch(entry):
        ordinal = int(entry)
        if ordinal < 0:
            return "a negative ordinal names no device"
        return f"there is no device {ordinal}, as {counted} {devices}, from 0 on" if 0 < devices <= ordinal else ""
    if not _UUID.match(entry):
        return f"{entry!r} names no device"
    if entry.upper().startswith("GPU-") and uuids:
        known = any(uuid.upper().startswith(entry.upper()) for uuid in uuids)
        return "" if known else f"no device here has a uuid that begins with {entry}"
    return ""
