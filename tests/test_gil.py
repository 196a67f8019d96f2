"""Python code that runs within calls of portamem. That calls which wait let other threads run is a clause."""

from __future__ import annotations

from types import ModuleType

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
