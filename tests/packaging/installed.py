"""The installation under test: its folder, its native modules, and a compiler for programs that use it."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import portamem

FOLDER = Path(str(portamem.__file__)).parent


def module(name: str) -> Path:
    """The file of a native module, or a skip where it was not built."""
    spec = find_spec(f"portamem._{name}")
    if spec is None or spec.origin is None:
        pytest.skip(f"the {name} backend is not built")
    return Path(spec.origin)


def library() -> Path:
    """libportamem lies beside the modules, in an editable installation too."""
    return module("host").parent / f"libportamem.so.{so_version()}"


def so_version() -> str:
    """The version in the library's name until 1.0: major and minor."""
    return portamem.__version__.rpartition(".")[0]


def build_info() -> dict[str, Any]:
    info: dict[str, Any] = json.loads((library().parent / "_build_info.json").read_text(encoding="utf-8"))
    return info


def files() -> list[str]:
    """Files that the wheel brought, relative to site-packages."""
    if module("host").parent != FOLDER:
        pytest.skip("an editable installation has no list of files of its own")
    listed = distribution("portamem").files or []
    return sorted(str(path) for path in listed if "__pycache__" not in path.parts and path.parts[0] == "portamem")


def compiler() -> str:
    for name in ("g++", "c++", "clang++"):
        if found := shutil.which(name):
            return found
    pytest.skip("no C++ compiler here")
