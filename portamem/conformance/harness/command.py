# SPDX-License-Identifier: MIT
"""``portamem conformance``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from portamem import _choice, _loader
from portamem._console import console, say
from portamem._machine import visible_gpus
from portamem.conformance import contract
from portamem.conformance.harness import plan, runner
from portamem.conformance.kit.outcome import Outcome
from portamem.conformance.report import table
from portamem.conformance.report.document import document
from portamem.conformance.report.junit import junit
from portamem.conformance.report.markdown import markdown
from portamem.conformance.report.sharable import sharable

INTERRUPTED = 130


def main(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status: 0 no failure, 1 a failure, 130 interrupted. ValueError for what
    cannot be run. Interrupted, it tells and writes what has come until then."""
    out = console(150)
    if options.list:
        _print_list(out)
        return 0
    select, resources, modules = options.select, options.resource, options.modules
    if options.pairs:
        from portamem.conformance.kit import pairs

        select, modules = select or list(pairs.GROUPS), [*modules, pairs.__name__]
        resources = resources or [kind.name for kind in pairs.PAIRS]
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise ValueError(f"--with {module}: {type(error).__name__}: {error}") from error
    if wrong := plan.mismatches():
        raise ValueError(f"contract and checks do not fit: {'; '.join(wrong)}")
    list(plan.cases("host", select, resources=resources))  # an unknown name is refused before anything runs
    runs = []
    for backend in options.backend or _ready():
        if options.backend:
            _choice.check_required(backend)
            _loader.load(backend)  # so that one that cannot be used is refused with its reason
        with table.progress(out, backend) as progress:
            runs.append(
                runner.run(
                    backend,
                    select,
                    resources=resources,
                    modules=modules,
                    first_failure=options.first_failure,
                    in_process=options.in_process,
                    progress=progress,
                )
            )
        if runs[-1].interrupted:
            break
    if not any(run.clauses for run in runs):
        raise ValueError("nothing was run: no backend is ready (portamem info says why), or none has what was selected")
    found = document(runs, pairs=options.pairs)
    _write(options, found)
    table.print_matrix(out, runs)
    table.print_details(out, runs)
    table.print_sums(out, runs)
    if any(run.interrupted for run in runs):
        say("interrupted: the rest was not run")
        return INTERRUPTED
    return int(any(result.outcome is Outcome.FAIL for run in runs for result in run.clauses))


def _ready() -> list[str]:
    """Every backend that is ready; what PORTAMEM_REQUIRE asks for must be among them. A GPU left out is told."""
    states = _loader.backends()
    if unmet := _choice.unmet_requirement({name: state.is_ready for name, state in states.items()}):
        raise ValueError(unmet)
    for name, node in visible_gpus().items():
        if (reason := states[name].reason) is not None:
            print(f"portamem: this machine shows a GPU ({node}), and {name} is left out: {reason}", file=sys.stderr)
    return [name for name in ("cuda", "hip", "host") if states[name].is_ready]


def _write(options: argparse.Namespace, found: dict[str, Any]) -> None:
    forms: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (options.json, lambda: json.dumps(found, indent=1) + "\n"),
        (options.junit, lambda: junit(found)),
        (options.markdown, lambda: markdown(found)),
        (options.report, lambda: sharable(found)),
    )
    for path, text in forms:
        if path is not None:
            path.write_text(text(), encoding="utf-8")


def _print_list(out: Console) -> None:
    for clause in contract.clauses().values():
        bound = f" ({clause.resources})" if clause.resources else ""
        out.print(f"{clause.id}{bound}: {clause.text}", markup=False)
    sys.stdout.flush()
