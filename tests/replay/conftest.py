"""A log to replay, and the command that does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from helpers.process import run_python

from portamem import _choice
from portamem.cli import main

PROGRAM = """
import sys, threading
import portamem.{backend} as pm
logging = pm.LoggingAdaptor(pm.DeviceMemoryResource(), sys.argv[1])
streams = [pm.Stream(), pm.Stream()]

def work(stream, other):
    kept = []
    for n in range(60):
        kept.append(logging.allocate(1 << (8 + n % 10), stream=stream))
        if n % 7 == 0:
            kept[-1].record_stream(other)
        if n % 3 == 2:
            kept.pop(0).close()
    for buffer in kept:
        buffer.close(stream=other)

threads = [threading.Thread(target=work, args=(streams[i], streams[1 - i])) for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
try:
    logging.allocate(1 << 50)
except MemoryError:
    pass
empty = logging.allocate(0), logging.allocate(0)
for buffer in empty:
    buffer.close()
sys.modules["kept"] = logging.allocate(4096, stream=pm.Device(0).per_thread_stream).release()
"""


@pytest.fixture(scope="module")
def recorded(pm: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a program with two threads and two streams."""
    path = tmp_path_factory.mktemp("replay") / "run.jsonl"
    done = run_python(PROGRAM.format(backend=pm.backend), str(path))
    assert (done.returncode, done.stderr) == (0, "")
    return path


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def replay(pm: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The command, in this process; the chosen backend is left as it was."""
    monkeypatch.setattr(_choice, "_chosen", None)

    def run(path: Path, *options: str) -> Done:
        status = main(["replay", str(path), "--backend", pm.backend, *options])
        return Done(status, *capsys.readouterr())

    return run
