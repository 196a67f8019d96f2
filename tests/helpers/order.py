"""The suite under the order checker: with PORTAMEM_CHECK=1 every test on the CPU backend has to be free of findings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_WATCHES = "watches the target, on a stream that waits for nothing, while work on it is held up"
UNORDERED = {
    "test_a_copy_waits_for_its_stream": _WATCHES,
    "test_a_fill_waits_for_its_stream": _WATCHES,
    "test_a_stream_waits_for_another": _WATCHES,
    "test_the_legacy_stream_waits_for_blocking_streams": _WATCHES,
    "test_blocking_streams_wait_for_the_legacy_stream": _WATCHES,
    "test_the_per_thread_stream_is_a_blocking_stream": _WATCHES,
}
"""Tests that use memory without order on purpose, and why. The planted faults run in processes of their own."""


@contextmanager
def checked(pm: ModuleType, test: str) -> Iterator[None]:
    """Fails at the end of the block where the checker has found something, but for the tests listed above."""
    if os.environ.get("PORTAMEM_CHECK") != "1" or pm.backend != "host":
        yield
        return
    with pm.check(raises=False) as checking:
        yield
    if test not in UNORDERED:
        assert not checking.findings, "\n".join(map(str, checking.findings))
