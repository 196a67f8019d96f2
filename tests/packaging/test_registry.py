"""Two extension modules that are not portamem's see one registry, and it is portamem's own.

They are compiled without GNU_UNIQUE, as clang does everywhere: with it, state in headers would look shared.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import installed
import pytest

import portamem

SOURCE = Path(__file__).with_name("registry") / "foreign.cpp"


def build(name: str, folder: Path, *options: str) -> ModuleType:
    python = sysconfig.get_path("include")
    if not (Path(python) / "Python.h").is_file():
        pytest.skip("Python's headers are not here")
    path = folder / f"{name}.so"
    command = [
        *(installed.compiler(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
        *("-fvisibility=hidden", f"-isystem{python}", f"-I{portamem.get_include()}"),
        *(f'-DMODULE_NAME="{name}"', f"-DMODULE_INIT=PyInit_{name}", str(SOURCE), "-o", str(path), *options),
    ]
    if "clang" not in command[0]:
        command.append("-fno-gnu-unique")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, ModuleType]:
    """One module that links libportamem, and one that goes through the capsule."""
    folder = tmp_path_factory.mktemp("foreign")
    library = installed.library()
    linked = build("linked", folder, "-DLINKS_LIBPORTAMEM", str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-z,now")
    return linked, build("through_capsule", folder)


def test_both_speak_the_same_abi(foreign):
    linked, through_capsule = foreign
    assert linked.abi_version() == through_capsule.abi_version() == 1


def test_accounts_are_shared(foreign):
    linked, through_capsule = foreign
    before = portamem.host.held(0)
    linked.account(1 << 20)
    through_capsule.account(1 << 10)
    try:
        expected = before + (1 << 20) + (1 << 10)
        assert linked.held() == through_capsule.held() == portamem.host.held(0) == expected
    finally:
        linked.account(-(1 << 20) - (1 << 10))
    assert portamem.host.held(0) == before


def test_identities_are_never_handed_out_twice(foreign):
    linked, through_capsule = foreign
    identities = [module.new_identity() for module in (linked, through_capsule) * 10]
    assert len(set(identities)) == 20
    assert 0 not in identities


def test_the_current_resource_is_shared(foreign):
    linked, through_capsule = foreign
    before = linked.current()
    linked.push()
    assert through_capsule.current() == linked.own_resource()
    through_capsule.push()
    assert linked.current() == through_capsule.own_resource()
    assert (linked.pop(), through_capsule.pop()) == (0, 0)
    assert through_capsule.current() == before


def test_a_scope_ends_through_the_table_too(foreign):
    """It ends also where it is not on top, which `pop` could not end."""
    linked, through_capsule = foreign
    before = linked.current()
    linked.push()
    through_capsule.push()
    assert linked.end() == 1
    assert through_capsule.end() == 0
    assert through_capsule.end() == -1
    assert linked.current() == before
