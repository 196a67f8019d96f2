"""The README's C++ compiles against the installed package, with a plain compiler, and runs."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.process import run
from installed import compiler, library

import portamem

README = Path(__file__).parent.parent.parent / "README.md"


def test_its_cpp_runs(tmp_path: Path) -> None:
    programs = re.findall(r"^```cpp\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert programs
    for number, program in enumerate(programs):
        source, binary = tmp_path / f"{number}.cpp", tmp_path / str(number)
        source.write_text(program, encoding="utf-8")
        folder = library().parent
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-DPORTAMEM_HOST", f"-I{portamem.get_include()}"]
        link = [f"-L{folder}", "-lportamem", f"-Wl,-rpath,{folder}", "-pthread"]
        built = run(compiler(), *flags, str(source), *link, "-o", str(binary))
        assert built.returncode == 0, built.stderr
        assert run(str(binary)).returncode == 0
