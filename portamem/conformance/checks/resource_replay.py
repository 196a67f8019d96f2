# SPDX-License-Identifier: MIT
"""Shows the clauses of logs that are run again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal

PROGRAM = """
    import threading
    streams = [pm.Stream(0), pm.Stream(0)]

    def work(resource, mine, other):
        kept = []
        for n in range(40):
            buf = resource.allocate(1 << (8 + n % 9), stream=mine)
            buf.fill(n, stream=mine)
            kept.append((n, buf))
            if n % 3 == 2:
                check(*kept.pop(0), mine)
        for n, buf in kept:
            check(n, buf, other if n % 2 else mine)

    def check(n, buf, stream):
        out = bytearray(buf.nbytes)
        pm.copy(out, buf)
        assert out == bytes([n]) * buf.nbytes
        buf.close(stream=stream)

    with pm.LoggingAdaptor(pm.DeviceMemoryResource(0), sys.argv[1]) as logging:
        threads = [threading.Thread(target=work, args=(logging, streams[i], streams[1 - i])) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        try:
            logging.allocate(1 << 50)
        except MemoryError:
            pass
    print("written")
"""
STACK = """
def counted(pm, device):
    return pm.StatisticsAdaptor(pm.PoolMemoryResource(pm.DeviceMemoryResource(device)))
"""
REPLAY = """
    from portamem.cli import main
    sys.exit(main(["replay", *sys.argv[1:]]))
"""


def _record(env: Env, folder: str) -> Path:
    path = Path(folder) / "then.jsonl"
    expect_equal(env.output(PROGRAM, str(path), PORTAMEM_LOG=None, PORTAMEM_STATS=None).strip(), "written", "a program")
    return path


def _calls(path: Path) -> list[dict[str, Any]]:
    """The program's own calls on the resource that it called first, in their order."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    own = [line for line in lines if line.get("event") in ("alloc", "free") and line["depth"] == 0]
    own.sort(key=lambda line: int(line["seq"]))
    return [call for call in own if call["resource"] == own[0]["resource"]]


def _numbered(calls: list[dict[str, Any]], key: str) -> list[int]:
    """Numbers the threads, or the streams, of the calls by their first call."""
    found: dict[object, int] = {}
    return [found.setdefault(call[key], len(found)) for call in calls]


@check("RESOURCE-18")
def the_same_calls_again(env: Env) -> None:
    with tempfile.TemporaryDirectory() as folder:
        then = _record(env, folder)
        first = _calls(then)
        stack = Path(folder) / "stack.py"
        stack.write_text(STACK, encoding="utf-8")
        for number, name in enumerate(("device", "default", "pool", "pinned", f"{stack}:counted")):
            now, told = Path(folder) / f"{number}.jsonl", Path(folder) / f"{number}.json"
            options = ("--resource", name, "--backend", env.pm.backend, "--json", str(told))
            ended = env.run(REPLAY, str(then), *options, PORTAMEM_LOG=str(now), PORTAMEM_STATS=None)
            expect_equal((ended.status, ended.stderr), (0, ""), f"exit status and standard error, replayed on {name}")
            again = _calls(now)
            for key in ("event", "size"):
                expect_equal([call[key] for call in again], [call[key] for call in first], f"{key}s on {name}")
            for key in ("thread", "stream"):
                expect_equal(_numbered(again, key), _numbered(first, key), f"{key}s on {name}")
            found = json.loads(told.read_text(encoding="utf-8"))
            expect_equal(
                (found["allocations"], found["frees"], found["failures"]), (80, 80, 0), f"what is told of {name}"
            )
            expect_equal(found["refused_again"] + found["granted"], 1, "allocations that were refused then")


def _cut(lines: list[str]) -> list[str]:
    return lines[: len(lines) // 2]


def _of_another_version(lines: list[str]) -> list[str]:
    return [json.dumps({**json.loads(lines[0]), "version": 99}), *lines[1:]]


def _of_two_backends(lines: list[str]) -> list[str]:
    """The first resource once more, of another backend, and a call on it."""
    found = [json.loads(line) for line in lines]
    resource = next(each for each in found if each.get("event") == "resource")
    call = next(each for each in found if each.get("event") == "alloc")
    other = "cuda" if resource["backend"] != "cuda" else "hip"
    end = found.pop()
    found.append({**resource, "id": 1 << 40, "backend": other})
    found.append({**call, "resource": 1 << 40, "seq": end["seq"] + 1})
    found.append({**end, "events": end["events"] + 1, "seq": end["seq"] + 1})
    return [json.dumps(each) for each in found]


def _twice_freed(lines: list[str]) -> list[str]:
    at = next(number for number, line in enumerate(lines) if json.loads(line).get("event") == "free")
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


@check("RESOURCE-19")
def what_is_no_log_is_refused(env: Env) -> None:
    changes: tuple[Callable[[list[str]], list[str]], ...] = (
        _cut,
        _of_another_version,
        _of_two_backends,
        _twice_freed,
        lambda _: [],
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = _record(env, folder).read_text(encoding="utf-8").splitlines()
        for number, change in enumerate(changes):
            path, calls = Path(folder) / f"{number}.jsonl", Path(folder) / f"{number}.calls"
            path.write_text("".join(f"{line}\n" for line in change(whole)), encoding="utf-8")
            ended = env.run(
                REPLAY, str(path), "--backend", env.pm.backend, PORTAMEM_LOG=str(calls), PORTAMEM_STATS=None
            )
            expect_equal((ended.status, ended.stdout), (1, ""), "exit status and standard output")
            expect("cannot be replayed: line" in ended.stderr, f"it said {ended.stderr!r}")
            expect(not calls.exists() or not _calls(calls), "something was allocated for a log that is not whole")
