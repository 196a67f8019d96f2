"""The source rules and the direction of dependencies hold, and each of these checks is shown to fail when broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from source_rules import rules

CHECKOUT = Path(__file__).parents[2]
RT = rules.GROUND_FLOOR

pytestmark = pytest.mark.skipif(not (CHECKOUT / "csrc").is_dir(), reason="the sources of portamem are not here")


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    found = rules.read_sources(CHECKOUT)
    assert len(found) > 20, "the sources were not found where they are expected"
    return found


RULES = [
    rules.vendor_spellings,
    rules.vendor_questions,
    rules.twin_differences,
    rules.upward_includes,
    rules.vendor_in_library,
    rules.ways_to_python,
    rules.sources_without_bindings,
    rules.programs_in_the_checkout,
    rules.long_lines,
    rules.unclear_comments,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule, sources):
    assert rule(sources) == []


def twins(**changed: str) -> dict[str, str]:
    """One file of the ground floor: its contracts and three twins, some of them changed."""
    same = "inline Error_t A(int x);\ninline Error_t B();"
    return {f"{RT}{folder}/copy.hpp": changed.get(folder, same) for folder in (rules.CONTRACTS, *rules.TWINS)}


PLANTED = [
    ("vendor_spellings", {"csrc/include/portamem/copy.hpp": "void f() { cudaMemcpy(a, b, n, kind); }"}),
    ("vendor_spellings", {"csrc/python/copy.cpp": 'auto name = "hipMemcpy";'}),
    ("vendor_spellings", {"portamem/device.py": 'x = 1\nlibrary.cuMemAlloc("#")\n'}),
    ("vendor_spellings", {"portamem/device.py": 'names = (\n    "cudaMalloc",\n)\n'}),
    ("vendor_questions", {"csrc/include/portamem/buffer.hpp": "#if defined(PORTAMEM_HIP)"}),
    ("vendor_questions", {"csrc/python/device.cpp": "if (rt::BackendName == cuda) {}"}),
    ("vendor_questions", {"csrc/python/device.cpp": "if (rt::BackendName() != host) {}"}),
    ("twin_differences", twins(host="inline Error_t B() {}\ninline Error_t A(int x) {}")),
    ("twin_differences", twins(hip="inline Error_t A(int x) {}")),
    ("twin_differences", twins(cuda="inline Error_t A(int x) {}\ninline Error_t B() {}\ninline Error_t C() {}")),
    ("twin_differences", {path: text for path, text in twins().items() if "/hip/" not in path}),
    ("upward_includes", {"csrc/include/portamem/rt/cuda/copy.hpp": '#include "portamem/device.hpp"'}),
    ("upward_includes", {"csrc/include/portamem/stream.hpp": '#include "portamem/buffer.hpp"'}),
    ("upward_includes", {"csrc/include/portamem/buffer.hpp": '#include "portamem/portamem.hpp"'}),
    ("vendor_in_library", {"csrc/core/scope.cpp": '#include "portamem/rt/cuda.hpp"'}),
    ("vendor_in_library", {"csrc/host/pool.cpp": '#include "portamem/buffer.hpp"'}),
    ("long_lines", {"csrc/core/scope.cpp": "// " + 118 * "x"}),
    ("long_lines", {"tests/cpp/pm_pool.cpp": "int x;  // " + 110 * "x"}),
    ("unclear_comments", {"csrc/core/scope.cpp": "int x; // null where nobody has it"}),
    ("unclear_comments", {"csrc/core/scope.cpp": "/* told by\n * whoever asks */"}),
    ("unclear_comments", {"csrc/core/scope.cpp": "int x;\n// Of a class, those that came first."}),
    ("unclear_comments", {"csrc/core/scope.cpp": "/**\n * Of a class, those that came first.\n */"}),
    ("unclear_comments", {"tests/cpp/pm_pool.cpp": "// SPDX-License-Identifier: MIT\n// What tests share."}),
    ("unclear_comments", {"tests/cpp/pm_pool.cpp": "/// Whether it is so.\nbool f();"}),
    ("unclear_comments", {"tests/cpp/pm_pool.cpp": "f();  // waits for nobody"}),
    ("unclear_comments", {"tests/cpp/pm_pool.cpp": "// The pool waits.\nf();  // Of the stream."}),
    ("unclear_comments", {"portamem/_pool.py": '# SPDX\n"""What pools answer."""\n'}),
    ("unclear_comments", {"portamem/_pool.py": 'class A:\n    x: int\n    """Of the pool."""\n'}),
    ("unclear_comments", {"portamem/_pool.py": 'def f():\n    """Frees.\n\n    Whoever calls it waits."""\n'}),
    ("unclear_comments", {"tests/test_pool.py": "x = 1\n# Whose it is.\n"}),
    ("unclear_comments", {"tools/words.py": "f()  # somebody's\n"}),
    ("programs_in_the_checkout", {"tests/test_a.py": 'subprocess.run([sys.executable, "-c", code], check=True)'}),
    ("programs_in_the_checkout", {"tests/test_a.py": 'subprocess.Popen((sys.executable, "-m", *words), text=True)'}),
    ("ways_to_python", {"csrc/python/stream.cpp": "const py::gil_scoped_acquire gil;"}),
    ("ways_to_python", {"csrc/python/hold.cpp": "PyErr_Fetch(&type, &value, &trace);"}),
    ("sources_without_bindings", {"csrc/python/fast/copy.cpp": '#include "../hold.hpp"', "csrc/python/hold.hpp": ""}),
    ("ways_to_python", {"csrc/python/dlpack.cpp": "return PyCapsule_New(tensor, name, destroy);"}),
]


@pytest.mark.parametrize(("name", "planted"), PLANTED)
def test_rule_finds_a_planted_violation(name, planted):
    assert getattr(rules, name)(planted) != []


ALLOWED = [
    ("vendor_spellings", {"csrc/include/portamem/copy.hpp": "// like cudaMemcpy\n/* hipMemcpy\n too */ int x;"}),
    ("vendor_spellings", {"csrc/include/portamem/rt/hip/copy.hpp": "return hipMemcpy(a, b, n, kind);"}),
    ("vendor_spellings", {"portamem/device.py": '"""cudaMalloc"""\ndef f():\n    """hipMalloc"""  # hipFree\n'}),
    ("vendor_spellings", {"tests/test_device.py": "library.cuMemAlloc(1)\n"}),
    ("vendor_questions", {"csrc/include/portamem/backend.hpp": "#if defined(PORTAMEM_CUDA)"}),
    ("vendor_questions", {"csrc/python/device.cpp": 'm.attr("backend") = rt::BackendName;'}),
    ("twin_differences", twins()),
    ("twin_differences", twins(cuda="constexpr int mapped(int x) {}\ninline Error_t A(int) {}\ninline Error_t B() {}")),
    ("twin_differences", {RT + "cuda/driver.hpp": "inline int looked_up() {}"}),
    ("upward_includes", {"csrc/include/portamem/buffer.hpp": '#include "portamem/rt/rt.hpp"'}),
    ("upward_includes", {"csrc/include/portamem/rt/rt.hpp": '#include "portamem/backend.hpp"'}),
    ("vendor_in_library", {"csrc/host/pool.cpp": '#include "portamem/rt/host/api.h"'}),
    ("long_lines", {"tests/test_pool.py": "# " + 119 * "x"}),  # ruff finds it
    ("unclear_comments", {"csrc/core/scope.cpp": "/// Whether it is so.\nbool f();"}),
    ("unclear_comments", {"tests/cpp/pm_pool.cpp": 'f("nobody");\n// The pool waits for\n// What it freed.'}),
    ("unclear_comments", {"tests/test_pool.py": 'x = (\n    "What nobody asked",\n)\n# The pool has it.\n# Of it.\n'}),
    ("unclear_comments", {"portamem/_host.pyi": 'class A:\n    """What a pool is."""\n'}),
    ("programs_in_the_checkout", {"tests/test_a.py": 'subprocess.run([sys.executable, "-c", code], cwd="/")'}),
    ("programs_in_the_checkout", {"tests/test_a.py": 'subprocess.run([sys.executable, script])\nf(["-c"])'}),
    (
        "sources_without_bindings",
        {
            "csrc/python/fast/copy.cpp": '#include "../hold.hpp"',
            "csrc/python/hold.hpp": '#include "bindings.hpp"',
            "csrc/python/bindings.hpp": "",
            "csrc/python/knobs/kernels.cpp": "",
        },
    ),
    ("ways_to_python", {"csrc/python/stream.cpp": "const WithGil gil;  // not PyGILState_Ensure"}),
    ("ways_to_python", {"csrc/python/dlpack.cpp": "const PendingErrorKept pending; PyCapsule_New(a, b, destroy);"}),
]


@pytest.mark.parametrize(("name", "allowed"), ALLOWED)
def test_rule_leaves_what_is_allowed(name, allowed):
    assert getattr(rules, name)(allowed) == []


def test_the_twins_are_read(sources):
    """An empty list of functions equals another empty list: the parser has to find the ground floor's functions."""
    found = [f for path, text in sources.items() if path.startswith(RT + "host/") for f in rules.functions_of(text)]
    assert len(found) > 80
    assert {"Malloc", "MemcpyAsync", "StreamSynchronize", "PointerGetAttributes"} <= set(found)


def test_every_function_is_called_without_a_device(sources):
    declared = [f for path, text in sources.items() if path.startswith(RT + "api/") for f in rules.functions_of(text)]
    called = rules.calls_without_a_device((CHECKOUT / "tests/cpp/rt_nodevice.cpp").read_text(encoding="utf-8"))
    assert sorted(called) == sorted(declared)


def test_the_table_of_calls_is_read():
    table = (
        "    CALL(Malloc, NoDevice, &s.ptr, 1),\n    MAKE(VersionText, Success, f()),\n    // CALL(Free, NoDevice),\n"
    )
    assert rules.calls_without_a_device(table) == ["Malloc", "VersionText"]
