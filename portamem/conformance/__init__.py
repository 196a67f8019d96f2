# SPDX-License-Identifier: MIT
"""The contract of portamem, and the suite that shows it on the machine at hand.

``contract`` holds the clauses, ``checks`` the functions that show them, and ``portamem conformance`` runs these in
child processes: what brings a process down is an outcome here, and ends nothing.

A resource of your own is tested like portamem's: ``portamem.conformance.register`` it in a module, and name that module
with ``portamem conformance --with MODULE``.
"""

from __future__ import annotations

from portamem.conformance.kit import kinds_over  # noqa: F401  (registers its kinds)
from portamem.conformance.kit.kinds import Kind, register

__all__ = ["Kind", "register"]
