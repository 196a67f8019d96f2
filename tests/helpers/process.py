"""Child processes: for what a test does to the whole interpreter (fork, exit, environment, a fault)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

TIMEOUT_S = 60

LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "TORCHELASTIC_RUN_ID")
"""Variables by which launchers tell a process its rank."""


def run(*argv: str, env: dict[str, str | None] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command with variables set, or removed where they are None.

    In the root folder: Python looks for modules where it is started, and a checkout would hide what is installed.
    """
    variables: dict[str, str] = dict(os.environ)
    for name, value in (env or {}).items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    return subprocess.run(argv, env=variables, cwd="/", capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def run_python(code: str, *args: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Runs Python source in a fresh interpreter."""
    return run(sys.executable, "-c", textwrap.dedent(code), *args, env=env)


def python_output(code: str, *args: str, **env: str | None) -> str:
    """Standard output of Python source that must exit 0 and leave standard error empty."""
    done = run_python(code, *args, **env)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout


def cli(*args: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Runs ``portamem ARGS`` as a pipe sees it: plain text, 120 columns."""
    return run(sys.executable, "-m", "portamem", *args, env={"COLUMNS": "120", "NO_COLOR": "1", **env})
