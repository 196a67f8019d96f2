# SPDX-License-Identifier: MIT
"""Names the groups of clauses that see a fault in a file soonest: they are run first, and all others if these see
nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GROUPS = (
    (r"order", "HOST"),
    (r"heap|kernel", "HEAP HOST"),
    (r"pool|async_resource|async_memory", "POOL ALLOC ORDER"),
    (r"capture", "CAPTURE"),
    (r"dlpack|view|host_export|array_interface|foreign|hold|buffer_object", "OWN HOSTACCESS"),
    (r"copy|fill|transfer", "COPY"),
    (r"managed|system_memory", "MANAGED"),
    (r"pinned|registr", "PINNED"),
    (r"pointer", "POINTER"),
    (r"stream|event", "EVENT ORDER"),
    (r"device|capabilit|version|probe|quirk", "DEVICE"),
    (r"host/(config|knobs|entry|state|mapping|memory|error_text)|knobs", "HOST ALLOC ERROR"),
    (r"error|status|refusal", "ERROR"),
    (r"fork|gil|kept", "PROCESS THREAD"),
    (r"allocation|buffer|resource|scope|span", "ALLOC FREE OWN ORDER"),
    (r"convert|fastcall", "ALLOC FREE COPY ERROR"),
)


def likely(file: str, known: Iterable[str]) -> list[str]:
    """Groups for a file, of those that there are."""
    there = set(known)
    path = file.removeprefix("csrc/").removeprefix("include/portamem/")
    words = next((words for pattern, words in _GROUPS if re.search(pattern, path)), "")
    return [group for group in words.split() if group in there]
