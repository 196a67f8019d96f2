"""A forked child: every call raises and says so, what it inherited leaks in silence, and it exits cleanly."""

from __future__ import annotations

from types import ModuleType

import pytest
from helpers.process import python_output

PARENT = """
    import gc, os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    import importlib
    import portamem
    pm = importlib.import_module("portamem.{backend}")
    device = pm.Device(0)
    stream, event = pm.Stream(device), pm.Event(device)
    resource, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
    buf, host = resource.allocate(4096), pinned.allocate(4096)
    part, view, spare = buf[:16], host.view("float32"), resource.allocate(16)
    buf.fill(1, stream=stream)
    stream.synchronize()
    stream.record(event)
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        buf.fill(2)
        print("parent", os.waitstatus_to_exitcode(status), pm.pointer_info(buf).kind)
        sys.exit(0)
"""


def forked(pm: ModuleType, child: str) -> list[str]:
    """Lines that a parent and its forked child print."""
    return python_output(PARENT.format(backend=pm.backend) + child).splitlines()


CALLS = [
    "pm.device_count()",
    "pm.Device(0).synchronize()",
    "device.memory_info()",
    "device.set_current()",
    "pm.Stream(device)",
    "stream.synchronize()",
    "stream.query()",
    "stream.launch_host_func(print)",
    "pm.Event(device)",
    "event.synchronize()",
    "event.record(stream)",
    "pm.DeviceMemoryResource(device).allocate(16)",
    "resource.allocate(16)",
    "pinned.allocate(16)",
    "buf.fill(0)",
    "buf.fill(0, stream=stream)",
    "buf.copy_to(bytearray(4096))",
    "spare.close()",
    "stream.close()",
    "pm.copy(host, buf)",
    "view.to_numpy()",
    "pm.pointer_info(buf)",
    "pm.HostRegistration(bytearray(4096))",
    "pm.zeros(4)",
]


def test_every_call_says_fork(pm: ModuleType) -> None:
    lines = forked(
        pm,
        f"""
    for call in {CALLS!r}:
        try:
            eval(call)
            print("went through:", call)
        except portamem.Error as error:
            text = str(error)
            if "fork" not in text or "spawn" not in text:
                print("no fork in:", call, text)
        except BaseException as error:
            print("another exception:", call, repr(error))
    print("child done")
    sys.exit(0)
    """,
    )
    assert lines == ["child done", "parent 0 device"]


def test_the_error_has_a_name(pm: ModuleType) -> None:
    lines = forked(
        pm,
        """
    try:
        stream.synchronize()
    except portamem.Error as error:
        print(error.name, error.backend)
    sys.exit(0)
    """,
    )
    assert lines == [f"Forked {pm.backend}", "parent 0 device"]


@pytest.mark.parametrize(
    "ending", ["sys.exit(0)", "os._exit(0)", "del buf, host, part, view; gc.collect(); sys.exit(0)"]
)
def test_what_was_inherited_leaks_in_silence(pm: ModuleType, ending: str) -> None:
    assert forked(pm, f"\n    {ending}\n") == ["parent 0 device"]


def test_a_fork_under_a_latch(pm: ModuleType) -> None:
    """The child inherits queues whose threads do not exist there; the parent's work goes on."""
    lines = python_output(
        PARENT.format(backend=pm.backend).replace(
            "child = os.fork()",
            "import threading\n"
            "    gate = threading.Event()\n"
            "    stream.launch_host_func(lambda: gate.wait(10))\n"
            "    buf.fill(3, stream=stream)\n"
            "    child = os.fork()\n"
            "    gate.set()",
        )
        + "\n    sys.exit(0)\n"
    ).splitlines()
    assert lines == ["parent 0 device"]


def test_a_child_may_exec(pm: ModuleType) -> None:
    lines = forked(
        pm,
        f"""
    os.execv(sys.executable, [sys.executable, "-c", "import portamem.{pm.backend} as pm; print(pm.device_count() > 0)"])
    """,
    )
    assert lines == ["True", "parent 0 device"]


def test_a_child_of_a_busy_reaper_ends(pm: ModuleType) -> None:
    """What lets go of finished work's memory may be at it when the process forks: the child does not wait for it."""
    code = f"""
        import os, sys, threading, time, warnings
        import numpy as np
        import portamem.{pm.backend} as pm
        warnings.simplefilter("ignore")
        going, gate = threading.Event(), threading.Event()
        class Slow(np.ndarray):
            def __del__(self):
                going.set()
                time.sleep(1)
        stream = pm.Stream()
        with pm.DeviceMemoryResource() as resource, resource.allocate(4096) as buf:
            array = np.zeros(4096, np.uint8).view(Slow)
            registered = pm.HostRegistration(array)
            stream.launch_host_func(lambda: gate.wait(10))
            buf.copy_from(registered, stream=stream)
            del array, registered
            gate.set()
            going.wait(5)
            child = os.fork()
            if child == 0:
                sys.exit(0)
            deadline = time.monotonic() + 20
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.02)
        print("ended")
    """
    assert python_output(code).strip() == "ended"
