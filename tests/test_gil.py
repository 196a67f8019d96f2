"""Python code that runs within calls of portamem. That calls which wait let other threads run is a clause."""

from __future__ import annotations

from types import ModuleType

import pytest
from helpers.process import run_python

MISUSE_WHILE_COLLECTING = """
import gc, importlib, sys
pm = importlib.import_module("portamem." + sys.argv[1])
buf = pm.DeviceMemoryResource().allocate(16)
refused = []
def misuse(*_):
    try:
        buf.close(wrong=1)
    except TypeError as error:
        refused.append(str(error))
gc.collect()
gc.callbacks.append(misuse)
gc.set_threshold(1)
misuse()
gc.set_threshold(0)
gc.callbacks.clear()
print(len(set(refused)))
"""


def test_misuse_while_garbage_is_collected(pm: ModuleType) -> None:
    """The first error of a process may meet a collection, and that code which makes the same error."""
    done = run_python(MISUSE_WHILE_COLLECTING, pm.backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]


ENDED_IN_A_CALLBACK = """
import ctypes, importlib, sys, threading
pm = importlib.import_module("portamem." + sys.argv[1])
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
inside = threading.Event()
asleep = threading.Event()  # never set


class Slow:  # the interpreter takes its time to go down, so that the thread wakes up meanwhile
    def __del__(self, sleep=libc.usleep):
        sleep(600_000)


sys.kept = Slow()


def dwell(answer):
    def callback(*_):
        inside.set()
        asleep.wait(0.3)
        return answer() if callable(answer) else answer

    return callback


def memory():
    return libc.aligned_alloc(256, 4096)


def callbacks(allocate, deallocate):
    return pm.CallbackMemoryResource(allocate, deallocate, kind="system")


stream = pm.Stream()
what = sys.argv[2]
if what == "allocate":
    run = lambda: callbacks(dwell(memory), print).allocate(1000, stream=stream)
elif what == "pool":
    run = lambda: pm.PoolMemoryResource(callbacks(dwell(memory), print)).allocate(1000, stream=stream)
elif what == "deallocate":
    run = callbacks(lambda *_: memory(), dwell(None)).allocate(1000, stream=stream).close
elif what == "failure":
    none = pm.LimitingAdaptor(pm.DeviceMemoryResource(), 10)
    run = lambda: pm.FailureCallbackAdaptor(none, dwell(False)).allocate(1000, stream=stream)
else:
    run = pm.PoolMemoryResource(release=dwell(None)).allocate(65 << 20, stream=stream).close
threading.Thread(target=run, daemon=True).start()
assert inside.wait(10)
print("end")
"""


@pytest.mark.parametrize("what", ["allocate", "pool", "deallocate", "failure", "release"])
def test_an_interpreter_that_ends_while_a_daemon_thread_is_in_a_callback(pm: ModuleType, what: str) -> None:
    done = run_python(ENDED_IN_A_CALLBACK, pm.backend, what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["end"], done.stderr
