"""A short run of the fuzzer, and that it sees what it is made to see."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.process import run

FUZZ = Path(__file__).with_name("fuzz.py")


@pytest.mark.parametrize("threads", ["1", "8"])
def test_a_short_run(pm: ModuleType, threads: str) -> None:
    done = run(sys.executable, str(FUZZ), "--backend", pm.backend, "--calls", "4000", "--threads", threads)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4,000 calls" in done.stdout
    for what in ("allocate: done", "copy: done", "close: done", "any_method: TypeError", "any_function: TypeError"):
        assert what in done.stdout


def test_a_seed_makes_the_same_calls(pm: ModuleType) -> None:
    """The seed decides which calls are drawn. Their outcome also depends on what queued work has done by then."""
    drawn = []
    for _ in range(2):
        done = run(sys.executable, str(FUZZ), "--backend", pm.backend, "--calls", "300", "--seed", "5", "--first", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        kinds: dict[str, int] = {}
        for line in done.stdout.splitlines()[:-1]:
            count, kind = line.split(":")[0].split()
            kinds[kind] = kinds.get(kind, 0) + int(count)
        drawn.append(kinds)
    assert drawn[0] == drawn[1]


PLANTED = """
import os, signal, threading
lost = []
def planted(world, rng):
    def call():
        {fault}
    return "the planted call", call
CALLS = {{planted: 20}}
"""

FAULTS = {
    # Not SIGSEGV, which AddressSanitizer would turn into an exit.
    "a crash": (
        "os.abort()",
        ["ended with -6", "Fatal Python error: Aborted", "the planted call"],
    ),
    "an exit": ("os._exit(0)", ["ended with 0", "the planted call"]),
    "a hang": ("threading.Event().wait()", ["hung: no call in 1.0 s", "in call", "the planted call"]),
    "lost memory": ("lost.append(world.pm.SystemMemoryResource().allocate(64))", ["held on host: "]),
    "a fault within": ("raise SystemError('returned NULL')", ["the planted call raised SystemError: returned NULL"]),
    "a missing attribute": ("None.nothing_there()", ["the planted call raised AttributeError"]),
    "words of pybind11": ("raise TypeError('incompatible function arguments')", ["the planted call says 'incomp"]),
    "words of C++": ("raise ValueError('std::bad_alloc')", ["the planted call says 'std::'"]),
    "a mangled name": ("raise ValueError('in _ZN8portamem6BufferE')", ["the planted call says '_ZN8"]),
    "a private module": ("raise TypeError('not portamem._host.Buffer')", ["the planted call says 'portamem._host'"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_sees(pm: ModuleType, tmp_path: Path, name: str) -> None:
    fault, messages = FAULTS[name]
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED.format(fault=fault), encoding="utf-8")
    words = ["--backend", pm.backend, "--calls", "200", "--more", str(planted)]
    words += ["--patience", "1"] if name == "a hang" else []
    done = run(sys.executable, str(FUZZ), *words)
    assert done.returncode == 1, done.stdout + done.stderr
    for message in messages:
        assert message in done.stderr
