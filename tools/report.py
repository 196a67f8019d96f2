# SPDX-License-Identifier: MIT
"""Write what a stage of ci/ found as a report, for tools/evidence.py and for programs.

    python tools/report.py STAGE --out FOLDER --seconds 12
        [--tests BACKEND WHAT JUNIT.xml]... [--ran BACKEND WHAT EXIT]... [--not-run BACKEND WHAT WHY]...
        [--part PART.json]... [--kind KIND] [--on TEXT]

A report is FOLDER/STAGE.json::

    {"format": 1, "stage": ..., "seconds": ..., "machine": {...}, "rows": [...], "bench": [...], "soak": [...]}

A row is whole by itself: ``kind`` (how it is known: see KINDS), ``what``, ``backend``, ``on``, ``when`` (a day),
``commit``, ``result`` ("passed", "failed" or "not run: WHY"), and for tests ``counts`` and ``skips``. A part is a file
of rows, bench or soak that the program which ran wrote itself; its rows may leave out ``on``, ``when``, ``commit``.

No name of a host, of a user or of a folder outside the checkout goes into a report, nor stays in the JUnit files.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

KINDS = ("gpu", "spelling", "library", "simulated", "compiled", "here")
"""The ways in which a thing can be known. ``here``: the CPU backend, or no device at all, in the test suite."""

Row = dict[str, Any]


def output_of(*command: str) -> str:
    """The standard output of a command, or nothing where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """$COMMIT, for a copy of a checkout; else the checkout's own, with a "+" behind it where files were changed."""
    if named := os.environ.get("COMMIT", ""):
        return named[:12]
    head = output_of("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = output_of("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """The machine that the rows ran on, without its name."""
    asked = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    cards = [line.split(", ") for line in asked.splitlines()]
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": len(os.sched_getaffinity(0)),
        "gpus": [card[0] for card in cards] or amd_cards(),
        "vendor": "nvidia" if cards else "amd",
        "headers": headers(),
    }
    if not found["gpus"]:
        del found["vendor"]
    elif cards:
        found["driver"] = cards[0][-1]
    return found


def amd_cards() -> list[str]:
    """The names of the GPUs that the HIP backend sees."""
    try:
        hip = importlib.import_module("portamem.hip")
        return [f"{device.name} {device.arch}".strip() for device in hip.devices()]
    except Exception:  # not built, not loadable, no driver: then there is none
        return []


def headers() -> dict[str, str]:
    """The version of the vendor's headers that each installed backend was compiled with."""
    found = {}
    for name in ("cuda", "hip"):
        try:
            module = importlib.import_module(f"portamem.{name}")
            found[name] = module.version_text(module.compiled_version())
        except Exception:  # not built, or not loadable: then nothing of it ran
            continue
    return found


def compiled(backend: str, about: dict[str, Any]) -> str:
    """The compiler and the headers of an installed backend, in words."""
    try:
        package = Path(importlib.import_module("portamem").__path__[0])
        compiler = json.loads((package / "_build_info.json").read_text(encoding="utf-8"))["compiler"]
    except (ImportError, OSError, KeyError, ValueError):
        compiler = "a C++ compiler"
    version = about["headers"].get(backend, "")
    return str(compiler) + (f", {backend.upper()} {version}".rstrip() if backend != "host" else "")


def described(backend: str, about: dict[str, Any]) -> str:
    """Says in words what a backend's tests ran on: this is `on` of a row."""
    if backend not in ("cuda", "hip") or not about["gpus"]:
        return "CPU" if backend == "host" else "no device"
    cards = " and ".join(f"{n} {name}" if n > 1 else name for name, n in Counter(about["gpus"]).items())
    compiled = f", {backend.upper()} {about['headers'][backend]}" if backend in about["headers"] else ""
    over = " on the NVIDIA platform" if backend == "hip" and about["vendor"] == "nvidia" else ""
    driver = f", driver {about['driver']}" if "driver" in about else ""
    return f"{cards}{driver}{compiled}{over}"


def kind_of(backend: str, about: dict[str, Any]) -> str:
    """The kind of a run of a backend's tests on this machine."""
    if backend == "host" or not about["gpus"]:
        return "here"
    return "spelling" if backend == "hip" and about["vendor"] == "nvidia" else "gpu"


