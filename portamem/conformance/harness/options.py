# SPDX-License-Identifier: MIT
"""The options of ``portamem conformance``, apart from the command: these cost every start of the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from portamem import _loader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--backend", action="append", choices=_loader.BACKENDS, help="default: every backend that is ready")
    add("--select", action="append", default=[], metavar="GROUP", help="a group of clauses (ALLOC), or one (ALLOC-03)")
    add(
        "--resource",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a kind of resource that the clauses are shown over (pool-*), and nothing that is about none",
    )
    add(
        "--pairs",
        action="store_true",
        help="allocation, lifetime and order over each ordered pair of adaptors on a pool",
    )
    add("--with", dest="modules", action="append", default=[], metavar="MODULE", help="a module that registers kinds")
    add("--json", type=Path, metavar="FILE", help="all results, as JSON")
    add("--junit", type=Path, metavar="FILE", help="a test case for each clause, as JUnit's XML")
    add("--markdown", type=Path, metavar="FILE", help="a page")
    add("--report", type=Path, metavar="FILE", help="a file to send: no name of this host, its users or folders")
    add("--first-failure", action="store_true", help="end at the first failure")
    add("--in-process", action="store_true", help="start no process: for debuggers and memory checkers")
    add("--list", action="store_true", help="print the clauses instead")
