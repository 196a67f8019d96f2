# SPDX-License-Identifier: MIT
"""The vendors' libraries as files: which are in this process, and which are on this machine."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

_HIP_RUNTIME = re.compile(r"/libamdhip64[^/]*\.so[^/]*$")

_count_loads: Callable[[], int] | None = None
_loads_seen = -1
_told: set[tuple[str, ...]] = set()


def loaded(pattern: re.Pattern[str]) -> list[str]:
    """Paths of the libraries in this process that a pattern finds; none where the kernel does not say.

    Two names of one file are one library.
    """
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    rows = [line.split(maxsplit=5) for line in lines]
    files = {(row[3], row[4]): row[5].removesuffix(" (deleted)") for row in rows if len(row) == 6}
    return sorted(path for path in files.values() if pattern.search(path))


def amd_runtimes() -> list[str]:
    """Paths of the HIP runtimes in this process."""
    return loaded(_HIP_RUNTIME)


def watch_amd_runtimes(count_loads: Callable[[], int]) -> None:
    """Has ``warn_of_two`` look again whenever ``count_loads()``, the number of libraries ever loaded, has changed."""
    global _count_loads, _loads_seen
    _count_loads, _loads_seen = count_loads, -1


def warn_of_two(backend: str) -> None:
    """Warns, once for each set of them, when more than one HIP runtime is in this process.

    Memory and streams of one are unknown to the other. Called where a backend is loaded or its state is asked for, and
    for every handle that comes from elsewhere: a number is compared unless something was loaded since.
    """
    global _loads_seen
    if backend != "hip" or _count_loads is None:
        return
    loads = _count_loads()
    if loads == _loads_seen:
        return
    _loads_seen = loads
    paths = tuple(amd_runtimes())
    if len(paths) > 1 and paths not in _told:
        _told.add(paths)
        warnings.warn(two_runtimes(paths), RuntimeWarning, stacklevel=3)


def two_runtimes(paths: Iterable[str]) -> str:
    return (
        f"more than one HIP runtime is in this process: {' and '.join(paths)}. Memory and streams of one are unknown "
        "to the other. Load one only: import first the package that brings its own, or build portamem over that one"
    )


def installed(stem: str) -> list[str]:
    """Paths of a library on this machine, ``stem`` being its name up to its major version, in the order in which the
    loader would look; then those where the vendor puts it. One for each name and folder."""
    found = _in_folders(stem, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    found += [path for path in _known_to_loader() if Path(path).name.startswith(stem)]
    found += _in_folders(stem, _vendor_folders())
    return list(dict.fromkeys(path for path in found if re.search(r"\.so\.\d+$", path) and Path(path).exists()))


def _in_folders(stem: str, folders: Iterable[str]) -> list[str]:
    return [str(path) for folder in folders if folder for path in sorted(Path(folder).glob(f"{stem}*"))]


def _vendor_folders() -> list[str]:
    roots = [os.environ.get("ROCM_PATH", ""), os.environ.get("HIP_PATH", ""), "/opt/rocm", *_versions_of_rocm()]
    return [f"{root}/{folder}" for root in roots if root for folder in ("lib", "lib64")]


def _versions_of_rocm() -> list[str]:
    return [str(path) for path in sorted(Path("/opt").glob("rocm-*"), reverse=True)]


def _known_to_loader() -> list[str]:
    """Lists the loader's cache. portamem asks for it only when a library is missing."""
    import subprocess  # takes milliseconds to import

    for program in ("ldconfig", "/sbin/ldconfig"):
        try:
            listed = subprocess.run([program, "-p"], capture_output=True, text=True, check=False, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        return re.findall(r"=> (\S+)$", listed.stdout, re.MULTILINE)
    return []
