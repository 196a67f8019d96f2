# SPDX-License-Identifier: MIT
"""evidence/quirks.md: which clauses of the suite notice which quirk of HIP on AMD, and which hold all the same.

The suite runs over each stand-in (tests/standin) as its version is said to be, and then with one quirk the other way
round at a time. A clause notices a quirk if its outcome is another one with it than without it. With --check the whole
suite runs over each stand-in once, and with each quirk only the clauses that BRIDGES names; no page is written.

Either way the exit status is 1 for a clause that fails unexpectedly, for a bridged one that does not hold, for a clause
that does not notice what BRIDGES says that it notices, and for one that notices what it is not named for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 1200

Outcomes = Mapping[str, str]
"""Clause to outcome; empty where a run told nothing."""

WORST_FIRST = ("fail", "defect", "emulated", "pass")
"""The outcomes of checks that did see something."""

HOLDS = ("pass", "emulated")


@dataclass(frozen=True)
class Bridge:
    """The clauses about what a quirk touches that hold with it, by what portamem does; or why there are none."""

    clauses: tuple[str, ...] = ()
    why_none: str = ""
    defects: tuple[str, ...] = ()
    """The clauses that fail with it, as a known defect of the versions that have it: in others they just fail."""
    told: str = ""
    """The PORTAMEM_QUIRKS that tells portamem of the quirk, where its own table has it for other versions only. Without
    that the clauses may fail."""
    untold: str = ""
    """The PORTAMEM_QUIRKS that takes the bridge away: each of the clauses fails then, so each would notice."""
    notices: tuple[str, ...] = ()
    """The clauses whose outcome the quirk changes, with portamem as it is: these and no others."""
    notices_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further ones, over some stand-ins only."""
    unsupported_on: tuple[str, ...] = ()
    """The stand-ins whose headers do not tell of what the clauses need, so that portamem does without."""
    near: tuple[str, ...] = ()
    """Clauses about what the quirk touches that are looked at too, and have nothing to notice."""

    def noticed_by(self, abi: str) -> set[str]:
        return {*self.notices, *self.notices_on.get(abi, ())}

    def held_on(self, abi: str) -> tuple[str, ...]:
        """The clauses that have to hold over a stand-in."""
        return () if abi in self.unsupported_on else self.clauses

    def concerned(self, abi: str) -> tuple[str, ...]:
        """All that is looked at where not the whole suite is."""
        return tuple(sorted({*self.clauses, *self.near, *self.noticed_by(abi)}))


TINY = (
    *("ALLOC-01", "ALLOC-02", "ALLOC-04", "ALLOC-06", "ALLOC-20"),
    *("POOL-03", "POOL-06", "POOL-10", "POOL-42", "PROCESS-01"),
)
NEED_POOLS = (
    *("DEVICE-14", "DEVICE-21", "DEVICE-22", "DEVICE-28", "HIP-03", "ORDER-13", "ORDER-19", "ORDER-23"),
    *(f"POOL-{number:02}" for number in range(1, 22) if number != 11),
)


