# SPDX-License-Identifier: MIT
"""Programs that a check runs in a process of their own: for fork, exit, and what brings a process down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portamem.conformance.kit.outcome import Failed

TIMEOUT_S = 60

# The path of the parent and not the child's own: Python would look first where it is started, which may be a checkout.
_PREAMBLE = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); import portamem.{backend} as pm\n"


@dataclass(frozen=True)
class Ended:
    """The end of a program."""

    status: int
    """Exit status, or the negative number of a signal."""
    stdout: str
    stderr: str

    @property
    def how(self) -> str:
        return f"ended with {signal.Signals(-self.status).name}" if self.status < 0 else f"exited with {self.status}"

    def output(self) -> str:
        """Returns the program's output. The clause fails unless it exited with 0 and said nothing on standard error."""
        if self.status or self.stderr:
            raise Failed(f"the program {self.how}: {self.stderr.strip()[-2000:]}")
        return self.stdout


def python(source: str, backend: str, arguments: Sequence[str]) -> list[str]:
    """The command line of a program; ``sys.argv[1:]`` are its arguments there."""
    preamble = _PREAMBLE.format(backend=backend) if backend else _PREAMBLE.partition("; import portamem")[0] + "\n"
    return [sys.executable, "-c", preamble + textwrap.dedent(source), json.dumps(sys.path), *arguments]


def run(backend: str, source: str, arguments: Sequence[str], environment: Mapping[str, str | None]) -> Ended:
    """Runs Python source, with variables set, or removed where they are None."""
    variables = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    for name, value in environment.items():
        if value is None:
            variables.pop(name, None)
    command = python(source, backend, arguments)
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"the program did not end within {TIMEOUT_S} s") from None
    return Ended(done.returncode, done.stdout, done.stderr)
