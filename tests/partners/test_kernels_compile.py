"""The kernels of these tests compile for every generation of NVIDIA GPUs, with no GPU and no driver here."""

from __future__ import annotations

import pytest
from helpers import kernels, partners
from helpers.partners import check


@pytest.mark.parametrize("arch", [75, 90, 100])
def test_every_kernel_is_in_the_machine_code(arch: int) -> None:
    supported = check(partners.nvrtc().nvrtcGetSupportedArchs())
    if arch not in supported:
        pytest.skip(f"this NVRTC compiles for {supported}")
    code = kernels.compile_for(arch)
    assert code.startswith(b"\x7fELF")
    assert [name for name in kernels.PARAMETERS if f".text.{name}\0".encode() not in code] == []


def test_a_mistake_comes_with_the_compilers_log() -> None:
    partners.nvrtc()
    with pytest.raises(AssertionError, match="undefined_name"):
        kernels.compile_for(90, 'extern "C" __global__ void broken() { undefined_name(); }')


def test_the_pattern_moves() -> None:
    """A shifted, swapped or missing page shows: neighbours, pages and seeds differ."""
    data = kernels.pattern(3 * 4096, 1)
    assert len(set(data[:256])) > 100
    assert data[:4096] != data[4096:8192] != data[8192:]
    assert data != kernels.pattern(3 * 4096, 2)
