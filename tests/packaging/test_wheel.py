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


def test_the_wheel_is_small():
    """Below 3 MB with all three modules: what several backends have in common belongs into libportamem, once."""
    if installed.build_info()["build_type"] != "Release":
        pytest.skip("only a release build is stripped")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in installed.files():
            wheel.write(distribution("portamem").locate_file(path), path)
    assert archive.tell() < 3_000_000


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
