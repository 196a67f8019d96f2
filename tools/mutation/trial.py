# SPDX-License-Identifier: MIT
"""One mutant: built, and shown to the suite until something fails or nothing is left."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from mutation.farm import MODELS, Farm
from mutation.likely import likely
from mutation.record import Result
from mutation.sites import Mutant
from mutation.workshop import BuildFailed, Trial, Workshop


def judge(mutant: Mutant, farm: Farm, digest: str, suite: str) -> Result:
    """Tries a mutant and says how it went. ``digest`` is that of its file, ``suite`` that of the Python package."""
    site = mutant.site
    result = Result(mutant.id, site.file, site.line, site.column, mutant.operator, site.source, digest, "not compiled")
    with farm.workshop() as shop:
        text = mutant.apply((shop.tree / site.file).read_bytes())
        begun = time.monotonic()
        try:
            with shop.changed({site.file: text}):
                built = time.monotonic()
                result.build_seconds = round(built - begun, 1)
                _try(shop, farm, result)
                result.suite_seconds = round(time.monotonic() - built, 1)
        except BuildFailed:
            pass
    result.suite = suite if result.state == "survived" else ""
    return result


def _try(shop: Workshop, farm: Farm, result: Result) -> None:
    result.state = "survived"
    for model, select in _runs(likely(result.file, farm.groups), farm.timeouts):
        trial = _confirmed(shop, farm, model, select)
        if trial is not None:
            result.state, result.how, result.clauses = "killed", trial.how, list(trial.clauses)
            result.model = "" if model == "discrete" else model
            return


def _runs(first: Sequence[str], models: Iterable[str]) -> Iterable[tuple[str, Sequence[str]]]:
    if first:
        yield "discrete", first
    for model in models:
        yield model, ()


def _confirmed(shop: Workshop, farm: Farm, model: str, select: Sequence[str]) -> Trial | None:
    """A run that does not pass, and not by accident: what failed fails again, alone or in a second run."""

    def run(names: Sequence[str]) -> Trial:
        timeout, environment = farm.timeouts[model], MODELS[model]
        return shop.conformance(names, timeout=timeout, environment=environment, first_failure=True)

    trial = run(select)
    if trial.passed:
        return None
    if trial.how == "failed" and run(trial.clauses[:1]).passed:
        trial = run(select)
    return None if trial.passed else trial
