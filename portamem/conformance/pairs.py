# SPDX-License-Identifier: MIT
"""A kind for every ordered pair of adaptors on a pool: that they compose is seen, and not deduced.

Importing this registers them; ``portamem conformance --pairs`` runs the suite over them alone.
"""

from __future__ import annotations

from itertools import permutations

from portamem import _types
from portamem.conformance.kinds import KINDS, register
from portamem.conformance.kinds_over import ADAPTORS, adaptor_over, pool_over

GROUPS = ("ALLOC", "FREE", "OWN", "ORDER")
"""The groups of clauses that are run over pairs: allocation, lifetime and order."""

PAIRS = [
    adaptor_over(adaptor_over(pool_over(KINDS["device"]), below), above)
    for above, below in permutations([cls for cls in ADAPTORS if hasattr(_types, cls)], 2)
]

for _kind in PAIRS:
    register(_kind)
