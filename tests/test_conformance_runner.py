"""The conformance suite's own machinery: outcomes, processes that die or hang, what is written, what is refused."""

from __future__ import annotations

import getpass
import json
import platform
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.process import cli

import portamem
from portamem.conformance.contract.clause import Clause, Defect, Platform
from portamem.conformance.harness import plan, runner
from portamem.conformance.kit import kinds
from portamem.conformance.kit.kinds_over import ADAPTORS
from portamem.conformance.kit.outcome import Outcome, summed
from portamem.conformance.report import sharable

FOLDER = Path(__file__).parent / "conformance"


def conformance(tmp_path: Path, *options: str, plugin: str = "", **env: str | None) -> tuple[int, dict[str, Any], str]:
    """Exit status, the JSON, and what was printed; over ALLOC alone where nothing else is asked for."""
    out = tmp_path / "results.json"
    select = () if "--select" in options else ("--select", "ALLOC-01", "--select", "ALLOC-02", "--select", "ALLOC-03")
    done = cli(
        *("conformance", "--backend", "host", "--with", "plugin", "--json", str(out), *select, *options),
        PYTHONPATH=str(FOLDER),
        PLUGIN=plugin,
        PORTAMEM_REQUIRE=None,
        **env,
    )
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return done.returncode, found, done.stdout + done.stderr


def cases(found: dict[str, Any], check: str) -> list[dict[str, Any]]:
    return [case for clause in found["clauses"] for case in clause["cases"] if case["check"] == f"plugin.{check}"]


def cases_of(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(case["check"], case.get("resource", "")) for clause in found["clauses"] for case in clause["cases"]}


def outcome(found: dict[str, Any], id: str) -> str:
    return next(str(clause["outcome"]) for clause in found["clauses"] if clause["id"] == id)


def test_a_kind_that_registers_itself_is_tested(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path)
    assert status == 0, said
    for clause in found["clauses"]:
        assert {case["outcome"] for case in clause["cases"] if case.get("resource") == "small pool"} == {"pass"}


def test_a_kind_that_is_wrong_is_found(tmp_path: Path) -> None:
    status, found, _ = conformance(tmp_path, plugin="broken kind")
    assert status == 1
    assert outcome(found, "ALLOC-02") == "fail"


