"""The conformance suite on GPU backends that find no device here: what the contract says of such machines."""

from __future__ import annotations

import pytest
from helpers import standin

from portamem.conformance.harness import runner
from portamem.conformance.kit.outcome import Outcome

MINUTES = 60


@pytest.mark.timeout(5 * MINUTES)
@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_without_a_device(name: str) -> None:
    if standin.needs(name).device_count():
        pytest.skip(f"{name}: has devices")
    found = runner.run(name).clauses
    failed = {result.clause.id: result.cases for result in found if result.outcome is Outcome.FAIL}
    assert not failed
    shown = {result.clause.id for result in found if result.outcome in (Outcome.PASS, Outcome.EMULATED)}
    absent = {result.clause.id for result in found if result.clause.group == "ABSENT"}
    missing = [result for result in found if result.clause.id in absent - shown]
    assert all("no witness" in case.detail for result in missing for case in result.cases), missing
