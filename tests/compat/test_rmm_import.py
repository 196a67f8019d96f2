# SPDX-License-Identifier: MIT
"""The import is one line, costs nothing that is not used, and a process ends in peace."""

from __future__ import annotations

import importlib
import pickle

import pytest
from helpers.process import python_output

MODULES = [
    "mr",
    "mr.experimental",
    "pylibrmm",
    "pylibrmm.cuda_stream_pool",
    "pylibrmm.device_buffer",
    "pylibrmm.logger",
    "pylibrmm.memory_resource",
    "pylibrmm.memory_resource._memory_resource",
    "pylibrmm.memory_resource.experimental",
    "pylibrmm.stream",
    "rmm",
    "statistics",
]


@pytest.mark.parametrize("module", ["portamem._host", "portamem._cuda", "portamem._hip", "numpy", "rich"])
def test_it_imports_no(module):
    code = """
        import sys
        before = set(sys.modules)
        import portamem.compat.rmm as rmm
        from portamem.compat.rmm.pylibrmm.stream import DEFAULT_STREAM
        print(*(set(sys.modules) - before))
    """
    assert module not in python_output(code).split()


def test_bytes_need_no_numpy():
    code = """
        import pickle, sys
        from portamem.compat import rmm
        buffer = rmm.DeviceBuffer.to_device(b"abc")
        buffer.resize(5)
        found = pickle.loads(pickle.dumps(buffer, protocol=5)).tobytes()
        print(found[:3].decode(), "numpy" in sys.modules)
    """
    assert python_output(code, PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None).split() == ["abc", "False"]


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_what_they_promise(name):
    module = importlib.import_module(f"portamem.compat.rmm.{name}")
    assert [each for each in getattr(module, "__all__", []) if not hasattr(module, each)] == []
    assert module.__doc__


def test_names_are_there_after_one_import(rmm):
    assert [each for each in rmm.__all__ if not hasattr(rmm, each)] == []
    for path in ("mr.experimental", "statistics.profiler", "pylibrmm.stream.DEFAULT_STREAM", "_cuda.gpu.getDevice"):
        found = rmm
        for part in path.split("."):
            found = getattr(found, part)
    assert rmm.__version__.split(".")[0].isdigit()
    assert isinstance(rmm.__git_commit__, str)


def test_an_error_with_a_code(rmm):
    error = pickle.loads(pickle.dumps(rmm.RMMError(7, "text")))
    assert (type(error), error.errcode, str(error)) == (rmm.RMMError, 7, "text")


def test_a_process_ends_in_peace_with_memory_out(tmp_path):
    code = """
        import sys
        import portamem.compat.rmm as rmm
        pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource())
        bins = rmm.mr.BinningMemoryResource(rmm.mr.StatisticsResourceAdaptor(pool), 8, 12)
        rmm.mr.set_current_device_resource(rmm.mr.LoggingResourceAdaptor(bins, sys.argv[1]))
        stream = rmm.pylibrmm.stream.Stream()
        kept = [rmm.DeviceBuffer.to_device(bytes(size), stream=stream) for size in (1, 1000, 100000)]
        kept.append(kept)
        print("done")
    """
    assert python_output(code, str(tmp_path / "rmm.csv")) == "done\n"


def test_a_forked_child_lets_go_of_its_parents_memory():
    code = """
        import gc, os, warnings
        import portamem.compat.rmm as rmm
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
        rmm.reinitialize()
        kept = [rmm.DeviceBuffer.to_device(b"abc")]
        child = os.fork()
        if child == 0:
            kept.clear()
            gc.collect()
            os._exit(5)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), kept[0].tobytes().decode())
    """
    assert python_output(code, PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None) == "5 abc\n"
