"""The table of what goes to other libraries without a copy: the tool tells the four answers apart, and no route of a
library that is installed is wrong but by that library's own way."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import backend
from helpers.process import python_output

TOOLS = Path(__file__).parents[2] / "tools"
PAGE = TOOLS.parent / "evidence" / "exchange.md"
if not (TOOLS / "exchange").is_dir():
    pytest.skip("only a checkout has the tool", allow_module_level=True)
sys.path.insert(0, str(TOOLS))
try:
    from exchange import libraries, page, trial
finally:
    sys.path.remove(str(TOOLS))

pytestmark = pytest.mark.filterwarnings("ignore")


def route(take: Any, read: Any = np.asarray) -> Any:
    return trial.Route("NumPy", "made up", take, "ctypes.data", lambda array: array.ctypes.data, read)


def answer(pm: ModuleType, resource: Any, take: Any, read: Any = np.asarray) -> Any:
    return trial.try_taking(route(take, read), pm, resource)


def refuse(view: Any) -> Any:
    raise TypeError("no views at 0x7f00beef of pinned memory. Not one")


def test_the_answers(pm: ModuleType, pinned_resource: Any) -> None:
    assert answer(pm, pinned_resource, np.asarray) == trial.Cell(trial.ZERO_COPY)
    assert answer(pm, pinned_resource, np.array) == trial.Cell(trial.COPY)
    assert answer(pm, pinned_resource, refuse) == trial.Cell(
        trial.REFUSED, "TypeError: no views at 0x0 of memory of this kind"
    )


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (lambda view: np.asarray(view) + 1, "the elements are others"),
        (lambda view: np.asarray(view).reshape(-1), r"float32\(4, 32\) came as float32\(128,\)"),
        (lambda view: np.asarray(view).astype("float64"), r"came as float64\(4, 32\)"),
    ],
)
def test_what_is_wrong(pm: ModuleType, pinned_resource: Any, take: Any, reason: str) -> None:
    cell = answer(pm, pinned_resource, take)
    assert cell.word == trial.WRONG
    assert re.search(reason, cell.reason)


def test_an_array_that_does_not_keep_the_memory_is_wrong(pm: ModuleType, pinned_resource: Any) -> None:
    def by_address(view: Any) -> Any:
        return np.ctypeslib.as_array((ctypes.c_float * 128).from_address(view.handle)).reshape(4, 32)

    cell = answer(pm, pinned_resource, by_address, read=np.array)
    assert cell == trial.Cell(trial.WRONG, "the buffer can be closed under the array")


def test_an_array_that_never_lets_go_is_wrong(
    pm: ModuleType, pinned_resource: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "PATIENCE_S", 0.1)
    kept: list[Any] = []

    def keep(view: Any) -> Any:
        kept.append(np.asarray(view))
        return kept[0]

    cell = answer(pm, pinned_resource, keep)
    kept.clear()
    assert cell == trial.Cell(trial.WRONG, "the array is gone, and still holds the buffer")


def test_a_trap_is_known_by_its_reason() -> None:
    trapped = [each for each in libraries.OURS if each.trap]
    assert {each.how for each in trapped} == {"torch.asarray(view)", "jnp.asarray(view)"}
    for each in trapped:
        assert each.sign
        assert not each.is_trap(trial.Cell(trial.WRONG, "the elements are others"))
        assert not each.is_trap(trial.Cell(trial.ZERO_COPY))


@pytest.mark.parametrize("library", [each.name for each in libraries.LIBRARIES])
def test_no_answer_is_wrong(pm: ModuleType, library: str) -> None:
    ours, theirs = page.installed(libraries.OURS, library), page.installed(libraries.THEIRS, library)
    if not ours:
        pytest.skip(f"{library} is not here")
    for each in ours:
        found = page.cells(each, pm).items()
        wrong = {kind: cell for kind, cell in found if cell.word == trial.WRONG and not each.is_trap(cell)}
        assert not wrong, f"{each.how}: {wrong}"
    for each in theirs:
        assert trial.try_giving(each, pm).word in (trial.ZERO_COPY, trial.REFUSED), each.how


def test_the_page_is_of_the_tool() -> None:
    if not PAGE.parent.exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    text = PAGE.read_text(encoding="utf-8")
    for each in libraries.OURS:
        assert f"| {each.library} | `{each.how}` | {each.told} |" in text, "run: python tools/exchange_table.py --write"
    for each in libraries.THEIRS:
        assert f"| {each.library} | {each.how} | {each.told} |" in text, "run: python tools/exchange_table.py --write"


NUMPY_NOW = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from exchange import libraries, page
    import portamem.host as pm
    for each in page.installed(libraries.OURS, "NumPy"):
        found = page.cells(each, pm)
        print(each.how, *(found[kind].word for kind in page.kinds(pm) if not kind.startswith("pool")), sep="|")
"""


def test_the_page_says_what_numpy_does_now() -> None:
    """The page is of the host backend, whichever is under test, in its default model."""
    if not PAGE.parent.exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    if not backend.is_built("host"):
        pytest.skip("the host backend is not built")
    text = PAGE.read_text(encoding="utf-8")
    told = {}
    for line in text.splitlines():
        if line.startswith("| NumPy | `"):
            _, _, how, _, *answers, _ = line.split("|")
            told[how.strip(" `")] = [re.sub(r" \(\d+\)|\*", "", answer).strip() for answer in answers]
    knobs = {name: None for name in os.environ if name.startswith("PORTAMEM_HOST_")}
    output = python_output(NUMPY_NOW, str(TOOLS), **knobs, PORTAMEM_REQUIRE=None)
    now = {how: answers for how, *answers in (line.split("|") for line in output.splitlines())}
    assert now == told
