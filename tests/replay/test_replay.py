"""``portamem replay``: a log is run again as it was, or refused with the line and the reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.process import cli, run_python

from portamem.replay import log as logs
from portamem.replay import plan as plans
from portamem.replay import runner
from portamem.replay.target import Target, names


def test_the_command(pm, recorded):
    done = cli("replay", str(recorded), "--backend", pm.backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "264 calls: 123 allocations, 122 frees, 18 uses on other streams; 3 thread(s), 4 stream(s)" in done.stdout
    assert "no allocation failed that was granted then" in done.stdout


@pytest.mark.parametrize("name", ["default", "device", "pinned", "system", "managed", "async", "pool"])
def test_a_log_runs_against_any_resource(pm, device, recorded, replay, tmp_path, name):
    if name not in names():
        pytest.skip(f"there is no resource {name} in this build")
    if name == "managed" and device.capabilities.managed_mode == "none":
        pytest.skip("the device has no managed memory")
    if name == "async" and not device.capabilities.memory_pools:
        pytest.skip("the device has no pools")
    done = replay(recorded, "--resource", name, "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["backend"], found["resource"]) == (pm.backend, name)
    assert (found["allocations"], found["frees"], found["records"]) == (123, 122, 18)
    assert (found["threads"], found["streams"]) == (3, 4)
    assert (found["failures"], found["left_live"]) == (0, 1)
    assert found["refused_again"] + found["granted"] == 1
    assert found["now"]["allocate"]["mean"] > 0
    assert found["then"]["free"]["max"] >= found["then"]["free"]["p50"] > 0
    assert found["peak_live"] == peak_of(logs.read(recorded))
    assert found["peak_reserved"] >= found["peak_live"]
    assert "no allocation failed that was granted then" in done.stdout


def peak_of(log: logs.Log) -> int:
    live = peak = 0
    for call in log.calls:
        if call.error is None:
            live += {"alloc": call.size, "free": -call.size}.get(call.event, 0)
            peak = max(peak, live)
    return peak


class Watched:
    """A target whose resource and streams note each call and its thread."""

    def __init__(self, target: Target) -> None:
        self.pm, self._target = target.pm, target
        self.calls: list[tuple[str, int, int, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def resource(self, recorded: int) -> Any:
        return self

    def stream(self, recorded: logs.LoggedStream) -> Any:
        return recorded.id, self._target.stream(recorded)

    def allocate(self, nbytes: int, *, stream: Any, alignment: int) -> Any:
        self._note("alloc", nbytes, stream[0])
        return WatchedBuffer(self, self._target.resource(0).allocate(nbytes, stream=stream[1], alignment=alignment))

    def _note(self, event: str, nbytes: int, stream: int) -> None:
        self.calls.append((event, nbytes, stream, threading.current_thread()))


class WatchedBuffer:
    def __init__(self, watched: Watched, buffer: Any) -> None:
        self._watched, self._buffer, self._nbytes = watched, buffer, buffer.nbytes

    def close(self, stream: Any = None) -> None:
        if stream is not None:
            self._watched._note("free", self._nbytes, stream[0])
        self._buffer.close(stream=stream and stream[1])

    def record_stream(self, stream: Any) -> None:
        self._watched._note("record", self._nbytes, stream[0])
        self._buffer.record_stream(stream[1])


def test_order_threads_and_streams_are_as_they_were(pm, recorded):
    log = logs.read(recorded)
    target = Watched(Target(pm, "device"))
    runner.run(log, plans.plan(log), target)  # type: ignore[arg-type]
    target.close()
    expected = [(call.event, call.size, call.stream) for call in log.calls]
    assert [each[:3] for each in target.calls] == expected
    threads = dict(zip((call.thread for call in log.calls), (each[3] for each in target.calls), strict=True))
    assert len(set(threads.values())) == len(threads) == 3
    assert [each[3] for each in target.calls] == [threads[call.thread] for call in log.calls]


def edited(recorded: Path, tmp_path: Path, edit: Callable[[list[str]], list[str]]) -> Path:
    path = tmp_path / "edited.jsonl"
    path.write_text("".join(edit(recorded.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    return path


def index_of(lines: list[str], event: str) -> int:
    return next(i for i, line in enumerate(lines) if f'"event":"{event}"' in line)


def without(lines: list[str], event: str) -> list[str]:
    """One call fewer, and numbers that fit."""
    index = index_of(lines, event)
    return renumbered([*lines[:index], *lines[index + 1 :]], json.loads(lines[index])["seq"], -1)


def twice(lines: list[str], event: str) -> list[str]:
    """The same call once more, and numbers that fit."""
    index = index_of(lines, event)
    seq = json.loads(lines[index])["seq"]
    again = lines[index].replace(f'"seq":{seq},', f'"seq":{seq + 1},')
    rest = renumbered(lines, seq, 1)
    return [*rest[: index + 1], again, *rest[index + 1 :]]


def renumbered(lines: list[str], after: int, by: int) -> list[str]:
    found = [json.loads(line) for line in lines]
    for each in found:
        if "seq" in each and each["seq"] > after:
            each["seq"] += by
        if each.get("event") == "end":
            each["events"] += by
    return [json.dumps(each, separators=(",", ":")) + "\n" for each in found]


def replaced(lines: list[str], call: str, **values: Any) -> list[str]:
    index = index_of(lines, call)
    changed = {**json.loads(lines[index]), **values}
    return [*lines[:index], json.dumps(changed, separators=(",", ":")) + "\n", *lines[index + 1 :]]


WRONG: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "empty": (lambda lines: [], "line 1: the file is empty"),
    "no log": (lambda lines: ['{"a": 1}\n'], "line 1: this is no log of portamem"),
    "no JSON": (lambda lines: ["hello\n"], "line 1: no line of a log"),
    "another version": (
        lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]],
        "line 1: the log is of version 2 of the format, and this portamem reads 1",
    ),
    "no end": (lambda lines: lines[:-1], "the log is cut off: the line that ends it is missing"),
    "cut in a line": (lambda lines: [*lines[:10], lines[10][:20]], "line 11: the log is cut off in this line"),
    "a line is missing": (
        lambda lines: [line for i, line in enumerate(lines) if i != index_of(lines, "free")],
        "calls: call ",
    ),
    "a line twice": (lambda lines: [*lines[:-1], lines[index_of(lines, "free")], lines[-1]], " already"),
    "more after the end": (lambda lines: [*lines, lines[-1]], "there is more after the line that ends the log"),
    "an unknown event": (lambda lines: replaced(lines, "free", event="freed"), "there is no event 'freed'"),
    "an unknown stream": (lambda lines: replaced(lines, "free", stream=9999), "stream 9999 is not described"),
    "no size": (lambda lines: replaced(lines, "alloc", size="4"), "'size' is an int in such a line, not '4'"),
    "an unknown address": (lambda lines: replaced(lines, "free", address="0x10"), "a free of address 0x10, which"),
    "another size": (lambda lines: replaced(lines, "free", size=3), ": 3 bytes at 0x"),
    "freed but not allocated": (lambda lines: without(lines, "alloc"), "does not have out"),
    "allocated twice": (lambda lines: twice(lines, "alloc"), "which it gave in line"),
    "no JSON that ends": (lambda lines: ["[" * 200_000 + "\n"], "line 1: no line of a log: it is nested too deeply"),
    "a line that is nested": (
        lambda lines: [lines[0], '{"event":' * 200_000 + "\n"],
        "line 2: no line of a log: it is nested too deeply",
    ),
    "a version that is true": (
        lambda lines: [lines[0].replace('"version":1', '"version":true'), *lines[1:]],
        "line 1: the log is of version True of the format",
    ),
    "a version with a point": (
        lambda lines: [lines[0].replace('"version":1', '"version":1.0'), *lines[1:]],
        "line 1: the log is of version 1.0 of the format",
    ),
    "an end of less than nothing": (lambda lines: replaced(lines, "end", seq=-1), "'seq' is an int from 0"),
    "an end before the end": (lambda lines: replaced(lines, "end", seq=5), "of 5 calls: its end does not fit"),
    "a negative time": (lambda lines: replaced(lines, "alloc", ns=-5), "'ns' is an int from 0 in such a line, not -5"),
    "a negative depth": (lambda lines: replaced(lines, "free", depth=-1), "'depth' is an int from 0"),
    "a negative thread": (lambda lines: replaced(lines, "free", thread=-1), "'thread' is an int from 0"),
    "a negative size": (lambda lines: replaced(lines, "alloc", size=-1), "'size' is an int from 0"),
    "a negative address": (lambda lines: replaced(lines, "alloc", address="-0x10"), "'-0x10' is not an address"),
    "an error that is no text": (lambda lines: replaced(lines, "alloc", error=5), "'error' is text in such a line"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_replayed_is_refused_with_line_and_reason(replay, recorded, tmp_path, what):
    edit, why = WRONG[what]
    path = edited(recorded, tmp_path, edit)
    done = replay(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"portamem: {path} cannot be replayed: line ")
    assert why in done.stderr


def test_an_allocation_that_fails_now_is_told(replay, recorded, tmp_path):
    large = 1 << 45
    path = edited(
        recorded,
        tmp_path,
        lambda lines: [
            lines[0],
            *[line for line in lines if any(f'"event":"{each}"' in line for each in ("resource", "stream"))],
            '{"event":"alloc","seq":1,"t":1,"ns":1,"thread":1,"depth":0,"resource":R,"stream":S,"size":Z,'
            '"alignment":256,"address":"0x100"}\n'.replace("R", str(ids(lines)[0]))
            .replace("S", str(ids(lines)[1]), 1)
            .replace("Z", str(large)),
            '{"event":"free","seq":2,"t":1,"ns":1,"thread":1,"depth":0,"resource":R,"stream":S,"size":Z,'
            '"address":"0x100"}\n'.replace("R", str(ids(lines)[0]))
            .replace("S", str(ids(lines)[1]), 1)
            .replace("Z", str(large)),
            '{"event":"end","events":2,"seq":2}\n',
        ],
    )
    done = replay(path, "--resource", "device", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["failures"], found["frees"], found["peak_live"]) == (1, 0, 0)
    assert found["first_failure"].startswith("line ")
    assert "1 allocations FAILED" in done.stdout


def ids(lines: list[str]) -> tuple[int, int]:
    found = [json.loads(line) for line in lines]
    return (
        next(each["id"] for each in found if each.get("event") == "resource"),
        next(each["id"] for each in found if each.get("event") == "stream"),
    )


def test_an_alignment_that_a_resource_cannot_give_stops_the_replay(replay, recorded, tmp_path):
    path = edited(recorded, tmp_path, lambda lines: replaced(lines, "alloc", alignment=1 << 20))
    done = replay(path, "--resource", "device")
    assert done.returncode == 1
    assert "bytes cannot be allocated: the resource aligns to 256 bytes, not to 1048576" in done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--resource", "nonsense"), "a resource is one of default, "),
        (("--only", "99999"), "the log has no resource 99999: it has"),
    ],
)
def test_wrong_options_are_refused(replay, recorded, options, why):
    done = replay(recorded, *options)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_device_that_is_not_here_is_refused(replay, recorded):
    done = replay(recorded, "--resource", "device", "--device", "99")
    assert done.returncode == 1
    assert "device 99 is not here" in done.stderr


def test_a_file_that_is_not_there_is_refused(replay, tmp_path):
    done = replay(tmp_path / "none.jsonl")
    assert done.returncode == 2
    assert "No such file" in done.stderr


def test_calls_that_resources_made_of_each_other_are_not_made_twice(pm, replay, tmp_path):
    code = f"""
    import portamem.{pm.backend} as pm
    device = pm.DeviceMemoryResource()
    over = pm.StatisticsAdaptor(device)
    buffers = [over.allocate(100 * n + 1) for n in range(5)] + [device.allocate(7)]
    for buffer in buffers:
        buffer.close()
    """
    path = tmp_path / "run.jsonl"
    done = run_python(code, PORTAMEM_LOG=str(path))
    assert (done.returncode, done.stderr) == (0, "")
    log = logs.read(path)
    whole = plans.plan(log)
    assert (len(whole.steps), whole.skipped) == (12, 10)
    below = next(each for each in log.resources.values() if each.cls == "DeviceMemoryResource")
    only = plans.plan(log, below.id)
    assert [step.call.size for step in only.steps if step.call.event == "alloc"] == [1, 101, 201, 301, 401, 7]
    assert only.skipped == 10
    assert replay(path, "--resource", "device", "--only", str(below.id)).returncode == 0


def of_two_backends(lines: list[str]) -> list[str]:
    """The calls on a second resource, of another backend, behind those of the log."""
    found = [json.loads(line) for line in lines]
    end = found.pop()
    resource = next(each for each in found if each.get("event") == "resource")
    other = {**resource, "id": 9000, "backend": "cuda" if resource["backend"] != "cuda" else "host"}
    call = next(each for each in found if each.get("event") == "alloc")
    call = {**call, "seq": end["seq"] + 1, "resource": 9000, "address": "0x7000", "size": 4096}
    free = {key: value for key, value in call.items() if key not in ("alignment", "tag", "site")}
    free |= {"event": "free", "seq": end["seq"] + 2}
    end |= {"events": end["events"] + 2, "seq": end["seq"] + 2}
    return [json.dumps(each, separators=(",", ":")) + "\n" for each in (*found, other, call, free, end)]


def test_a_log_of_two_backends_is_replayed_apart_or_not_at_all(pm, replay, recorded, tmp_path):
    path = edited(recorded, tmp_path, of_two_backends)
    other = "cuda" if pm.backend != "cuda" else "host"
    line = 1 + max(i for i, text in enumerate(path.read_text(encoding="utf-8").splitlines()) if '"alloc"' in text)
    done = replay(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"cannot be replayed: line {line}: a call on {other}, and the calls before are on {pm.backend}" in done.stderr
    )
    assert "--from" in done.stderr
    for options, count in ((("--from", pm.backend), 123), (("--from", other), 1), (("--only", "9000"), 1)):
        done = replay(path, *options, "--json", str(tmp_path / "found.json"))
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
        assert (found["backend"], found["allocations"]) == (pm.backend, count)


def test_a_backend_that_the_log_does_not_have_is_refused(pm, replay, recorded):
    other = "cuda" if pm.backend != "cuda" else "host"
    done = replay(recorded, "--from", other)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the log has no call of the program's on {other}: it has calls on {pm.backend}" in done.stderr


ARENA = """
import portamem.{backend} as pm
arena = pm.MonotonicMemoryResource(pm.DeviceMemoryResource())
for step in range(3):
    for n in range(4):
        arena.allocate(1000).close()
    arena.release()
"""


def test_release_is_in_no_log_and_a_replay_that_would_want_it_says_so(pm, replay, recorded, tmp_path):
    path = tmp_path / "arena.jsonl"
    done = run_python(ARENA.format(backend=pm.backend), PORTAMEM_LOG=str(path))
    assert (done.returncode, done.stderr) == (0, "")
    log = logs.read(path)
    arena = next(each.id for each in log.resources.values() if each.cls == "MonotonicMemoryResource")
    below = next(each.id for each in log.resources.values() if each.cls == "DeviceMemoryResource")
    line = min(call.line for call in log.calls if call.resource == arena)
    for options in ((), ("--only", str(arena))):
        done = replay(path, "--resource", "monotonic-device", *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"line {line}: a call on a MonotonicMemoryResource, whose release() is in no log" in done.stderr
        done = replay(path, "--resource", "pool", *options)
        assert done.returncode == 0, done.stdout + done.stderr
    done = replay(path, "--resource", "monotonic-device", "--only", str(below))
    assert done.returncode == 0, done.stdout + done.stderr
    done = replay(recorded, "--resource", "monotonic-device")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gives nothing back before release(), which is in no log" in done.stdout
    assert "release()" not in replay(recorded, "--resource", "pool").stdout
