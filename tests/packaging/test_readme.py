"""C++ compiles against the installed package, with a plain compiler, and runs: the README's, and without RTTI."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.process import run
from installed import compiler, library

import portamem

README = Path(__file__).parent.parent.parent / "README.md"


def builds_and_runs(program: str, folder: Path, *flags: str) -> None:
    source, binary, home = folder / "program.cpp", folder / "program", library().parent
    source.write_text(program, encoding="utf-8")
    usual = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DPORTAMEM_HOST", f"-I{portamem.get_include()}"]
    link = [f"-L{home}", "-lportamem", f"-Wl,-rpath,{home}", "-pthread"]
    built = run(compiler(), *usual, *flags, str(source), *link, "-o", str(binary))
    assert built.returncode == 0, built.stderr
    assert run(str(binary)).returncode == 0


def test_its_cpp_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```cpp\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    builds_and_runs(program, tmp_path)


def test_the_headers_need_no_run_time_type_information(tmp_path: Path) -> None:
    builds_and_runs(WITHOUT_RTTI, tmp_path, "-fno-rtti")


WITHOUT_RTTI = """
#include <cstddef>
#include <portamem/fwd.hpp>
std::size_t reserved(portamem::PoolMemoryResource& pool);
#include <portamem/portamem.hpp>
std::size_t reserved(portamem::PoolMemoryResource& pool) { return pool.stats().reserved; }
int main() {
    portamem::PoolOptions options;
    options.release = portamem::PoolOptions::keep_share_of_peak(1);
    const auto pool = portamem::PoolMemoryResource::create(portamem::DeviceMemoryResource::create(0), options);
    const auto stream = portamem::Stream::create(0);
    portamem::Buffer(portamem::StatisticsAdaptor::create(pool), 1000, stream).close();
    const portamem::ResourceScope scope(pool);
    const bool is_current = portamem::current_resource(0)->as_pool() == pool.get();
    return is_current && reserved(*pool) > 0 ? 0 : 1;
}
"""
