# SPDX-License-Identifier: MIT
"""ci/gpu.sh makes a part of a report of the lines that portamem_soak printed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from helpers.script import load_script

ROOT = Path(__file__).resolve().parents[2]
PRINTED = """            1200  allocate
             700  allocations: pool of device memory
        21055756  bytes verified
soak on cuda: 16 threads, 12 streams: all was right after 240 s
"""


@pytest.fixture
def soak_part() -> ModuleType:
    return load_script(ROOT / "tools" / "soak_part.py")


def test_what_was_done_is_told(soak_part: ModuleType) -> None:
    found = soak_part.part(PRINTED, "cuda", 0)
    assert found["rows"] == [{"what": "soak of pools, C++", "backend": "cuda", "result": "passed"}]
    (soak,) = found["soak"]
    assert (soak["threads"], soak["streams"], soak["seconds"], soak["backend"]) == (16, 12, 240, "cuda")
    assert soak["counts"]["bytes verified"] == 21055756
    assert soak["counts"]["allocations: pool of device memory"] == 700
    assert len(soak["counts"]) == 3


def test_a_sanitizer_is_named(soak_part: ModuleType) -> None:
    found = soak_part.part(PRINTED, "host", 0, "ThreadSanitizer")
    assert found["rows"][0]["what"] == found["soak"][0]["what"] == "soak of pools, C++, under ThreadSanitizer"


def test_a_program_that_failed_or_did_not_end_has_failed(soak_part: ModuleType) -> None:
    assert soak_part.part(PRINTED, "cuda", 1)["rows"][0]["result"] == "failed"
    assert soak_part.part("            1200  allocate\n", "cuda", 0)["rows"][0]["result"] == "failed"
