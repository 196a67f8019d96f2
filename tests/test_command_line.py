# SPDX-License-Identifier: MIT
"""The command line never shows a traceback: bad input, an output that takes nothing and Ctrl-C are one line each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from helpers.process import TIMEOUT_S, cli, python_output
from helpers.waiting import eventually

COMMANDS = [
    ["info"],
    ["info", "--json"],
    ["--version"],
    ["--help"],
    ["demo", "--source"],
    ["conformance", "--list"],
    ["conformance", "--help"],
]


def portamem(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command with its streams as they are given."""
    command = [sys.executable, "-m", "portamem", *arguments]
    return subprocess.run(
        command, cwd="/", stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False, **settings
    )


def assert_one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("portamem: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_an_output_that_is_full(command: list[str], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = portamem(*command, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert_one_line(done, 2, "No space left")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_output_that_is_closed(command: list[str]) -> None:
    done = portamem(*command, preexec_fn=lambda: os.close(1))
    assert_one_line(done, 2, "standard output is closed")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone(command: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = portamem(*command, stdout=write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_encoding_that_lacks_what_is_said() -> None:
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    for command in COMMANDS:
        done = cli(*command, **plain)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_text_between_colons_is_text() -> None:
    assert "domain:bus:device.function" in cli("conformance", "--list").stdout


@pytest.mark.parametrize("text", ["raise KeyError('mine')", "syntax error", "import no_such_module"])
def test_a_module_that_cannot_be_imported(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    done = cli("conformance", "--with", "mine", "--select", "ALLOC-01", PYTHONPATH=str(tmp_path))
    assert_one_line(done, 2, "--with mine")


def test_what_was_not_foreseen_is_a_line_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import portamem.info\ndel portamem.info.collect")
    done = cli("info", PYTHONPATH=str(tmp_path))
    assert_one_line(done, 2, "AttributeError", "PORTAMEM_TRACEBACK=1")
    assert "Traceback" in cli("info", PYTHONPATH=str(tmp_path), PORTAMEM_TRACEBACK="1").stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [("ns", 10**400), ("ns", 1 << 64), ("size", 10**30), ("thread", 1 << 70), ("address", "0x" + "f" * 17)],
)
def test_a_log_of_numbers_beyond_64_bits(tmp_path: Path, key: str, value: object) -> None:
    log = tmp_path / "log.jsonl"
    python_output(
        """
        import sys
        import portamem.host as pm
        with pm.LoggingAdaptor(pm.DeviceMemoryResource(), sys.argv[1]) as resource:
            resource.allocate(64).close()
        """,
        str(log),
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line.get("event") == "alloc":
            line[key] = value
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert_one_line(cli("replay", str(log), "--backend", "host", "--resource", "device"), 1, "cannot be replayed")


def processes_with(mark: str) -> list[int]:
    """The processes that were started with a text in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


# The children hear Ctrl-C, although a shell that runs the tests in the background lets its own ignore it.
# They run on the CPU also where the tests must run on a GPU.
HEARING = ("env", "--unset=PORTAMEM_REQUIRE", "--default-signal=INT", sys.executable, "-m", "portamem")


@pytest.mark.parametrize("select", [[], ["--select", "ERROR-14"]], ids=["all", "one"])
def test_ctrl_c_ends_conformance(tmp_path: Path, select: list[str]) -> None:
    mark, report = uuid.uuid4().hex, tmp_path / "report.json"
    command = [*HEARING, "conformance", "--backend", "host", "--json", str(report), *select]
    process = subprocess.Popen(
        command,
        cwd="/",
        env={**os.environ, "MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # The command, and workers beside the one that has said where it runs.
    assert eventually(lambda: len(processes_with(mark)) >= (3 if not select else 2), 30)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, err
    assert err.startswith("portamem: interrupted")
    assert err.count("\n") == 1
    if "interrupted" in out:  # not where it came before any case
        assert json.loads(report.read_text())["backends"]["host"]["interrupted"]
    assert eventually(lambda: not processes_with(mark), 10)


def test_ctrl_c_ends_the_demo() -> None:
    process = subprocess.Popen(
        [*HEARING, "demo", "--backend", "host", "--size", "1 GiB"],
        cwd="/",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "portamem: interrupted\n")
