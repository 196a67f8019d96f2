"""The vendors' own Python packages, and what becomes of a test where one of them is missing.

A package that is installed and broken fails its test: only absence is a reason to skip, and PORTAMEM_REQUIRE turns
that into a failure where the package belongs to the driver under test.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
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
    """Whether there is a module of this name. Imports its parents only, whose own faults are not absence."""
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


@cache
def _primary_context(ordinal: int) -> Any:
    """Retained for the life of the process: kernels and memory of others are in it."""
    driver = cuda_driver()
    check(driver.cuInit(0))
    return check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(ordinal))))


@contextmanager
def cuda_context(ordinal: int) -> Iterator[None]:
    """Makes a device's primary context the calling thread's current one, for calls of cuda-python.

    By the driver's calls: cudaSetDevice would leave its mark on the thread.
    """
    driver = cuda_driver()
    check(driver.cuCtxPushCurrent(_primary_context(ordinal)))
    try:
        yield
    finally:
        check(driver.cuCtxPopCurrent())


def cuda_core() -> ModuleType:
    """cuda.core, whose names were in ``experimental`` before release 0.5."""
    cuda_runtime()
    core = package("cuda.core", "cuda")
    return core if hasattr(core, "Device") else package("cuda.core.experimental", "cuda")


def _nvrtc_libraries() -> list[Path]:
    """Where cuda-pathfinder does not look: packages that come by a .pth file, and a toolkit that no variable names."""
    spec = importlib.util.find_spec("nvidia")
    packages = [Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
    compiler = shutil.which("nvcc")
    toolkits = [*([Path(compiler).resolve().parents[1]] if compiler else []), Path("/usr/local/cuda")]
    places = [(folder, "*/lib") for folder in packages] + [(folder, "lib64") for folder in toolkits]
    return [path for folder, inside in places for path in sorted(folder.glob(f"{inside}/libnvrtc.so.*"))]


@cache
def _nvrtc_loads() -> bool:
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    missing = importlib.import_module("cuda.pathfinder").DynamicLibNotFoundError
    for library in (None, *_nvrtc_libraries()):
        if library:
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # what is loaded already is taken
        try:
            nvrtc.nvrtcVersion()
        except missing:
            continue
        return True
    return False


def nvrtc() -> ModuleType:
    """The run-time compiler of CUDA C++. It needs no driver where the architecture is named."""
    module = package("cuda.bindings.nvrtc", "cuda")
    if not _nvrtc_loads():
        absent("libnvrtc", "cuda")
    return module


def hip_python() -> Any:
    """hip-python's calls: a submodule of ``hip`` up to release 7, a name in it from release 10 on."""
    package("hip", "hip")
    return __import__("hip", fromlist=["hip"]).hip


def check(answer: tuple[Any, ...]) -> Any:
    """What a vendor's call gives beside its error code, which must be success."""
    error, *rest = answer
    assert int(error) == 0, f"the vendor's call answers {error!r}"
    return rest[0] if len(rest) == 1 else tuple(rest)
