# SPDX-License-Identifier: MIT
"""Judges a function by its calls under a header set, in one word: native, bridged or absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from header_matrix.reader import Function

#: The beginning of the names of each backend's vendor.
PREFIX = {"cuda": "cuda", "hip": "hip", "host": "pmh"}
#: An absent function's contract says here which capability tells: "Capability: DeviceAttr::HostNumaId."
_CAPABILITY = re.compile(r"\bCapability: ((?:Capabilities|DeviceAttr)::\w+)")


@dataclass
class Verdict:
    """One cell of the table."""

    word: str
    calls: list[list[str]]  #: each way that may succeed, longest first; none: the answer needs no vendor call
    most: int  #: the vendor calls of the longest, those that it makes through other rt functions included
    refused: list[str]  #: when the answer is NotSupported without the vendor being asked
    once: list[str] = field(default_factory=list)  #: calls that the first use makes besides
    renamed: dict[str, str] = field(default_factory=dict)  #: what the vendor's own macro makes of a name


def most_calls(function: Function, functions: Mapping[str, Function], above: tuple[str, ...] = ()) -> int:
    """Vendor calls on the longest way that may succeed."""
    if function.name in above:
        return 0
    inner = (*above, function.name)
    return max(
        (
            sum(
                most_calls(functions[call.removeprefix("rt::")], functions, inner) if call.startswith("rt::") else 1
                for call in calls
            )
            for calls in function.sequences
        ),
        default=0,
    )


def judge(function: Function, functions: Mapping[str, Function], backend: str) -> Verdict:
    """Native: every way makes one vendor call, the one of the same name, or the value is the vendor's of that name.
    Absent: no way makes a vendor call of its own, and the answer is NotSupported. Bridged: all else."""
    silent = {f"rt::{other.name}" for other in functions.values() if not other.sequences}
    found = ([call for call in calls if call not in silent] for calls in function.sequences)
    sequences = [list(calls) for calls in dict.fromkeys(tuple(calls) for calls in found if calls)]
    same = PREFIX[backend] + function.name
    own = [call for calls in sequences for call in calls if not call.startswith("rt::")]
    if sequences:
        word = "native" if all(calls == [same] for calls in sequences) else "bridged"
    else:
        word = "native" if same in function.values else "bridged"
    if not own and function.refused:
        word = "absent"
    return Verdict(
        word,
        sequences,
        most_calls(function, functions),
        sorted(function.refused),
        sorted(function.once),
        dict(sorted(function.renamed.items())),
    )


def capability(function: Function, known: set[str]) -> str | None:
    """The capability that a contract names. One that does not exist ends the program."""
    named = _CAPABILITY.search(function.text)
    if named is None:
        return None
    if named[1] not in known:
        raise SystemExit(f"header-matrix: the contract of {function.name} names {named[1]}, which does not exist")
    return named[1]


def as_json(verdict: Verdict) -> dict[str, object]:
    return {key: value for key, value in asdict(verdict).items() if value or key in ("word", "calls", "most")}
