# SPDX-License-Identifier: MIT
"""Types of the answers that witnesses give: facts about pointers, and errors by one set of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MemoryKind = Literal["unregistered", "host", "device", "managed"]

_ERRORS = {
    1: "InvalidValue",
    2: "OutOfMemory",
    3: "InitializationError",
    17: "InvalidDevicePointer",
    35: "InsufficientDriver",
    100: "NoDevice",
    101: "InvalidDevice",
    201: "InvalidContext",
    215: "UnsupportedLimit",
    217: "PeerAccessUnsupported",
    303: "SharedObjectInitFailed",
    400: "InvalidHandle",
    401: "IllegalState",
    600: "NotReady",
    700: "IllegalAddress",
    719: "LaunchFailure",
    800: "NotPermitted",
    801: "NotSupported",
}
"""The numbers that mean the same to every runtime, the vendors' drivers among them."""


def error_name(code: int, theirs: str = "") -> str:
    """portamem's word for an error, else the vendor's own, else the number."""
    return _ERRORS.get(code) or theirs or f"error {code}"


class WitnessMissing(RuntimeError):  # noqa: N818
    """No independent witness is to be had here. ``reason`` says why, and what to install where that helps."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WitnessError(RuntimeError):
    """A call of the witness's own failed. ``name`` and ``code`` are of the error, ``call`` is what was called."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"the witness's own call {call} answers {name} ({code})")
        self.call, self.code, self.name = call, code, name


@dataclass(frozen=True)
class PointerFacts:
    """The runtime's facts about an address. None: it names no device, or the address does not exist for that side."""

    kind: MemoryKind
    device_id: int | None
    host_pointer: int | None
    device_pointer: int | None
