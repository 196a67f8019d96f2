# SPDX-License-Identifier: MIT
"""Plant known defects in copies of the sources, and see whether the conformance suite catches each by its clauses.

    python tools/defects.py               builds and tries all; fails where one is not caught by a clause named for it
    python tools/defects.py --write       the same, and writes evidence/suite.md
    python tools/defects.py trim fill     only those whose names hold one of these words

Needs what tools/mutants.py needs. The findings are in evidence/suite/defects.json, or where --record says: from a
larger machine they are brought back from there, and `tools/mutants.py --only-page` makes the page of it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from mutation import page
from mutation.farm import Farm
from mutation.planted import DEFECTS, Defect
from mutation.workshop import ROOT, BuildFailed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def judge(defect: Defect, farm: Farm, whole: bool) -> dict[str, Any]:
    """The clauses that fail with a defect: of those named for it, and then of their groups or of all."""
    groups = () if whole else tuple(dict.fromkeys(id.rpartition("-")[0] for id in defect.clauses))
    with farm.workshop() as shop:
        try:
            with shop.changed(defect.contents(shop.tree)):
                timeout = farm.timeouts["discrete"] + 120
                named = shop.conformance(defect.clauses, timeout=timeout, first_failure=defect.hangs)
                caught = [id for id in defect.clauses if id in named.clauses]
                more = named
                if not defect.hangs:
                    more = shop.conformance(groups, timeout=farm.timeouts["discrete"] + 300)
        except BuildFailed as failed:
            raise SystemExit(f"{defect.name}: the changed sources do not build:\n{failed}") from None
    files = sorted({change.file for change in defect.changes})
    clauses = list(dict.fromkeys([*caught, *more.clauses]))
    return {"defect": defect.name, "file": ", ".join(files), "named": caught, "clauses": clauses, "how": more.how}


def keep(found: list[Mapping[str, Any]], path: Path) -> None:
    """Writes the results down; those of defects that were not tried now stay."""
    known = {each["defect"]: each for each in json.loads(path.read_text())} if path.exists() else {}
    known.update({each["defect"]: each for each in found})
    path.parent.mkdir(parents=True, exist_ok=True)
    in_order = [known[defect.name] for defect in DEFECTS if defect.name in known]
    path.write_text(json.dumps(in_order, indent=1) + "\n", encoding="utf-8")


def table(found: list[Mapping[str, Any]]) -> Table:
    shown = Table("defect", "caught by", "others that failed", title="Deliberate defects", title_justify="left")
    for each in found:
        others = [id for id in each["clauses"] if id not in each["named"]]
        shown.add_row(each["defect"], ", ".join(each["named"]) or "[bold red]nothing[/]", ", ".join(others))
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only defects whose names hold one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where the copies are")
    parser.add_argument(
        "--record", type=Path, default=page.DEFECTS, help="what is known so far, and what comes of this"
    )
    parser.add_argument("--whole", action="store_true", help="run all clauses, not only the groups of those named")
    parser.add_argument("--write", action="store_true", help="write evidence/suite.md as well")
    options = parser.parse_args()
    out = Console(highlight=False)
    chosen = [each for each in DEFECTS if not options.words or any(word in each.name for word in options.words)]
    for defect in chosen:
        defect.contents(ROOT)  # one that does not fit the sources is an error before anything is built
    farm = Farm(options.folder, min(options.jobs, len(chosen)))
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=out, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=len(chosen))
        farm.prepare({"discrete": {}}, lambda text: bar.update(task, description=text))
        with ThreadPoolExecutor(farm.jobs) as pool:
            found: list[Mapping[str, Any]] = []
            # Defects that hang take longest.
            in_turn = sorted(chosen, key=lambda defect: not defect.hangs)
            for done in as_completed([pool.submit(judge, defect, farm, options.whole) for defect in in_turn]):
                found.append(done.result())
                keep(found, options.record)
                bar.update(task, advance=1, description=found[-1]["defect"])
    out.print(table(found))
    if options.write:
        page.write()
    missed = [each["defect"] for each in found if not each["named"]]
    if missed:
        out.print(f"not caught: {'; '.join(missed)}", style="bold red")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
