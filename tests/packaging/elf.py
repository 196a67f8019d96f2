"""Reads the ELF tables of a shared library: the libraries that it needs, and the symbols that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile


@contextmanager
def _section(path: Path, name: str) -> Iterator[Any]:
    with path.open("rb") as file:
        yield ELFFile(file).get_section_by_name(name)


def needed(path: Path) -> set[str]:
    """Names of the libraries that the loader will look for."""
    with _section(path, ".dynamic") as dynamic:
        return {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


def search_path(path: Path) -> list[str]:
    with _section(path, ".dynamic") as dynamic:
        return [getattr(tag, "runpath", getattr(tag, "rpath", "")) for tag in dynamic.iter_tags()
                if tag.entry.d_tag in ("DT_RUNPATH", "DT_RPATH")]  # fmt: skip


def undefined(path: Path) -> set[str]:
    """Symbols that have to come from another library; weak ones may stay away."""
    return {s.name for s in _symbols(path) if s["st_shndx"] == "SHN_UNDEF" and s["st_info"]["bind"] != "STB_WEAK"}


def needed_versions(path: Path, library: str) -> dict[str, str]:
    """The symbols that have to come from a library, each with the version of it that is asked for."""
    with path.open("rb") as file:
        image = ELFFile(file)
        names: dict[int, str] = {}
        for entry, versions in image.get_section_by_name(".gnu.version_r").iter_versions():
            if entry.name == library:
                names.update({version["vna_other"]: version.name for version in versions})
        indices = list(image.get_section_by_name(".gnu.version").iter_symbols())
        symbols = list(image.get_section_by_name(".dynsym").iter_symbols())
        return {
            symbol.name: names[index["ndx"]] for symbol, index in zip(symbols, indices, strict=True)
            if index["ndx"] in names
        }  # fmt: skip


def soname(path: Path) -> str:
    with _section(path, ".dynamic") as dynamic:
        return str(next(tag.soname for tag in dynamic.iter_tags("DT_SONAME")))


def code_size(path: Path) -> int:
    """Bytes of instructions in an object file."""
    with path.open("rb") as file:
        executable = 0x4  # SHF_EXECINSTR
        return sum(s.data_size for s in ELFFile(file).iter_sections() if s["sh_flags"] & executable)


def exported(path: Path) -> set[str]:
    """Functions and objects that others may use; the names of symbol versions are neither."""
    return {
        s.name
        for s in _symbols(path)
        if s["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS") and s["st_other"]["visibility"] == "STV_DEFAULT" and s.name
    }


def defined(path: Path, name: str) -> list[Any]:
    """Definitions of a symbol in a file that is not stripped, whether others see them or not."""
    return [s for s in _symbols(path, ".symtab") if s.name == name and s["st_shndx"] != "SHN_UNDEF"]


def _symbols(path: Path, section: str = ".dynsym") -> list[Any]:
    with _section(path, section) as table:
        return list(table.iter_symbols())
