"""tools/mutants.py and tools/defects.py draw, exchange and judge as they say; their findings fit the sources.

The builds and the runs of the conformance suite are the two commands' own: these tests build nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

import pytest
from rich.progress import Progress

from portamem.conformance.contract import clauses

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"

pytest.importorskip("clang.cindex", reason="libclang is not here")
pytestmark = pytest.mark.skipif(
    not (TOOLS / "mutation").is_dir() or not (ROOT / "evidence").is_dir(), reason="the sources of portamem are not here"
)


@pytest.fixture(scope="module")
def mutation():
    """The package tools/mutation."""
    sys.path.insert(0, str(TOOLS))
    try:
        import mutants
        from mutation import farm, likely, page, planted, reasons, record, sites, trial, workshop
    finally:
        sys.path.remove(str(TOOLS))
    modules = (mutants, farm, likely, page, planted, reasons, record, sites, trial, workshop)
    return {module.__name__.rpartition(".")[2]: module for module in modules}


def found(mutation, text: str) -> list[tuple[str, tuple[str, ...]]]:
    sites = mutation["sites"].sites_of("file.cpp", text.encode())
    return [(site.old, site.choices) for site in sites]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("bool f(int a, int b) { return a < b; }", [("<", ("<=", ">="))]),
        ("bool f(int a, int b) { return a == b && !a; }", [("==", ("!=",)), ("&&", ("||",)), ("!", ("",))]),
        ("int f(int a, int b) { return a * b + ~a; }", [("*", ("/",)), ("+", ("-",)), ("~", ("",))]),
        ("void f(int a) { ++a; a--; a += a; }", [("++", ("--",)), ("--", ("++",)), ("+=", ("-=",))]),
        ("int f() { return -1; }", [("-", ("",)), ("1", ("2", "0"))]),
        ("int f() { return 0; }", [("0", ("1",))]),
        ("int f() { int x = 0; return g(x); }", [("0", ("1",))]),
        ("auto f() { return 0x10u; }", [("0x10u", ("17u", "15u"))]),
        ("bool f() { return true; }", [("true", ("false",))]),
        ("int f(int a, int b) { return std::max(a, b); }", [("max", ("min",))]),
        ("int f(int a, int b) { return max(a, b); }", []),
        ("void f() { for (;;) break; }", [("break", ("continue",))]),
        ("int f(int a,\n      int b) {\n    return a &&\n           b;\n}", [("&&", ("||",))]),
    ],
)
def test_each_operator_has_its_exchange(mutation, text, wanted):
    assert found(mutation, text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "// a < b\n/* 1 + 1 */",
        "#if A < 1 && B\n#define N 1\n#endif",
        'const char* text = "a < b";',
        "static_assert(sizeof(int) == 4 && !false);",
        "enum class E : int { A = 1, B = 2 };",
        "struct S { virtual int f() const = 0; };",
        "template <class T> void f(T&& a, const T& b, T* c, T** d);",
        "struct S { bool operator==(const S&) const; bool operator<(const S&) const; };",
        'auto f(int n) { return n == 1 ? "" : "s"; }',
        'auto f(int n) { return "n is " + std::to_string(n) + name; }',
        "[[gnu::format(printf, 1, 2)]] void f();",
        "double x = 1.5;",
        "void f() { int x = 0; g(&x); }",
        "void f() { bool x = false; int y = 0; check(g(1.5, &x, &y)); }",
        "char c = '0';",
    ],
)
def test_what_is_no_code_that_runs_is_no_target(mutation, text):
    assert found(mutation, text) == []


def test_a_draw_is_its_seeds_alone(mutation):
    draw = mutation["sites"].draw
    first, again, other = ([m.id for m in islice(draw(ROOT, seed), 200)] for seed in (1, 1, 2))
    assert first == again
    assert len(set(first)) == 200
    assert len(set(first) & set(other)) < 60


def test_a_draw_of_parts_is_of_their_files_alone(mutation):
    sites = mutation["sites"]
    drawn = {mutant.site.file for mutant in sites.draw(ROOT, 1, sites.PARTS)}
    assert {"csrc/host/copy.cpp", "csrc/core/pool/events.cpp", "csrc/core/record/tallies.cpp"} <= drawn
    assert not any(Path(file).stem in ("heap", "managed") for file in drawn)
    unmatched = [name for name in sites.PARTS if not any(fnmatchcase(file, name) for file in drawn)]
    assert not unmatched, "no file has such a name, or none of its tokens can be exchanged"


def test_a_draw_reaches_every_folder_in_proportion(mutation):
    sites = mutation["sites"]
    everything = list(sites.draw(ROOT, 1))
    whole, part = sites.sums(everything), sites.sums(everything[:500])
    assert set(whole) >= {"csrc/host", "csrc/core", "csrc/python", "csrc/include/portamem", "csrc/include/portamem/mr"}
    assert not any("rt/cuda" in folder or "rt/hip" in folder for folder in whole)
    for folder, count in whole.items():
        expected = 500 * count / len(everything)
        assert abs(part[folder] - expected) <= 5 * expected**0.5 + 1, folder


def test_a_change_elsewhere_leaves_a_mutant_what_it_is(mutation):
    sites_of = mutation["sites"].sites_of
    line = "bool f(int a, int b) { return a < b; }\n"
    before, after = sites_of("f.cpp", line.encode()), sites_of("f.cpp", ("int x;\n\n    " + line).encode())
    assert [site.name for site in before] == [site.name for site in after]
    assert after[0].line == 3
    twice = sites_of("f.cpp", (line + line).encode())
    assert len({site.name for site in twice}) == 2


def test_a_mutant_is_the_file_with_one_token_exchanged(mutation):
    sites = mutation["sites"]
    for mutant in islice(sites.draw(ROOT, 7), 150):
        text = (ROOT / mutant.site.file).read_bytes()
        changed = mutant.apply(text)
        before = [token.text for token in sites.tokens_of(text)]
        after = [token.text for token in sites.tokens_of(changed)]
        assert changed != text
        assert len(text) - len(mutant.site.old) == len(changed) - len(mutant.new)
        at = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
        assert before[at] == mutant.site.old
        assert after == [*before[:at], *([mutant.new] if mutant.new else []), *before[at + 1 :]]
    with pytest.raises(ValueError, match="is gone"):
        mutant.apply(b" " * 100_000)


def test_every_defect_fits_the_sources_and_names_clauses_that_there_are(mutation):
    contract = {clause.id for clause in _clauses()}
    defects = mutation["planted"].DEFECTS
    assert len(defects) >= 12
    assert len({defect.name for defect in defects}) == len(defects)
    for defect in defects:
        contents = defect.contents(ROOT)
        assert all(text != (ROOT / file).read_bytes() for file, text in contents.items())
        assert defect.clauses, f"{defect.name} names no clause"
        assert set(defect.clauses) <= contract, defect.name


def _clauses():
    from portamem.conformance.contract import clauses

    return clauses().values()


def test_a_defect_whose_text_is_gone_is_an_error(mutation, tmp_path):
    planted = mutation["planted"]
    (tmp_path / "a.cpp").write_text("one two two")
    defect = planted.Defect("d", (planted.Change("a.cpp", "three", "four"),), ("ALLOC-01",))
    with pytest.raises(ValueError, match="0 times"):
        defect.contents(tmp_path)
    with pytest.raises(ValueError, match="2 times"):
        planted.Defect("d", (planted.Change("a.cpp", "two", "four"),), ()).contents(tmp_path)
    changes = (planted.Change("a.cpp", "one", "1"), planted.Change("a.cpp", "1 two", "3"))
    assert planted.Defect("d", changes, ()).contents(tmp_path) == {"a.cpp": b"3 two"}


def test_a_record_knows_what_still_holds(mutation, tmp_path):
    record, mutant = mutation["record"], next(mutation["sites"].draw(ROOT, 1))
    path = tmp_path / "mutants.json"

    def result(state: str, suite: str = "") -> object:
        site = mutant.site
        values = (mutant.id, site.file, 1, 1, mutant.operator, site.source, "digest", state)
        return record.Result(*values, suite=suite)

    kept = record.Record(seed=1, count=1)
    kept.add(result("killed"), path)
    again = record.Record.read(path, 1, 1)
    assert again == kept
    assert again.known(mutant, "digest", "suite").line == mutant.site.line
    assert again.known(mutant, "another", "suite") is None, "its file has changed"
    again.add(result("survived", "suite"), path)
    assert again.known(mutant, "digest", "suite")
    assert again.known(mutant, "digest", "a larger suite") is None, "it may be noticed now"
    assert record.Record.read(path, 2, 1).results == {}
    assert mutation["page"].rate(again) == 0
    assert mutation["page"].rate(kept) == 1


def test_neither_what_does_not_compile_nor_what_is_equivalent_is_a_mutant(mutation, monkeypatch):
    page, record = mutation["page"], mutation["record"]

    def result(id: str, state: str) -> object:
        return record.Result(id, "a.cpp", 1, 1, "0 -> 1", "", "digest", state)

    monkeypatch.setitem(page.REASONS, "same", (page.EQUIVALENT, "nobody reads it"))
    monkeypatch.setitem(page.REASONS, "unseen", (mutation["reasons"].UNSEEN, "no GPU"))
    drawn = {"same": "survived", "unseen": "survived", "new": "survived", "dead": "killed", "wrong": "not compiled"}
    kept = record.Record(1, 3, results={id: result(id, state) for id, state in drawn.items()})
    assert [id for id, found in kept.results.items() if page.stands(found)] == ["unseen", "new", "dead"]
    assert page.words(kept) == ("1 of 3 killed (33%); drawn besides: 1 that are equivalent, 1 that did not compile")
    assert page.stands(result("same", "killed")), "people were wrong"


class Farm:
    """A farm in which each mutant ends as is known."""

    def __init__(self) -> None:
        self.clauses = ("ALLOC-01",)

    def prepare(self, models, report) -> None:
        pass


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_round_draws_until_as_many_stand_as_were_asked_for(mutation, monkeypatch, tmp_path, jobs):
    mutants, record, page = mutation["mutants"], mutation["record"], mutation["page"]
    drawn = list(islice(mutation["sites"].draw(ROOT, 3), 12))
    states = dict.fromkeys((mutant.id for mutant in drawn), "killed")
    states[drawn[0].id] = states[drawn[5].id] = "not compiled"
    states[drawn[2].id] = states[drawn[4].id] = "survived"
    for expected in (drawn[2], drawn[4], drawn[3]):
        monkeypatch.setitem(page.REASONS, expected.id, (page.EQUIVALENT, ""))
    monkeypatch.setattr(mutants, "draw", lambda root, seed, within: iter(drawn))
    monkeypatch.setattr(mutants, "Farm", lambda folder, jobs: Farm())
    tried = []

    def judge(mutant, farm, digest, suite):
        tried.append(mutant.id)
        site = mutant.site
        found = record.Result(mutant.id, site.file, 1, 1, "", "", digest, states[mutant.id])
        found.suite = suite
        return found

    monkeypatch.setattr(mutants.trial, "judge", judge)
    path = tmp_path / "found" / "mutants.json"
    options = argparse.Namespace(
        record=path, parts=False, seed=3, count=4, folder=tmp_path, jobs=jobs, models=["discrete"]
    )
    for runs, count in enumerate((4, 4, 6), 1):
        tried.clear()
        kept = record.Record.read(path, 3, count)
        mutants.Round(options, kept, mutants.Console(file=io.StringIO()), Progress(disable=True)).go(count)
        # 3 was listed as equivalent, and dies: it stands after all.
        assert list(kept.results) == [mutant.id for mutant in drawn[: {4: 8, 6: 10}[count]]]
        assert sum(map(page.stands, kept.results.values())) == count
        assert kept.runs == {1: 1, 2: 1, 3: 2}[runs]
        assert len(tried) == {1: 8, 2: 0, 3: 2}[runs] or (runs == 1 and len(tried) == 9)


class Shop:
    """A workshop whose runs are known."""

    def __init__(self, *trials) -> None:
        self.trials = list(trials)
        self.asked: list[tuple[str, ...]] = []

    def conformance(self, select=(), **options):
        self.asked.append(tuple(select))
        return self.trials.pop(0)


def test_a_failure_counts_only_if_it_comes_again(mutation):
    trial, farm = mutation["trial"], mutation["farm"].Farm(Path("unused"), 1)
    farm.timeouts["discrete"] = 1.0
    make = mutation["workshop"].Trial
    passed, failed = make(True, "", (), 1.0), make(False, "failed", ("POOL-03",), 1.0)
    hung = make(False, "timeout", (), 1.0)

    shop = Shop(failed, failed)
    assert trial._confirmed(shop, farm, "discrete", ["POOL"]) is failed
    assert shop.asked == [("POOL",), ("POOL-03",)]
    assert trial._confirmed(Shop(failed, passed, passed), farm, "discrete", []) is None
    assert trial._confirmed(Shop(failed, passed, failed), farm, "discrete", []) is failed
    assert trial._confirmed(Shop(passed), farm, "discrete", []) is None
    assert trial._confirmed(Shop(hung), farm, "discrete", []) is hung


def test_a_copy_without_a_repository_is_taken_as_it_is(mutation, tmp_path):
    """But for what was built in it."""
    for file in ("CMakeLists.txt", "csrc/a.cpp", "portamem/a.py", "docs/a.md", "build/a.cpp"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    for file in ("portamem/_host.so", "portamem/__pycache__/a.pyc", "portamem/_build_info.json", ".hidden"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    found = mutation["workshop"].checkout_files(tmp_path)
    assert found == {"CMakeLists.txt", "csrc/a.cpp", "portamem/a.py"}
    assert mutation["workshop"].checkout_files(ROOT) >= {"CMakeLists.txt", "csrc/core/fork.cpp", "portamem/cli.py"}


def test_a_run_that_hangs_is_ended_with_all_that_it_started(mutation, tmp_path):
    command = [shutil.which("sh"), "-c", "echo begun; sleep 600 & wait"]
    status, said = mutation["workshop"]._run_all_of(command, {}, str(tmp_path), 2.0)
    assert (status, said) == (None, "begun")
    assert mutation["workshop"]._run_all_of([command[0], "-c", "exit 3"], {}, str(tmp_path), 10.0) == (3, "")


def test_likely_groups_are_those_that_there_are(mutation):
    likely = mutation["likely"].likely
    assert likely("csrc/host/pool.cpp", ["POOL", "ORDER", "COPY"]) == ["POOL", "ORDER"]
    assert likely("csrc/host/virtual.cpp", ["POOL"]) == []


def test_the_committed_page_is_what_was_found(mutation):
    page = mutation["page"]
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run: python tools/mutants.py --only-page"


def test_each_planted_defect_was_caught_by_a_clause_that_is_named_for_it(mutation):
    page, defects = mutation["page"], mutation["planted"].DEFECTS
    found = {each["defect"]: each for each in json.loads(page.DEFECTS.read_text(encoding="utf-8"))}
    assert list(found) == [defect.name for defect in defects], "run: python tools/defects.py --write"
    for defect in defects:
        kept = found[defect.name]
        assert kept["named"], f"{defect.name}: no clause that is named for it has failed"
        assert set(kept["named"]) <= set(defect.clauses) & set(kept["clauses"]), defect.name
        assert set(defect.clauses) <= set(clauses()), defect.name
        changed = defect.contents(ROOT)  # ValueError where one does not fit the sources any more
        assert kept["file"] == ", ".join(sorted(changed)), defect.name


def test_enough_mutants_were_noticed_and_each_survivor_has_a_reason(mutation):
    page = mutation["page"]
    kept = mutation["record"].Record.read(page.RECORD, 1, 100)
    assert sum(map(page.stands, kept.results.values())) == 100
    assert page.rate(kept) >= page.WANTED
    survivors = {result.id for result in kept.results.values() if result.state == "survived"}
    assert survivors == set(mutation["reasons"].REASONS)
