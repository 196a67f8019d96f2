"""Symbols: what each built module uses is what the libraries export, and nothing else is opened or exported."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import elf
import installed
import pytest
from helpers.process import run_python

MODULES = ("host", "cuda", "hip", "knobs")
RUNTIME = re.compile(r"(portamem_|pmh[A-Z])\w+")
VENDOR = re.compile(r"(cuda|hip|cu)[A-Z_]\w*")
OF_SANITIZER = re.compile(r"__(asan|ubsan|tsan|odr_asan)")


def vendor_symbols(path: Path) -> set[str]:
    return {name for name in elf.undefined(path) if VENDOR.fullmatch(name)}


def loaded_from(name: str) -> Path:
    """The path at which the loader finds a library, asked of a child process; a skip where it finds none."""
    child = run_python(
        """
        import ctypes, sys
        ctypes.CDLL(sys.argv[1])
        print(next(line.split()[-1] for line in open("/proc/self/maps") if sys.argv[1] in line))
        """,
        name,
    )
    if child.returncode != 0:
        pytest.skip(f"{name} is not on this machine")
    return Path(child.stdout.strip())


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_uses_of_libportamem_is_exported(name):
    used = {symbol for symbol in elf.undefined(installed.module(name)) if RUNTIME.fullmatch(symbol)}
    assert used, "a module that uses nothing of libportamem is not one of portamem's"
    assert used <= elf.exported(installed.library())


@pytest.mark.parametrize("name", MODULES)
def test_a_module_finds_libportamem_beside_it(name):
    path = installed.module(name)
    assert installed.library().name in elf.needed(path)
    assert path.parent == installed.library().parent
    assert elf.search_path(path)[0].split(":")[0] == "$ORIGIN"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_bound_to_its_own_version_of_libportamem(name):
    """Only the registry of c_api.h is one for all versions: another version's private functions are never called."""
    bound = elf.needed_versions(installed.module(name), installed.library().name)
    assert elf.soname(installed.library()) == installed.library().name
    assert set(bound.values()) <= {"PORTAMEM_C_1", f"PORTAMEM_{installed.so_version()}"}
    frozen = re.compile(
        r"portamem_(forked|new_identity|account|held|scope_\w+|((offer|set)_)?default_resource|default_changes"
        r"|current_resource)"
    )
    assert {symbol for symbol, version in bound.items() if version == "PORTAMEM_C_1"} == {
        symbol for symbol in bound if frozen.fullmatch(symbol)
    }


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_its_init_function_only(name):
    exported = {symbol for symbol in elf.exported(installed.module(name)) if not OF_SANITIZER.match(symbol)}
    assert exported == {f"PyInit__{name}"}


def test_libportamem_exports_its_c_functions_only():
    exported = {name for name in elf.exported(installed.library()) if not OF_SANITIZER.match(name)}
    assert [name for name in exported if not RUNTIME.fullmatch(name)] == []


def test_libportamem_and_host_know_no_vendor():
    for path in (installed.library(), installed.module("host"), installed.module("knobs")):
        assert vendor_symbols(path) == set()
        assert [name for name in elf.needed(path) if re.match(r"lib(cuda|amdhip|hsa)", name)] == []


def test_cuda_opens_no_vendor_library_at_import():
    path = installed.module("cuda")
    assert vendor_symbols(path) == set(), "the CUDA runtime has to be linked statically"
    assert [name for name in elf.needed(path) if name.startswith("libcuda")] == []


def test_what_hip_uses_the_library_exports():
    path = installed.module("hip")
    if installed.build_info()["backends"]["hip"]["platform"] == "nvidia":
        assert vendor_symbols(path) == set(), "the CUDA runtime has to be linked statically"
        return
    used = vendor_symbols(path)
    assert used, "a HIP module that calls no HIP function is not one"
    library = next(name for name in elf.needed(path) if name.startswith("libamdhip64"))
    assert library == installed.build_info()["backends"]["hip"]["library"]
    assert used <= elf.exported(loaded_from(library))


def test_a_missing_symbol_would_be_seen():
    """The comparison above is worth something only if these tables hold what is looked for."""
    assert "portamem_version" in elf.exported(installed.library())
    assert "portamem_no_such_function" not in elf.exported(installed.library())


def test_a_second_libportamem_is_told(tmp_path):
    """Two files are two libraries, whose memory is unknown to each other."""
    copy = tmp_path / installed.library().name
    shutil.copy(installed.library(), copy)
    code = """
        import ctypes, sys
        import portamem.host
        ctypes.CDLL(sys.argv[1]).portamem_check_headers(0, 0)
        """
    done = run_python(code, str(copy))
    assert done.returncode == 0, done.stderr
    assert f"2 libraries of portamem are in this process: {installed.library()} {copy}" in done.stderr
    assert "Load one of them only" in done.stderr
    assert "libraries of portamem" not in run_python("import portamem.host").stderr
