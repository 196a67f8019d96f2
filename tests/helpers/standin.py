"""Stand-ins for the vendors' libraries, built by the tests, and copies of the installation to take apart.

They let the real code path run, from the dynamic loader to the words of a reason, over a library that this machine does
not have.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import elf
import installed
import pytest

import portamem
from portamem import _build

LIBCUDA = r"""
#include <stdlib.h>
#include <string.h>
static int setting(const char* name) { const char* text = getenv(name); return text ? atoi(text) : 0; }
int cuInit(unsigned flags) { return setting("STANDIN_INIT"); }
int cuDriverGetVersion(int* version) { *version = setting("STANDIN_VERSION"); return 0; }
int cuDeviceGetCount(int* count) { *count = 0; return 0; }
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
    *function = !strcmp(name, "cuInit") ? (void*)cuInit
              : !strcmp(name, "cuDriverGetVersion") ? (void*)cuDriverGetVersion
              : !strcmp(name, "cuDeviceGetCount") ? (void*)cuDeviceGetCount
              : !strcmp(name, "cuGetProcAddress") ? (void*)cuGetProcAddress_v2 : 0;
    if (status) *status = *function ? 0 : 1;
    return 0;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
"""
"""A driver without devices: STANDIN_VERSION is what it serves, STANDIN_INIT what its first call answers."""

_HIP_ANSWERS = {
    "hipRuntimeGetVersion": "int {name}(int* version) {{ *version = {version}; return 0; }}",
    "hipDriverGetVersion": "int {name}(int* version) {{ *version = {version}; return 0; }}",
    "hipGetDeviceCount": "int {name}(int* count) {{ *count = 0; return 100; }}",
    "hipGetErrorString": 'const char* {name}(int error) {{ return "a stand-in has no device"; }}',
    "hipGetStreamDeviceId": "int {name}(void* stream) {{ return -1; }}",
}
_HIP_OTHERS = "int {name}(void) {{ return 100; }}"


def build(path: Path, source: str, *options: str) -> Path:
    """A shared library of C source, whose own name is its file's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [
        installed.compiler(),
        "-x",
        "c",
        "-shared",
        "-fPIC",
        "-w",
        f"-Wl,-soname,{path.name}",
        "-o",
        str(path),
        "-",
        "-x",
        "none",
    ]
    done = subprocess.run([*command, *options], input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def build_libcuda(folder: Path) -> Path:
    return build(folder / "libcuda.so.1", LIBCUDA)


def build_hip(path: Path, version: int, *, without: str | None = None) -> Path:
    """A HIP runtime without devices, that exports what the module uses, but for symbols of the version ``without``."""
    versions = elf.needed_versions(amd_module(), amd_library())
    by_version: dict[str, list[str]] = {}
    for symbol, symbol_version in versions.items():
        if symbol_version != without:
            by_version.setdefault(symbol_version, []).append(symbol)
    source = "\n".join(
        _HIP_ANSWERS.get(symbol, _HIP_OTHERS).format(name=symbol, version=version)
        for symbols in by_version.values()
        for symbol in symbols
    )
    script = path.parent / "exports.map"
    path.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("".join(f"{name} {{ global: {'; '.join(symbols)}; }};\n" for name, symbols in by_version.items()))
    return build(path, source, f"-Wl,--version-script={script}")


def amd_module() -> Path:
    """The file of ``portamem._hip``; a skip where it is not there, or not built for AMD's platform."""
    path = _build.module_path("hip")
    if path is None or _build.info()["backends"]["hip"]["platform"] != "amd":
        pytest.skip("portamem.hip is not built for AMD here")
    return path


def amd_library() -> str:
    """The name by which the loader looks for the HIP runtime: libamdhip64.so.5."""
    return str(_build.info()["backends"]["hip"]["library"])


def copy_of_installation(folder: Path, *, without: str | None = None, rename: Mapping[str, str] | None = None) -> Path:
    """The installed package again, for a child process with this folder on PYTHONPATH: without one of its modules, or
    with ``portamem._hip`` looking for its library by another name of the same length."""
    package = Path(portamem.__file__).parent
    host = _build.module_path("host")
    if host is None or host.parent != package:
        pytest.skip("this installation is spread over several folders")
    copy = folder / "portamem"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "include", "cmake"))
    shutil.copytree(package / "include", copy / "include")
    if without:
        for path in copy.glob(f"_{without}.*so"):
            path.unlink()
        _edit_build_info(copy, lambda info: info["backends"].pop(without, None))
    for old, new in (rename or {}).items():
        assert len(old) == len(new)
        module = next(copy.glob("_hip.*so"))
        module.write_bytes(module.read_bytes().replace(old.encode(), new.encode()))
        _edit_build_info(copy, lambda info, name=new: info["backends"]["hip"].update(library=name))
    return folder


def _edit_build_info(package: Path, edit: Any) -> None:
    path = package / "_build_info.json"
    info = json.loads(path.read_text(encoding="utf-8"))
    edit(info)
    path.write_text(json.dumps(info), encoding="utf-8")


def fake_root(folder: Path, *nodes: str, files: Mapping[str, str] | None = None) -> Path:
    """A root folder whose dev has these nodes, as plain files."""
    (folder / "dev").mkdir(parents=True, exist_ok=True)
    for node in nodes:
        path = folder / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o666)
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


REASON_OF = """
    import json, pathlib, sys, warnings
    import portamem
    from portamem import _machine
    backend, root, path = sys.argv[1:4]
    assert portamem.__file__.startswith(path), portamem.__file__
    if root:
        _machine.ROOT = pathlib.Path(root)
    info = portamem.backends()[backend]
    reason = info.reason
    print(json.dumps({"code": reason.code, "text": reason.text, "fix": reason.fix} if reason else None))
"""
"""Prints the reason of a backend, whose arguments are its name, the root to look for nodes in, and where portamem
must come from."""


def reason_of(
    backend: str, *, root: Path | None = None, package: Path | None = None, **env: str | None
) -> dict[str, str]:
    """The reason that a fresh process gives for a backend, in an environment without masks but those given."""
    from helpers.process import run_python

    masks = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    variables: dict[str, str | None] = dict.fromkeys(masks)
    variables.update(env)
    if package is not None:
        variables["PYTHONPATH"] = str(package)
    done = run_python(REASON_OF, backend, str(root or ""), str(package or ""), **variables)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def needs(backend: str) -> ModuleType:
    """The module of a backend that loads here; a skip where it does not."""
    state = portamem.backends()[backend]
    if not state.loadable:
        pytest.skip(f"{backend}: {state.reason}")
    module: ModuleType = getattr(portamem, backend)
    return module
