"""Loads the backend that the tests run on, and skips or fails a test that needs something the machine lacks."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import warnings
from functools import cache
from types import ModuleType
from typing import NoReturn

import pytest

import portamem
from portamem import _build, _libraries

NAMES = ("cuda", "hip", "host")


@cache
def under_test() -> ModuleType:
    """The module named by PORTAMEM_TEST_BACKEND, or else the one that portamem itself would pick.

    pytest ends at once, and not with success, where that cannot be had or is not what PORTAMEM_REQUIRE asks for.
    """
    try:
        with warnings.catch_warnings():
            # The warning that the CPU takes the place of a hidden GPU is worth telling here, and no error of any test.
            warnings.simplefilter("always")
            name = os.environ.get("PORTAMEM_TEST_BACKEND") or portamem.Device().backend
        module = importlib.import_module(f"portamem.{name}")
    except (portamem.BackendUnavailableError, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
    required = os.environ.get("PORTAMEM_REQUIRE") or name
    if name != required and not (required == "gpu" and name != "host"):
        raise pytest.UsageError(f"PORTAMEM_REQUIRE={required} does not allow PORTAMEM_TEST_BACKEND={name}")
    return module


def is_built(name: str) -> bool:
    """True where the native module of a backend is part of this installation."""
    return importlib.util.find_spec(f"portamem._{name}") is not None


def driver() -> str:
    """The vendor whose driver serves the backend under test: "cuda", "hip" or "host". HIP can be built for NVIDIA's."""
    name: str = under_test().backend
    platform = _build.info()["backends"].get(name, {}).get("platform")
    return "cuda" if platform == "nvidia" else name


def is_simulated() -> bool:
    """True where a stand-in (tests/standin) serves the backend under test, and no GPU."""
    if under_test().backend != "hip":
        return False
    return any(hasattr(ctypes.CDLL(path), "portamem_standin") for path in _libraries.amd_runtimes())


def others() -> list[str]:
    """The names of the backends that are not under test."""
    return [name for name in NAMES if name != under_test().backend]


def without_gpu(reason: str) -> NoReturn:
    """Skips a test for want of a GPU, or fails it where PORTAMEM_REQUIRE says that there must be one."""
    required = os.environ.get("PORTAMEM_REQUIRE")
    if required:
        pytest.fail(f"PORTAMEM_REQUIRE={required}, but {reason}")
    pytest.skip(reason)
