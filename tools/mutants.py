# SPDX-License-Identifier: MIT
"""Exchange one token of the sources at a time, a hundred times, and see whether the conformance suite notices.

    python tools/mutants.py                    draws, builds and tries; evidence/suite/mutants.json keeps what is known
    python tools/mutants.py --write            the same, and writes evidence/suite.md
    python tools/mutants.py --only-page        only writes evidence/suite.md
    python tools/mutants.py --fresh            forgets what is known
    python tools/mutants.py --parts            adaptors, events and copies alone; known: mutants-parts.json
    python tools/mutants.py --show ID          what a mutant changes, and what the suite says of it

The draw is uniform over the tokens that can be exchanged, and depends on the seed alone. One that does not compile is
no mutant, nor is one that survives and is listed as equivalent (tools/mutation/reasons.py): for each of them another is
drawn, until as many stand as were asked for. Killed: the suite fails, dies or hangs, in one of the machine models that
are asked for. It needs libclang, CMake, ninja and pybind11: ci/setup.sh makes build/ci/venv with all of them.

On a larger machine, without a network or a repository: `--fresh --jobs 32 --folder /tmp/mutants --record mutants.json`.
What was found is in that file after each mutant, and a run with the same file goes on from there; brought back as
evidence/suite/mutants.json, `--only-page` makes the page of it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from mutation import page, trial
from mutation.farm import MODELS, Farm
from mutation.reasons import REASONS
from mutation.record import Record, Result, digest_of
from mutation.sites import PARTS, Mutant, draw
from mutation.workshop import ROOT
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def order_of(options: argparse.Namespace) -> Iterator[Mutant]:
    """The mutants that are asked for, in the order of the draw."""
    return draw(ROOT, options.seed, PARTS if options.parts else ("*",))


class Round:
    """One run over the draw."""

    def __init__(self, options: argparse.Namespace, record: Record, out: Console, bar: Progress) -> None:
        self._record, self._path = record, options.record
        self._order = order_of(options)
        self._farm = Farm(options.folder, options.jobs)
        self._models = {model: MODELS[model] for model in options.models}
        self._suite = digest_of(ROOT / "portamem")
        self._pool = ThreadPoolExecutor(options.jobs)
        self._running: dict[Future[Result], Mutant] = {}
        self._done: list[Result] = []
        self._drawn: list[str] = []
        self._out, self._bar = out, bar
        self._task = bar.add_task("", total=options.count)

    def go(self, count: int) -> None:
        """Tries mutants in the order of the draw until ``count`` of them stand."""
        left = self._take_known(count)
        if left:
            self._farm.prepare(self._models, self._say)
            self._record.clauses = len(self._farm.clauses)
            self._record.runs += 1
        for mutant in sorted(left, key=lambda mutant: mutant.id not in REASONS):  # survivors take longest
            self._submit(mutant)
        while self._running:
            for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                mutant = self._running.pop(future)
                result = future.result()
                self._record.add(result, self._path)
                self._show(result)
                self._done.append(result)
                if self._may_stand(mutant) and not page.stands(result):
                    for another in self._take_known(1):
                        self._submit(another)
        self._pool.shutdown()
        self._record.keep(self._first_that_stand(count))
        self._record.write(self._path)

    def _take_known(self, count: int) -> list[Mutant]:
        """The next of the draw, until so many of them stand or may; those of which nothing is known are given back."""
        left = []
        while count:
            mutant = next(self._order)
            self._drawn.append(mutant.id)
            known = self._record.known(mutant, digest_of(ROOT / mutant.site.file), self._suite)
            if known is None:
                left.append(mutant)
                count -= self._may_stand(mutant)
            else:
                self._done.append(known)
                count -= page.stands(known)
        return left

    @staticmethod
    def _may_stand(mutant: Mutant) -> bool:
        """False for one that is listed as equivalent: it is tried too, and expected to survive."""
        return not page.is_listed_equivalent(mutant.id)

    def _first_that_stand(self, count: int) -> list[str]:
        """The ids of the draw, up to the one with which ``count`` stand: there are more if an equivalent one died."""
        done = {result.id: result for result in self._done}
        ids = []
        for id in self._drawn:
            if count == 0:
                break
            ids.append(id)
            count -= page.stands(done[id])
        return ids

    def _submit(self, mutant: Mutant) -> None:
        digest = digest_of(ROOT / mutant.site.file)
        self._running[self._pool.submit(trial.judge, mutant, self._farm, digest, self._suite)] = mutant

    def _show(self, result: Result) -> None:
        by = ", ".join(result.clauses) or result.how
        spent = f"{result.build_seconds:.0f}+{result.suite_seconds:.0f} s"
        self._out.print(
            f"{result.state:12} {spent:>9} {result.place} {result.operator} {by}", markup=False, soft_wrap=True
        )
        self._say("")

    def _say(self, text: str) -> None:
        standing = [result for result in self._done if page.stands(result)]
        killed = sum(result.state == "killed" for result in standing)
        self._bar.update(self._task, completed=len(standing), description=text or f"{killed} killed")


def show(options: argparse.Namespace, out: Console) -> None:
    """Prints what one mutant changes and what the whole suite says of it, in every model."""
    mutant = next((mutant for mutant in order_of(options) if mutant.id == options.show), None)
    if mutant is None:
        raise SystemExit(f"no mutant of seed {options.seed} is called {options.show}")
    farm = Farm(options.folder, 1)
    site = mutant.site
    out.print(f"{site.file}:{site.line}:{site.column} {mutant.operator}\n{site.source}", markup=False, highlight=False)
    farm.prepare(MODELS)
    with farm.workshop() as shop, shop.changed({site.file: mutant.apply((shop.tree / site.file).read_bytes())}):
        for model, environment in MODELS.items():
            found = shop.conformance(timeout=farm.timeouts[model], environment=environment)
            out.print(f"{model}: {'survived' if found.passed else found.how} {', '.join(found.clauses)} {found.said}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where the copies are")
    parser.add_argument("--record", type=Path, help="what is known so far, and what comes of this")
    parser.add_argument("--parts", action="store_true", help="draw only from adaptors, events and copies")
    parser.add_argument(
        "--models", nargs="*", choices=MODELS, default=["discrete"], help="in which machine models (default: discrete)"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what is known")
    parser.add_argument("--write", action="store_true", help="write evidence/suite.md as well")
    parser.add_argument("--only-page", action="store_true", help="only write evidence/suite.md")
    parser.add_argument("--show", metavar="ID", help="one mutant, and what the suite says of it")
    options = parser.parse_args()
    options.record = options.record or (page.RECORD_OF_PARTS if options.parts else page.RECORD)
    wanted = page.WANTED_OF_PARTS if options.parts else page.WANTED
    out = Console(highlight=False)
    if options.show:
        show(options, out)
        return 0
    record = Record(options.seed, options.count)
    if not options.fresh:
        record = Record.read(options.record, options.seed, options.count)
    if not options.only_page:
        begun = time.monotonic()
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=out, disable=not out.is_terminal) as bar:
            Round(options, record, out, bar).go(options.count)
        out.print(f"{page.words(record)}; {time.monotonic() - begun:.0f} s")
    if options.write or options.only_page:
        page.write()
    wrong = [id for id, result in record.results.items() if page.is_listed_equivalent(id) and result.state == "killed"]
    if wrong:
        out.print(f"listed as equivalent, but killed: {', '.join(wrong)}", style="bold red")
    return int(bool(wrong) or page.rate(record) < wanted)


if __name__ == "__main__":
    raise SystemExit(main())
