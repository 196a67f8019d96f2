"""The AMD build over libraries that are not the one it was built for: missing, of another major, older, or twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import standin
from helpers.process import python_output, run_python
from helpers.standin import amd_library, amd_module, build_hip, copy_of_installation, fake_root, reason_of

MAJOR = 10_000_000


@pytest.fixture
def library() -> str:
    amd_module()
    return amd_library()


@pytest.fixture
def renamed(tmp_path: Path, library: str) -> Callable[[str], Path]:
    """An installation whose HIP module looks for a library of another name; the machine has none of that name."""
    return lambda name: copy_of_installation(tmp_path / "copy", rename={library: name})


def major_of(name: str) -> int:
    return int(name.rpartition(".")[2])


def with_major(name: str, major: int) -> str:
    return f"{name.rpartition('.')[0]}.{major}"


def test_the_stand_in_serves(tmp_path: Path, library: str) -> None:
    """portamem does not refuse the stand-in itself: else the other tests here would show little."""
    build_hip(tmp_path / library, major_of(library) * MAJOR + 200_001)
    reason = reason_of("hip", root=fake_root(tmp_path, "kfd", "dri/renderD128"), LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "no_device"
    assert "a stand-in has no device" in reason["text"]


@pytest.mark.parametrize("step", [-1, 1, 2])
def test_a_library_that_answers_in_another_major(tmp_path: Path, library: str, step: int) -> None:
    """It goes by the right name, and its enums mean something else: refused before any of them is read."""
    major = major_of(library) + step
    path = build_hip(tmp_path / library, major * MAJOR + 140_091)
    reason = reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "library_wrong_major"
    for words in (f"HIP {major_of(library)}.", library, f"HIP {major}.1.40091", str(path)):
        assert words in reason["text"]
    assert f"Or take {tmp_path} off LD_LIBRARY_PATH" in reason["fix"]
    done = run_python("import portamem.hip", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert "portamem.hip cannot be used" in done.stderr


def test_the_same_major_of_another_minor_is_used(tmp_path: Path, library: str) -> None:
    build_hip(tmp_path / library, major_of(library) * MAJOR + 9_900_001)
    assert reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))["code"] == "no_driver"


def test_the_machine_has_another_major_only(tmp_path: Path, library: str, renamed: Callable[[str], Path]) -> None:
    """Built for one major, and the loader finds none of it, while others are there."""
    wanted = with_major(library, 4)
    package = renamed(wanted)
    theirs = tmp_path / "rocm" / "lib" / with_major(library, 7)
    build_hip(theirs, 7 * MAJOR)
    reason = reason_of("hip", package=package, ROCM_PATH=str(tmp_path / "rocm"))
    assert reason["code"] == "library_wrong_major"
    assert wanted in reason["text"]
    assert str(theirs) in reason["text"]
    assert wanted in reason["fix"]


def test_a_library_where_the_loader_does_not_look(tmp_path: Path, library: str, renamed: Callable[[str], Path]) -> None:
    wanted = with_major(library, 4)
    package = renamed(wanted)
    folder = tmp_path / "rocm" / "lib"
    build_hip(folder / wanted, 4 * MAJOR)
    reason = reason_of("hip", package=package, ROCM_PATH=str(tmp_path / "rocm"))
    assert reason["code"] == "library_missing"
    assert str(folder) in reason["text"]
    assert reason["fix"] == f"Put {folder} on LD_LIBRARY_PATH."
    # The fix helps: the next trouble is another one.
    assert reason_of("hip", package=package, LD_LIBRARY_PATH=str(folder))["code"] == "library_wrong_major"


def test_a_library_that_is_gone(library: str, renamed: Callable[[str], Path]) -> None:
    wanted = library.replace("amdhip", "nohips")
    package = renamed(wanted)
    reason = reason_of("hip", package=package)
    assert reason["code"] == "library_missing"
    assert reason["text"] == f"{wanted} is not found"
    assert "LD_LIBRARY_PATH" in reason["fix"]


def test_a_library_that_another_one_needs_is_gone(tmp_path: Path, library: str) -> None:
    other = standin.build(tmp_path / "elsewhere" / "libhsa-none.so.1", "int none(void) { return 0; }")
    standin.build(tmp_path / library, "int nothing(void) { return 0; }", "-Wl,--no-as-needed", str(other))
    other.unlink()
    reason = reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "library_missing"
    assert "libhsa-none.so.1" in reason["text"]


def test_an_older_minor_lacks_a_version(tmp_path: Path, library: str) -> None:
    newest = max(standin.elf.needed_versions(amd_module(), library).values())
    path = build_hip(tmp_path / library, major_of(library) * MAJOR, without=newest)
    reason = reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "library_too_old"
    assert str(path) in reason["text"]
    assert newest in reason["text"]
    assert "Update" in reason["fix"]


def test_an_older_minor_lacks_a_symbol(tmp_path: Path, library: str) -> None:
    standin.build(tmp_path / library, "int nothing(void) { return 0; }")
    reason = reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "library_too_old"
    assert str(tmp_path / library) in reason["text"]


def test_a_damaged_library(tmp_path: Path, library: str) -> None:
    (tmp_path / library).write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    reason = reason_of("hip", LD_LIBRARY_PATH=str(tmp_path))
    assert reason["code"] == "library_missing"
    assert str(tmp_path / library) in reason["text"]
    assert "again" in reason["fix"]


# Two of them in one process.


@pytest.fixture
def real(library: str) -> Path:
    """The HIP runtime of this machine: not a stand-in."""
    output = python_output("import portamem.hip; print(__import__('portamem._libraries')._libraries.amd_runtimes()[0])")
    return Path(output.strip())


@pytest.fixture
def another(tmp_path: Path, real: Path, library: str) -> Path:
    """A copy of it that goes by another name, as bundled ones do."""
    name = with_major(library, 9)
    path = tmp_path / name
    path.write_bytes(real.read_bytes().replace(library.encode() + b"\0", name.encode() + b"\0"))
    return path


def test_memory_that_the_runtime_does_not_know(tmp_path: Path, another: Path, library: str) -> None:
    """One runtime takes memory of the other for plain host memory: after a wrong guess the CPU would read it."""
    build_hip(tmp_path / "one" / library, major_of(library) * MAJOR)
    code = """
        import ctypes, sys, warnings
        warnings.simplefilter("error")
        import portamem.hip as hip, portamem
        ctypes.CDLL(sys.argv[1])
        try:
            print(hip.Buffer.from_handle(0x7f0000000000, 16))
        except (RuntimeWarning, portamem.Error) as told:
            print(type(told).__name__, told)
    """
    output = python_output(code, str(another))
    assert output.startswith(("RuntimeWarning", "Error"))


def test_info_names_both(real: Path, another: Path) -> None:
    from helpers.process import cli

    done = cli("info", LD_PRELOAD=str(another), PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    warning = next(line for line in done.stdout.splitlines() if "more than one HIP runtime" in line)
    assert str(real) in warning
    assert str(another) in warning
