# SPDX-License-Identifier: MIT
"""``portamem demo``: real bytes through every kind of memory, each byte verified, and accidents refused.

``legs`` is the part to read: ``portamem demo --source`` prints it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console

import portamem as pm
from portamem.demo import accidents, legs, rates, report
from portamem.demo.data import Data, Job

__all__ = ["run", "source"]

_MOST_CHUNK = 16 << 20
_LEAST_CHUNK = 4096
_CHUNKS_AT_ONCE = 16  # a leg holds six chunks; this leaves room for others on the device


def source() -> str:
    """The text of the legs."""
    return Path(legs.__file__).read_text(encoding="utf-8")


def run(data: Data) -> bool:
    """Runs everything on the chosen backend and prints it. True if all checks passed."""
    out = report.console()
    report.print_heading(out, data)
    leg_results = _run_legs(out, data)
    report.print_legs(out, leg_results)
    accident_results = [_run_accident(name) for name in accidents.ACCIDENTS]
    report.print_accidents(out, accident_results)
    wrong = sum(bool(leg.failure) for leg in leg_results) + sum(not accident.refused for accident in accident_results)
    count = len(leg_results) + len(accident_results)
    out.print(f"{wrong} of {count} checks failed." if wrong else "All checks passed.")
    return not wrong


def _run_legs(out: Console, data: Data) -> list[report.LegResult]:
    free = pm.Device().memory_info().free
    chunk_nbytes = min(data.nbytes, _MOST_CHUNK, max(free // _CHUNKS_AT_ONCE, _LEAST_CHUNK))
    results = []
    with report.progress(out, data.nbytes * len(legs.LEGS) * len(legs.WAYS)) as advance:
        for leg in legs.LEGS:
            for way in legs.WAYS:
                job = Job(data, chunk_nbytes, partial(advance, f"{leg.kind}, {way}"))
                results.append(_run_leg(leg, way, job))
    return results


def _run_leg(leg: legs.Leg, way: str, job: Job) -> report.LegResult:
    """One row of the table. What goes wrong in a leg is its result, and the next leg runs all the same."""
    result = partial(report.LegResult, leg.kind, way, leg.call)
    if leg.missing(pm.Device().capabilities):
        return result(0, skipped="the device has no such memory")
    try:
        leg.run(job, legs.WAYS[way])
        job.finish()
        measured = None if pm.backend == "host" else rates.measure(leg, legs.WAYS[way], job.chunk_nbytes)
    except Exception as error:
        return result(job.verified, failure=f"{type(error).__name__}: {error}")
    return result(job.verified, rates=measured)


def _run_accident(name: str) -> report.AccidentResult:
    try:
        return report.AccidentResult(name, accidents.ACCIDENTS[name](), True)
    except Exception as error:
        return report.AccidentResult(name, f"{type(error).__name__}: {error}", False)
