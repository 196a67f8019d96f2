"""The interpreter's end: exit code 0 and nothing on standard error, whatever is alive or pending."""

from __future__ import annotations

from types import ModuleType

import pytest
from helpers.process import python_output

SCENES = {
    "live buffers": """
        kept = [resource.allocate(4096) for resource in (plain, pinned, managed)]
        kept.append(pool.allocate(4096, stream=stream))
    """,
    "a cycle": """
        class Node: pass
        node = Node()
        node.me, node.buf, node.stream = node, plain.allocate(4096), stream
    """,
    "exports": """
        buf = pinned.allocate(4096)
        view, part, exported = buf.view("float32"), buf[:16], memoryview(buf)
    """,
    "pending work": """
        src, dst = pinned.allocate(1 << 20), plain.allocate(1 << 20)
        for _ in range(50):
            dst.copy_from(src, stream=stream)
    """,
    "a held latch": """
        import threading
        gate = threading.Event()
        buf = pool.allocate(4096, stream=stream)
        stream.launch_host_func(lambda: gate.wait(5))
        buf.fill(1, stream=stream)
        buf.close()
        import atexit
        atexit.register(gate.set)
    """,
    "a host function that nobody waits for": """
        stream.launch_host_func(lambda: None)
    """,
    "an open scope": """
        scope = pm.using(plain)
        scope.__enter__()
        array = pm.zeros(100)
    """,
    "a registration": """
        registered = pm.HostRegistration(bytearray(4096))
    """,
    "an exit handler that uses memory": """
        import atexit
        def last():
            with plain.allocate(4096) as buf:
                buf.fill(1)
        atexit.register(last)
    """,
    "an exception": """
        buf = plain.allocate(4096)
        part = buf[:16]
        sys.exit(0)
    """,
}


@pytest.mark.parametrize("scene", SCENES)
def test_it_ends_well(pm: ModuleType, scene: str) -> None:
    setup = f"""
        import importlib, sys
        pm = importlib.import_module("portamem.{pm.backend}")
        stream = pm.Stream(pm.Device(0))
        plain, pinned, managed = pm.DeviceMemoryResource(0), pm.PinnedMemoryResource(0), pm.ManagedMemoryResource(0)
        pool = pm.AsyncMemoryResource(0)
    """
    assert python_output(setup + SCENES[scene]) == ""
