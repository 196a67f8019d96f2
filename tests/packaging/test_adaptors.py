"""Adaptors for libraries that are headers: Thrust's containers and algorithms, and the resources of CCCL.

Both come with CCCL. The programs run on the CPU backend, and the one of CCCL also compiles for CUDA.
"""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

import pytest
from installed import library
from programs import CHECKOUT, output, run, tool

import portamem

pytestmark = pytest.mark.builds

PROGRAMS = Path(__file__).parent / "adaptors"
ON_THE_HOST = "-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP"
GUIDE = CHECKOUT / "docs" / "guide" / "cpp.md"


def version_of_cccl(include: Path) -> int:
    """CCCL's number, 3005000 for 3.5; 0 where it is not there."""
    header = include / "cccl/cuda/std/__cccl/version.h"
    found = re.search(r"define CCCL_VERSION (\d+)", header.read_text(encoding="utf-8")) if header.is_file() else None
    return int(found[1]) if found else 0


def cccl() -> list[str]:
    """Flags that find CCCL and CUDA's headers, from wheels or a toolkit; a skip, or a failure where it is promised."""
    wheels = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "include")
    for include in (wheels, Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")):
        if version_of_cccl(include) >= 3002000:
            return ["-isystem", str(include / "cccl"), "-isystem", str(include)]
    reason = "no CCCL 3.2 or later here: pip install 'cuda-toolkit[cccl,cudart,crt]==13.*'"
    if "cccl" in os.environ.get("PORTAMEM_TEST_TOOLS", "").split():
        pytest.fail(f"PORTAMEM_TEST_TOOLS promises cccl, but there is {reason}")
    pytest.skip(reason)


def compiled(source: Path, compiler: str, *flags: str) -> None:
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
    output(tool(compiler), *warnings, f"-I{portamem.get_include()}", *cccl(), source, *flags)


def program(source: Path, binary: Path, compiler: str, *flags: str) -> Path:
    home = library().parent
    link = (f"-L{home}", "-lportamem", f"-Wl,-rpath,{home}", "-pthread", "-o", str(binary))
    compiled(source, compiler, "-DPORTAMEM_HOST", *flags, *link)
    return binary


def runs_in_every_model(binary: Path) -> None:
    for knob in ({}, {"PORTAMEM_HOST_OPEN": "1"}, {"PORTAMEM_HOST_GUARD": "1"}, {"PORTAMEM_HOST_MODEL": "apu"}):
        assert output(binary, **knob) == "right\n", knob
    checked = run(binary, PORTAMEM_CHECK="1")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "right\n", "")


def test_thrust_takes_its_memory_from_resources(tmp_path: Path) -> None:
    runs_in_every_model(program(PROGRAMS / "thrust.cpp", tmp_path / "thrust", "g++", "-std=c++17", ON_THE_HOST))


def test_a_resource_is_one_of_cccl_and_stands_over_one(tmp_path: Path) -> None:
    runs_in_every_model(program(PROGRAMS / "cccl.cpp", tmp_path / "cccl", "clang++", "-std=c++20"))


# The concepts of cuda::mr are constants in C++17, and the language's own in C++20, as the program above has them.
@pytest.mark.parametrize(
    ("name", "compiler", "standard"), [("cccl.cpp", "g++", "c++17"), ("thrust_cuda.cpp", "clang++", "c++20")]
)
def test_they_compile_for_cuda(name: str, compiler: str, standard: str) -> None:
    compiled(PROGRAMS / name, compiler, f"-std={standard}", "-fsyntax-only", "-DPORTAMEM_CUDA")


def test_there_is_no_cccl_for_hip(tmp_path: Path) -> None:
    source = tmp_path / "hip.cpp"
    source.write_text("#include <portamem/rt/cccl.hpp>\n", encoding="utf-8")
    refused = run(tool("g++"), "-std=c++17", "-DPORTAMEM_HIP", f"-I{portamem.get_include()}", "-fsyntax-only", source)
    assert "cuda::mr is of CCCL, which has no HIP: compile this for portamem::cuda" in refused.stderr


def test_the_guides_adaptors_run(tmp_path: Path) -> None:
    """The guide's blocks marked ``c++``, which need more than portamem."""
    blocks = re.findall(r"^```c\+\+\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    source = tmp_path / "guide.cpp"
    includes = sorted({line for block in blocks for line in block.splitlines() if line.startswith("#include")})
    bodies = [re.sub(r"^#include.*\n", "", block, flags=re.MULTILINE) for block in blocks]
    scopes = "".join(f"    {{\n{body}    }}\n" for body in bodies)
    source.write_text("\n".join([*includes, AROUND % scopes]), encoding="utf-8")
    output(program(source, tmp_path / "guide", "g++", "-std=c++17", ON_THE_HOST, "-Wno-unused"), PORTAMEM_HOST_OPEN="1")


AROUND = """
#include <portamem/portamem.hpp>
int main() {
    const auto stream = portamem::Stream::create(0);
%s    return 0;
}
"""
