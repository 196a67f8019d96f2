# SPDX-License-Identifier: MIT
"""A clause of the contract: a promise with a name, which a user's program could see to be false."""

from __future__ import annotations

from dataclasses import dataclass, field

EVERYWHERE = ("cuda", "hip", "host")


@dataclass(frozen=True)
class Platform:
    """The runtime and its vendor that a backend stands on in this process."""

    backend: str
    """ "cuda", "hip" or "host"."""
    vendor: str
    """The vendor whose runtime answers: "nvidia", "amd" or "portamem". HIP can be built for NVIDIA's."""
    version: tuple[int, int] = (0, 0)
    """Major and minor of that runtime."""
    evidence: str = "here"
    """The way in which facts are known: "gpu", "spelling", "library", "simulated" or "here"."""
    device_count: int = 0


@dataclass(frozen=True)
class Defect:
    """A known fault of a vendor's, for which some checks may fail in the versions that have it, and in no other."""

    vendor: str
    about: str
    thread: str
    """The public thread that reports it; a source where no thread is about it."""
    versions: str
    """The versions in which it was seen, and what is unknown of its first and its last one."""
    checks: tuple[str, ...]
    """The checks that it makes fail, by their names: a clause's other checks fail for something else."""
    since: tuple[int, int] = (0, 0)
    until: tuple[int, int] = (999, 0)
    """The first runtime that may have it, and the first that is known to have it no more."""

    def applies(self, on: Platform) -> bool:
        return on.vendor == self.vendor and self.since <= on.version < self.until


ANSWERS = {
    "bridged": "the layer over the vendor's calls puts it right",
    "emulated": "portamem does it itself, and the suite reports it as `emulated`",
    "capability": "it is not there, which portamem tells by a capability or a refusal, or which a version tells; where "
    "that is so, the suite reports `unsupported` for what needs it: the clause, or some of its cases",
    "allowed": "the clause leaves room for it and is held to all the same: it makes no promise there, or portamem "
    "tells, as a value, a quirk or a refusal, what is so",
}
"""Ways in which portamem can answer a vendor's difference, by the words of the contract."""


@dataclass(frozen=True)
class Shortfall:
    """A vendor natively does something else, and portamem answers it."""

    vendor: str
    """ "nvidia", "amd" or "both"."""
    does: str
    answer: str
    """One of ``ANSWERS``."""
    source: str
    """The vendor's document, source line or thread."""


@dataclass(frozen=True)
class Clause:
    """One promise. ``text`` is one or two sentences that a program can observe to be false."""

    id: str
    text: str
    resources: str = ""
    """The kinds of memory resources that it binds, by a name in ``kinds.SELECTORS``; empty: it is not about
    resources."""
    backends: tuple[str, ...] = EVERYWHERE
    shortfalls: tuple[Shortfall, ...] = ()
    defects: tuple[Defect, ...] = field(default=())

    @property
    def group(self) -> str:
        return self.id.rpartition("-")[0]

    def defect_on(self, platform: Platform, check: str) -> Defect | None:
        """The known fault that excuses a failure of a check on a platform."""
        return next((defect for defect in self.defects if check in defect.checks and defect.applies(platform)), None)
