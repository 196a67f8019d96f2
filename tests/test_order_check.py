"""The order checker: every fault planted in tests/order_bugs is found, at the right two lines; mended, all are quiet.

A planted program marks the lines of its two uses with ``# first`` and ``# second``; told ``fixed`` it is the mended
one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import backend
from helpers.process import run

pytestmark = pytest.mark.skipif(not backend.is_built("host"), reason="the host backend is not built")

BUGS = Path(__file__).parent / "order_bugs"
KINDS = {
    "address_kept_after_the_free": "use after free",
    "allocation_without_an_event": "use before allocation is ordered",
    "columns_that_overlap": "unordered write after write",
    "default_stream_and_nonblocking": "unordered read after write",
    "double_buffer_off_by_one": "unordered write after read",
    "event_of_another_stream": "unordered read after write",
    "event_recorded_too_early": "unordered read after write",
    "free_of_what_is_still_read": "free while in use",
    "per_thread_streams_of_two_threads": "unordered read after write",
    "pinned_source_given_back": "free while in use",
    "read_of_an_unfinished_copy": "unordered read after write",
    "staging_memory_reused": "unordered write after read",
    "wait_for_the_wrong_event": "unordered read after write",
    "write_into_what_is_still_read": "unordered write after read",
}


def marked(program: Path, mark: str) -> str:
    """``file:line`` of the line that ends with a mark."""
    lines = program.read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return f"{program}:{number}"


def test_every_planted_program_is_tried() -> None:
    assert {path.stem for path in BUGS.glob("*.py")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_with_both_lines(name: str) -> None:
    program = BUGS / f"{name}.py"
    done = run(sys.executable, str(program), env={"PORTAMEM_CHECK": None})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "OrderError: 1 unordered use of memory\n" in done.stderr
    assert f"\n{KINDS[name]}: " in done.stderr
    first, second = (line for line in done.stderr.splitlines() if line.startswith(("  first:", "  second:")))
    assert f" at {marked(program, 'first')} on " in first
    assert f" at {marked(program, 'second')} on " in second


@pytest.mark.parametrize("name", KINDS)
def test_the_mended_program_is_quiet(name: str) -> None:
    done = run(sys.executable, str(BUGS / f"{name}.py"), "fixed", env={"PORTAMEM_CHECK": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
