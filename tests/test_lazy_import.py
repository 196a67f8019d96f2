"""``import portamem`` adds almost nothing: no array library, no native module, no vendor library."""

from __future__ import annotations

import pytest
from helpers.process import python_output

HEAVY = [
    "numpy",
    "rich",
    "typing",
    "inspect",
    "portamem._host",
    "portamem._cuda",
    "portamem._hip",
    "cuda",
    "hip",
    "cupy",
]


@pytest.mark.parametrize("module", HEAVY)
def test_it_imports_no(module: str) -> None:
    code = "import sys; before = set(sys.modules); import portamem; print(*(set(sys.modules) - before))"
    assert module not in python_output(code).split()


def test_the_host_backend_needs_no_numpy() -> None:
    code = """
        import sys
        import portamem.host as pm
        with pm.zeros(16, "float32") as view:
            view.copy_from(bytes(64))
            out = bytearray(64)
            view.copy_to(out)
        print("numpy" in sys.modules, "rich" in sys.modules)
    """
    assert python_output(code).split() == ["False", "False"]


def test_everything_that_is_promised_is_there() -> None:
    code = """
        import portamem
        missing = [name for name in portamem.__all__ if not hasattr(portamem, name)]
        assert not missing, missing
        assert set(portamem.__all__) <= set(dir(portamem))
    """
    assert python_output(code, PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None) == ""


def test_version() -> None:
    assert python_output("import portamem; print(portamem.__version__)").strip().count(".") == 2
