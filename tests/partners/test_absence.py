"""A vendor's package that is absent skips its tests or, where a GPU is required, fails them; a broken one fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import backend, partners


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which Python imports."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["portamem_no_such", "portamem_no_such.bindings", "portamem_no_such.bindings.runtime"])
def test_what_is_absent(name: str) -> None:
    assert not partners.is_installed(name)


def test_a_part_that_is_absent(packages: Path) -> None:
    (packages / "portamem_half").mkdir()
    assert partners.is_installed("portamem_half")
    assert not partners.is_installed("portamem_half.bindings.runtime")


def test_a_package_that_misses_something_else_is_broken(packages: Path) -> None:
    (packages / "portamem_broken").mkdir()
    (packages / "portamem_broken" / "__init__.py").write_text("import portamem_half_gone", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="portamem_half_gone"):
        partners.package("portamem_broken.bindings", "cuda")


@pytest.mark.parametrize(
    ("required", "driver", "outcome"),
    [
        (None, "cuda", pytest.skip.Exception),
        ("cuda", "cuda", pytest.fail.Exception),
        ("gpu", "cuda", pytest.fail.Exception),
        ("hip", "cuda", pytest.fail.Exception),  # HIP on the NVIDIA platform
        ("hip", "hip", pytest.skip.Exception),
        ("gpu", "host", pytest.skip.Exception),
    ],
)
def test_skipped_or_failed(
    monkeypatch: pytest.MonkeyPatch, required: str | None, driver: str, outcome: type[BaseException]
) -> None:
    """A package for NVIDIA's driver is absent: the outcome depends on what is required, and on whose driver it is."""
    monkeypatch.setattr(backend, "driver", lambda: driver)
    if required:
        monkeypatch.setenv("PORTAMEM_REQUIRE", required)
    else:
        monkeypatch.delenv("PORTAMEM_REQUIRE", raising=False)
    with pytest.raises(outcome, match=r"portamem_no_such.*portamem\[cuda\]"):
        partners.package("portamem_no_such", "cuda")
