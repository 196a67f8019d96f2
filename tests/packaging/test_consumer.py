"""A C++ program finds the installed portamem with find_package, and with nothing but a compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import elf
import installed
import pytest

import portamem

CONSUMER = Path(__file__).with_name("consumer")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def configure(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake here")
    installed.compiler()
    return run(cmake, "-S", CONSUMER, "-B", folder, f"-Dportamem_DIR={portamem.get_cmake_dir()}", *options)


def test_find_package(tmp_path):
    done = configure(tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("cmake", "--build", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(tmp_path / "consumer_host")
    assert (done.returncode, done.stdout) == (0, "verified\n")
    for backend in ("cuda", "hip"):
        program = tmp_path / f"consumer_{backend}"
        if program.exists():
            assert run(program).returncode in (0, 2)  # 2: no device here


def test_the_shared_cuda_runtime(tmp_path):
    """PORTAMEM_CUDART=shared: the program has the runtime that its headers belong to, and finds it."""
    done = configure(tmp_path, "-DPORTAMEM_CUDART=shared")
    assert done.returncode == 0, done.stderr
    targets = run("cmake", "--build", tmp_path, "--target", "help").stdout
    if "consumer_cuda" not in targets:
        pytest.skip("no shared CUDA runtime here")
    done = run("cmake", "--build", tmp_path, "--target", "consumer_cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    program = tmp_path / "consumer_cuda"
    assert [name for name in elf.needed(program) if name.startswith("libcudart.so.")] != []
    assert run(program).returncode in (0, 2)  # 2: no device here


def test_a_missing_vendor_is_named_with_a_way_to_get_it(tmp_path):
    nowhere = tmp_path / "nowhere"
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES CXX)\n"
        f"set(CUDAToolkit_ROOT {nowhere})\nfind_package(portamem REQUIRED COMPONENTS cuda)\n",
        encoding="utf-8",
    )
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    installed.compiler()
    done = run("cmake", "-S", project, "-B", tmp_path / "build", f"-Dportamem_DIR={portamem.get_cmake_dir()}")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "no cuda_runtime_api.h found" in message
    assert "Install a CUDA toolkit" in message


def test_a_compiler_is_enough(tmp_path):
    program = tmp_path / "program"
    done = run(
        *(installed.compiler(), "-std=c++17", "-DPORTAMEM_HOST=1", f"-I{portamem.get_include()}"),
        *(CONSUMER / "main.cpp", installed.library(), f"-Wl,-rpath,{installed.library().parent}", "-o", program),
    )
    assert done.returncode == 0, done.stderr
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "verified\n")
