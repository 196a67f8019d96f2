"""``portamem demo``: the main job. Real bytes through every kind of memory, each verified, and accidents refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.memory import MIB, pattern
from helpers.process import cli, run

import portamem

KINDS = ["pageable", "system", "pinned", "registered", "device", "pitched", "stream-ordered", "virtual", "managed"]

ACCIDENTS = {
    "a copy too long": "ValueError",
    "close under a view": "BufferError",
    "double free": "Error",
    "out of memory": "OutOfMemoryError",
    "freed on one stream": "intact",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose size is a multiple of nothing."""
    path = tmp_path_factory.mktemp("demo") / "data.bin"
    path.write_bytes(pattern(9 * MIB + 4321))
    return path


@pytest.fixture(scope="module")
def demo(file: Path, pm: Any) -> Any:
    return cli("demo", str(file), "--backend", pm.backend)


def test_it_succeeds(demo: Any) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Traceback" not in demo.stderr


@pytest.mark.parametrize("way", ["synchronous", "overlapped"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_verified_both_ways(demo: Any, file: Path, kind: str, way: str) -> None:
    """One row per kind of memory and way of copying, each with all of the file's bytes."""
    rows = [line for line in demo.stdout.splitlines() if kind in line and way in line]
    assert len(rows) == 1, demo.stdout
    assert f"{file.stat().st_size:,}" in rows[0]
    assert " all " in rows[0]


@pytest.mark.parametrize(("accident", "message"), ACCIDENTS.items())
def test_accidents_are_refused_with_real_messages(demo: Any, accident: str, message: str) -> None:
    assert accident in demo.stdout
    after = demo.stdout[demo.stdout.index(accident) :]
    assert message in after


def test_it_says_what_it_ran_on(demo: Any, file: Path, pm: Any) -> None:
    assert pm.backend in demo.stdout
    assert file.name in demo.stdout
    assert "\x1b" not in demo.stdout, "no colours in a pipe"


@pytest.mark.host_only
def test_on_host_a_banner_says_what_is_real(demo: Any) -> None:
    assert "order and limits are real, rates are not a GPU's" in demo.stdout
    assert "GB/s" not in demo.stdout


def test_generated_bytes(pm: Any) -> None:
    done = cli("demo", "--backend", pm.backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "generated" in done.stdout


def test_a_file_of_one_byte(tmp_path: Path, pm: Any) -> None:
    (tmp_path / "one").write_bytes(b"x")
    done = cli("demo", str(tmp_path / "one"), "--backend", pm.backend)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", ["missing", "directory", "empty", "denied"])
def test_files_that_cannot_be_read(tmp_path: Path, pm: Any, case: str) -> None:
    path = tmp_path / case
    if case == "directory":
        path.mkdir()
    elif case != "missing":
        path.write_bytes(b"" if case == "empty" else b"x")
    if case == "denied":
        path.chmod(0)
        if path.stat().st_uid == 0:
            pytest.skip("nothing is denied to root")
    done = cli("demo", str(path), "--backend", pm.backend)
    assert done.returncode not in (0, -6, -11)
    assert str(path) in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_backend() -> None:
    done = cli("demo", "--backend", "sycl")
    assert done.returncode == 2
    assert "sycl" in done.stderr
    assert "host" in done.stderr, "the message lists those that there are"


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_a_backend_that_cannot_be_used(name: str) -> None:
    if portamem.backends()[name].is_ready:
        pytest.skip(f"{name} is ready")
    done = cli("demo", "--backend", name)
    reason = portamem.backends()[name].reason
    assert done.returncode not in (0, 2)
    assert reason is not None
    assert reason.code in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_its_source() -> None:
    """--source prints the program: what it shows is what it runs."""
    done = cli("demo", "--source")
    assert done.returncode == 0
    assert "import portamem" in done.stdout
    compile(done.stdout, "demo", "exec")


@pytest.mark.host_only
@pytest.mark.parametrize("call", ["MemcpyAsync", "Malloc", "HostRegister"])
def test_a_failing_call_is_no_success(file: Path, call: str) -> None:
    done = cli("demo", str(file), "--backend", "host", PORTAMEM_HOST_FAIL=f"{call}:2:999")
    assert done.returncode != 0
    assert call in done.stdout + done.stderr


@pytest.mark.host_only
def test_a_small_device(tmp_path: Path) -> None:
    """A card smaller than the data: the bytes go through in pieces."""
    path = tmp_path / "big"
    path.write_bytes(pattern(48 * MIB))
    done = cli("demo", str(path), "--backend", "host", PORTAMEM_HOST_CAPACITY="40MiB")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.host_only
@pytest.mark.parametrize("model", ["discrete", "apu", "coherent"])
def test_every_model(file: Path, model: str) -> None:
    done = cli("demo", str(file), "--backend", "host", PORTAMEM_HOST_MODEL=model)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_a_command() -> None:
    """The console script that pip installs beside the interpreter."""
    script = Path(sys.executable).with_name("portamem")
    if not script.exists():
        pytest.skip("portamem was not installed by pip into this environment")
    assert run(str(script), "--version").stdout.split()[-1] == portamem.__version__
