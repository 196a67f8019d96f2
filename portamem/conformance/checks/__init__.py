# SPDX-License-Identifier: MIT
"""What shows the clauses: one file for each group of the contract, under the same name."""

from __future__ import annotations

from importlib import import_module

from portamem.conformance.check import CHECKS, Check
from portamem.conformance.contract import GROUPS


def checks() -> list[Check]:
    """Every check, in the order of the contract's groups."""
    for group in GROUPS:
        import_module(f"portamem.conformance.checks.{group.module}")
    return CHECKS
