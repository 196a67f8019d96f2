"""Headers and libraries of two versions in one process: kept apart, or refused in words."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import elf
import pytest
from programs import CHECKOUT, build_project, output, run, tool

pytestmark = [
    pytest.mark.builds,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (CHECKOUT / "csrc").is_dir(), reason="the sources of portamem are not here"),
]

# Answers 111 where headers and library agree about what is where.
USE = """
    #include <portamem/portamem.hpp>
    extern "C" int NAME() {
        const auto stream = portamem::Stream::create(0);
        const auto pool = portamem::PoolMemoryResource::create(std::make_shared<portamem::DeviceMemoryResource>(0));
        portamem::Buffer buffer(pool, 1000, stream);
        const auto& traits = buffer.traits();
        const bool is_device = traits.kind == portamem::ResourceKind::Device;
        return traits.is_pooled * 100 + is_device * 10 + (buffer.nbytes() == 1000);
    }
"""
MAIN = """
    #include <cstdio>
    extern "C" int first();
    extern "C" int second();
    int main() { std::printf("%d ", first()); std::printf("%d\\n", second()); }
"""
REFUSED = """
    #include <portamem/portamem.hpp>
    #include <cstdio>
    int main() {
        try {
            (void)portamem::PoolMemoryResource::create(std::make_shared<portamem::DeviceMemoryResource>(0));
        } catch (const portamem::Error& refused) {
            std::printf("%s: %s\\n", refused.name().c_str(), refused.what());
        }
    }
"""


def compiled(folder: Path, name: str, source: str, *options: str | Path) -> Path:
    (folder / f"{name}.cpp").write_text(source, encoding="utf-8")
    output(
        *(tool("g++"), "-std=c++17", "-DPORTAMEM_HOST=1", folder / f"{name}.cpp", "-o", folder / name, *options),
    )
    return folder / name


def sources_of_another_version(folder: Path) -> Path:
    """The checkout as its next version might be: the layout of a class has changed."""
    shutil.copytree(CHECKOUT / "csrc", folder / "csrc")
    shutil.copy(CHECKOUT / "CMakeLists.txt", folder)
    headers = folder / "csrc" / "include" / "portamem"
    version = (headers / "version.h").read_text(encoding="utf-8")
    (headers / "version.h").write_text(re.sub(r"MINOR \d+", "MINOR 99", version), encoding="utf-8")
    resource = (headers / "mr" / "memory_traits.hpp").read_text(encoding="utf-8")
    assert resource.count("struct MemoryTraits {") == 1
    changed = resource.replace("struct MemoryTraits {", "struct MemoryTraits {\n    long more[4] = {1, 2, 3, 4};")
    (headers / "mr" / "memory_traits.hpp").write_text(changed, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Prefixes of this version and of another."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "other").mkdir()
    for name, sources in (("this", CHECKOUT), ("another", sources_of_another_version(folder / "other"))):
        build_project(sources, folder / f"build-{name}", "-DPORTAMEM_BACKENDS=host")
        output(tool("cmake"), "--install", folder / f"build-{name}", "--prefix", folder / name)
    return folder / "this", folder / "another"


def flags(prefix: Path, library: Path | None = None) -> list[str]:
    lib = next((library or prefix).glob("lib*/libportamem.so")).parent
    return [f"-I{prefix / 'include'}", f"-L{lib}", "-lportamem", f"-Wl,-rpath,{lib}"]


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_libraries_of_two_versions_in_one_program_are_both_right(two, order, tmp_path):
    libraries = [
        compiled(tmp_path, f"lib{name}.so", USE, f"-DNAME={name}", "-shared", "-fPIC", *flags(prefix))
        for name, prefix in zip(("first", "second"), two, strict=True)
    ]
    assert len({elf.needed(path) & {"libportamem.so.0.99"} == set() for path in libraries}) == 2
    program = compiled(
        *(tmp_path, "program", MAIN, "-Wl,--no-as-needed", f"-L{tmp_path}"),
        *(*(f"-l{name}" for name in order), f"-Wl,-rpath,{tmp_path}"),
    )
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "111 111\n"), done.stderr
    assert "2 libraries of portamem are in this process" in done.stderr
    assert "libportamem.so.0.99" in done.stderr


def test_headers_of_one_version_and_the_library_of_another(two, tmp_path):
    this, another = two
    program = compiled(tmp_path, "program", REFUSED, *flags(another, this))
    said = output(program)
    assert said.startswith("OtherVersion: the program was compiled with the headers of portamem 0.99")
    assert "compile and link it with one installation" in said


def test_a_program_is_not_started_with_a_library_of_another_version(two, tmp_path):
    """The loader refuses the library also where its file goes by the right name: it says which version the file
    lacks."""
    this, another = two
    include, lib, link, _ = flags(this)
    program = compiled(tmp_path, "program", REFUSED, include, lib, link)
    right = next(name for name in elf.needed(program) if name.startswith("libportamem"))
    shutil.copy(next(another.glob("lib*/libportamem.so.0.99")), tmp_path / right)
    done = run(program, LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode != 0
    assert f"version `{right.replace('libportamem.so.', 'PORTAMEM_')}' not found" in done.stderr


def test_rt_leaves_no_code_in_an_object_that_uses_none(tmp_path):
    source = tmp_path / "rt.cpp"
    source.write_text("#include <portamem/rt/rt.hpp>\n", encoding="utf-8")
    cuda = next((path.parent for path in _cuda_headers()), None)
    tried = [("HOST", [])] + ([("CUDA", [f"-isystem{cuda}"])] if cuda else [])
    for backend, options in tried:
        output(
            *(tool("g++"), "-std=c++17", "-O2", "-c", source, "-o", tmp_path / "rt.o", f"-DPORTAMEM_{backend}=1"),
            *(f"-I{CHECKOUT / 'csrc' / 'include'}", *options),
        )
        assert elf.code_size(tmp_path / "rt.o") == 0, backend


def _cuda_headers() -> list[Path]:
    try:
        import nvidia
    except ImportError:
        return []
    return [path for root in nvidia.__path__ for path in Path(root).glob("cu*/include/cuda_runtime_api.h")]
