"""The checks of the CPU runtime's C interface leave no function of its header out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portamem.conformance.kit import host_calls
from portamem.conformance.kit.host_refusals import refusals

HEADER = Path(__file__).parent.parent / "csrc/include/portamem/host/runtime_api.h"

NOTHING_TO_REFUSE = {"GetLastError", "PeekAtLastError", "DeviceSynchronize", "KnobSetCopyDelay", "KnobReset"}
ASKED_ASIDE = {"RuntimeGetVersion"}


def declared() -> dict[str, str]:
    """The functions of the header by their names without the prefix, with what each answers."""
    found = re.findall(r"^PORTAMEM_EXPORT\s+(.+?)\s*\bpmh(\w+)\(", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: answer for answer, name in found}


def test_every_function_of_the_header_can_be_called() -> None:
    listed = {**host_calls._SIGNATURES, **host_calls._TEXTS, **host_calls._FOR_KERNELS}
    assert sorted(listed) == sorted(declared())


def test_every_function_that_answers_a_code_is_refused_something() -> None:
    if not _here():  # PORTAMEM_BACKENDS may leave the CPU runtime out of a build for a GPU
        pytest.skip("portamem.host cannot be used here")
    with host_calls.Machine() as machine:
        refused = {name for _, name, _ in refusals(machine)}
    codes = {name for name, answer in declared().items() if answer == "pmhError_t"}
    assert codes - refused == NOTHING_TO_REFUSE | ASKED_ASIDE


def _here() -> bool:
    import portamem

    return portamem.backends()["host"].is_ready