BRIDGES = {
    "plain_host_pointer_refused": Bridge(("HIP-02", "MANAGED-17", "PINNED-07", "POINTER-04", "POINTER-05")),
    "null_pointer_refused": Bridge(("HIP-02", "POINTER-06")),
    "free_async_null_refused": Bridge(("ALLOC-03", "FREE-07")),
    "async_zero_refused": Bridge(("ALLOC-03", "FREE-07")),
    "managed_zero_refused": Bridge(("ALLOC-03", "FREE-07", "MANAGED-14")),
    # PINNED-05 is about it too, and takes kernels.
    "pinned_flags_drop_coherence": Bridge(("HIP-05",)),
    "free_takes_pinned": Bridge(
        why_none="nothing is bridged: FREE-06 does not bind HIP, and says why", near=("FREE-04", "FREE-05")
    ),
    # portamem itself waits where it has to, and gives memory of pools to FreeAsync alone.
    "free_waits": Bridge(("FREE-09", "FREE-10", "ORDER-13", "ORDER-16")),
    # PINNED-13 is what cannot be bridged: a defect.
    "register_overlap_allowed": Bridge(("PINNED-12",), notices=("PINNED-13",)),
    "prefetch_ignores_foreign": Bridge(("MANAGED-12",)),
    "pools_not_supported": Bridge(
        why_none="nothing is bridged: the capability `memory_pools` says so",
        notices=NEED_POOLS,
        notices_on={"7.1": ("POOL-11",)},  # before HIP 6.4 a pool has no limit to show, with the quirk or without
    ),
    "pool_exhaustion_unseen": Bridge(("ALLOC-11", "ALLOC-12", "ERROR-03", "ERROR-04", "ERROR-05")),
    # ORDER-27 takes its resources by chance, and where there is virtual memory too it asks no pool for so little.
    "tiny_pool_allocation": Bridge(
        (*TINY, "ORDER-27"), told="tiny_pool_allocation=on", notices=TINY, notices_on={"5.2": ("ORDER-27",)}
    ),
    "release_threshold_ignored": Bridge(
        why_none="nothing is bridged: a defect, and `Device.probe().pool_threshold_effective` says so",
        defects=("ERROR-04", "POOL-01", "POOL-04"),
        notices=("ERROR-04", "POOL-01", "POOL-03", "POOL-04"),
    ),
    "free_on_other_stream": Bridge(("FREE-10", "HIP-03", "ORDER-15"), untold="free_on_other_stream=off"),
    "failed_allocation_keeps_memory": Bridge(
        why_none="nothing is bridged: a defect, and `Device.quirks` tells it from HIP 7.2 on",
        defects=("ERROR-05",),
        notices=("ERROR-05",),
    ),
    "ipc_loses_offset": Bridge(
        why_none="nothing is bridged: portamem has no handles for other processes yet", near=("DEVICE-28",)
    ),
    # HIP's headers have the attribute that tells of virtual memory from 5.7 on.
    "set_access_fails_on_tail": Bridge(
        ("VIRTUAL-01", "VIRTUAL-02", "VIRTUAL-04", "VIRTUAL-06"), unsupported_on=("5.2",), near=("DEVICE-25",)
    ),
    "pitched_copy_direction": Bridge(
        ("COPY-14", "COPY-22", "DEVICE-29", "ORDER-14"),
        told="pitched_copy_direction=on",
        notices=("COPY-22", "ORDER-14"),
    ),
}
"""Each quirk of tests/standin/quirks.cpp, with clauses of evidence/contract.md."""


@dataclass(frozen=True)
class Quirk:
    name: str
    about: str
    source: str
    by_default: bool


