"""C++ compiles against the installed package, with a plain compiler, and runs: of README.md, of docs/, and without
RTTI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.process import run
from installed import compiler, library

import portamem

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"


def cpp_blocks(page: Path) -> list[str]:
    return re.findall(r"^```cpp\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def builds_and_runs(program: str, folder: Path, *flags: str) -> None:
    source, binary, home = folder / "program.cpp", folder / "program", library().parent
    source.write_text(program, encoding="utf-8")
    usual = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DPORTAMEM_HOST", f"-I{portamem.get_include()}"]
    link = [f"-L{home}", "-lportamem", f"-Wl,-rpath,{home}", "-pthread"]
    built = run(compiler(), *usual, *flags, str(source), *link, "-o", str(binary))
    assert built.returncode == 0, built.stderr
    assert run(str(binary)).returncode == 0


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    (program,) = cpp_blocks(README)
    builds_and_runs(program, tmp_path)


@pytest.mark.builds
def test_the_whole_programs_of_the_docs_run(tmp_path: Path) -> None:
    programs = [block for block in DOCS if "int main" in block]
    assert programs
    for program in programs:
        builds_and_runs(program, tmp_path)


@pytest.mark.builds
def test_the_fragments_of_the_docs_run(tmp_path: Path) -> None:
    fragments = [block.rpartition("// after")[2] for block in DOCS if "int main" not in block]
    assert len(fragments) >= 4
    includes = {line for text in fragments for line in text.splitlines() if line.startswith("#include")}
    bodies = [re.sub(r"^#include.*\n|<<<.*?>>>", "", text, flags=re.MULTILINE) for text in fragments]
    # A launch is a call here: the CPU backend has no device code.
    scopes = "".join(f"    {{\n// after{body}\n    }}\n" for body in bodies)
    builds_and_runs("\n".join(sorted(includes)) + AROUND_FRAGMENTS % scopes, tmp_path)


DOCS = [block for page in sorted((ROOT / "docs").glob("**/*.md")) for block in cpp_blocks(page)]

AROUND_FRAGMENTS = """
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>
#include <portamem/portamem.hpp>
[[maybe_unused]] static void kernel(float*) {}
int main() {
    [[maybe_unused]] const std::size_t nbytes = 4096;
    std::vector<float> floats(1024);
    [[maybe_unused]] float* const host = floats.data();
    [[maybe_unused]] const auto stream = portamem::Stream::create(0);
%s    return 0;
}
"""


def test_the_headers_need_no_run_time_type_information(tmp_path: Path) -> None:
    builds_and_runs(WITHOUT_RTTI, tmp_path, "-fno-rtti")


WITHOUT_RTTI = """
#include <cstddef>
#include <portamem/fwd.hpp>
std::size_t reserved(portamem::PoolMemoryResource& pool);
#include <portamem/adaptors/std_memory_resource.hpp>
#include <portamem/portamem.hpp>
#include <vector>
std::size_t reserved(portamem::PoolMemoryResource& pool) { return pool.stats().reserved; }
int main() {
    portamem::PoolOptions options;
    options.release = portamem::PoolOptions::keep_share_of_peak(1);
    const auto pool = portamem::PoolMemoryResource::create(portamem::DeviceMemoryResource::create(0), options);
    const auto stream = portamem::Stream::create(0);
    portamem::Buffer(portamem::StatisticsAdaptor::create(pool), 1000, stream).close();
    const portamem::ResourceScope scope(pool);
    const bool is_current = portamem::current_resource(0)->as_pool() == pool.get();
    portamem::StdMemoryResource memory(portamem::PinnedMemoryResource::create(0));
    const std::pmr::vector<int> values(3, 7, &memory);
    return is_current && reserved(*pool) > 0 && values[2] == 7 && memory == memory ? 0 : 1;
}
"""
