# SPDX-License-Identifier: MIT
"""``portamem replay``."""

from __future__ import annotations

import argparse
import json
import sys

from rich.progress import Progress

from portamem import _choice
from portamem._console import console
from portamem.replay import log as logs
from portamem.replay import plan as plans
from portamem.replay import report, runner
from portamem.replay.log import LogError
from portamem.replay.target import Target


def main(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status: 0 replayed, 1 not, or with failures. ValueError for bad options."""
    out = console(150)
    try:
        log = logs.read(options.log)
        plan = plans.plan(log, options.only, options.logged)
    except LogError as error:
        return _refused(options, error)
    target = Target(_choice.use(options.backend), options.resource, options.device)
    try:
        with Progress(console=out, transient=True, disable=not out.is_terminal) as bar:
            task = bar.add_task("calls", total=len(plan.steps))
            result = runner.run(log, plan, target, lambda count: bar.advance(task, count))
    except runner.ReplayError as error:
        return _refused(options, error)
    found = report.document(str(options.log), log, plan, target, result)
    target.close()
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report.show(out, found)
    return int(result.failures > 0)


def _refused(options: argparse.Namespace, error: Exception) -> int:
    print(f"portamem: {options.log} cannot be replayed: {error}", file=sys.stderr)
    return 1