def without_names(text: str) -> str:
    """Text without this machine's folders."""
    for folder, short in ((str(ROOT), "."), (os.environ.get("CI_DIR", ""), "build/ci"), (str(Path.home()), "~")):
        if len(folder) > 2:
            text = text.replace(folder, short)
    return text


def read_junit(path: Path) -> tuple[Counter[str], Counter[str], list[str]]:
    """Counts, reasons of skips, and what failed. The file is rewritten without names of the machine."""
    tree = ET.parse(path)
    counts: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    reasons: Counter[str] = Counter()
    failed = []
    for suite in tree.iter("testsuite"):
        suite.attrib.pop("hostname", None)
    for case in tree.iter("testcase"):
        skipped = case.find("skipped")
        fault = next((found for tag in ("failure", "error") if (found := case.find(tag)) is not None), None)
        if fault is not None:
            counts["failed"] += 1
            said = " ".join(f"{fault.get('message', '')} {fault.text or ''}".split())[:400]
            failed.append(without_names(f"{case.get('classname', '')}::{case.get('name', '')}: {said}"))
        elif skipped is not None and skipped.get("type") != "pytest.xfail":
            counts["skipped"] += 1
            reasons[re.sub(r"^Skipped: ", "", skipped.get("message", ""))] += 1
        else:
            counts["passed"] += 1
    for element in tree.iter():
        element.attrib.update({key: without_names(value) for key, value in element.attrib.items()})
        element.text = without_names(element.text) if element.text else element.text
    tree.write(path, encoding="utf-8", xml_declaration=True)
    return counts, reasons, failed


def tests_row(what: str, path: Path) -> Row:
    """A run of tests. One that wrote no whole file, or ran nothing, failed."""
    try:
        counts, reasons, failed = read_junit(path)
    except (OSError, ET.ParseError) as broken:
        return {"what": what, "result": "failed", "failures": [f"it did not come to its end: {type(broken).__name__}"]}
    row: Row = {"what": what, "result": "passed" if counts["passed"] and not counts["failed"] else "failed"}
    row["counts"] = dict(counts)
    if reasons:
        row["skips"] = [{"reason": without_names(reason), "count": n} for reason, n in sorted(reasons.items())]
    if failed:
        row["failures"] = failed
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--tests", nargs=3, action="append", default=[], metavar=("BACKEND", "WHAT", "JUNIT"))
    parser.add_argument("--ran", nargs=3, action="append", default=[], metavar=("BACKEND", "WHAT", "EXIT"))
    parser.add_argument("--not-run", nargs=3, action="append", default=[], metavar=("BACKEND", "WHAT", "WHY"))
    parser.add_argument("--part", type=Path, action="append", default=[])
    parser.add_argument("--kind", choices=KINDS, default=None, help="instead of what the machine says")
    parser.add_argument("--on", default=None, help="instead of what the machine says")
    options = parser.parse_args()

    about = machine()
    at = commit()
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")

    def whole(backend: str, row: Row) -> Row:
        kind = options.kind or kind_of(backend, about)
        on = options.on or (compiled if kind == "compiled" else described)(backend, about)
        return {"kind": kind, "what": row["what"], "backend": backend, "on": on, "when": today, "commit": at} | row

    report: dict[str, Any] = {"format": 1, "stage": options.stage, "seconds": options.seconds, "machine": about}
    rows = [whole(backend, tests_row(what, Path(path))) for backend, what, path in options.tests]
    for backend, what, code in options.ran:
        row: Row = {"what": what, "result": "passed" if code == "0" else "failed"}
        rows.append(whole(backend, row if code == "0" else row | {"exit": int(code)}))
    rows += [whole(backend, {"what": what, "result": f"not run: {why}"}) for backend, what, why in options.not_run]
    for path in options.part:
        part = json.loads(path.read_text(encoding="utf-8"))
        rows += [whole(row.pop("backend"), row) for row in part.pop("rows", [])]
        for key, values in part.items():
            report.setdefault(key, []).extend(values)
    report["rows"] = rows

    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.stage}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        counts = "".join(f", {n} {name}" for name, n in row.get("counts", {}).items())
        print(f"{row['result']}: {row['what']} on {row['backend']}{counts}")
        for skip in row.get("skips", []):
            print(f"  skipped {skip['count']}: {skip['reason']}")
        for name in row.get("failures", []):
            print(f"  failed: {name}")
    print(f"{options.stage}: {options.seconds} s, report in {without_names(str(options.out))}/{options.stage}.json")
    return 1 if any(row["result"] == "failed" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