def test_a_kind_without_the_class_that_it_needs_is_told_so(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--resource", "classless", plugin="classless kind")
    assert status == 1, said
    details = {case["detail"] for clause in found["clauses"] for case in clause["cases"]}
    assert all("the kind 'classless' makes a StatisticsAdaptor" in detail for detail in details), details
    assert all("register it with cls=" in detail for detail in details)


def test_kinds_are_chosen_by_their_names(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--resource", "pinned*", "--resource", "pool-device")
    assert status == 0, said
    kinds = {case.get("resource") for clause in found["clauses"] for case in clause["cases"]}
    assert kinds == {"pinned", "pinned-non_coherent", "pinned-prefaulted", "pool-device"}
    status, _, said = conformance(tmp_path, "--resource", "pinnd")
    assert status == 2
    assert "there is no resource pinnd: there are device" in " ".join(said.split())


def test_a_pool_stands_over_every_memory_of_the_runtime() -> None:
    own = {kind.name for kind in kinds.selected("every resource of the runtime")}
    below = {
        kind.upstream.name for kind in kinds.selected("pools") if kind.upstream is not None and not kind.upstream.cls
    }
    # These are the same resources, made in another way.
    assert own - below == {"pinned-non_coherent", "async-default_pool"}


def test_every_two_adaptors_on_a_pool(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--pairs", "--select", "ALLOC-01", "--select", "OWN-02")
    assert status == 0, said
    kinds = {case["resource"] for clause in found["clauses"] for case in clause["cases"]}
    pairs = len(ADAPTORS) * (len(ADAPTORS) - 1)
    assert len(kinds) == pairs
    assert {"limiting-statistics-pool-device", "statistics-limiting-pool-device"} <= kinds
    assert f"cases over {pairs} kinds of resources" in " ".join(said.split())
    about = found["backends"]["host"]
    assert (found["pairs"], about["kinds"], about["cases"]) == (True, pairs, len(cases_of(found)))


@pytest.mark.parametrize(
    ("plugin", "check", "saying"),
    [
        ("death", "dies", "the process ended with SIGABRT in this case"),
        ("quiet end", "ends", "the process ended early in this case"),
        ("leak", "leaks", "the resource still has 1 live buffer"),
        ("failure", "fails", "the first at offset 1: 0x01 instead of 0x02"),
        ("error", "errs", "OSError"),
        ("no refusal", "refuses_nothing", "nothing was raised, and ValueError should have been"),
        ("shut latch", "waits_for_itself", "a call waited for a latch"),
    ],
)
def test_what_goes_wrong_is_a_failure_of_its_case_alone(tmp_path: Path, plugin: str, check: str, saying: str) -> None:
    status, found, said = conformance(tmp_path, plugin=plugin)
    assert status == 1
    failed = [case for case in cases(found, check) if case["outcome"] == "fail"]
    assert failed
    assert all(saying in case["detail"] for case in failed), failed
    assert saying in " ".join(said.split())
    assert outcome(found, "ALLOC-01") == "fail"
    assert [outcome(found, id) for id in ("ALLOC-02", "ALLOC-03")] == ["pass", "pass"]


def run_alone(monkeypatch: pytest.MonkeyPatch, plugin: str, key: str) -> runner.CaseResult:
    """One case of the plugin, of which a silence of a second means that it hangs."""
    monkeypatch.setattr(runner, "CASE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(runner, "_DRAIN_S", 2.0)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("PLUGIN", plugin)
    monkeypatch.syspath_prepend(str(FOLDER))
    worker = runner._Worker("host", [key], ["plugin"], {})
    left, found = {key: plan.Case(next(iter(plan.checks())))}, []
    try:
        for name, result in worker.results(left):
            del left[name]
            found.append(result)
    finally:
        worker.close()
    [result] = found
    return result


def test_a_case_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_alone(monkeypatch, "hang", "plugin.hangs")
    assert result.outcome is Outcome.FAIL
    assert "hung" in result.detail
    assert "plugin.py" in result.detail, "where it hung is told"


def test_a_long_case_that_says_so_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_alone(monkeypatch, "long way", "plugin.takes_its_time")
    assert result.outcome is Outcome.PASS, result.detail
    assert result.seconds > 1.5


def test_an_interrupt_ends_a_run_that_is_still_being_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, handed_in = ThreadPoolExecutor.submit, []

    def interrupted(self: ThreadPoolExecutor, *call: Any) -> Any:
        if handed_in:
            raise KeyboardInterrupt
        handed_in.append(call)
        return submit(self, *call)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    ended = runner.run("host", ["COPY-01", "HEAP"])
    assert ended.interrupted
    assert handed_in
    assert not [case for clause in ended.clauses for case in clause.cases if case.outcome is Outcome.PASS]


def test_every_outcome_is_told(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, plugin="answers")
    assert status == 0, said
    assert [case["outcome"] for case in cases(found, "lacks")] == ["unsupported"]
    assert [case["outcome"] for case in cases(found, "sees_nothing")] == ["not-shown"]
    (helped,) = cases(found, "helps")
    assert (helped["outcome"], helped["detail"], helped["notes"]) == ("emulated", "done by hand", ["a note"])
    assert outcome(found, "ALLOC-03") == "emulated"
    assert found["backends"]["host"]["counts"] == {"emulated": 1, "pass": 2}


def test_without_its_witness_a_clause_is_not_shown(tmp_path: Path) -> None:
    """Though its other checks, which need none, have passed; a failure is a failure all the same."""
    status, found, said = conformance(tmp_path, plugin="no witness")
    assert status == 0, said
    assert outcome(found, "ALLOC-01") == "not-shown"
    (clause,) = (clause for clause in found["clauses"] if clause["id"] == "ALLOC-01")
    assert "pass" in {case["outcome"] for case in clause["cases"]}
    assert "it has gone home: ALLOC-01" in said
    assert outcome(found, "ALLOC-02") == "pass"
    status, found, _ = conformance(tmp_path, plugin="no witness,failure")
    assert (status, outcome(found, "ALLOC-01")) == (1, "fail")


def test_under_the_order_checker_a_check_without_order_fails(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, plugin="no order", PORTAMEM_CHECK="1")
    assert status == 1, said
    (wrong,) = cases(found, "forgets_an_event")
    assert wrong["outcome"] == "fail"
    assert "unordered read after write: 4096 bytes" in wrong["detail"]
    assert [case["outcome"] for case in cases(found, "means_to")] == ["pass"], "it says that it is about that"
    status, _, said = conformance(tmp_path, plugin="no order", PORTAMEM_CHECK=None)
    assert status == 0, said


def test_a_clause_is_as_good_as_its_worst_case() -> None:
    assert summed([Outcome.PASS, Outcome.FAIL, Outcome.DEFECT]) is Outcome.FAIL
    assert summed([Outcome.PASS, Outcome.DEFECT]) is Outcome.DEFECT
    assert summed([Outcome.PASS, Outcome.EMULATED]) is Outcome.EMULATED
    assert summed([Outcome.NOT_SHOWN, Outcome.PASS, Outcome.UNSUPPORTED]) is Outcome.PASS
    assert summed([Outcome.NOT_SHOWN, Outcome.UNSUPPORTED]) is Outcome.NOT_SHOWN
    assert summed([]) is Outcome.NOT_SHOWN, "what was not run was not shown"


def test_a_known_defect_excuses_its_vendor_and_versions_and_checks_alone() -> None:
    defect = Defect("amd", "it forgets", "https://example.org/1", "seen in 6.0", ("a.b",), since=(6, 0), until=(7, 0))
    clause = Clause("ALLOC-99", "It remembers.", defects=(defect,))
    assert clause.defect_on(Platform("hip", "amd", (6, 4)), "a.b") is defect
    assert clause.defect_on(Platform("hip", "amd", (6, 4)), "a.c") is None
    for other in (Platform("hip", "amd", (7, 0)), Platform("hip", "amd", (5, 7)), Platform("hip", "nvidia", (6, 4))):
        assert clause.defect_on(other, "a.b") is None


@pytest.mark.parametrize(
    ("since", "until", "seen"), [((0, 0), (0, 0), "fail"), ((0, 0), (0, 1), "defect"), ((0, 1), (999, 0), "fail")]
)
def test_outside_of_its_versions_a_known_defect_is_a_failure(
    tmp_path: Path, since: tuple[int, int], until: tuple[int, int], seen: str
) -> None:
    """The versions are told from that of the CPU runtime, which is portamem's own."""
    major, minor = (int(part) for part in portamem.__version__.split(".")[:2])
    versions = " ".join(f"{major + each[0]}.{minor + each[1]}" for each in (since, until))
    status, found, said = conformance(tmp_path, plugin="known defect,failure", DEFECT_VERSIONS=versions)
    assert (status, outcome(found, "ALLOC-01")) == (int(seen == "fail"), seen), said
    (wrong,) = cases(found, "fails")
    assert (wrong["outcome"], "it forgets" in wrong["detail"]) == (seen, seen == "defect")


EVERY_VERSION = "0.0 999.0"


def test_what_a_known_defect_does_not_name_fails(tmp_path: Path) -> None:
    """Another check of the same clause, beside one that is excused."""
    plugin = "known defect,failure,error"
    status, found, said = conformance(tmp_path, plugin=plugin, DEFECT_VERSIONS=EVERY_VERSION)
    assert (status, outcome(found, "ALLOC-01")) == (1, "fail"), said
    seen = {case["outcome"] for name in ("fails", "errs") for case in cases(found, name)}
    assert [case["outcome"] for case in cases(found, "fails")] == ["defect"], seen
    assert [case["outcome"] for case in cases(found, "errs")] == ["fail"], seen


@pytest.mark.parametrize(
    ("plugin", "name", "seen"),
    [("nothing wrong", "is_fine", "pass"), ("nothing native", "is_done_by_hand", "emulated")],
)
def test_a_check_that_passes_with_a_known_defect_is_told(tmp_path: Path, plugin: str, name: str, seen: str) -> None:
    """No other check of the clause is told, which passes with it and without it."""
    status, found, said = conformance(tmp_path, plugin=f"known defect,{plugin}", DEFECT_VERSIONS=EVERY_VERSION)
    assert (status, outcome(found, "ALLOC-01")) == (0, seen), said
    told = {case["check"]: case["notes"] for clause in found["clauses"] for case in clause["cases"] if "notes" in case}
    assert told == {f"plugin.{name}": ["a known defect did not show: it forgets (https://example.org/1)"]}, said


def test_the_file_to_send_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status, _, _ = conformance(tmp_path, "--report", str(path), plugin="error")
    assert status == 1
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    assert [clause["id"] for clause in found["clauses"]] == ["ALLOC-01", "ALLOC-02", "ALLOC-03"]
    assert ".../secret.txt" in text
    assert "somebody" not in text
    assert str(tmp_path) not in text
    for name in (platform.node(), getpass.getuser()):
        assert f'"{name}"' not in text
    assert all("cases" in clause and clause["passed"] > 0 for clause in found["clauses"])


def test_the_file_to_send_keeps_addresses_of_pages() -> None:
    text = (
        "it forgets (https://github.com/ROCm/rocm-systems/issues/7498). Seen: /opt/rocm/lib/libamdhip64.so, /home/alice"
    )
    assert sharable.anonymous(text) == (
        "it forgets (https://github.com/ROCm/rocm-systems/issues/7498). Seen: .../libamdhip64.so, ~"
    )


@pytest.mark.parametrize("name", ["gpu", "hip", "pass"])
def test_the_file_to_send_stays_whole_where_a_host_has_a_word_of_the_suite_as_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: f"{name}.cluster.example")
    case = {"check": "a.b", "outcome": "pass", "detail": f"on {name}.cluster.example, or {name} for short"}
    clause = {"id": "ALLOC-01", "backend": "hip", "outcome": "pass", "cases": [case]}
    found = sharable.anonymous({"backends": {"hip": {"evidence": "gpu", "vendor": "amd"}}, "clauses": [clause]})
    assert found["backends"] == {"hip": {"evidence": "gpu", "vendor": "amd"}}
    assert found["clauses"][0] | {"cases": []} == clause | {"cases": []}
    assert found["clauses"][0]["cases"][0]["detail"] == "on HOST, or HOST for short"


def test_a_defect_that_did_not_show_is_told(tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "page.md"
    _, _, said = conformance(tmp_path, "--junit", str(junit), "--markdown", str(page), plugin="answers")
    assert "ALLOC-03: a note" in said
    assert "a note" in junit.read_text(encoding="utf-8")
    assert "- a note" in page.read_text(encoding="utf-8")


def test_programs_read_junit_and_people_read_markdown(tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "page.md"
    conformance(tmp_path, "--junit", str(junit), "--markdown", str(page), plugin="failure")
    suite = ET.parse(junit).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("host", "3", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "offset 1" in str(failure.text)
    text = page.read_text(encoding="utf-8")
    assert "2 pass, 1 fail" in text
    assert "**ALLOC-01 on host: fail.**" in text


def test_the_first_failure_can_be_the_last(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--first-failure", plugin="failure,answers")
    assert status == 1
    assert not found["backends"]["host"]["finished"]
    assert "ended by the first failure" in said


def test_what_cannot_be_run_is_refused_before_anything_runs(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--select", "NONSENSE-01")
    assert (status, found) == (2, {})
    assert "there is no clause or group NONSENSE-01" in said
    assert "Traceback" not in said


def test_a_run_of_nothing_is_no_success(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--select", "HIP-03")
    assert (status, found) == (2, {})
    assert "nothing was run" in said


def test_what_takes_the_whole_device_runs_when_the_others_have_ended() -> None:
    ended: list[str] = []
    runner.run("host", ["HEAP-08", "HEAP-09", "ALLOC-09"], progress=lambda name, done, total: ended.append(name))
    assert ended[-1] == "heap.a_heap_that_there_is_no_memory_for"
    assert len(ended) == 3


def test_a_backend_that_is_not_ready_is_told_with_its_reason() -> None:
    done = cli("conformance", "--backend", "cuda", "--select", "ALLOC-01", PORTAMEM_REQUIRE=None)
    if done.returncode == 0:
        assert "cuda" in done.stdout, "it is there, or it is there without a device and shows nothing"
    else:
        assert "portamem.cuda cannot be used" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_required_gpu_must_be_there() -> None:
    done = cli(
        "conformance",
        "--select",
        "ALLOC-01",
        PORTAMEM_REQUIRE="hip",
        HIP_VISIBLE_DEVICES="-1",
        CUDA_VISIBLE_DEVICES="-1",
    )
    assert done.returncode != 0
    assert "hip" in done.stderr


@pytest.mark.parametrize(("backend", "saying"), [("cuda", "cuda"), ("host", "does not allow the host backend")])
def test_a_required_gpu_must_be_there_by_whatever_name(backend: str, saying: str) -> None:
    hidden = {"HIP_VISIBLE_DEVICES": "-1", "CUDA_VISIBLE_DEVICES": "-1"}
    done = cli("conformance", "--backend", backend, "--select", "EVENT-01", PORTAMEM_REQUIRE="cuda", **hidden)
    assert done.returncode != 0, done.stdout
    assert saying in done.stderr


def test_all_of_it_can_run_in_one_process(tmp_path: Path) -> None:
    status, found, said = conformance(tmp_path, "--in-process", plugin="quiet end")
    assert status == 0, said
    assert {case["outcome"] for case in cases(found, "ends")} == {"not-shown"}
    assert [outcome(found, id) for id in ("ALLOC-01", "ALLOC-02", "ALLOC-03")] == ["pass", "pass", "pass"]


def test_the_clauses_can_be_listed() -> None:
    done = cli("conformance", "--list")
    assert done.returncode == 0
    assert "ALLOC-01 (every resource): " in done.stdout


def test_a_mismatch_of_contract_and_checks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = Clause("ALLOC-99", "Nobody shows this.")
    odd = Clause("ALLOC-98", "It binds what there is not.", "every unicorn")
    monkeypatch.setattr(plan, "clauses", lambda: {"ALLOC-99": lonely, "ALLOC-98": odd})
    found = plan.mismatches()
    assert "nothing shows ALLOC-99 on hip" in found
    assert any("ALLOC-98 binds 'every unicorn'" in line for line in found)
    assert any("shows ALLOC-01, and there is no such clause" in line for line in found)
