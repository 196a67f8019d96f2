"""evidence/contract.md is what the clauses say, and each of them is fit to be read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.script import load_script

from portamem.conformance.checks import checks
from portamem.conformance.contract import GROUPS, clauses
from portamem.conformance.contract.clause import ANSWERS, EVERYWHERE

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "tools" / "contract.py"
REPORTS = sorted((ROOT / "evidence" / "runs").glob("*conformance*.json"))

CLAUSES = list(clauses().values())

DOCUMENTS = (
    "CUDA runtime API",
    "CUDA driver API",
    "HIP runtime API",
    "CUDA C++ Programming Guide",
    "CUDA 12.0 release notes",
    "HIP programming manual",
    "HIP documentation",
    "ROCm documentation",
    "ROCm 5.6 release notes",
    "Numba",
    "Python array API standard",
)
_DOCUMENT = "|".join(map(re.escape, DOCUMENTS))
SOURCES = (
    r"[\w.-]+/[\w.-]+#\d+",  # a thread, by the whole name of its repository
    r"https://\S+",
    r".*(?<![\w./-])[\w/-]+\.(h|cpp|cl)(?![\w.]).*",  # a header or a source file
    rf"({_DOCUMENT})( and ({_DOCUMENT}))?[,:] \S.*",  # a document, and what it says that in
)


def is_a_source(text: str) -> bool:
    """True where the text names other people's writing, and nothing else but what was measured beside that."""
    named = [part for part in text.split("; ") if not part.startswith("measured ")]
    return bool(named) and all(any(re.fullmatch(form, part) for form in SOURCES) for part in named)


def test_the_page_is_the_generated_one() -> None:
    module = load_script(GENERATOR)
    if not module.PAGE.parent.exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run: python tools/contract.py --write"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_ids_count_up_without_gaps(group: object) -> None:
    name = getattr(group, "name", "")
    numbers = [clause.id.rpartition("-")[2] for clause in CLAUSES if clause.group == name]
    assert numbers == [f"{n:02}" for n in range(1, len(numbers) + 1)]
    assert numbers, f"group {name} has no clause"


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.id)
def test_a_clause_is_a_promise_in_plain_sentences(clause: object) -> None:
    text = getattr(clause, "text", "")
    assert text.endswith("."), text
    assert len(text) < 400, text
    assert len(re.findall(r"[.!?](?=\s+[A-Z])", text)) < 2, "one or two sentences"
    assert not re.search(r"\b(should|TODO|etc)\b", text), text


def test_every_shortfall_has_a_source_and_an_answer() -> None:
    for clause in CLAUSES:
        assert set(clause.backends) <= set(EVERYWHERE), clause.id
        for shortfall in clause.shortfalls:
            assert shortfall.answer in ANSWERS, clause.id
            assert shortfall.vendor in ("amd", "nvidia", "both"), clause.id
            assert is_a_source(shortfall.source), f"{clause.id}: {shortfall.source}"
        for defect in clause.defects:
            assert defect.vendor in ("amd", "nvidia"), clause.id
            assert defect.thread.startswith("https://"), clause.id
            assert defect.since < defect.until, clause.id
            # A range that is open at an end says why.
            closed = defect.since > (0, 0) and defect.until < (999, 0)
            assert closed or re.search(r"unknown|no release", defect.versions), clause.id
            assert not defect.versions.endswith("."), clause.id


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("ROCm/HIP#3370", True),
        ("cupy/cupy#8335; pytorch/pytorch#192056", True),
        ("hip/nvidia_detail/nvidia_hip_runtime_api.h", True),
        ("CUDA runtime API and HIP runtime API, SetDevice", True),
        ("driver_types.h, cudaErrorInsufficientDriver; measured without a driver", True),
        ("cupy#8335", False),
        ("CUDA runtime API", False),
        ("HIP's device library", False),
        ("measured on an H200, CUDA 13.0", False),
        ("run without a driver; CUDA 11.8 to 13.5", False),
        ("Device.probe().pool_threshold_effective, found by trying", False),
        ("ROCm/HIP#3370; somebody said so", False),
        ("", False),
    ],
)
def test_what_a_source_is(text: str, right: bool) -> None:
    assert is_a_source(text) is right


def test_a_defect_names_checks_of_its_clauses() -> None:
    """A name that is no check would excuse nothing, and no reader would see why."""
    shows = {check.name: check.ids for check in checks() if not check.name.startswith("plugin.")}
    for clause in CLAUSES:
        for defect in clause.defects:
            bearers = {other.id for other in CLAUSES if defect in other.defects}
            for name in defect.checks:
                assert bearers & set(shows.get(name, ())), f"{clause.id}: {name} is no check of it"
            excused = [name for name in defect.checks if clause.id in shows[name]]
            assert excused, f"{clause.id}: the defect excuses no check of it"


def test_where_a_defect_is_known_the_clause_can_still_fail() -> None:
    """Each clause with a defect has a check that no defect excuses, for what the defects do not account for."""
    for clause in CLAUSES:
        excused = {name for defect in clause.defects for name in defect.checks}
        others = {check.name for check in checks() if clause.id in check.ids} - excused
        assert not excused or others, clause.id


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_what_a_report_has_as_unsupported_the_contract_says(path: Path) -> None:
    """The vendor whose runtime answered counts; the CPU runtime plays the machines of either."""
    report = json.loads(path.read_text(encoding="utf-8"))
    for found in report.get("clauses", ()):
        vendor = report["backends"][found["backend"]]["vendor"]
        vendors = {"amd", "nvidia", "both"} if vendor == "portamem" else {vendor, "both"}
        if found["outcome"] == "unsupported":
            notes = [each for each in clauses()[found["id"]].shortfalls if each.answer == "capability"]
            assert {note.vendor for note in notes} & vendors, f"{found['id']} of {vendor}"
