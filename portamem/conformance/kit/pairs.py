# SPDX-License-Identifier: MIT
"""A kind for every ordered pair of adaptors on a pool: that they compose is seen, and not deduced.

Importing this registers them; ``portamem conformance --pairs`` runs the suite over them alone.
"""

from __future__ import annotations

from itertools import permutations

from portamem.conformance.kit.kinds import KINDS, Kind, register
from portamem.conformance.kit.kinds_over import ADAPTORS, adaptor_over, pool_over

GROUPS = ("ALLOC", "FREE", "OWN", "ORDER")
"""The groups of clauses that are run over pairs: allocation, lifetime and order."""


def _pair(above: str, below: str) -> Kind:
    memory = "managed" if "PrefetchAdaptor" in (above, below) else "device"  # the one that moves
    return adaptor_over(adaptor_over(pool_over(KINDS[memory]), below), above)


PAIRS = [_pair(*pair) for pair in permutations(ADAPTORS, 2)]

for _kind in PAIRS:
    register(_kind)
