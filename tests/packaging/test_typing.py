"""The package is typed: a marker, and a stub for every native module that is installed."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import installed
import pytest


def test_marker():
    assert (installed.FOLDER / "py.typed").is_file()


@pytest.mark.parametrize("backend", ["host", "cuda", "hip"])
def test_every_module_has_a_stub(backend):
    assert (installed.FOLDER / f"_{backend}.pyi").is_file()


@pytest.mark.parametrize("backend", ["host", "cuda", "hip"])
def test_the_stub_names_all_that_a_module_has(backend):
    """The three modules have one interface, which is written down once."""
    installed.module(backend)
    tree = ast.parse((installed.FOLDER / "_host.pyi").read_text(encoding="utf-8"))
    named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    variables = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    named |= {target.id for target in variables if isinstance(target, ast.Name)}
    module = importlib.import_module(f"portamem._{backend}")
    assert {name for name in vars(module) if not name.startswith("__")} - named == set()


PROGRAM = """
import numpy as np

import portamem as pm
from portamem import enums


def use(view: pm.View, buffer: pm.Buffer, pool: pm.AsyncMemoryResource, device: pm.Device, stream: pm.Stream) -> None:
    np.from_dlpack(view)
    pool.set_access(device, "read")
    pool.set_access(device, enums.Access.READ)
    pool.set_access(device, "write")  # type: ignore[arg-type]
    buffer.advise("preferred_location", "host")
    buffer.advise(enums.MemoryAdvice.READ_MOSTLY)
    buffer.advise("preferred")  # type: ignore[arg-type]
    buffer.range_attribute("accessed_by")
    buffer.range_attribute("accessed")  # type: ignore[arg-type]
    device.set_limit("stack_size", "4 KiB")
    device.limit(enums.Limit.MALLOC_HEAP_SIZE)
    device.limit("heap_size")  # type: ignore[arg-type]
    stream.begin_capture("relaxed")
    stream.begin_capture("lax")  # type: ignore[arg-type]
    pm.DeviceMemoryResource(coherence=enums.Coherence.FINE_GRAINED)
    pm.PinnedMemoryResource(coherence="fine_grained")  # type: ignore[arg-type]
    pm.ManagedMemoryResource(attach="host")
    pm.ManagedMemoryResource(attach="device")  # type: ignore[arg-type]
    if buffer.kind == "pined":  # type: ignore[comparison-overlap]
        return
    print(pool.access(device) == "read_write", pm.PoolMemoryResource().snapshot()["chunks"], pm.held("host"))
"""


def test_words_are_known_to_a_type_checker(tmp_path):
    """Words that calls take are literals, or members of portamem.enums; another word is an error, as is a View that
    NumPy could not take."""
    pytest.importorskip("mypy")
    pytest.importorskip("numpy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--strict-equality", f"--cache-dir={tmp_path}", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alias", "enum"),
    [
        ("_Kind", "MemoryKind"),
        ("_PointerKind", "PointerKind"),
        ("_ManagedMode", "ManagedMode"),
        ("_MallocHeapKind", "MallocHeapKind"),
        ("_HandleType", "HandleType"),
        ("_QuirkPolicy", "QuirkPolicy"),
        ("_Advice", "MemoryAdvice"),
        ("_RangeAttribute", "RangeAttribute"),
        ("_Attach", "Attach"),
        ("_CaptureMode", "CaptureMode"),
        ("_CaptureStatus", "CaptureStatus"),
        ("_Access", "Access"),
        ("_Limit", "Limit"),
    ],
)
def test_the_words_of_the_stub_are_those_of_the_enums(alias, enum):
    tree = ast.parse((installed.FOLDER / "_host.pyi").read_text(encoding="utf-8"))
    aliases = {node.target.id: node.value for node in tree.body if isinstance(node, ast.AnnAssign)}
    words = [node.value for node in ast.walk(aliases[alias]) if isinstance(node, ast.Constant)]
    assert words == [each.value for each in getattr(importlib.import_module("portamem.enums"), enum)]


@pytest.mark.parametrize("name", ["", "_"])
def test_the_stubs_of_the_backends_name_the_same(name):
    stubs = {backend: names_of(f"{name}{backend}.pyi") for backend in ("host", "cuda", "hip")}
    assert stubs["cuda"] == stubs["hip"] == stubs["host"] - {"knobs"}


def names_of(stub):
    """The names that a stub gives to others."""
    names = set()
    for node in ast.parse((installed.FOLDER / stub).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname for each in node.names if each.asname}
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return {each for each in names if not each.startswith("_")}
