"""LoggingAdaptor: one JSON object a line, complete at the end, and told of everything."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.process import LAUNCHERS, run_python
from helpers.waiting import close_when_empty, eventually

import portamem


@pytest.fixture
def logging(pm: ModuleType, resource: Any, tmp_path: Path) -> Any:
    """An adaptor over a resource of every kind in turn."""
    made = pm.LoggingAdaptor(resource, tmp_path / "run.jsonl")
    yield made
    close_when_empty(made)


@pytest.fixture
def plain(pm: ModuleType, device_resource: Any, tmp_path: Path) -> Any:
    """An adaptor over plain device memory."""
    made = pm.LoggingAdaptor(device_resource, tmp_path / "run.jsonl")
    yield made
    close_when_empty(made)


def read(logging: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(logging.path).read_text(encoding="utf-8").splitlines()]


def calls(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((line for line in lines if "seq" in line and line["event"] != "end"), key=lambda line: line["seq"])


def test_the_header_names_format_version_and_process(logging):
    logging.flush()
    header = read(logging)[0]
    assert (header["format"], header["version"]) == ("portamem-log", 1)
    assert header["portamem"] == portamem.__version__
    assert (header["host"], header["pid"], header["rank"]) == (socket.gethostname(), os.getpid(), 0)


def test_every_call_is_a_line(pm, logging, stream, other_stream, resource):
    assert isinstance(logging, portamem.LoggingAdaptor)
    with pm.tag("solver"):
        buffer = logging.allocate(4096, stream=stream, alignment=64)
    address = buffer.handle
    buffer.record_stream(other_stream)
    buffer.close()
    with pytest.raises(portamem.OutOfMemoryError):
        logging.allocate(1 << 50, stream=stream)
    assert eventually(lambda: logging.live_buffers == 0)
    logging.close()
    lines = read(logging)
    alloc, record, free, refused, close = calls(lines)
    assert [each["event"] for each in (alloc, record, free, refused, close)] == [
        "alloc",
        "record",
        "free",
        "alloc",
        "close",
    ]
    assert (alloc["size"], alloc["alignment"], int(alloc["address"], 16)) == (4096, 64, address)
    assert (alloc["stream"], alloc["tag"], alloc["depth"]) == (stream.identity, "solver", 0)
    assert (record["stream"], int(record["address"], 16)) == (other_stream.identity, address)
    assert (free["stream"], free["size"], int(free["address"], 16)) == (stream.identity, 4096, address)
    assert alloc["t"] <= record["t"] <= free["t"] <= refused["t"]
    assert all(each["ns"] >= 0 and each["thread"] == alloc["thread"] for each in (alloc, record, free, refused))
    assert "OutOfMemory" in refused["error"]
    assert "address" not in refused
    assert "error" not in alloc
    (site,) = [each["text"] for each in lines if each.get("event") == "site" and each["id"] == alloc["site"]]
    assert site.startswith(f"{__file__}:")
    (of,) = [each for each in lines if each.get("event") == "resource"]
    assert (of["id"], of["class"], of["kind"]) == (alloc["resource"], "LoggingAdaptor", resource.kind)
    streams = {each["id"]: each for each in lines if each.get("event") == "stream"}
    assert streams[stream.identity]["role"] == "own"
    assert lines[-1] == {"event": "end", "events": 5, "seq": 5}


def test_default_streams_are_named_as_such(pm, plain, device):
    plain.allocate(1, stream=device.default_stream).close()
    plain.close()
    assert [each["role"] for each in read(plain) if each.get("event") == "stream"] == ["legacy"]


def test_wrong_frees_are_logged_and_refused(plain):
    address = plain.allocate(1000).release()
    with pytest.raises(ValueError, match="the block has 1000 bytes, not 999"):
        plain.deallocate(address, 999)
    plain.deallocate(address, 1000)
    plain.close()
    alloc, wrong, right, _ = calls(read(plain))
    assert "not 999" in wrong["error"]
    assert "error" not in right
    assert alloc["address"] == wrong["address"] == right["address"]


def test_calls_are_numbered_in_an_order_they_could_have_had(plain):
    def work() -> None:
        for n in range(100):
            plain.allocate(256 * (n % 4 + 1)).close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eventually(lambda: plain.live_buffers == 0)
    plain.close()
    found = calls(read(plain))
    assert [each["seq"] for each in found] == list(range(1, 1202))
    assert len({each["thread"] for each in found[:-1]}) == 6
    live: dict[str, int] = {}
    for each in found[:-1]:
        if each["event"] == "alloc":
            assert each["address"] not in live
            live[each["address"]] = each["size"]
        else:
            assert live.pop(each["address"]) == each["size"]
    assert live == {}


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": "5", "SLURM_PROCID": "1"}, 5),
        ({"RANK": "5"}, 0),  # it may be anything
        ({"RANK": "5", "SLURM_PROCID": "1"}, 1),
        ({"PMI_RANK": "two", "SLURM_PROCID": "1"}, 1),
    ],
)
def test_the_rank_is_the_launchers(pm, device_resource, tmp_path, monkeypatch, env, rank):
    for name in (*LAUNCHERS, "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pm.LoggingAdaptor(device_resource, f"{tmp_path}/%r.jsonl") as logging:
        assert logging.path == f"{tmp_path}/{rank}.jsonl"


def test_a_path_has_rank_host_and_process(pm, device_resource, tmp_path, monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PMIX_RANK", "7")
    logging = pm.LoggingAdaptor(device_resource, f"{tmp_path}/run.%r.%h.%p.%%.jsonl")
    assert logging.path == f"{tmp_path}/run.7.{socket.gethostname()}.{os.getpid()}.%.jsonl"
    logging.close()
    assert read(logging)[0]["rank"] == 7


@pytest.mark.parametrize(
    ("path", "why"),
    [("/nonexistent/x.jsonl", "cannot be opened: No such file"), ("x.%q.jsonl", "has a '%q'"), ("", "empty")],
)
def test_a_path_that_cannot_be_written_is_refused(pm, device_resource, path, why):
    with pytest.raises(ValueError, match=why):
        pm.LoggingAdaptor(device_resource, path)


def test_a_pipe_that_nothing_reads_is_refused(pm, device_resource, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe that nothing reads"):
        pm.LoggingAdaptor(device_resource, tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    logging = pm.LoggingAdaptor(device_resource, tmp_path / "pipe")
    logging.allocate(64).close()
    logging.close()
    lines = os.read(reader, 1 << 16).decode().splitlines()
    os.close(reader)
    assert [json.loads(line).get("event") for line in lines[-3:]] == ["free", "close", "end"]


def test_a_recorded_program_runs_on_without_a_reader(pm, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = f"import portamem.{pm.backend} as pm; pm.DeviceMemoryResource().allocate(8).close(); print('allocated')"
    done = run_python(code, PORTAMEM_LOG=str(tmp_path / "pipe"))
    assert (done.returncode, done.stdout) == (0, "allocated\n")
    assert "is a pipe that nothing reads" in done.stderr


def test_two_logs_do_not_share_a_file(pm, device_resource, plain):
    with pytest.raises(ValueError, match="is being written already"):
        pm.LoggingAdaptor(device_resource, plain.path)


def test_the_log_is_complete_when_the_process_exits(pm, tmp_path):
    code = f"""
    import sys
    import portamem.{pm.backend} as pm
    logging = pm.LoggingAdaptor(pm.DeviceMemoryResource(), sys.argv[1])
    sys.modules["kept"] = (logging, logging.allocate(10).release())
    """
    path = tmp_path / "run.jsonl"
    done = run_python(code, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["event"] == "end"


def test_it_is_a_log_of_what_goes_through_it_alone(pm, device_resource, plain):
    device_resource.allocate(10).close()
    inner = pm.StatisticsAdaptor(plain)
    inner.allocate(20).close()
    inner.close()
    plain.close()
    assert [(each["event"], each.get("size")) for each in calls(read(plain))] == [
        ("alloc", 20),
        ("free", 20),
        ("close", None),
    ]
