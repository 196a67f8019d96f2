# SPDX-License-Identifier: MIT
"""The sources of the kernels, one text for the run-time compilers of both vendors."""

from __future__ import annotations

from functools import cache
from importlib import resources

MODULES = ("memory", "heap")


@cache
def source(module: str) -> str:
    """The source of one module, with what it stands on before it."""
    folder = resources.files("portamem.conformance") / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in ("platform.cuh", f"{module}.cu"))