@dataclass
class Run:
    """One run of the suite: its outcomes, or why it has none."""

    outcomes: Outcomes = field(default_factory=dict)
    trouble: str = ""
    witness: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The finding of each clause that fails, and the case that made it."""


@dataclass
class Standin:
    """The runs over one stand-in: plain, and with each quirk the other way round."""

    abi: str
    quirks: list[Quirk]
    plain: Run
    turned: dict[str, Run]
    told: dict[str, Run] = field(default_factory=dict)
    """The runs of the bridged clauses with each quirk that portamem was told of."""
    untold: dict[str, Run] = field(default_factory=dict)
    """The runs of the bridged clauses with each quirk whose bridge was taken away."""

    def with_and_without(self, quirk: Quirk) -> tuple[Run, Run]:
        turned = self.turned[quirk.name]
        return (self.plain, turned) if quirk.by_default else (turned, self.plain)

    def with_it(self, quirk: Quirk) -> Run:
        """The run that shows the bridged clauses with the quirk on."""
        return self.told[quirk.name] if quirk.name in self.told else self.with_and_without(quirk)[0]


def noticed(with_it: Outcomes, without_it: Outcomes) -> dict[str, str]:
    """The clauses whose outcome a quirk changes, each with what it changes."""
    clauses = sorted(set(with_it) | set(without_it))
    pairs = {clause: (without_it.get(clause, "absent"), with_it.get(clause, "absent")) for clause in clauses}
    return {clause: f"{before} → {after}" for clause, (before, after) in pairs.items() if before != after}


def outcomes_of(report: Mapping[str, Any], backend: str = "hip") -> Outcomes:
    """The worst outcome of each clause: a part that takes kernels, which no stand-in runs, hides nothing."""
    return {clause["id"]: _seen(clause) for clause in report["clauses"] if clause.get("backend") == backend}


def reasons_of(report: Mapping[str, Any], backend: str = "hip") -> dict[str, str]:
    """The first case that failed of each clause, with what it says."""
    reasons: dict[str, str] = {}
    for clause in report["clauses"]:
        for case in clause["cases"] if clause.get("backend") == backend else ():
            if case["outcome"] == "fail":
                where = f" [{case['resource']}]" if case.get("resource") else ""
                reasons.setdefault(clause["id"], f"{case['check']}{where}: {case['detail']}")
    return reasons


def _seen(clause: Mapping[str, Any]) -> str:
    found = {clause["outcome"], *(case["outcome"] for case in clause["cases"])}
    return next((outcome for outcome in WORST_FIRST if outcome in found), str(clause["outcome"]))


def lost(run: Run, clauses: Iterable[str]) -> list[str]:
    """The clauses that do not hold, each with its outcome."""
    found = {clause: run.outcomes.get(clause, "absent") for clause in clauses}
    return [f"{clause} ({outcome})" for clause, outcome in found.items() if outcome not in HOLDS]


def faults(what: str, run: Run, bridged: Iterable[str] = (), excused: Iterable[str] = ()) -> list[str]:
    """Says what is wrong with a run. A defect is nothing wrong, unless the clause is a bridged one."""
    if run.trouble or not run.outcomes:
        return [f"{what}: the run {run.trouble or 'told nothing'}"]
    failed = {clause for clause, outcome in run.outcomes.items() if outcome == "fail"}
    found = []
    if unexcused := sorted(failed - set(excused)):
        reasons = [f"\n    {clause} {run.reasons[clause]}" for clause in unexcused if clause in run.reasons]
        found.append(f"{what}: fail: {', '.join(unexcused)}" + "".join(reasons))
    if missed := lost(run, bridged):
        found.append(f"{what}: bridged, and does not hold: {', '.join(missed)}")
    return found


def unexpected(what: str, found: Iterable[str], expected: Iterable[str]) -> list[str]:
    """Says what is wrong with the clauses that notice a quirk."""
    missed, more = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    told = [f"{what}: is to be noticed, and is not: {', '.join(missed)}"] if missed else []
    return [*told, f"{what}: notices it, and BRIDGES does not say so: {', '.join(more)}"] if more else told


def faults_over(standin: Standin, bridges: Mapping[str, Bridge]) -> list[str]:
    """Says what is wrong with the runs over a stand-in, and names each run."""
    begin = f"HIP {standin.abi}"
    # The plain run is the one with each quirk that is on by default.
    bridged = {
        clause: None
        for quirk in standin.quirks
        if quirk.by_default
        for clause in bridges[quirk.name].held_on(standin.abi)
    }
    found = faults(f"{begin} as it is said to be", standin.plain, bridged)
    for quirk in standin.quirks:
        bridge, what = bridges[quirk.name], f"{begin}, {quirk.name} {'off' if quirk.by_default else 'on'}"
        if quirk.name in standin.told:
            found += faults(f"{what}, PORTAMEM_QUIRKS={bridge.told}", standin.told[quirk.name], bridge.clauses)
        if quirk.name in standin.turned:
            untold = quirk.name in standin.told
            held, excused = ((), bridge.clauses) if untold else (bridge.held_on(standin.abi), ())
            turned = standin.turned[quirk.name]
            found += faults(what, turned, held, (*excused, *bridge.defects))
            if turned.outcomes and standin.plain.outcomes:
                # A clause that was not run with the quirk is not looked at, unless it is to notice.
                looked_at = {*turned.outcomes, *bridge.noticed_by(standin.abi)}
                changed = noticed(*(run.outcomes for run in standin.with_and_without(quirk)))
                found += unexpected(what, looked_at & set(changed), bridge.noticed_by(standin.abi))
        if quirk.name in standin.untold:
            run, what = standin.untold[quirk.name], f"{begin}, {quirk.name} on, PORTAMEM_QUIRKS={bridge.untold}"
            found += faults(what, run, excused=bridge.clauses)
            if held := [clause for clause in bridge.clauses if run.outcomes.get(clause) != "fail"]:
                found.append(f"{what}: nothing is bridged, and these do not fail: {', '.join(held)}")
    return found


def _known(standin: Standin, name: str) -> Quirk:
    return next(each for each in standin.quirks if each.name == name)


def _who_notices(quirk: str, standins: Sequence[Standin]) -> str:
    """The cell of a quirk: what each clause makes of it, and where, if not everywhere."""
    places: dict[tuple[str, str], list[str]] = {}
    troubles = []
    for standin in standins:
        with_it, without_it = standin.with_and_without(_known(standin, quirk))
        for run, what in ((with_it, "with"), (without_it, "without")):
            if run.trouble:
                troubles.append(f"{standin.abi}: the run {what} it {run.trouble}")
        if with_it.trouble or without_it.trouble:
            continue
        for clause, change in noticed(with_it.outcomes, without_it.outcomes).items():
            places.setdefault((change, clause), []).append(standin.abi)
    alike: dict[str, list[str]] = {}
    everywhere = [standin.abi for standin in standins]
    for (change, clause), abis in sorted(places.items()):
        where = "" if abis == everywhere else f" on {', '.join(abis)}"
        alike.setdefault(change + where, []).append(clause)
    lines = [f"{change}: {', '.join(clauses)}" for change, clauses in alike.items()]
    return "<br>".join(lines + troubles) or "none"


def _who_holds(quirk: str, bridge: Bridge, standins: Sequence[Standin]) -> str:
    """The neighbouring cell: the bridged clauses, those first that hold over every stand-in; or why there are none."""
    if not bridge.clauses:
        return bridge.why_none
    missed = {standin.abi: lost(standin.with_it(_known(standin, quirk)), bridge.clauses) for standin in standins}
    gone = {each.partition(" ")[0] for several in missed.values() for each in several}
    held = ", ".join(clause for clause in bridge.clauses if clause not in gone)
    if bridge.told and held:
        held += f"; with `PORTAMEM_QUIRKS={bridge.told}`"
    if bridge.untold and held:
        held += f"; with `PORTAMEM_QUIRKS={bridge.untold}` each of them fails"
    lines = [held] if held else []
    return "<br>".join([*lines, *(f"not on {abi}: {', '.join(several)}" for abi, several in missed.items() if several)])


def _counted(run: Run) -> str:
    if run.trouble:
        return f"the run {run.trouble}"
    found = sorted(set(run.outcomes.values()))
    return ", ".join(f"{list(run.outcomes.values()).count(outcome)} {outcome}" for outcome in found)


def _not_passed(run: Run) -> str:
    """The cell of a run: the clauses of each outcome but `pass`. How many pass is not told, for that changes with each
    clause that is added."""
    if run.trouble:
        return f"the run {run.trouble}"
    found: dict[str, list[str]] = {}
    for clause, outcome in sorted(run.outcomes.items()):
        found.setdefault(outcome, []).append(clause)
    told = (f"{outcome}: {', '.join(clauses)}" for outcome, clauses in sorted(found.items()) if outcome != "pass")
    return "<br>".join(told) or "none"


def page(standins: Sequence[Standin], bridges: Mapping[str, Bridge]) -> str:
    abis = [standin.abi for standin in standins]
    lines = [
        "# Quirks of HIP on AMD, who notices them, and what holds all the same",
        "",
        "Written by `ci/standins.sh quirks`. **Simulated**: no AMD GPU took part. The conformance suite ran over",
        f"stand-ins for HIP {' and '.join(abis)} (`tests/standin`), each as its version is said to be, and then with",
        "one quirk the other way round at a time. A clause notices a quirk if its outcome changes: without the quirk →",
        "with it; `none` if no outcome does. The clauses that hold all the same are those about what a quirk touches:",
        "they hold with it too, for portamem bridges it. Where there are none, it says why. A clause of which a part",
        "takes kernels, which stand-ins do not run, counts as what its other parts have shown.",
        "",
        "Over a stand-in as it is said to be every clause passes that the first table does not name.",
        "",
        "No quirk is a call that fails at its n-th time: `tests/standin/test_failing_calls.py` has those.",
        "",
        "| HIP | clauses that do not pass | witness |",
        "|---|---|---|",
        *(
            f"| {standin.abi} | {_not_passed(standin.plain)} | {standin.plain.witness or 'none'} |"
            for standin in standins
        ),
        "",
        "| quirk | what it is | on by default | clauses that notice it | clauses that hold all the same | source |",
        "|---|---|---|---|---|---|",
    ]
    for quirk in standins[0].quirks:
        on = [
            standin.abi
            for standin in standins
            for each in standin.quirks
            if each.name == quirk.name and each.by_default
        ]
        default = "everywhere" if on == abis else ", ".join(on) or "nowhere"
        who = _who_notices(quirk.name, standins), _who_holds(quirk.name, bridges[quirk.name], standins)
        lines.append("| " + " | ".join((f"`{quirk.name}`", quirk.about, default, *who, quirk.source)) + " |")
    return "\n".join([*lines, ""])


def environment(folder: Path, quirks: str, told: str = "") -> dict[str, str]:
    """The environment of a process over a stand-in: as ci/standins.sh has it, with the hip-python of that version as
    its witness."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("STANDIN_", "PORTAMEM_"))}
    variables["PYTHONPATH"] = os.pathsep.join(str(folder / name) for name in ("hip-python", "site-packages"))
    variables["LD_LIBRARY_PATH"] = str(folder / "lib")
    variables["STANDIN_QUIRKS"] = quirks
    if told:
        variables["PORTAMEM_QUIRKS"] = told
    return variables


