"""The wheel's contents, and its size."""

from __future__ import annotations

import io
import re
import zipfile
from importlib.metadata import distribution, version

import installed
import pytest

EXPECTED = re.compile(
    r"""portamem/(
        [\w/]+\.pyi? | py\.typed | _build_info\.json | libportamem\.so(\.\d+\.\d+)? | _(host|cuda|hip|knobs)\.[\w-]+\.so
      | conformance/kernels/\w+\.cuh? | include/portamem/[\w/]+\.(h|hpp) | cmake/[\w-]+\.cmake
    )""",
    re.VERBOSE,
)
REQUIRED = (
    "__init__.py",
    "cli.py",
    "py.typed",
    "_host.pyi",
    "_build_info.json",
    "libportamem.so",
    f"libportamem.so.{installed.so_version()}",
    *("conformance/kernels/platform.cuh", "conformance/kernels/memory.cu", "conformance/kernels/heap.cu"),
    "include/portamem/portamem.hpp",
    "include/portamem/c_api.h",
    "include/portamem/rt/rt.hpp",
    "cmake/portamem-config.cmake",
    "cmake/portamem-config-version.cmake",
    "cmake/FindCudart.cmake",
    "cmake/FindHipRuntime.cmake",
)


def test_the_wheel_holds_nothing_else():
    assert [path for path in installed.files() if not EXPECTED.fullmatch(path)] == []


@pytest.mark.parametrize("name", REQUIRED)
def test_the_wheel_holds(name):
    assert f"portamem/{name}" in installed.files()


def packed(paths: list[str]) -> int:
    """The bytes of files of the installation in an archive, or a skip where it is no release build."""
    if installed.build_info()["build_type"] != "Release":
        pytest.skip("only a release build is stripped")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in paths:
            wheel.write(distribution("portamem").locate_file(path), path)
    return archive.tell()


def test_the_native_code_is_small():
    """Below 2.5 MB with all three modules: what several backends have in common belongs into libportamem, once."""
    native = [path for path in installed.files() if path.endswith(".so") or ".so." in path]
    assert 0 < packed(native) < 2_500_000


def test_the_wheel_is_small():
    """Headers, the conformance suite, the API of other libraries and all else take less than half as much again."""
    assert packed(installed.files()) < 3_500_000


def test_one_version_everywhere():
    import portamem

    assert portamem.__version__ == version("portamem") == installed.build_info()["version"]


def test_build_info_names_what_is_installed():
    info = installed.build_info()
    assert set(info["backends"]) | set(info["not_built"]) == {"host", "cuda", "hip"}
    assert set(info["backends"]) & set(info["not_built"]) == set()
    for backend in info["backends"]:
        assert installed.module(backend).is_file()
    assert "/" not in str(info["backends"]), "a wheel is read on other machines than the one that made it"
