"""Copies of random shapes, strides, offsets and sizes, beside other streams' work: every byte is compared."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.process import python_output
from helpers.strided_copies import Copies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False))
def test_every_byte_arrives_and_no_other_changes(pm: ModuleType, device: Any, draw: random.Random) -> None:
    copies = Copies(pm, device, draw)
    try:
        for _ in range(3):
            copies.turn(draw.randint(1, 20_000))
    finally:
        copies.close()


@pytest.mark.parametrize("threads", ["off", "3"])
def test_large_ones_by_threads(pm: ModuleType, threads: str) -> None:
    """Copies of 4 MiB and more go through pinned blocks, on as many threads as the setting says."""
    code = f"""
        import importlib, random, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from helpers.strided_copies import Copies
        pm = importlib.import_module("portamem." + sys.argv[1])
        draw = random.Random(7)
        copies = Copies(pm, pm.Device(0), draw)
        sizes = [copies.turn(draw.randint(8 << 20, 32 << 20)) for _ in range(20)]
        copies.close()
        print(sum(size >= 4 << 20 for size in sizes) > 5)
    """
    assert python_output(code, pm.backend, PORTAMEM_COPY_THREADS=threads) == "True\n"
