# SPDX-License-Identifier: MIT
"""Workshops side by side, each with the same sources, and how long the suite takes in them when nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue

from mutation.workshop import ROOT, Workshop

MODELS: dict[str, dict[str, str]] = {
    "discrete": {},
    "guard": {"PORTAMEM_HOST_GUARD": "1"},
    "apu": {"PORTAMEM_HOST_MODEL": "apu"},
    "coherent": {"PORTAMEM_HOST_MODEL": "coherent"},
}
"""The settings in which portamem's own checks run the suite, the usual one first."""


class Farm:
    """``jobs`` workshops below a folder."""

    def __init__(self, folder: Path, jobs: int, source: Path = ROOT) -> None:
        self.jobs = jobs
        self.timeouts: dict[str, float] = {}
        self.clauses: tuple[str, ...] = ()
        """Clauses that held without a fault."""
        self._all = [Workshop(folder / f"{number}", source) for number in range(jobs)]
        self._idle: SimpleQueue[Workshop] = SimpleQueue()

    def prepare(self, models: dict[str, dict[str, str]], report: Callable[[str], None] = lambda text: None) -> None:
        """Builds everywhere, and runs the suite, which has to pass: in the first model everywhere at once, so that what
        fails for the load alone fails here. From that come the times after which a run is given up."""
        report("building")
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(Workshop.prepare, self._all))
            report("trying the suite as it is")
            first = next(iter(models))
            self._learn(pool, [(shop, first, models[first]) for shop in self._all])
            others = [(model, environment) for model, environment in models.items() if model != first]
            self._learn(pool, [(shop, *other) for shop, other in zip(cycle(self._all), others, strict=False)])
        for shop in self._all:
            self._idle.put(shop)

    def _learn(self, pool: ThreadPoolExecutor, runs: Sequence[tuple[Workshop, str, dict[str, str]]]) -> None:
        """Runs of the unchanged suite, side by side."""
        trials = [(run, pool.submit(run[0].conformance, timeout=900, environment=run[2])) for run in runs]
        for (shop, model, environment), future in trials:
            trial = future.result()
            self.clauses = self.clauses or trial.held
            self.timeouts[model] = max(self.timeouts.get(model, 0.0), 30 + 3 * trial.seconds)
            # A run that fails for a mutant has to fail twice; so has this.
            again = trial.clauses if trial.how == "failed" else ()
            if trial.passed or (again and shop.conformance(again, timeout=900, environment=environment).passed):
                continue
            raise SystemExit(f"the suite fails without a fault ({model}): {trial.how} {trial.clauses} {trial.said}")

    @property
    def groups(self) -> set[str]:
        return {clause.rpartition("-")[0] for clause in self.clauses}

    @contextmanager
    def workshop(self) -> Iterator[Workshop]:
        """Lends a workshop that no other thread works in."""
        shop = self._idle.get()
        try:
            yield shop
        finally:
            self._idle.put(shop)
