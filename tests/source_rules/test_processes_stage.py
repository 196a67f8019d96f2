"""`ci/gpu.sh processes` runs beside other processes whatever does not take the whole device."""

from __future__ import annotations

import re
from pathlib import Path

from portamem.conformance.checks import checks
from portamem.conformance.contract import clauses

SCRIPT = Path(__file__).parents[2] / "ci" / "gpu.sh"


def test_every_clause_runs_beside_others_unless_it_takes_the_whole_device() -> None:
    found = re.search(r"^processes\(\) \{.*?local groups=\((.*?)\)", SCRIPT.read_text(encoding="utf-8"), re.M | re.S)
    assert found
    selected = set(found.group(1).split())
    of_gpus = {clause.id: clause for clause in clauses().values() if {"cuda", "hip"} & set(clause.backends)}
    assert selected <= of_gpus.keys() | {clause.group for clause in of_gpus.values()}
    left_out = {id for id, clause in of_gpus.items() if not {id, clause.group} & selected}
    assert left_out == {id for check in checks() if check.exclusive for id in check.ids}
