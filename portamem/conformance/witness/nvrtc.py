# SPDX-License-Identifier: MIT
"""NVRTC, the run-time compiler of CUDA C++: where it is, and machine code of it. No driver is needed for that."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from portamem.conformance.witness.facts import WitnessError, WitnessMissing

INSTALL = 'pip install "portamem[cuda]" (for CUDA 12 "portamem[cuda12]")'


class CompileError(RuntimeError):
    """A kernel's source does not compile. The text is the compiler's log."""


def _libraries() -> list[Path]:
    """Libraries that cuda-pathfinder does not find: in packages that come by a .pth file, and in a toolkit that no
    variable names."""
    spec = importlib.util.find_spec("nvidia")
    packages = [Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
    compiler = shutil.which("nvcc")
    toolkits = [*([Path(compiler).resolve().parents[1]] if compiler else []), Path("/usr/local/cuda")]
    places = [(folder, "*/lib") for folder in packages] + [(folder, "lib64") for folder in toolkits]
    return [path for folder, inside in places for path in sorted(folder.glob(f"{inside}/libnvrtc.so.*"))]


@cache
def load() -> ModuleType:
    """``cuda.bindings.nvrtc`` with its library loaded. WitnessMissing where there is none."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        missing: type[Exception] = importlib.import_module("cuda.pathfinder").DynamicLibNotFoundError
    except ModuleNotFoundError as error:
        raise WitnessMissing(f"{error.name} is not here: {INSTALL} brings it") from None
    for library in (None, *_libraries()):
        if library:
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # the loader takes a library that is loaded already
        try:
            nvrtc.nvrtcVersion()
        except missing:
            continue
        return nvrtc
    raise WitnessMissing(f"libnvrtc is not here: {INSTALL} brings it")


def _check(call: str, answer: tuple[Any, ...]) -> Any:
    error, *rest = answer
    if int(error) != 0:
        raise WitnessError(call, int(error), error.name)
    return rest[0] if len(rest) == 1 else tuple(rest)


def architectures() -> list[int]:
    """Architectures that this NVRTC compiles for, as 10 * major + minor."""
    return list(_check("nvrtcGetSupportedArchs", load().nvrtcGetSupportedArchs()))


@cache
def machine_code(source: str, arch: int) -> bytes:
    """A cubin for ``sm_<arch>``. CompileError with the compiler's log."""
    nvrtc = load()
    program = _check("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, None, None))
    try:
        options = [f"--gpu-architecture=sm_{arch}".encode()]
        (compiled,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(compiled) != 0:
            log = bytearray(_check("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program)))
            _check("nvrtcGetProgramLog", nvrtc.nvrtcGetProgramLog(program, log))
            raise CompileError(f"{compiled.name}: {log.decode(errors='replace')}")
        code = bytearray(_check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program)))
        _check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code))
        return bytes(code)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
