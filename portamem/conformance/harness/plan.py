# SPDX-License-Identifier: MIT
"""Makes the plan of a run: the cases, each a check, on a kind of resource if it takes one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from portamem.conformance.checks import checks
from portamem.conformance.contract import clauses
from portamem.conformance.contract.clause import Clause
from portamem.conformance.kit.check import Check
from portamem.conformance.kit.kinds import KINDS, SELECTORS, Kind, selected


@dataclass(frozen=True)
class Case:
    """A check on one kind of resource, or on none."""

    check: Check
    kind: Kind | None = None

    @property
    def key(self) -> str:
        """Its name, the same in every process."""
        return self.check.name + (f"[{self.kind.name}]" if self.kind else "")


def cases(
    backend: str, select: Iterable[str] = (), *, with_device: bool = True, resources: Iterable[str] = ()
) -> Iterator[Case]:
    """The cases of a backend. ``select`` holds groups ("ALLOC") and ids ("ALLOC-03"); empty: everything.

    ``resources`` holds patterns ("pool-*") for the names of kinds: then only the cases on such kinds. ValueError for
    what selects nothing.
    """
    contract, wanted = clauses(), {each.upper() for each in select}
    unknown = wanted - contract.keys() - {clause.group for clause in contract.values()}
    if unknown:
        raise ValueError(f"there is no clause or group {', '.join(sorted(unknown))}: --list shows them")
    patterns = tuple(resources)
    strange = [each for each in patterns if not any(fnmatchcase(name, each) for name in KINDS)]
    if strange:
        raise ValueError(f"there is no resource {', '.join(strange)}: there are {', '.join(KINDS)}")
    for check in checks():
        bound = [contract[id] for id in check.ids if backend in contract[id].backends]
        if not bound or (check.backends and backend not in check.backends):
            continue
        if wanted and not any(clause.id in wanted or clause.group in wanted for clause in bound):
            continue
        if check.only_without if with_device else not check.without_device:
            continue
        kinds = selected(bound[0].resources) if "resource" in check.parameters else [None]
        yield from (Case(check, kind) for kind in kinds if not patterns or _is_one_of(kind, patterns))


def _is_one_of(kind: Kind | None, patterns: tuple[str, ...]) -> bool:
    return kind is not None and any(fnmatchcase(kind.name, each) for each in patterns)


def mismatches() -> list[str]:
    """Says where contract and checks do not fit: a clause that nothing shows on a backend it binds, a check of no
    clause."""
    contract, found = clauses(), []
    for check in checks():
        unknown = [id for id in check.ids if id not in contract]
        found += [f"{check.name} shows {id}, and there is no such clause" for id in unknown]
        if not unknown:
            found += _wrong_resources(check, [contract[id] for id in check.ids])
    for clause in contract.values():
        if clause.resources and clause.resources not in SELECTORS:
            found.append(f"{clause.id} binds {clause.resources!r}, which are no resources")
        shown = [check for check in checks() if clause.id in check.ids]
        if clause.resources and shown and not any("resource" in check.parameters for check in shown):
            found.append(f"{clause.id} binds {clause.resources}, and no check of it takes a resource")
        for backend in clause.backends:
            if not any(backend in (check.backends or clause.backends) for check in shown):
                found.append(f"nothing shows {clause.id} on {backend}")
    return found


def _wrong_resources(check: Check, bound: list[Clause]) -> Iterator[str]:
    bindings = {clause.resources for clause in bound}
    if "resource" in check.parameters and len(bindings) > 1:
        yield f"{check.name} takes a resource, and its clauses bind different ones: {', '.join(sorted(bindings))}"
    if "resource" in check.parameters and "" in bindings:
        yield f"{check.name} takes a resource, and its clause binds none"
