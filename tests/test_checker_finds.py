"""tools/checker_finds.py reads what a memory checker reports, and fails where it does not report what it has to.

The processes run on the CPU backend here, under checkers that are scripts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "checker_finds.py"


@pytest.fixture
def finds() -> Any:
    if not SCRIPT.exists():
        pytest.skip("the sources of portamem are not here")
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import checker_finds
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return checker_finds


REPORT = """\
========= COMPUTE-SANITIZER
is_checked: True
wrong: 0x7f0000000000
========= Invalid __global__ write of size 1 bytes
=========     at fill+0x250
=========     by thread (232,0,0) in block (3,0,0)
=========     {words} 0x7f0000000000 is out of bounds
=========     and is 24 bytes before the nearest allocation at 0x7f0000000018 of size 1,000 bytes
=========
========= ERROR SUMMARY: 1 error
"""


@pytest.mark.parametrize("words", ["Address", "Access at", "Access to"])
def test_a_report_is_read_in_the_words_of_each_version(finds: Any, words: str) -> None:
    said = finds.read(REPORT.format(words=words))
    assert said == finds.Said({0x7F0000000000}, {0x7F0000000000}, "True", 1)
    case = finds.Case(lambda scene: None, True)
    assert finds.judge(case, finds.FOUND, said) == ""
    assert "exit code 0" in finds.judge(case, 0, said)
    assert "nothing was wrong" in finds.judge(case._replace(is_wrong=False), finds.FOUND, said)


def test_what_is_missing_or_elsewhere_is_a_failure_in_words(finds: Any) -> None:
    case = finds.Case(lambda scene: None, True)
    text = REPORT.format(words="Address")
    silent = "\n".join(line for line in text.splitlines() if not line.startswith("="))
    assert "has not found it" in finds.judge(case, 0, finds.read(silent))
    elsewhere = text.replace("Address 0x7f0000000000", "Address 0x7f0000000001")
    assert "0x7f0000000001" in finds.judge(case, finds.FOUND, finds.read(elsewhere))
    unread = text.replace("Address", "Somewhere around")
    assert "reported []" in finds.judge(case, finds.FOUND, finds.read(unread))
    assert "NVTX" in finds.judge(case, finds.FOUND, finds.read(text.replace("True", "False")))
    assert "did not get to" in finds.judge(case, 1, finds.read("is_checked: True\nTraceback"))
    right = case._replace(is_wrong=False)
    assert finds.judge(right, 0, finds.read(silent)) == ""
    assert "exit code 1" in finds.judge(right, 1, finds.read(silent))


def checker(path: Path, body: str) -> str:
    """A program that runs the rest of its arguments, as the vendor's does."""
    path.write_text(
        f"#!{sys.executable}\nimport re, subprocess, sys\n"
        "command = sys.argv[sys.argv.index('--error-exitcode') + 2:]\n"
        "command = command[2:] if command[0] == '--nvtx' else command\n"
        "done = subprocess.run(command, stdout=subprocess.PIPE, text=True)\n" + body
    )
    path.chmod(0o755)
    return str(path)


PERFECT = """\
print(done.stdout.replace("is_checked: False", "is_checked: True"))
for address in re.findall("^wrong: (.*)$", done.stdout, re.MULTILINE):
    print(f"========= Invalid __global__ write of size 1 bytes\\n=========     Access to {address} is out of bounds")
    sys.exit(86)
sys.exit(done.returncode)
"""
SILENT = """\
print(done.stdout)
sys.exit(done.returncode)
"""


@pytest.mark.usefixtures("finds")
@pytest.mark.parametrize(("body", "failed"), [(PERFECT, False), (SILENT, True)])
def test_its_processes_do_what_they_say(tmp_path: Path, body: str, failed: bool) -> None:
    """Kernels of the CPU backend do the same wrong things, which harm nothing there."""
    import ctypes

    if hasattr(ctypes.CDLL(None), "__asan_poison_memory_region"):
        pytest.skip("AddressSanitizer would end the processes")
    command = [sys.executable, str(SCRIPT), "--backend", "host", "--checker", checker(tmp_path / "checker", body)]
    environment = {name: value for name, value in os.environ.items() if name != "PORTAMEM_REQUIRE"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == int(failed), done.stdout + done.stderr
    if failed:
        assert "is_checked is False" in done.stdout
    else:
        assert done.stdout.count("as it has to be: ") == 9, done.stdout
        assert "control: " in done.stdout
