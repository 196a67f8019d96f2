"""tools/header-matrix tells native, bridged and absent apart, and its translation unit uses what the headers offer.

Each case is a ground floor of one function over a vendor of three calls, read by clang as the real one is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

pytest.importorskip("clang.cindex", reason="libclang is not here")
pytestmark = pytest.mark.skipif(
    not (TOOLS / "header_matrix").is_dir() or shutil.which("clang++") is None,
    reason="the sources of portamem, or clang++, are not here",
)


@pytest.fixture(scope="module")
def matrix():
    """The package tools/header_matrix."""
    sys.path.insert(0, str(TOOLS))
    try:
        from header_matrix import instructions, judge, page, reader, unit
    finally:
        sys.path.remove(str(TOOLS))
    return {"instructions": instructions, "judge": judge, "page": page, "reader": reader, "unit": unit}


VENDOR = """
#pragma once
enum cudaError_t { cudaSuccess, cudaErrorOther };
cudaError_t cudaA(int);
cudaError_t cudaB(int);
cudaError_t cudaA_v2(int);
cudaError_t cudaGetLastError();
enum { cudaValue = 7 };
"""
GROUND = """
#pragma once
#include "vendor.h"
namespace portamem { namespace rt { inline namespace backend_cuda {
enum class Error_t { Success, InvalidValue, NotSupported };
enum class DeviceAttr { Known };
"""
CLOSE = "}}}\n"
ANSWER = """
inline Error_t answer(cudaError_t error) {
    if (error != cudaSuccess) (void)cudaGetLastError();
    return static_cast<Error_t>(error);
}
template <class F> F looked_up_by(const char*) { return nullptr; }
struct Points {
    cudaError_t (*looked_up)(int);
    Points() { find(looked_up, "cuLookedUp"); }
    template <class F> static void find(F& function, const char* name) { function = looked_up_by<F>(name); }
};
inline const Points& points() { static const Points found; return found; }
inline Error_t both(int x) {
    const Error_t error = answer(cudaA(x));
    return error == Error_t::Success ? answer(cudaB(x)) : error;
}
"""


@pytest.fixture
def judged(matrix, tmp_path):
    """Gives the verdict on A, from its body."""

    def judge(body: str, contract: str = "", before: str = "", value: str = "Error_t"):
        root = tmp_path / "include/portamem"
        (root / "rt/api").mkdir(parents=True)
        (root / "vendor.h").write_text(VENDOR, encoding="utf-8")
        (root / "rt/types.hpp").write_text(GROUND + CLOSE, encoding="utf-8")
        api = f'#include "../types.hpp"\n{GROUND.partition("enum class")[0]}{contract}\ninline {value} A(int x);\n'
        (root / "rt/api/group.hpp").write_text(
            api + "/// Another.\ninline Error_t B(int x);\n" + CLOSE, encoding="utf-8"
        )
        opened = GROUND.partition("enum class")[0]
        (root / "rt/twin.hpp").write_text(
            f'#include "api/group.hpp"\n{opened}{ANSWER}\n{before}\n'
            f"inline {value} A([[maybe_unused]] int x) {{ {body} }}\n"
            f"inline Error_t B(int x) {{ return answer(cudaB(x)); }}\n{CLOSE}",
            encoding="utf-8",
        )
        reading = matrix["reader"].read(["-std=c++17", f"-I{root}"], '#include "rt/twin.hpp"\n')
        function = reading.functions["A"]
        verdict = matrix["judge"].judge(function, reading.functions, "cuda")
        return verdict, matrix["judge"].capability(function, reading.capabilities)

    return judge


WORDS = [
    ("return answer(cudaA(x));", "native", [["cudaA"]], 1),
    ("if (x == 0) return Error_t::Success; return answer(cudaA(x));", "native", [["cudaA"]], 1),
    # A call that is made after a failure only is no part of a success.
    ("Error_t e = answer(cudaA(x)); if (e != Error_t::Success) cudaB(x); return e;", "native", [["cudaA"]], 1),
    ("return answer(cudaB(x));", "bridged", [["cudaB"]], 1),
    ("return x < 0 ? answer(cudaA(x)) : answer(cudaB(x));", "bridged", [["cudaA"], ["cudaB"]], 1),
    ("(void)cudaA(x); return answer(cudaB(x));", "bridged", [["cudaA", "cudaB"]], 2),
    ("return both(x);", "bridged", [["cudaA", "cudaB"]], 2),
    ("(void)cudaA(x); return B(x);", "bridged", [["cudaA", "rt::B"]], 2),
    ("return answer(points().looked_up(x));", "bridged", [["cuLookedUp"]], 1),
    (
        "switch (x) { case 1: return answer(cudaA(x)); default: break; } return B(x);",
        *("bridged", [["cudaA"], ["rt::B"]], 1),
    ),
    ("return Error_t::Success;", "bridged", [], 0),
    ("return Error_t::NotSupported;", "absent", [], 0),
    ("if (x == 1) return B(x); return Error_t::NotSupported;", "absent", [["rt::B"]], 1),
]


@pytest.mark.parametrize(("body", "word", "calls", "most"), WORDS)
def test_word_and_calls(judged, body, word, calls, most):
    verdict, _ = judged(body)
    assert (verdict.word, verdict.calls, verdict.most) == (word, calls, most)


def test_a_macro_of_the_vendors_keeps_a_call_native_and_is_told(judged):
    verdict, _ = judged("return answer(cudaA(x));", before="#define cudaA cudaA_v2")
    assert (verdict.word, verdict.renamed) == ("native", {"cudaA": "cudaA_v2"})


@pytest.mark.parametrize(("name", "word"), [("cudaA", "native"), ("cudaValue", "bridged")])
def test_a_value_is_native_under_its_own_name(judged, name, word):
    verdict, _ = judged(f"return {name};", before="#define cudaA 3", value="int")
    assert (verdict.word, verdict.calls) == (word, [])


def test_conditions_of_refusals_are_told(judged):
    body = "if (x == 7) return Error_t::NotSupported; switch (x) { case 8: return Error_t::NotSupported; }"
    verdict, _ = judged(body + " return answer(cudaA(x));")
    assert (verdict.word, verdict.refused) == ("native", ["x == 7", "x == 8"])


def test_a_call_in_a_loop_is_not_guessed_at(judged):
    with pytest.raises(SystemExit, match="cannot follow A"):
        judged("while (x-- > 0) (void)cudaA(x); return Error_t::Success;")


def test_capability_is_taken_from_the_contract_and_has_to_exist(judged):
    _, named = judged("return Error_t::NotSupported;", "/// No. Capability: DeviceAttr::Known.")
    assert named == "DeviceAttr::Known"


def test_capability_that_does_not_exist_is_an_error(judged):
    with pytest.raises(SystemExit, match="DeviceAttr::Unknown"):
        judged("return Error_t::NotSupported;", "/// No. Capability: DeviceAttr::Unknown.")


OFFERED = """
#pragma once
#include <vector>
namespace portamem {
inline int free_function(int x) { return x; }
inline int free_function(long) { return 2; }
class Thing {
    struct Key {};

