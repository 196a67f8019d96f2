"""The rule of PORTAMEM_REQUIRE for skips, over a small suite of its own: no GPU is needed to see it hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.process import run_python
from helpers.required import is_allowed

SUITE = """
import pytest

def test_that_runs(): pass
def test_of_two(): pytest.skip("cuda has one device here")
def test_of_a_lost_gpu(): pytest.skip("the GPU is asleep")
def test_of_a_package(): pytest.importorskip("no_such_package")
@pytest.mark.skip(reason="not today")
def test_put_off(): pass
@pytest.mark.host_only
def test_of_a_knob(): pytest.skip("concerns the host runtime's own knobs")
@pytest.mark.xfail(strict=True)
def test_known_to_fail(): assert False
"""

MODULE = "import pytest\npytest.importorskip('no_such_package')\ndef test_never(): pass\n"

RUN = """
    import sys
    import pytest
    tests, folder = sys.argv[1:]
    sys.path.insert(0, tests)
    from helpers.required import RequiredGpu
    options = ["-c", "/dev/null", "--rootdir", folder, "-p", "no:cacheprovider", "-q", "-rf", "-W", "ignore", folder]
    sys.exit(pytest.main(options, plugins=[RequiredGpu("cuda", "gpu")]))
"""


def run_suite(folder: Path) -> tuple[int, str]:
    done = run_python(RUN, str(Path(__file__).parent), str(folder))
    return done.returncode, done.stdout


def test_a_skip_without_a_known_reason_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SUITE, encoding="utf-8")
    code, output = run_suite(tmp_path)
    assert code == 1, output
    assert "2 failed, 1 passed, 2 skipped, 1 xfailed, 1 error" in output
    for reason in ("the GPU is asleep", "no_such_package", "not today"):
        assert "PORTAMEM_REQUIRE=gpu: skipped on cuda for a reason that is not in the list" in output
        assert reason in output


def test_a_module_that_is_skipped_fails(tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text(MODULE, encoding="utf-8")
    code, output = run_suite(tmp_path)
    assert code == 2, output
    assert "no_such_package" in output


def test_a_reason_may_hold_for_one_backend_only() -> None:
    reason = "the CuPy that is here does not drive this device"
    assert is_allowed(reason, "hip")
    assert not is_allowed(reason, "cuda")
    assert not is_allowed("needs memory of a GPU", "cuda")


def test_what_a_machine_of_amd_may_lack() -> None:
    """An old runtime and several cards are no fault of the machine; nor is a mask that its user set."""
    for reason in ("HIP knows uuids since 6.0", "which of the uuids is device 0's is not known"):
        assert is_allowed(reason, "hip")
        assert not is_allowed(reason, "cuda")
    assert is_allowed("CUDA_VISIBLE_DEVICES is set here: device 0 is counted in what it leaves", "cuda")


@pytest.mark.parametrize(
    "reason",
    [
        "the hip backend is not built",
        "an editable installation has no list of files of its own",
        "only a release build is stripped",
        "portamem was not installed by pip into this environment",
        "a source distribution leaves docs and evidence out",
        "the sources of portamem are not here",
        "the sources of portamem, or clang++, are not here",
        "Python's headers are not here",
        "no C++ compiler here",
        "no cmake here",
    ],
)
def test_how_portamem_was_installed_is_no_fault_of_a_gpu(reason: str) -> None:
    """PORTAMEM_REQUIRE=cuda pytest is for every installation, and not for ci/gpu.sh alone."""
    assert is_allowed(reason, "cuda")
    assert not is_allowed("no device here", "cuda")


def test_a_backend_under_test_is_not_another() -> None:
    assert is_allowed("hip: it was not built", "cuda")
    assert not is_allowed("cuda: no_driver", "cuda")
    assert is_allowed("cuda: ready", "cuda")
    assert not is_allowed("cuda has no device: no_driver", "cuda")


NOT_A_KNOB = {
    "test_memory_info_counts_every_byte": "others use a GPU at the same time",
    "test_a_limit_that_was_set_is_there": "a GPU rounds, and refuses what its architecture lacks",
    "test_all_of_the_limit_can_be_had": "a GPU's heap keeps its books within the limit",
    "test_a_pool_has_a_size": "a hint where the vendor's pools have no size",
    "test_on_host_a_banner_says_what_is_real": "what is printed for the CPU",
    "test_order_check.py": "the order checker sees the calls of the host runtime only",
    "test_the_reference_has_none": "a vendor's devices may have quirks",
    "test_memory_without_a_device": "DLPack has names for a GPU's memory",
    "test_a_gpus_array_interface_is_nothing_to_the_host": "a GPU's backend takes the memory that the CPU refuses",
}
"""Tests of the host runtime alone that turn none of its knobs, and why a GPU cannot run them."""


def is_host_only(node: ast.AST) -> bool:
    return "host_only" in ast.unparse(node)


def host_only_tests(path: Path) -> Iterator[tuple[str, str]]:
    """Names of host_only tests, and the source that has to show which knob they turn."""
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    marks = [n for n in module.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "pytestmark"]
    if any(map(is_host_only, marks)):
        yield path.name, source
        return
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and any(map(is_host_only, node.decorator_list)):
            yield node.name, ast.unparse(node)


def test_what_a_gpu_skips_is_about_the_hosts_own_knobs() -> None:
    found = [each for path in sorted(Path(__file__).parent.rglob("test_*.py")) for each in host_only_tests(path)]
    assert len(found) > 5
    others = {name for name, source in found if not re.search(r"\bknobs\b|PORTAMEM_HOST_|--backend', 'host", source)}
    assert others <= set(NOT_A_KNOB), "host_only is for tests of the host runtime's own knobs: run it on a GPU too"
