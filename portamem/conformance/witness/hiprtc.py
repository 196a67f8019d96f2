# SPDX-License-Identifier: MIT
"""hiprtc, the run-time compiler of HIP C++. No device is needed where the architecture is named.

Older ones abort the process for an architecture that they do not know: whoever asks for another one than the device's
does so in a process of its own.
"""

from __future__ import annotations

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


@cache
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
