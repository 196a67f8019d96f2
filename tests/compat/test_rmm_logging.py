# SPDX-License-Identifier: MIT
"""RMM's log of allocations as comma-separated values, and its logger of what happens inside."""

from __future__ import annotations

import csv
import re
import threading
from pathlib import Path

import pytest
from helpers.process import python_output

COLUMNS = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]


def rows(path):
    """The rows of a log, by column; its heading is checked."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        found = list(reader)
    assert reader.fieldnames == COLUMNS
    return found


def test_each_allocation_and_each_free_is_a_row(rmm, tmp_path):
    mr = rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource(), tmp_path / "rmm.csv")
    assert mr.get_file_name() == str(tmp_path / "rmm.dev0.csv")
    stream = rmm.pylibrmm.stream.Stream()
    first, second = rmm.DeviceBuffer(size=100, mr=mr), rmm.DeviceBuffer(size=7, stream=stream, mr=mr)
    first.copy_from_host(b"abc")
    assert first.tobytes()[:3] == b"abc"
    pointers = [f"{each.ptr:#x}" for each in (first, second)]
    del first, second
    mr.flush()
    found = rows(mr.get_file_name())
    own = f"{stream.__cuda_stream__()[1]:#x}"
    assert [(row["Action"], row["Pointer"], row["Size"], row["Stream"]) for row in found] == [
        ("allocate", pointers[0], "100", "0x0"),
        ("allocate", pointers[1], "7", own),
        ("free", pointers[0], "100", "0x0"),
        ("free", pointers[1], "7", own),
    ]
    assert {row["Thread"] for row in found} == {str(threading.get_native_id())}
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", row["Time"]) for row in found)


def test_a_failure_is_a_row(rmm, tmp_path):
    limited = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 10)
    mr = rmm.mr.LoggingResourceAdaptor(limited, str(tmp_path / "log"))
    with pytest.raises(MemoryError):
        mr.allocate(11)
    mr.flush()
    (row,) = rows(tmp_path / "log.dev0")
    assert (row["Action"], row["Pointer"], row["Size"]) == ("allocate failure", "(nil)", "11")


def test_a_log_is_complete_when_its_adaptor_has_ended(rmm, tmp_path):
    mr = rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource(), tmp_path / "rmm.csv")
    buffer = rmm.DeviceBuffer(size=1, mr=mr)
    path = mr.get_file_name()
    del mr
    del buffer
    assert [row["Action"] for row in rows(path)] == ["allocate", "free"]


def test_threads_write_whole_rows(rmm, tmp_path):
    mr = rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource(), tmp_path / "rmm.csv")

    def work(size):
        for _ in range(100):
            rmm.DeviceBuffer(size=size, mr=mr)

    threads = [threading.Thread(target=work, args=(size,)) for size in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mr.flush()
    found = rows(mr.get_file_name())
    for size in "123":
        assert [row["Action"] for row in found if row["Size"] == size] == ["allocate", "free"] * 100
    assert len(found) == 600


def test_the_name_comes_from_the_environment(rmm, tmp_path, monkeypatch):
    monkeypatch.delenv("RMM_LOG_FILE", raising=False)
    with pytest.raises(ValueError, match="RMM_LOG_FILE"):
        rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource())
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "env.log"))
    mr = rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource())
    assert mr.get_file_name() == str(tmp_path / "env.dev0.log")
    with pytest.raises(OSError, match="missing"):
        rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource(), tmp_path / "missing" / "x.csv")


def test_logging_is_switched_on_and_off(rmm, tmp_path):
    rmm.reinitialize()
    plain = rmm.mr.get_current_device_resource()
    assert rmm.get_log_filenames() == {0: None}
    rmm.enable_logging(log_file_name=tmp_path / "rmm.csv")
    logging = rmm.mr.get_current_device_resource()
    rmm.enable_logging(log_file_name=tmp_path / "other.csv")
    assert rmm.mr.get_current_device_resource() is logging
    assert rmm.get_log_filenames() == {0: str(tmp_path / "rmm.dev0.csv")}
    rmm.DeviceBuffer(size=3)
    rmm.disable_logging()
    assert rmm.mr.get_current_device_resource() is plain
    assert rmm.get_log_filenames() == {0: None}
    rmm.DeviceBuffer(size=4)
    logging.flush()
    assert [row["Size"] for row in rows(logging.get_file_name())] == ["3", "3"]


def test_logging_is_switched_on_where_nothing_was_set(rmm, tmp_path):
    default = rmm.mr.get_current_device_resource()
    rmm.enable_logging(tmp_path / "rmm.csv")
    rmm.DeviceBuffer(size=3)
    rmm.disable_logging()
    assert rmm.mr.get_current_device_resource() is default
    assert [row["Size"] for row in rows(tmp_path / "rmm.dev0.csv")] == ["3", "3"]


def test_each_device_has_a_log(rmm, two_devices, tmp_path):
    rmm.reinitialize(devices=[0, 1], logging=True, log_file_name=str(tmp_path / "rmm.csv"))
    names = rmm.get_log_filenames()
    assert names == {0: str(tmp_path / "rmm.dev0.csv"), 1: str(tmp_path / "rmm.dev1.csv")}
    rmm.DeviceBuffer(size=5, mr=rmm.mr.get_per_device_resource(1))
    from portamem.compat.rmm.pylibrmm.memory_resource._memory_resource import _flush_logs

    _flush_logs()
    assert [row["Size"] for row in rows(names[1])] == ["5", "5"]
    assert rows(names[0]) == []


def test_a_log_is_complete_when_the_process_exits(tmp_path):
    code = """
        import sys
        import portamem.compat.rmm as rmm
        rmm.enable_logging(sys.argv[1])
        kept = rmm.DeviceBuffer(size=11)
    """
    assert python_output(code, str(tmp_path / "exit.csv")) == ""
    found = rows(tmp_path / "exit.dev0.csv")
    assert found[0]["Size"] == "11"


def test_levels(rmm):
    level = rmm.level_enum
    assert (rmm.get_logging_level(), rmm.get_flush_level()) == (level.info, level.off)
    for each in level:
        rmm.set_logging_level(each)
        rmm.set_flush_level(each)
        assert (rmm.get_logging_level(), rmm.get_flush_level()) == (each, each)
        assert [rmm.should_log(other) for other in level] == [each <= other < level.off for other in level]
    for wrong in ("INFO", 3, None, 1.5):
        for call in (rmm.set_logging_level, rmm.set_flush_level, rmm.should_log):
            with pytest.raises(TypeError, match="level is a member of level_enum"):
                call(wrong)


def test_messages_go_to_the_file_of_the_environment(tmp_path):
    code = """
        import portamem.compat.rmm as rmm
        from portamem.compat.rmm.pylibrmm import logger
        logger.log(rmm.level_enum.debug, "too small")
        logger.log(rmm.level_enum.warn, "a warning")
        rmm.set_flush_level(rmm.level_enum.error)
        logger.log(rmm.level_enum.error, "an error")
        rmm.flush_logger()
    """
    path = tmp_path / "debug.log"
    python_output(code, RMM_DEBUG_LOG_FILE=str(path))
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    assert [line.rpartition("] ")[2] for line in lines] == ["a warning", "an error"]
    assert "[WARNING]" in lines[0]


def test_a_log_that_cannot_be_written_fails_no_allocation_and_no_free(rmm, tmp_path, caplog):
    (tmp_path / "full.dev0.csv").symlink_to("/dev/full")
    below = rmm.mr.CudaMemoryResource()
    mr = rmm.mr.LoggingResourceAdaptor(below, tmp_path / "full.csv")
    buffers = [rmm.DeviceBuffer(size=100, mr=mr) for _ in range(3000)]  # more rows than wait for each other
    buffers[0].copy_from_host(b"abc")
    assert buffers[0].tobytes()[:3] == b"abc"
    assert below.resource.live_buffers == 3000
    buffers.clear()
    assert below.resource.live_buffers == 0
    with pytest.raises(OSError, match="No space left"):
        mr.flush()
    said = [record for record in caplog.records if record.name == "portamem.compat.rmm"]
    assert len(said) == 1
    assert "full.dev0.csv is not written any more" in said[0].getMessage()


def test_two_logs_of_one_file_leave_whole_rows(rmm, tmp_path):
    below = rmm.mr.CudaMemoryResource()
    older = rmm.mr.LoggingResourceAdaptor(below, tmp_path / "rmm.csv")
    kept = [rmm.DeviceBuffer(size=7, mr=older) for _ in range(10)]
    older.flush()
    newer = rmm.mr.LoggingResourceAdaptor(below, tmp_path / "rmm.csv")
    more = [rmm.DeviceBuffer(size=3, mr=newer) for _ in range(10)]
    newer.flush()
    del kept
    older.flush()
    del more
    newer.flush()
    found = [(row["Action"], row["Size"]) for row in rows(newer.get_file_name())]
    assert found == [("allocate", "3")] * 10 + [("free", "7")] * 10 + [("free", "3")] * 10


def test_a_forked_child_writes_nothing(pm, tmp_path):
    text = python_output(f"""
import os, sys, warnings
import portamem.compat.rmm as rmm
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
mr = rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource(), {str(tmp_path / "rmm.csv")!r})
buffer = rmm.DeviceBuffer(size=7, mr=mr)
child = os.fork()
if child == 0:
    mr.flush()
    sys.exit()
os.waitpid(child, 0)
del buffer
mr.flush()
print(mr.get_file_name())
""")
    assert [row["Action"] for row in rows(text.strip())] == ["allocate", "free"]
