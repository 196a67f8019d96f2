"""The kernels compile for every generation of both vendors' GPUs, with no GPU and no driver here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from helpers import partners, process

from portamem.conformance.witness import WitnessMissing, hiprtc, nvrtc
from portamem.conformance.witness.kernels import KERNELS
from portamem.conformance.witness.nvrtc import CompileError
from portamem.conformance.witness.sources import source


@pytest.fixture(scope="module")
def architectures() -> list[int]:
    """Architectures that the NVRTC here compiles for."""
    try:
        return nvrtc.architectures()
    except WitnessMissing as missing:
        partners.absent(missing.reason.partition(" is not here")[0], "cuda")


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("arch", [75, 90, 100])
def test_every_kernel_is_in_nvidias_machine_code(architectures: list[int], module: str, arch: int) -> None:
    if arch not in architectures:
        pytest.skip(f"this NVRTC compiles for {architectures}")
    code = nvrtc.machine_code(source(module), arch)
    assert code.startswith(b"\x7fELF")
    assert [name for name in KERNELS[module] if f".text.{name}\0".encode() not in code] == []


def test_a_mistake_comes_with_nvrtcs_log(architectures: list[int]) -> None:
    with pytest.raises(CompileError, match="undefined_name"):
        nvrtc.machine_code('extern "C" __global__ void broken() { undefined_name(); }', 90)


@pytest.fixture(scope="module")
def hip_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """An environment in which hip-python finds hiprtc: in libamdhip64 itself, where it is not a library of its own."""
    try:
        hiprtc.load()
    except WitnessMissing:
        partners.absent("hip", "hip")
    folder = tmp_path_factory.mktemp("hip")
    listed = process.run("/sbin/ldconfig", "-p").stdout
    if "libhiprtc.so" in listed or Path("/opt/rocm/lib/libhiprtc.so").exists():
        return {}
    found = re.findall(r"=> (\S*libamdhip64\.so\.\d+)$", listed, re.MULTILINE)
    if not found:
        partners.absent("the library libhiprtc", "hip")
    for name in ("libhiprtc.so", "libamdhip64.so"):
        (folder / name).symlink_to(found[0])
    beside = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{folder}:{beside}" if beside else str(folder)}


def hip_code(module: str, arch: str, libraries: dict[str, str | None]) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in libraries.items():
            patch.setenv(name, value or "")
        return hiprtc.compiled(module, arch)


@pytest.mark.parametrize("module", KERNELS)
@pytest.mark.parametrize("arch", ["gfx906", "gfx90a", "gfx1030"])
def test_every_kernel_is_in_amds_machine_code(hip_libraries: dict[str, str | None], module: str, arch: str) -> None:
    """As the witness compiles them: a process for each, as an older compiler aborts for what it does not know."""
    code = hip_code(module, arch, hip_libraries)
    assert code.startswith((b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__"))
    assert [name for name in KERNELS[module] if name.encode() not in code] == []


def test_an_architecture_that_there_is_not(hip_libraries: dict[str, str | None]) -> None:
    """The compiler fails or dies, and this process lives to tell."""
    with pytest.raises(CompileError, match="gfx1"):
        hip_code("memory", "gfx1", hip_libraries)


def test_a_mistake_comes_with_hiprtcs_log(hip_libraries: dict[str, str | None]) -> None:
    done = process.run_python(
        """
        from portamem.conformance.witness import hiprtc
        hiprtc.machine_code('extern "C" __global__ void broken() { undefined_name(); }', "gfx906")
        """,
        **hip_libraries,
    )
    assert "CompileError" in done.stderr
    assert "undefined_name" in done.stderr
