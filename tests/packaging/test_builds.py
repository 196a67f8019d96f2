"""Programs built in every way that portamem is found: in a prefix, a build folder, a subproject, an editable install.

Each of these compiles something, so they run on demand: pytest -m builds (ci/consumers.sh).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import elf
import pytest
from helpers import mesh_run
from installed import so_version
from programs import CHECKOUT, HERE, build_project, configure, output, run, tool

pytestmark = [
    pytest.mark.builds,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (CHECKOUT / "csrc").is_dir(), reason="the sources of portamem are not here"),
]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of a portamem without Python. libportamem is vendor-free: host makes all of it."""
    folder = tmp_path_factory.mktemp("portamem") / "build"
    build_project(CHECKOUT, folder, "-DPORTAMEM_BACKENDS=host", "-DCMAKE_BUILD_TYPE=Debug")
    return folder


@pytest.fixture(scope="session")
def prefix(built: Path) -> Path:
    """An installation that was moved after it was made."""
    first, moved = built.parent / "prefix", built.parent / "moved"
    output(tool("cmake"), "--install", built, "--prefix", first)
    return first.rename(moved)


@pytest.mark.parametrize(("compiler", "build_type"), [("g++", "Debug"), ("clang++", "Release"), ("hipcc", "Debug")])
def test_a_moved_prefix(compiler, build_type, prefix, tmp_path):
    options = (f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_BUILD_TYPE={build_type}")
    build_project(HERE / "consumer", tmp_path, *options, compiler=compiler)
    assert output(tmp_path / "consumer_host") == "verified\n"
    assert elf.needed(tmp_path / "consumer_host") >= {f"libportamem.so.{so_version()}"}
    for program in (tmp_path / "consumer_cuda", tmp_path / "consumer_hip"):
        assert not program.exists() or run(program).returncode in (0, 2)  # 2: no device here


def test_static_and_shared_libraries_and_their_program_share_one_portamem(prefix, tmp_path):
    build_project(HERE / "libraries", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    output(tmp_path / "program")


def test_the_rows_of_the_speed_table(prefix, tmp_path):
    """They build against an installation, and each prints what table.py reads."""
    sources = CHECKOUT / "benchmarks" / "cpp" / "table"
    if not sources.is_dir():
        pytest.skip("a source distribution leaves benchmarks out")
    build_project(sources, tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    lines = [json.loads(line) for line in output(tmp_path / "portamem_table_host", "1").splitlines()]
    lines += [json.loads(output(tmp_path / "portamem_table_host", "memory", "1000", "65536"))]
    assert {line["row"] for line in lines} >= {"pair 1 MiB", "live 4 MiB, reserved", "threads 16", "mixed p99.9"}
    assert all(line["values"] for line in lines), lines


def test_a_build_folder_is_a_package(built, tmp_path):
    build_project(HERE / "consumer", tmp_path, f"-Dportamem_DIR={built}")
    assert output(tmp_path / "consumer_host") == "verified\n"


@pytest.mark.parametrize("way", ["FetchContent", "add_subdirectory"])
def test_as_a_subproject_it_changes_nothing_of_the_whole(way, tmp_path):
    options = (f"-DWAY={way}", f"-DPORTAMEM_CHECKOUT={CHECKOUT}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    done = configure(HERE / "subproject", tmp_path, *options)
    assert done.returncode == 0, done.stderr
    assert "build type '', module path '', flags ''" in done.stdout
    commands = json.loads((tmp_path / "compile_commands.json").read_text(encoding="utf-8"))
    own = [entry["command"] for entry in commands if entry["file"].endswith("main.cpp")]
    assert len(own) == 1
    assert not re.search(r" -W| -O|visibility", own[0]), own[0]
    assert len(commands) > 1, "portamem's own sources were expected beside it"


def test_a_subproject_is_built_and_not_installed(tmp_path):
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    build_project(HERE / "subproject", build, f"-DPORTAMEM_CHECKOUT={CHECKOUT}")
    assert output(build / "whole") == "verified\n"
    output(tool("cmake"), "--install", build, "--prefix", prefix)
    assert [path.name for path in prefix.rglob("*") if path.is_file()] == ["whole"]


@pytest.mark.parametrize("way", ["static", "RPATH"])
def test_an_installed_program_of_a_whole_project_starts(way, tmp_path):
    """It starts also where the installation is moved. The project names no build type."""
    options = {
        "static": ("-DPORTAMEM_LIBRARY=static",),
        "RPATH": ("-DPORTAMEM_INSTALL=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib", "-DCMAKE_INSTALL_LIBDIR=lib"),
    }[way]
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    export = "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    build_project(HERE / "subproject", build, f"-DPORTAMEM_CHECKOUT={CHECKOUT}", export, *options)
    output(tool("cmake"), "--install", build, "--prefix", prefix)
    prefix = prefix.rename(tmp_path / "moved")
    shutil.rmtree(build) if way == "RPATH" else None
    assert output(prefix / "bin" / "whole") == "verified\n"
    loads = {name for name in elf.needed(prefix / "bin" / "whole") if name.startswith("libportamem")}
    assert loads == (set() if way == "static" else {f"libportamem.so.{so_version()}"})


def test_a_project_without_a_build_type_gets_an_optimised_library(tmp_path):
    for flags, expected in (("", 1), ("-O0", 0)):
        options = (
            f"-DPORTAMEM_CHECKOUT={CHECKOUT}",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            f"-DCMAKE_CXX_FLAGS={flags}",
        )
        done = configure(HERE / "subproject", tmp_path / f"build{expected}", *options)
        assert done.returncode == 0, done.stderr
        file = tmp_path / f"build{expected}" / "compile_commands.json"
        entries = json.loads(file.read_text(encoding="utf-8"))
        own = [entry["command"] for entry in entries if not entry["file"].endswith("main.cpp")]
        assert len(own) == len(entries) - 1
        assert {command.count(" -O2") for command in own} == {expected}


def test_a_static_library_in_a_prefix(tmp_path):
    prefix = tmp_path / "prefix"
    build_project(CHECKOUT, tmp_path / "build", "-DPORTAMEM_BACKENDS=host", "-DPORTAMEM_LIBRARY=static")
    output(tool("cmake"), "--install", tmp_path / "build", "--prefix", prefix)
    build_project(HERE / "consumer", tmp_path / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert output(tmp_path / "consumer" / "consumer_host") == "verified\n"
    assert not [name for name in elf.needed(tmp_path / "consumer" / "consumer_host") if "portamem" in name]


def test_a_peer_of_the_speed_table_may_be_a_target(tmp_path):
    """Umpire is one: its headers and what it links are properties of the target."""
    peers = CHECKOUT / "benchmarks" / "cpp" / "table" / "peers.cmake"
    if not peers.is_file():
        pytest.skip("a source distribution leaves benchmarks out")
    project = tmp_path / "table"
    (project / "headers" / "peer").mkdir(parents=True)
    (project / "headers" / "peer" / "peer.hpp").write_text("int peer();\n", encoding="utf-8")
    (project / "library.cpp").write_text("int peer() { return 1; }\n", encoding="utf-8")
    output(tool("g++"), "-c", project / "library.cpp", "-o", project / "library.o")
    output(tool("ar"), "rcs", project / "libpeer.a", project / "library.o")
    text = "#include <peer/peer.hpp>\nnamespace table { void add_peer() { (void)peer(); } }\n"
    (project / "peer.cpp").write_text(text, encoding="utf-8")
    (project / "probe.cpp").write_text(
        "namespace table { void add_peer(); }\nint main() { TABLE_PROBE(); }\n", encoding="utf-8"
    )
    (project / "CMakeLists.txt").write_text(
        f"""
        cmake_minimum_required(VERSION 3.25)
        project(table LANGUAGES CXX)
        set(program table)
        add_executable(table probe.cpp)
        add_library(peer STATIC IMPORTED)
        set_target_properties(peer PROPERTIES IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/libpeer.a
          INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}}/headers)
        target_compile_definitions(table PRIVATE TABLE_PROBE=table::add_peer)
        include("{peers}")
        table_add_peer("Peer" peer.cpp add_peer 17 "" "peer")
        """,
        encoding="utf-8",
    )
    assert "table: with Peer" in build_project(project, tmp_path / "build")


def cudarts(program: Path) -> tuple[int, int]:
    """The number of CUDA runtimes that are linked into a program, and of those that the loader will add."""
    return len(elf.defined(program, "cudaMalloc")), len([n for n in elf.needed(program) if n.startswith("libcudart")])


IN, LOADED, NONE = (1, 0), (0, 1), (0, 0)


def test_cuda_code_and_portamem_share_one_runtime(prefix, tmp_path):
    """There is one runtime for any CUDA_RUNTIME_LIBRARY of a target, and whichever compiler links."""
    tool("nvcc")
    strict = "-DCMAKE_CUDA_FLAGS=-Xcompiler=-Wall,-Wextra,-Werror"
    said = build_project(HERE / "runtimes", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", strict)
    version, compiler = re.findall(r"CUDA from \S+ (\d+\.\d+), compiler (\d+\.\d+)", said)[0]
    assert version == compiler, "header and library have to be of the toolkit that compiles"
    found = {name: cudarts(tmp_path / name) for name in ("Static", "Shared", "None", "Default", "host")}
    assert found == {"Static": IN, "Shared": LOADED, "None": LOADED, "Default": IN, "host": NONE}, said
    for name in ("Static", "Shared", "None", "Default"):
        assert run(tmp_path / name).returncode in (0, 2)
    assert output(tmp_path / "host") == "verified\n"


def test_without_a_runtime_the_program_has_to_bring_one(prefix, tmp_path):
    done = configure(HERE / "consumer", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", "-DPORTAMEM_CUDART=none")
    assert done.returncode == 0, done.stderr
    done = run(tool("cmake"), "--build", tmp_path, "--target", "consumer_cuda")
    if "unknown target" in done.stderr + done.stdout:
        pytest.skip("no CUDA here")
    assert done.returncode != 0
    assert re.search(r"undefined reference to .cuda", done.stdout + done.stderr)


@pytest.mark.parametrize(("choice", "expected"), [("static", IN), ("shared", LOADED)])
def test_a_program_without_cuda_code_chooses_its_runtime(choice, expected, prefix, tmp_path):
    build_project(HERE / "consumer", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPORTAMEM_CUDART={choice}")
    program = tmp_path / "consumer_cuda"
    if not program.exists():
        pytest.skip("no CUDA here")
    assert cudarts(program) == expected
    assert run(program).returncode in (0, 2)


def outputs_elsewhere(name: str, said: str, folder: Path, *arguments: str) -> Iterator[str]:
    """The output of an example on GPUs. It is built for each backend with a compiler, and says where no device is."""
    for backend, compiler in (("cuda", "nvcc"), ("hip", "hipcc")):
        if f"{name}: with {backend}" not in said:
            tool(compiler)
            pytest.fail(f"{compiler} is here, but the example was not built for {backend}:\n{said}")
        done = run(folder / f"{name}_{backend}", *arguments)
        if done.returncode == 2:
            assert "NoDevice" in done.stderr
        else:
            assert done.returncode == 0, done.stdout + done.stderr
            yield done.stdout
    assert cudarts(folder / f"{name}_cuda") == IN


def test_the_stencil_has_the_bits_of_its_reference(prefix, tmp_path):
    said = build_project(CHECKOUT / "examples" / "stencil", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    small = ("50", "33", "7", "5")
    expected = output(tmp_path / "stencil_host", *small)
    assert "the same bits as the reference" in expected
    for model in ("discrete", "apu", "coherent"):
        assert output(tmp_path / "stencil_host", *small, PORTAMEM_HOST_MODEL=model, PORTAMEM_HOST_GUARD="1") == expected
    for there in outputs_elsewhere("stencil", said, tmp_path, *small):
        assert there.splitlines()[1:] == expected.splitlines()[1:]


MESH = CHECKOUT / "examples" / "amr_cpp"
SMALL_MESH = ("--steps", "45", "--cells", "8", "--levels", "3")


def bits(printed: str) -> list[str]:
    (line,) = [line for line in printed.splitlines() if line.startswith("checksum")]
    return line.split()[1:]


@pytest.fixture(scope="session")
def mesh(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of its programs, and what CMake said. Each is compiled in one piece: a quarter of the time."""
    folder = tmp_path_factory.mktemp("mesh")
    return folder, build_project(MESH, folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_UNITY_BUILD=ON")


def test_the_adaptive_mesh_has_the_same_bits_everywhere(mesh, tmp_path):
    """The bits are the same on plain memory and on a pool, with any number of threads, on every model and backend."""
    folder, said = mesh
    program, file = folder / "amr_host", tmp_path / "mesh.json"
    expected = bits(output(program, *SMALL_MESH, "--json", file))
    written = mesh_run.read(file)
    assert [written[key] for key in ("program", "backend", "steps", "threads")] == ["examples/amr_cpp", "host", 45, 1]
    mesh_run.check(written)
    assert [each["checksum"] for each in written["runs"]] == expected
    for threads, model in (("2", "discrete"), ("3", "apu"), ("8", "coherent")):
        machine = {"PORTAMEM_HOST_MODEL": model, "PORTAMEM_HOST_GUARD": "1"}
        printed = output(program, *SMALL_MESH, "--threads", threads, "--json", file, **machine)
        assert bits(printed) == expected
        mesh_run.check(mesh_run.read(file))
    for there in outputs_elsewhere("amr", said, folder, *SMALL_MESH):
        assert bits(there) == expected
    (tmp_path / "page").mkdir()
    mesh_run.check_page(file, tmp_path / "page")


MESH_FAULTS = {
    "dye that comes from nowhere": (
        "cells.hpp",
        "return 0.5 * (last(side, finer, there) + last(side, finer, there + 1));",
        "return last(side, finer, there);",
        "plain: in one step",
    ),
    "memory that still holds what was there before": (
        "solver.cpp",
        "std::vector<double>(mesh_.cells_in_all())",
        "std::vector<double>(mesh_.cells_in_all(), memory.resource().cached() ? 0.0 : 1e-300)",
        "the runs end with other bits",
    ),
}


@pytest.mark.parametrize("name", MESH_FAULTS)
def test_the_adaptive_mesh_sees(name, prefix, tmp_path):
    file, right, wrong, message = MESH_FAULTS[name]
    spoiled = shutil.copytree(MESH, tmp_path / "spoiled")
    text = (spoiled / file).read_text(encoding="utf-8")
    assert text.count(right) == 1
    (spoiled / file).write_text(text.replace(right, wrong), encoding="utf-8")
    options = (f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_BUILD_TYPE=Debug")
    done = configure(spoiled, tmp_path / "build", *options)
    assert done.returncode == 0, done.stderr
    output(tool("cmake"), "--build", tmp_path / "build", "--target", "amr_host")
    done = run(tmp_path / "build" / "amr_host", *SMALL_MESH)
    assert done.returncode == 1, done.stdout + done.stderr
    assert message in done.stderr


def test_what_the_adaptive_mesh_cannot_take(mesh, tmp_path):
    program = mesh[0] / "amr_host"
    for wrong in (("--cells", "3"), ("--steps", "0"), ("--steps", "many"), ("--steps",), ("--other", "1")):
        done = run(program, *wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("usage: ")
    done = run(program, "--steps", "1", "--json", tmp_path / "none" / "mesh.json")
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_an_editable_installation(tmp_path):
    """Its compiled files, headers and package config are in site-packages, its Python files in the checkout."""
    pytest.importorskip("scikit_build_core")
    pytest.importorskip("pybind11")
    venv = tmp_path / "venv"
    output(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    site = output(python, "-c", "import site; print(site.getsitepackages()[0])").strip()
    paths = [path for path in sys.path if Path(path).is_dir() and path.endswith("site-packages")]
    (Path(site) / "callers.pth").write_text("\n".join(paths), encoding="utf-8")
    settings = [f"-Cbuild-dir={tmp_path / 'build'}", "-Ccmake.build-type=Debug"]
    if compiled := os.environ.get("PORTAMEM_TEST_BUILD_DIR"):  # of a wheel, with the settings of this environment
        settings = [f"-Cbuild-dir={compiled}"]
    output(
        *(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"),
        *("--ignore-installed", *settings, "-e", CHECKOUT),
        PORTAMEM_BACKENDS=os.environ.get("PORTAMEM_BACKENDS", "host"),
    )
    ask = "import portamem; print(portamem.__file__, portamem.get_cmake_dir(), portamem.get_include())"
    module, cmake_dir, include = output(python, "-c", ask).split()
    assert Path(module).is_relative_to(CHECKOUT)
    assert Path(include, "portamem", "portamem.hpp").is_file()
    build_project(HERE / "consumer", tmp_path / "consumer", f"-Dportamem_DIR={cmake_dir}")
    assert output(tmp_path / "consumer" / "consumer_host") == "verified\n"
    assert shutil.which("portamem", path=str(venv / "bin")) is not None
