# SPDX-License-Identifier: MIT
"""Print the project's figures of speed and size: import, installation, wheel.

    python benchmarks/figures.py [--only import] [--pairs 40]

The import is that of the installed portamem. Installation and wheel are built from the checkout, in a temporary folder
and into a temporary environment.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def seconds(command: list[str], **environment: str) -> float:
    """How long a command takes. One that fails is shown and ends the program."""
    begin = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | environment, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


def import_milliseconds(pairs: int) -> float:
    """The median of many pairs, each a bare interpreter beside one that imports portamem."""
    bare, importing = [sys.executable, "-c", "pass"], [sys.executable, "-c", "import portamem"]
    for warm_up in (bare, importing):
        seconds(warm_up)
    return 1e3 * statistics.median(-seconds(bare) + seconds(importing) for _ in range(pairs))


def install_seconds(folder: Path) -> float:
    """``pip install .`` of the host backend into a fresh environment, the build's own environment included."""
    venv.create(folder / "venv", with_pip=True)
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    return seconds([*pip, str(ROOT)], PORTAMEM_BACKENDS="host")


def wheel(folder: Path) -> Path:
    """A wheel with every backend that can be built here."""
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "-w", str(folder)]
    seconds([*command, str(ROOT)], PORTAMEM_BACKENDS="auto")
    return next(folder.glob("portamem-*.whl"))


def backends_in(built: Path) -> list[str]:
    modules = [name for name in zipfile.ZipFile(built).namelist() if name.endswith(".so")]
    return [b for b in ("host", "cuda", "hip") if any(name.startswith(f"portamem/_{b}.") for name in modules)]


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=["import"], help="leave the builds out")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of interpreters to start (default: %(default)s)")
    options = parser.parse_args()

    table = Table("figure", "value", title=f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}")
    console = Console()
    with console.status("starting interpreters"):
        table.add_row("import portamem, added to a bare interpreter", f"{import_milliseconds(options.pairs):.1f} ms")
    if options.only is None:
        with tempfile.TemporaryDirectory() as temporary:
            with console.status("pip install . (host)"):
                table.add_row("pip install . (host)", f"{install_seconds(Path(temporary)):.1f} s")
            with console.status("building a wheel"):
                built = wheel(Path(temporary))
            backends = ", ".join(backends_in(built))
            table.add_row(f"wheel with {backends}", f"{built.stat().st_size / 1e6:.2f} MB")
    console.print(table)


if __name__ == "__main__":
    main()
