"""What PORTAMEM_REQUIRE means for skips: on a GPU that must be there, a test is skipped for a known reason or fails."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import NamedTuple

import pytest


class Allowed(NamedTuple):
    """A reason for which a test may be skipped on a GPU, as a pattern of the whole reason, and why it may."""

    pattern: str
    why: str


ALLOWED = (
    Allowed(r"\w+ has one device here", "one device only"),
    Allowed(r"the(se two)? devices cannot reach each other('s pools)?", "the machine's wiring"),
    Allowed(r".* has no memory of kind [\w-]+", "the device says that it lacks the capability"),
    Allowed(r"managed memory does not migrate here", "the device says that it lacks the capability"),
    Allowed(
        r"advice has no effect where managed memory does not migrate", "the device says that it lacks the capability"
    ),
    Allowed(
        r"the host may not touch managed memory while the device is busy",
        "the device says that it lacks the capability",
    ),
    Allowed(r"this memory is the host's as well", "on such a machine there is nothing to refuse"),
    Allowed(r"HIP frees both kinds by either call", "HIP's own rule"),
    Allowed(r"hip-python is not installed", "no package of it for this machine"),
    Allowed(r"nothing is denied to root", "containers run as root"),
    # How a backend that is absent answers cannot be seen of one that is there.
    Allowed(r"(cuda|hip) is (ready|built)", "the test is of an absent backend"),
    Allowed(r"(cuda|hip): (ready|has devices)", "the test is of an absent backend"),
    Allowed(r"(cuda|hip) is not loadable, or has devices", "the test is of an absent backend"),
)
"""Not here, and so an error: no device, no driver, a package that could be there. Add a line with its reason."""

_OTHERS = (r"(?P<name>cuda|hip|host): .*", r"the (?P<name>cuda|hip|host) backend is not built")
"""Of a backend that is not under test: this installation need not have it."""


def is_allowed(reason: str, backend: str) -> bool:
    """Whether a test may be skipped for this reason while ``backend`` is required and under test."""
    if any(re.fullmatch(allowed.pattern, reason, re.DOTALL) for allowed in ALLOWED):
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
