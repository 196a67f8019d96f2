"""The witness of the device under test, and what becomes of a test that has none."""

from __future__ import annotations

import pytest

from helpers import backend
from portamem.conformance.witness import Witness, WitnessMissing, witness_for


def of(name: str, ordinal: int) -> Witness:
    """The witness of a device of the backend under test; a skip, or a failure where PORTAMEM_REQUIRE asks for a GPU."""
    try:
        return witness_for(name, ordinal)
    except WitnessMissing as missing:
        backend.without_gpu(missing.reason)


def with_kernels(name: str, ordinal: int) -> Witness:
    """The same, with kernels, which are loaded then: a driver could not do that beside one that is held."""
    witness = of(name, ordinal)
    if not witness.has_kernels:
        if witness.why_no_kernels.startswith("this NVRTC does not compile"):
            pytest.skip(witness.why_no_kernels)
        backend.without_gpu(witness.why_no_kernels)
    return witness