  public:
    explicit Thing(int x) : x_(x) {}
    Thing(const Thing&) = delete;
    Thing(Key, const std::vector<Key>&) : x_(0) {}
    Thing(const std::vector<int>& x) : x_(x[0]) {}
    int get() const noexcept { return x_; }
    static Thing* none() { return nullptr; }
    explicit operator bool() const { return true; }

  private:
    int hidden() { return x_; }
    int x_;
};
namespace detail {
template <class T> T helper(T x) { return x; }
}
}
"""


def generated(matrix, tmp_path: Path, text: str) -> str:
    root = tmp_path / "include"
    (root / "portamem").mkdir(parents=True)
    (root / "portamem/portamem.hpp").write_text(text, encoding="utf-8")
    parsed = matrix["reader"].parse(["-std=c++17", f"-I{root}"], matrix["reader"].UMBRELLA)
    return matrix["unit"].generate(parsed)


def test_unit_uses_all_that_is_public_and_compiles(matrix, tmp_path):
    text = generated(matrix, tmp_path, OFFERED)
    for used in (
        "free_function",
        "Thing::get",
        "Thing::none",
        "Thing::operator bool",
        "construct<::portamem::Thing, int>",
    ):
        assert used in text
    assert text.count("&::portamem::free_function") == 2, "both overloads"
    assert "construct<::portamem::Thing, const std::vector<int" in text
    assert "hidden" not in text
    assert "Key" not in text, "a constructor for the class alone"
    assert "helper" not in text
    command = [
        "clang++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{tmp_path}/include",
        "-x",
        "c++",
        "-",
    ]
    subprocess.run(command, input=text, text=True, check=True)


@pytest.mark.parametrize(
    "template", ["template <class T> T shared(T x) { return x; }", "struct S { template <class T> void shared(T) {} };"]
)
def test_a_public_template_that_nothing_instantiates_is_an_error(matrix, tmp_path, template):
    with pytest.raises(SystemExit, match="shared"):
        generated(matrix, tmp_path, f"#pragma once\nnamespace portamem {{ {template} }}\n")


def test_only_the_compilers_may_differ_between_two_pages(matrix):
    same, compilers = matrix["page"].same, matrix["page"].COMPILERS
    assert same(f"a\n{compilers}1\nb\n", f"a\n{compilers}2\nb\n")
    assert not same(f"a\n{compilers}1\nb\n", f"a\n{compilers}1\nc\n")


# As objdump prints: the request of 0 bytes returns early, and what follows a failure is longer than a success.
CALL = """
0000000000000000 <ours>:
   0:\ttest   %rsi,%rsi
   3:\tje     20 <ours+0x20>
   5:\tsub    $0x8,%rsp
   9:\tcall   e <ours+0xe>
\t\t\ta: R_X86_64_PLT32\tcudaMalloc-0x4
   e:\ttest   %eax,%eax
  10:\tje     1c <ours+0x1c>
  12:\tcmp    $0x258,%eax
  17:\tjne    21 <ours+0x21>
  18:\ttest   %eax,%eax
  19:\tjne    26 <ours+0x26>
  1c:\tadd    $0x8,%rsp
  20:\tret
  21:\tcall   26 <ours+0x26>
\t\t\t22: R_X86_64_PLT32\tcudaGetLastError-0x4
  26:\tpop    %rax
  27:\tjmp    2c <ours+0x2c>
\t\t\t28: R_X86_64_PLT32\tfailed-0x4
"""


def test_instructions_of_a_success_are_counted(matrix):
    instructions = matrix["instructions"]
    code = instructions.disassemble(CALL)
    assert len(code["ours"]) == 15
    assert instructions.longest_success(code["ours"], "cudaMalloc") == 8


def test_a_loop_before_the_call_is_no_longer_way(matrix):
    instructions = matrix["instructions"]
    looping = CALL.replace("je     20 <ours+0x20>", "je     0 <ours>")
    assert instructions.longest_success(instructions.disassemble(looping)["ours"], "cudaMalloc") == 8


SELDOM = """
0000000000000000 <ours>:
   0:\tpush   %rbx
   1:\tcall   6 <ours+0x6>
\t\t\t2: R_X86_64_PLT32\tcudaMalloc-0x4
   6:\tcmpq   $0x0,(%rbx)
   a:\tjne    11 <ours+0x11>
   c:\tjmp    99 <.LC29+0x48>
\t\t\td: R_X86_64_PC32\t.text.unlikely.ours-0x4
  11:\tpop    %rbx
  12:\tret
"""


def test_a_jump_to_seldom_code_is_no_way(matrix):
    instructions = matrix["instructions"]
    assert instructions.longest_success(instructions.disassemble(SELDOM)["ours"], "cudaMalloc") == 6


def test_code_that_never_makes_the_call_is_an_error(matrix):
    instructions = matrix["instructions"]
    with pytest.raises(SystemExit, match="cudaFree"):
        instructions.longest_success(instructions.disassemble(CALL)["ours"], "cudaFree")


@pytest.mark.parametrize(
    ("of", "types"),
    [
        ("int (void **, unsigned long)", ["void **", "unsigned long"]),
        ("cudaError (CUstream_st *, void (*)(void *, int), void *)", None),
        ("int (void)", []),
        ("Error_t () noexcept", []),
    ],
)
def test_types_of_parameters_are_taken_apart(matrix, of, types):
    expected = ["CUstream_st *", "void (*)(void *, int)", "void *"] if types is None else types
    assert matrix["instructions"].arguments(of) == expected
