"""The vendors' own Python packages, and what becomes of a test where one of them is missing.

A package that is installed and broken fails its test: only absence is a reason to skip, and PORTAMEM_REQUIRE turns
that into a failure where the package belongs to the driver under test.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import pytest

from helpers import backend


def absent(what: str, vendor: str) -> NoReturn:
    """Skips, or fails where PORTAMEM_REQUIRE asks for a GPU and the backend under test is on that vendor's driver."""
    reason = f'{what} is not here: pip install "portamem[{vendor}]" brings it'
    if backend.driver() == vendor:
        backend.without_gpu(reason)
    pytest.skip(reason)


def is_installed(name: str) -> bool:
    """True where there is a module of this name. Imports its parents only, whose own faults are not absence."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            return False
        raise


def package(name: str, vendor: str) -> ModuleType:
    if not is_installed(name):
        absent(name, vendor)
    return importlib.import_module(name)


def cuda_runtime() -> ModuleType:
    runtime = package("cuda.bindings.runtime", "cuda")
    assert not hasattr(runtime, "hip"), "hip-python-interop has overwritten cuda-python's files: that is no witness"
    return runtime


def cuda_driver() -> ModuleType:
    cuda_runtime()
    return package("cuda.bindings.driver", "cuda")


def cuda_core() -> ModuleType:
    """cuda.core, whose names were in ``experimental`` before release 0.5."""
    cuda_runtime()
    core = package("cuda.core", "cuda")
    return core if hasattr(core, "Device") else package("cuda.core.experimental", "cuda")


def hip_python() -> Any:
    """hip-python's calls: a submodule of ``hip`` up to release 7, a name in it from release 10 on."""
    package("hip", "hip")
    return __import__("hip", fromlist=["hip"]).hip


def check(answer: tuple[Any, ...]) -> Any:
    """Returns a vendor's answer without its error code, which must be success."""
    error, *rest = answer
    assert int(error) == 0, f"the vendor's call answers {error!r}"
    return rest[0] if len(rest) == 1 else tuple(rest)


def of_the_gpu(
    name: str, project: str, pm: ModuleType, device: Any, is_built_for: Callable[[ModuleType, str], bool]
) -> ModuleType:
    """A library that works on the device under test, and is of its vendor; a skip where there is none."""
    if pm.backend == "host":
        pytest.skip(f"{project} works on GPUs here, and the host backend is none")
    if not is_installed(name):
        pytest.skip(f"{project} is not here: pip install {name}")
    library = importlib.import_module(name)
    vendor = "hip" if device.arch.startswith("gfx") else "cuda"
    if not is_built_for(library, vendor):
        pytest.skip(f"the {project} that is here does not drive this device: install one that is built for {vendor}")
    if pm.backend != vendor:
        pytest.skip(f"{project} of {vendor} takes memory of portamem.{vendor}")
    return library
