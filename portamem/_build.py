# SPDX-License-Identifier: MIT
"""Finds the parts of this installation, and reads the notes of its build."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent
_BACKENDS = ("host", "cuda", "hip")


def module_path(backend: str) -> Path | None:
    """The file of a backend's native module, or None where it was not built."""
    spec = find_spec(f"portamem._{backend}")
    return Path(spec.origin) if spec and spec.origin else None


def source_folder() -> Path | None:
    """The checkout that the imported sources are a part of, if they have no compiled module; None otherwise."""
    root = _PACKAGE.parent
    is_checkout = (root / "pyproject.toml").is_file() and (root / "csrc").is_dir()
    return root if is_checkout and not any(map(module_path, _BACKENDS)) else None


def _folders() -> list[Path]:
    """The folders of installed files: beside the Python files, or, in an editable installation, beside the modules."""
    modules = [module_path(backend) for backend in _BACKENDS]
    return list(dict.fromkeys([_PACKAGE, *(module.parent for module in modules if module)]))


def include_dir() -> Path:
    """The folder to put on a C++ compiler's include path. A checkout that was never installed has its own."""
    places = [folder / "include" for folder in _folders()] + [_PACKAGE.parent / "csrc" / "include"]
    return _first(places, "portamem/version.h")


def cmake_dir() -> Path:
    """The folder of portamem-config.cmake. Only an installation has one; a build folder of CMake is one itself."""
    return _first([folder / "cmake" for folder in _folders()], "portamem-config.cmake")


@cache
def info() -> dict[str, Any]:
    """Reads the build's own notes: ``version``, ``compiler``, ``backends`` and, with reasons, ``not_built``."""
    for folder in _folders():
        path = folder / "_build_info.json"
        if path.is_file():
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return loaded
    return {"backends": {}, "not_built": {}}


@cache
def version() -> str:
    """The version, from the header that is the one place where it is written."""
    text = (include_dir() / "portamem" / "version.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define PORTAMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def _first(folders: list[Path], file: str) -> Path:
    for folder in folders:
        if (folder / file).is_file():
            return folder
    raise FileNotFoundError(f"{file} is in none of: {', '.join(map(str, folders))}. Install portamem: pip install .")
