# SPDX-License-Identifier: MIT
"""hiprtc, the run-time compiler of HIP C++. No device is needed where the architecture is named."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

from portamem.conformance.witness.facts import WitnessError, WitnessMissing
from portamem.conformance.witness.nvrtc import CompileError

INSTALL = 'pip install "portamem[hip]"'


def load() -> Any:
    """hip-python's ``hiprtc``: a submodule of ``hip`` up to release 7, a name in it from release 10 on."""
    try:
        return __import__("hip", fromlist=["hiprtc"]).hiprtc
    except (ModuleNotFoundError, AttributeError):
        raise WitnessMissing(f"hip-python with hiprtc is not here: {INSTALL} brings it") from None


def _check(call: str, answer: tuple[Any, ...]) -> Any:
    error, *rest = answer
    if int(error) != 0:
        raise WitnessError(call, int(error), error.name)
    return rest[0] if len(rest) == 1 else tuple(rest)


_IN_A_CHILD = """
import sys
from portamem.conformance.witness import hiprtc, sources
try:
    code = hiprtc.machine_code(sources.source(sys.argv[1]), sys.argv[2])
except RuntimeError as error:
    sys.exit(str(error))
sys.stdout.buffer.write(code)
"""


@cache
def compiled(module: str, arch: str) -> bytes:
    """A code object of one module of kernels, compiled in a process of its own: older compilers abort theirs for an
    architecture that they do not know. CompileError with what the process said."""
    command = [sys.executable, "-c", _IN_A_CHILD, module, arch]
    done = subprocess.run(command, capture_output=True, cwd="/", check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise CompileError(f"hiprtc for {arch}, in a process of its own, ends with {done.returncode}: {said}")
    return done.stdout


def machine_code(source: str, arch: str) -> bytes:
    """A code object for an architecture as the runtime names it. CompileError with the compiler's log."""
    hiprtc = load()
    try:
        program = _check(
            "hiprtcCreateProgram", hiprtc.hiprtcCreateProgram(source.encode(), b"kernels.hip", 0, None, None)
        )
    except RuntimeError as error:
        if isinstance(error, WitnessError):
            raise
        raise WitnessMissing(f"hip-python finds no hiprtc: {error}") from None
    try:
        options = [f"--offload-arch={arch}".encode()]
        (compiled,) = hiprtc.hiprtcCompileProgram(program, len(options), options)
        if int(compiled) != 0:
            log = bytearray(_check("hiprtcGetProgramLogSize", hiprtc.hiprtcGetProgramLogSize(program)))
            _check("hiprtcGetProgramLog", hiprtc.hiprtcGetProgramLog(program, log))
            raise CompileError(f"{compiled.name}: {log.decode(errors='replace')}")
        code = bytearray(_check("hiprtcGetCodeSize", hiprtc.hiprtcGetCodeSize(program)))
        _check("hiprtcGetCode", hiprtc.hiprtcGetCode(program, code))
        return bytes(code)
    finally:
        hiprtc.hiprtcDestroyProgram(program.createRef())
