"""PORTAMEM_REQUIRE and skips: on a GPU that must be there, a test is skipped for a known reason or fails."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import NamedTuple

import pytest


class Allowed(NamedTuple):
    """A reason for which a test may be skipped on a GPU, as a pattern of the whole reason, and why it may."""

    pattern: str
    why: str
    backend: str | None = None
    """Only while this backend is under test."""


_CAPABILITY = "the device says that it lacks the capability"
_ABSENT = "the test is of an absent backend, driver or card"
_AMD = "this machine's packages are NVIDIA's"
_CONTAINER = "what a container forbids, or gives to root alone"
_CUDA_ALONE = "the library is NVIDIA's, and its plug takes memory of portamem.cuda"
_INSTALLED = "the test is of another kind of installation, or of a developer's machine"
_NEIGHBOUR = "a library that takes memory of portamem, and that this machine lacks"
_NOT_THIS = "the case does not arise for this memory or backend"

ALLOWED = (
    Allowed(r"\w+ has one device here", "one device only"),
    Allowed(r"the(se two)? devices cannot reach each other('s pools)?", "the machine's wiring"),
    Allowed(r".* has no memory of kind [\w-]+", _CAPABILITY),
    Allowed(r".* (does not reach memory of malloc|has no pools|registers nothing)", _CAPABILITY),
    Allowed(r"kernels of .* do not reach ordinary host memory", _CAPABILITY),
    Allowed(r"managed memory does not migrate here", _CAPABILITY),
    Allowed(r"advice has no effect where managed memory does not migrate", _CAPABILITY),
    Allowed(r"the host may not touch managed memory while the device is busy", _CAPABILITY),
    Allowed(r"this memory is the host's as well", _NOT_THIS),
    Allowed(r"this memory moves", _NOT_THIS),
    Allowed(r"HostMalloc promises nothing of what is in its memory", _NOT_THIS),
    Allowed(r"the CPU reaches it without a copy", _NOT_THIS),
    Allowed(r"this is the backend's own", _NOT_THIS),
    Allowed(r"DLPack has (a device for it|no device for this memory)", _NOT_THIS),
    Allowed(r"DLPack's CPU has no streams", _NOT_THIS),
    Allowed(r"PyTorch's import knows the CPU and its own device", _NOT_THIS),
    Allowed(r"HIP frees both kinds by either call", "HIP's own rule"),
    Allowed(r"HIP knows uuids since 6\.0", "an older runtime", "hip"),
    Allowed(r"which of the uuids is device 0's is not known", "several cards in no known order", "hip"),
    Allowed(r"\w+_VISIBLE_DEVICES is set here: .*", "the tests of masks set their own"),
    Allowed(r"cuda has one mask", "the test is of the second mask that HIP has"),
    Allowed(r"hip is not here: .*", "no package of it for this machine"),
    Allowed(r"hip-python is not installed", _AMD),
    Allowed(r"HIP's headers are not here", _AMD),
    Allowed(r"(the hip backend for AMD's platform|portamem\.hip) is not built( for AMD here)?", _AMD),
    Allowed(r"the (CuPy|PyTorch) that is here does not drive this device.*", _AMD, "hip"),
    Allowed(r"(CuPy|PyTorch) is not here: .*", _AMD, "hip"),
    Allowed(r"could not import '(tvm_ffi|warp|nvmath|numba_cuda_mlir|pyarrow|zarr|polars)\b.*", _NEIGHBOUR),
    Allowed(r"(Warp|tvm-ffi|Polars|zarr) is not here", _NEIGHBOUR),
    Allowed(r"(PyTorch|CuPy) of cuda takes memory of portamem\.cuda", _AMD, "hip"),
    Allowed(r"cuda-python speaks to NVIDIA's driver, .*", _AMD, "hip"),
    Allowed(r"cuda\.core is for CUDA", _CUDA_ALONE, "hip"),
    Allowed(r"(Numba's|Warp's|cuda\.core|nvmath's) .*, and the backend under test is another", _CUDA_ALONE, "hip"),
    Allowed(r"the hip backend takes handles and protocols, not classes of cuda-python", _AMD, "hip"),
    Allowed(r"this NVRTC (does not compile|compiles) for .*", "an older package than the card"),
    Allowed(r"libclang is not here", "a developer's tool, for a test of the sources"),
    Allowed(r"an editable installation has no list of files of its own", _INSTALLED),
    Allowed(r"only a release build is stripped", _INSTALLED),
    Allowed(r"portamem was not installed by pip into this environment", _INSTALLED),
    Allowed(r"a source distribution leaves docs and evidence out", _INSTALLED),
    Allowed(r"only a checkout has the script that writes the words", _INSTALLED),
    Allowed(r"the sources of portamem(, or clang\+\+,)? are not here", _INSTALLED),
    Allowed(r"Python's headers are not here", _INSTALLED),
    Allowed(r"no (cmake|ninja|g\+\+|clang\+\+|hipcc|nvcc|C\+\+ compiler) here", _INSTALLED),
    Allowed(r"nothing is denied to root", _CONTAINER),
    Allowed(r"no mount namespace here", _CONTAINER),
    Allowed(r"device nodes cannot be (made|opened) here.*", _CONTAINER),
    Allowed(r"only root can .*", _CONTAINER),
    # These tests see how an absent backend answers: one that is there cannot show that.
    Allowed(r"(cuda|hip) is (ready|built)", _ABSENT),
    Allowed(r"(cuda|hip): (ready|has devices)", _ABSENT),
    Allowed(r"(cuda|hip) is not loadable, or has devices", _ABSENT),
    Allowed(r"Warp is here", _ABSENT),
    Allowed(r"there is a driver of NVIDIA's here", _ABSENT),
    Allowed(r"this is about a machine without AMD GPUs, and there are \d+", _ABSENT),
)
"""A reason that is not here is an error: no device, no driver, a package that could be there. Add a line with its
reason."""

_OTHERS = (r"(?P<name>cuda|hip|host): .*", r"the (?P<name>cuda|hip|host) backend is not built")
"""Reasons that name a backend which is not under test: this installation need not have it."""


def is_allowed(reason: str, backend: str) -> bool:
    """True where a test may be skipped for this reason while ``backend`` is required and under test."""
    for allowed in ALLOWED:
        if allowed.backend in (None, backend) and re.fullmatch(allowed.pattern, reason, re.DOTALL):
            return True
    return any((m := re.fullmatch(other, reason, re.DOTALL)) and m["name"] != backend for other in _OTHERS)


class RequiredGpu:
    """A pytest plugin: every skip that is neither allowed nor of a ``host_only`` test becomes a failure."""

    def __init__(self, backend: str, required: str) -> None:
        self.backend = backend
        self.required = required

    def _judge(self, report: pytest.TestReport | pytest.CollectReport, host_only: bool) -> None:
        if report.outcome != "skipped" or hasattr(report, "wasxfail"):
            return
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = text.removeprefix("Skipped: ")
        if not host_only and not is_allowed(reason, self.backend):
            report.outcome = "failed"
            report.longrepr = (
                f"PORTAMEM_REQUIRE={self.required}: skipped on {self.backend} for a reason that is not in the list of "
                f"tests/helpers/required.py: {reason}"
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._judge(report, item.get_closest_marker("host_only") is not None)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        self._judge(report, host_only=False)
        return report
