"""PORTAMEM_REQUIRE on a machine without a GPU: whatever would run on the CPU instead ends, and not with success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.process import cli, run, run_python

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent

NOWHERE: dict[str, str | None] = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "ROCR_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    **dict.fromkeys(("PORTAMEM_BACKEND", "PORTAMEM_TEST_BACKEND", "PORTAMEM_REQUIRE")),
}
"""No GPU, and no settings but those that a test makes."""

PYTEST = (sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-m", "pytest", "-q", "-p", "no:cacheprovider")
OF_CHECKOUT = (f"--config-file={CHECKOUT / 'pyproject.toml'}", f"--rootdir={CHECKOUT}")


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


PORTAMEM = (sys.executable, "-m", "portamem")
SUITE = (*PYTEST, *OF_CHECKOUT, str(TESTS / "test_sizes.py"))

EXITS = [
    # name, command, settings besides PORTAMEM_REQUIRE, exit status
    ("plain names", python("import portamem; portamem.Device()"), {}, 1),
    ("plain names, later", python("import portamem; portamem.backends(); portamem.empty(4)"), {}, 1),
    ("plain names, host chosen", python("import portamem; portamem.zeros(4)"), {"PORTAMEM_BACKEND": "host"}, 1),
    ("from import", python("from portamem import Stream, DeviceMemoryResource as R; R()"), {}, 1),
    ("demo", (*PORTAMEM, "demo", "--size", "1 KiB"), {}, 1),
    ("demo --backend host", (*PORTAMEM, "demo", "--size", "1 KiB", "--backend", "host"), {}, 2),
    ("demo, host chosen", (*PORTAMEM, "demo", "--size", "1 KiB"), {"PORTAMEM_BACKEND": "host"}, 2),
    ("conformance", (*PORTAMEM, "conformance", "--select", "EVENT-01"), {}, 2),
    ("conformance --backend host", (*PORTAMEM, "conformance", "--backend", "host", "--select", "EVENT-01"), {}, 2),
    ("info", (*PORTAMEM, "info"), {}, 1),
    ("info --json", (*PORTAMEM, "info", "--json"), {}, 1),
    ("pytest", SUITE, {}, 4),
    ("pytest on host", SUITE, {"PORTAMEM_TEST_BACKEND": "host"}, 4),
]


@pytest.mark.parametrize("require", ["gpu", "cuda", "hip"])
@pytest.mark.parametrize(
    ("command", "settings", "status"), [exit[1:] for exit in EXITS], ids=[exit[0] for exit in EXITS]
)
def test_every_exit(require: str, command: tuple[str, ...], settings: dict[str, str], status: int) -> None:
    done = run(*command, env={**NOWHERE, **settings, "PORTAMEM_REQUIRE": require})
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    words = done.stdout + done.stderr
    assert f"PORTAMEM_REQUIRE={require}" in words or "cannot be used" in words
    assert "verified" not in words
    assert " passed" not in words


@pytest.mark.parametrize(("name", "command"), [exit[:2] for exit in EXITS], ids=[exit[0] for exit in EXITS])
def test_without_it_each_of_them_runs(name: str, command: tuple[str, ...]) -> None:
    """The setting ends them, and nothing else does."""
    done = run(*command, env=NOWHERE)
    assert done.returncode == 0, f"{name}: {done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_pytest_on_a_backend_without_a_device(backend: str) -> None:
    """Its skips become failures."""
    from helpers.standin import needs

    needs(backend)
    skips = run(*SUITE, env={**NOWHERE, "PORTAMEM_TEST_BACKEND": backend})
    assert skips.returncode == 0, skips.stdout
    assert "skipped" in skips.stdout
    fails = run(*SUITE, env={**NOWHERE, "PORTAMEM_TEST_BACKEND": backend, "PORTAMEM_REQUIRE": "gpu"})
    assert fails.returncode == 1
    assert " passed" not in fails.stdout
    assert f"PORTAMEM_REQUIRE=gpu, but {backend} has no device" in fails.stdout


def test_importing_is_no_use() -> None:
    done = run_python("import portamem; print(portamem.__version__)", **{**NOWHERE, "PORTAMEM_REQUIRE": "gpu"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", ["cudaa", "rocm", "1"])
def test_a_requirement_that_is_none(value: str) -> None:
    """A typing error must not pass for no requirement."""
    env = {**NOWHERE, "PORTAMEM_REQUIRE": value}
    assert run(*EXITS[0][1], env=env).returncode == 1
    assert cli("info", **env).returncode == 2
    assert cli("demo", "--size", "1 KiB", **env).returncode == 2
    assert run(*SUITE, env=env).returncode == 4
