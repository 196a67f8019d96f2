# SPDX-License-Identifier: MIT
"""The process that runs cases. It is told which on its standard input, and answers with a line before and after
each, and within those that are long."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from types import ModuleType
from typing import Any

from portamem.conformance.contract import clauses
from portamem.conformance.contract.clause import Platform
from portamem.conformance.harness.plan import Case, cases
from portamem.conformance.kit import kinds
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.outcome import Failed, NotShown, NoWitness, Outcome, Unsupported
from portamem.conformance.kit.patience import Patience
from portamem.conformance.kit.platform import platform_of

Answer = dict[str, Any]

_OWN = ("worker.py", "expect.py", "env.py", "contextlib.py")
"""Files that are on the way of every error, and say nothing about it."""


def main(arguments: list[str]) -> None:
    """``arguments`` are a file descriptor to answer on. What to do is on standard input, as JSON."""
    faulthandler.enable()
    answers = os.fdopen(int(arguments[0]), "w", buffering=1)
    order = json.load(sys.stdin)
    for module in order["with"]:
        importlib.import_module(module)

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")

    pm = importlib.import_module(f"portamem.{order['backend']}")
    platform = platform_of(pm)
    answer(platform=described(pm, platform))
    known = {case.key: case for case in cases(pm.backend, with_device=platform.device_count > 0)}
    patience = Patience()
    for key in order["cases"]:
        answer(started=key)
        goes_on = partial(answer, goes_on=key)
        answer(ended=key, **run_case(known[key], pm, platform, patience, goes_on))


def run_case(
    case: Case, pm: ModuleType, platform: Platform, patience: Patience, goes_on: Callable[[], None] = lambda: None
) -> Answer:
    """Runs one case and says what came of it. ``patience`` is that of the run; ``goes_on`` is what the check calls."""
    begun = time.perf_counter()
    try:
        env = Env(pm, platform, patience=patience, goes_on=goes_on)
    except Exception as error:
        return {"outcome": Outcome.FAIL.value, "detail": f"before the check: {_told(error)}", "seconds": 0.0}
    outcome, detail, lacks_witness = _verdict(lambda: _run_ordered(case, env))
    ended, afterwards, _ = _verdict(lambda: env.finish(look_for_leaks=outcome is Outcome.PASS))
    if ended is not Outcome.PASS and outcome is not Outcome.FAIL:
        outcome, detail = Outcome.FAIL, f"after the check: {afterwards}"
    if outcome is Outcome.PASS and env.emulations:
        outcome, detail = Outcome.EMULATED, "; ".join(dict.fromkeys(env.emulations))
    if outcome in (Outcome.FAIL, Outcome.PASS, Outcome.EMULATED):
        outcome, detail = _with_known_defects(case, platform, outcome, detail, env.notes)
    found: Answer = {"outcome": outcome.value, "detail": detail, "seconds": round(time.perf_counter() - begun, 4)}
    if lacks_witness and outcome is Outcome.NOT_SHOWN:
        found["lacks_witness"] = True
    if env.decided_by and outcome in (Outcome.PASS, Outcome.EMULATED, Outcome.FAIL, Outcome.DEFECT):
        found["witness"] = env.decided_by
    if env.notes:
        found["notes"] = env.notes
    return found


def _run_ordered(case: Case, env: Env) -> None:
    """With PORTAMEM_CHECK=1: the check uses no memory that no order covers, unless that is what it is about."""
    if os.environ.get("PORTAMEM_CHECK") != "1" or env.pm.backend != "host" or case.check.unordered:
        case.check.run(**_arguments(case, env))
        return
    with env.pm.check(raises=False) as checking:
        case.check.run(**_arguments(case, env))
    if checking.findings:
        raise Failed("the order checker has found: " + "; ".join(map(str, checking.findings)))


def _arguments(case: Case, env: Env) -> dict[str, Any]:
    """Gives the check its arguments, by the names of its parameters."""
    give: dict[str, Callable[[], Any]] = {
        "env": lambda: env,
        "resource": lambda: _resource(case, env),
        "witness": lambda: env.witness,
        "kernels": lambda: env.kernels,
    }
    return {name: give[name]() for name in case.check.parameters}


def _resource(case: Case, env: Env) -> Any:
    """The resource of a case, if the clause binds it on this device."""
    if case.kind is None:
        raise ValueError(f"{case.key} has no kind of resource")
    words = next(words for id in case.check.ids if (words := clauses()[id].resources))
    if not kinds.binds(words, case.kind, env.device.capabilities):
        raise Unsupported(f"direct_host_access: on {env.device!r} memory of kind {case.kind.name} is none of {words}")
    return env.resource(case.kind.name)


def _verdict(action: Callable[[], None]) -> tuple[Outcome, str, bool]:
    """Runs an action. Returns its outcome, the reason in words, and True where only a witness was missing."""
    try:
        action()
    except Failed as failed:
        return Outcome.FAIL, f"{failed} ({_places(failed)})", False
    except Unsupported as lacking:
        return Outcome.UNSUPPORTED, str(lacking), False
    except NotShown as missing:
        return Outcome.NOT_SHOWN, str(missing), isinstance(missing, NoWitness)
    except Exception as error:
        return Outcome.FAIL, _told(error), False
    return Outcome.PASS, "", False


def _with_known_defects(
    case: Case, platform: Platform, outcome: Outcome, detail: str, notes: list[str]
) -> tuple[Outcome, str]:
    contract, name = clauses(), case.check.name
    defects = [defect for id in case.check.ids if (defect := contract[id].defect_on(platform, name))]
    if not defects:
        return outcome, detail
    if outcome is Outcome.FAIL:
        return Outcome.DEFECT, f"{defects[0].about} ({defects[0].thread}). Seen: {detail}"
    notes += [f"a known defect did not show: {defect.about} ({defect.thread})" for defect in defects]
    return outcome, detail


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error} ({_places(error)})"


def _places(error: BaseException) -> str:
    """Says where an error was raised. Files have their names alone, so that a report names no person's folder."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    told = [frame for frame in frames if PurePath(frame.filename).name not in _OWN][-3:] or frames[-1:]
    return ", ".join(f"{PurePath(f.filename).parent.name}/{PurePath(f.filename).name}:{f.lineno}" for f in told)


def described(pm: ModuleType, platform: Platform) -> Answer:
    """The report's words for the machine: no name of a host or of a user is in them."""
    found: Answer = {
        "evidence": platform.evidence,
        "vendor": platform.vendor,
        "compiled_version": pm.version_text(pm.compiled_version()),
        "runtime_version": ".".join(map(str, platform.version)),
        "driver_version": _driver_version(pm),
        "devices": [],
    }
    for device in pm.devices() if platform.device_count else []:
        found["devices"].append({"name": device.name, "arch": device.arch, "quirks": [q.name for q in device.quirks]})
    return found


def _driver_version(pm: ModuleType) -> str:
    try:
        version = pm.driver_version()
    except RuntimeError:
        return ""
    return str(pm.version_text(version)) if version else ""
