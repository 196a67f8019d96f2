"""The recipes of ci/packaging say what pyproject.toml, CMake and the command line say: none goes stale in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import recipes
from helpers.process import run_python

ROOT = Path(__file__).parent.parent.parent


def faults(files: recipes.Files) -> list[str]:
    return [
        *recipes.faults_of_spack(files),
        *recipes.faults_of_conda(files),
        *recipes.faults_of_container(files, ROOT),
        *recipes.faults_of_extras(files),
    ]


def test_the_recipes_are_right() -> None:
    assert faults(recipes.read(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (recipes.PROJECT, '"pybind11>=3.1"', '"pybind11>=3.2"'),
        (recipes.PROJECT, '"rich>=13"', '"rich>=14"'),
        (recipes.PROJECT, '"rich>=13"', '"rich>=13", "attrs>=23"'),
        (recipes.PROJECT, 'requires-python = ">=3.10"', 'requires-python = ">=3.11"'),
        (recipes.PROJECT, 'Python :: 3.13"', 'Python :: 3.14"'),
        (recipes.PROJECT, 'license-files = ["LICENSE"]', 'license-files = ["LICENSE", "NOTICE"]'),
        (recipes.PROJECT, 'PORTAMEM_CUDA_WHEELS = "^13$"', 'PORTAMEM_CUDA_WHEELS = "^14$"'),
        (recipes.PROJECT, "PORTAMEM_CUDA_WHEELS = { env", "PORTAMEM_CUDA_VIA = { env"),
        (recipes.PROJECT, '"nvidia-cuda-nvrtc-cu12==12.*,', '"nvidia-cuda-nvrtc>=12'),
        (recipes.PROJECT, 'cuda13 = ["cuda-python==13.*"', 'cuda13 = ["cuda-python>=12.8"'),
        (recipes.CMAKE, "VERSION 3.22...", "VERSION 3.25..."),
        (recipes.CMAKE, "set(PORTAMEM_BACKENDS ", "set(PORTAMEM_WANTED "),
        (recipes.CMAKE, "set(PORTAMEM_LIBRARY ", "set(PORTAMEM_KIND "),
        (recipes.CUDART, "CUDAToolkit_ROOT", "CUDA_FOLDER"),
        (recipes.CUDART, "_cudart_VERSION VERSION_LESS 12", "_cudart_VERSION VERSION_LESS 13"),
        (recipes.HIP, "PORTAMEM_HIP_INCLUDE", "PORTAMEM_HIPS_INCLUDE"),
        (recipes.VERSION, "MINOR 2", "MINOR 3"),
        (recipes.SPACK, '"py-numpy@1.23:"', '"py-numpy@1.22:"'),
        (recipes.SPACK, '"cuda@12:"', '"cuda@11:"'),
        (recipes.SPACK, 'backends.append("hip")', 'backends.append("rocm")'),
        (recipes.SPACK, "[os.pardir] * 7", "[os.pardir] * 6"),
        (recipes.SPACK, '"+shared"', '"~shared"'),
        (recipes.CONDA, "numpy >=1.23", "numpy >=1.22"),
        (recipes.CONDA, "cmake.define.CUDAToolkit_ROOT", "cmake.define.PORTAMEM_CUDA_ROOT"),
        (recipes.CONDA, '"host;cuda" if', '"cuda" if'),
        (recipes.VARIANTS, "  - 3.10.*\n", ""),
        (recipes.CONTAINER, "COPY csrc ", "COPY sources "),
        (recipes.CONTAINER, "COPY portamem /source/portamem\n", ""),
        (recipes.CONTAINER, "PORTAMEM_CUDA_WHEELS=", "PORTAMEM_WHEELS="),
    ],
)
def test_what_differs_is_found(path: str, old: str, new: str) -> None:
    files = recipes.read(ROOT)
    assert old in files[path]
    assert faults({**files, path: files[path].replace(old, new)})


def test_the_commands_are_those_of_portamem() -> None:
    calls = recipes.commands(recipes.read(ROOT))
    assert {call[0] for call in calls} == {"info", "demo", "--cmake-dir"}
    for call in calls:
        # With --help after them, what comes before is read, and nothing of it is done.
        done = run_python(f"from portamem.cli import main; main({[*call, '--help'] if call[0][0] != '-' else [*call]})")
        assert done.returncode == 0, done.stderr
