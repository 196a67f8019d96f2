# SPDX-License-Identifier: MIT
"""Name the packages that a requirement needs, directly or by way of others, and that are not installed.

    python ci/missing_packages.py "portamem[test]"

Where packages are brought by hand and nothing resolves them, a test that imports one which is missing fails minutes
later, and says what is wrong in the midst of other things.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def missing(wanted: str) -> Iterator[str]:
    """Says what is wrong with each package that is not here, or not in the version needed, and which package needs
    it."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(Requirement(wanted), "")]
    while todo:
        requirement, whose = todo.pop(0)
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield f"{name} is not here" + (f", and {whose} needs it" if whose else "")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{name} {version} is here, and {whose or wanted} needs {requirement.specifier}"
        for each in map(Requirement, metadata.requires(name) or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                todo.append((each, name))


def main() -> None:
    found = [line for wanted in sys.argv[1:] for line in missing(wanted)]
    if found:
        raise SystemExit("packages are missing: " + "; ".join(found))


if __name__ == "__main__":
    main()
