"""A C++ program finds the installed portamem with find_package, and with nothing but a compiler."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import installed
import pytest
from helpers.process import cli
from programs import HERE, build_project, configure, output, run, write_project

import portamem

MAIN = HERE / "consumer" / "main.cpp"


def package() -> str:
    return f"-Dportamem_DIR={portamem.get_cmake_dir()}"


def test_find_package(tmp_path):
    build_project(HERE / "consumer", tmp_path, package())
    assert output(tmp_path / "consumer_host") == "verified\n"
    for backend in ("cuda", "hip"):
        program = tmp_path / f"consumer_{backend}"
        if program.exists():
            assert run(program).returncode in (0, 2)  # 2: no device here


def test_a_missing_vendor_is_named_with_a_way_to_get_it(tmp_path):
    project = write_project(
        tmp_path / "project",
        f"set(CUDAToolkit_ROOT {tmp_path / 'nowhere'})\nfind_package(portamem REQUIRED COMPONENTS cuda)\n",
    )
    done = configure(project, tmp_path / "build", package())
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "no cuda_runtime_api.h found" in message
    assert "Install a CUDA toolkit" in message


def test_an_optional_vendor_may_be_missing_and_says_why(tmp_path):
    nowhere = tmp_path / "nowhere"
    project = write_project(
        tmp_path / "project",
        f"""
        set(CUDAToolkit_ROOT {nowhere})
        set(PORTAMEM_HIP_INCLUDE {nowhere})
        find_package(portamem REQUIRED COMPONENTS host OPTIONAL_COMPONENTS cuda hip)
        foreach(backend host cuda hip)
          if(TARGET portamem::${{backend}})
            message(STATUS "[${{backend}} is here]")
          endif()
          message(STATUS "[${{backend}}: ${{portamem_${{backend}}_NOT_FOUND_MESSAGE}}]")
        endforeach()
        """,
    )
    done = configure(project, tmp_path / "build", package())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is here") == 1
    assert "[host: ]" in done.stdout
    assert "[cuda: no cuda_runtime_api.h found." in done.stdout
    assert "[hip: no hip/hip_runtime_api.h found." in done.stdout


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("COMPONENTS host vulkan", "portamem has the components host, cuda and hip."),
        ("99.0 COMPONENTS host", "version"),
    ],
)
def test_what_is_not_there_is_refused(asked, answer, tmp_path):
    project = write_project(tmp_path / "project", f"find_package(portamem {asked} REQUIRED)\n")
    done = configure(project, tmp_path / "build", package())
    assert done.returncode != 0
    assert answer in " ".join(done.stderr.split())


def test_a_compiler_is_enough(tmp_path):
    program = tmp_path / "program"
    output(
        *(installed.compiler(), "-std=c++17", "-DPORTAMEM_HOST=1", f"-I{portamem.get_include()}"),
        *(MAIN, installed.library(), f"-Wl,-rpath,{installed.library().parent}", "-o", program),
    )
    assert output(program) == "verified\n"


def test_the_command_line_prints_where_it_is():
    assert cli("--cmake-dir").stdout == portamem.get_cmake_dir() + "\n"
    assert cli("--include-dir").stdout == portamem.get_include() + "\n"
    assert (Path(portamem.get_cmake_dir()) / "portamem-config.cmake").is_file()
    assert (Path(portamem.get_include()) / "portamem" / "portamem.hpp").is_file()


def test_a_checkout_without_an_installation_has_headers_and_says_what_else_to_do(tmp_path):
    """The package's Python files alone, as they lie in a checkout: the headers are beside them."""
    sources = tmp_path / "portamem"
    sources.mkdir()
    for package in ("conformance", "replay"):
        shutil.copytree(installed.FOLDER / package, sources / package)
    for file in installed.FOLDER.glob("*.py"):
        (sources / file.name).write_bytes(file.read_bytes())
    headers = tmp_path / "csrc" / "include"
    headers.parent.mkdir()
    headers.symlink_to(portamem.get_include())

    def answer(option: str) -> tuple[int, str, str]:
        done = run(sys.executable, "-S", "-m", "portamem", option, PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1")
        return done.returncode, done.stdout, done.stderr

    assert answer("--include-dir") == (0, f"{headers}\n", "")
    status, out, err = answer("--cmake-dir")
    assert (status, out) == (1, "")
    assert "Install portamem" in err
    assert "Traceback" not in err