def conformance(folder: Path, quirks: str, select: Sequence[str] = (), told: str = "") -> Run:
    """Runs the suite, or the clauses that are selected. A report of the whole suite that is there already is of this
    build of the stand-in, and is read instead."""
    name = f"{'bridged' if select else 'conformance'}-{quirks or 'plain'}{'-' + told if told else ''}"
    report = folder / "reports" / f"{name}.json"
    report.parent.mkdir(exist_ok=True)
    if select:
        report.unlink(missing_ok=True)
    if not report.exists():
        command = [sys.executable, "-P", "-m", "portamem", "conformance", "--backend", "hip", "--json", str(report)]
        for clause in select:
            command += ["--select", clause]
        variables = environment(folder, quirks, told)
        try:
            done = subprocess.run(
                command, env=variables, cwd="/", capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return Run(trouble=f"did not end within {TIMEOUT_S} s")
        if not report.exists():
            print(f"{folder.name} {quirks or 'plain'}: exit {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
            return Run(trouble=f"ended with exit code {done.returncode} and no report")
    found = json.loads(report.read_text(encoding="utf-8"))
    witness = ", ".join(found["backends"]["hip"]["witnesses"])
    return Run(outcomes_of(found), witness=witness, reasons=reasons_of(found))


def quirks_of(folder: Path) -> list[Quirk]:
    """The table that a stand-in has of its own quirks, asked in a process of its own."""
    library = next((folder / "lib").glob("libamdhip64.so.*"))
    code = (
        "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).portamem_standin; f.restype = ctypes.c_char_p; "
        "print(f().decode())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(library)],
        env=environment(folder, ""),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = json.loads(said)["quirks"]
    return [Quirk(row["name"], row["about"], row["source"], row["by_default"]) for row in rows]


def run_all(
    root: Path, abis: Sequence[str], workers: int, bridges: Mapping[str, Bridge], *, whole: bool
) -> list[Standin]:
    """Runs the suite over each stand-in, and with each quirk all of it or the clauses alone that it concerns."""
    tables = {abi: quirks_of(root / abi) for abi in abis}
    if unknown := {quirk.name for table in tables.values() for quirk in table} - set(bridges):
        raise SystemExit(f"quirks: tools/quirks.py does not say what is bridged of {', '.join(sorted(unknown))}")
    made = []
    with ThreadPoolExecutor(workers) as pool:
        plain = {abi: pool.submit(conformance, root / abi, "") for abi in abis}
        turned: dict[str, dict[str, Future[Run]]] = {abi: {} for abi in abis}
        told: dict[str, dict[str, Future[Run]]] = {abi: {} for abi in abis}
        untold: dict[str, dict[str, Future[Run]]] = {abi: {} for abi in abis}
        for abi in abis:
            for quirk in tables[abi]:
                name, bridge = quirk.name, bridges[quirk.name]
                switch = f"-{name}" if quirk.by_default else name
                on = "" if quirk.by_default else name
                if bridge.told and not quirk.by_default:
                    told[abi][name] = pool.submit(conformance, root / abi, on, bridge.clauses, bridge.told)
                if bridge.untold:
                    untold[abi][name] = pool.submit(conformance, root / abi, on, bridge.clauses, bridge.untold)
                select = () if whole else bridge.concerned(abi)
                turned[abi][name] = pool.submit(conformance, root / abi, switch, select)
        for abi in abis:
            results = [{name: run.result() for name, run in runs[abi].items()} for runs in (turned, told, untold)]
            made.append(Standin(abi, tables[abi], plain[abi].result(), *results))
            print(f"HIP {abi}: {_counted(made[-1].plain)}; witness: {made[-1].plain.witness or 'none'}", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--standins", type=Path, required=True, help="where ci/standins.sh has built them")
    parser.add_argument("--check", action="store_true", help="the whole suite once, and what a quirk concerns; no page")
    parser.add_argument("--write", type=Path, help="the page to write; printed without")
    parser.add_argument("abis", nargs="+", help="5.2, 6.1, 7.1")
    options = parser.parse_args()
    workers = int(os.environ.get("JOBS", os.cpu_count() or 1))
    standins = run_all(options.standins, options.abis, workers, BRIDGES, whole=not options.check)
    if not options.check:
        text = page(standins, BRIDGES)
        if options.write:
            options.write.write_text(text, encoding="utf-8")
        else:
            print(text)
    found = [fault for standin in standins for fault in faults_over(standin, BRIDGES)]
    if found:
        raise SystemExit("\n".join(["quirks: not everything held", *found]))
    if options.check:
        shown = sum(len(standin.turned) + len(standin.told) + len(standin.untold) for standin in standins)
        print(f"{shown} runs with a quirk the other way round: the bridged clauses held, and the others noticed it")


if __name__ == "__main__":
    main()
