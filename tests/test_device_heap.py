"""The heap from which kernels allocate, on the CPU runtime. What every backend keeps is in the contract, as HEAP.

A process settles the heap of a device once, so that every test is a process of its own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import KIB, MIB
from helpers.process import python_output

from portamem.conformance.witness import Witness

BEGIN = """
    import importlib, json, sys
    from portamem.conformance.witness import witness_for

    MIB = 1 << 20
    pm = importlib.import_module(f"portamem.{sys.argv[1]}")
    device, witness = pm.Device(0), witness_for(sys.argv[1], 0)
    stream = pm.Stream(device)
    found = {}

    def report(name, made):
        found[name] = {"asked": made.asked, "null": made.null, "bad": made.misaligned + made.mismatches}
"""
END = """
    stream.synchronize()
    print(json.dumps(found))
"""

Child = Callable[..., dict[str, Any]]


@pytest.fixture
def child(pm: ModuleType, kernels: Witness) -> Child:
    """Runs code in a process where no kernel has used the heap yet. ``pm``, ``device``, ``witness``, ``stream`` and
    ``found``, which is answered, are there."""

    def run(code: str, **env: str | None) -> dict[str, Any]:
        parts = (textwrap.dedent(part) for part in (BEGIN, code, END))
        answer: dict[str, Any] = json.loads(python_output("\n".join(parts), pm.backend, **env).splitlines()[-1])
        return answer

    return run


@pytest.mark.host_only
def test_all_of_the_limit_can_be_had(child: Child) -> None:
    found = child("""
        device.malloc_heap_size = 3 * MIB
        before = device.memory_info().free
        found["loaded"] = witness.load_heap()
        found["taken"] = before - device.memory_info().free
        for turn in range(2):
            report(f"whole-{turn}", witness.heap_per_block(stream.handle, 1, 3, MIB))
        report("more", witness.heap_per_block(stream.handle, 1, 3, MIB + 1))
    """)
    assert found["loaded"] is None
    assert found["taken"] == 3 * MIB
    assert found["whole-0"] == found["whole-1"] == {"asked": 1, "null": 0, "bad": 0}
    assert found["more"]["null"] == 1


@pytest.mark.host_only
def test_a_refused_heap_costs_nothing_and_may_come_later(child: Child) -> None:
    found = child(
        """
        resource = pm.DeviceMemoryResource(device)
        with resource.allocate(10 * MIB):
            free = witness.memory_info()[0]
            found["refused"] = witness.load_heap()
            found["free"] = witness.memory_info()[0] == free
            device.malloc_heap_size = 4 * MIB
        found["loaded"] = witness.load_heap()
        found["left"] = witness.memory_info()[0]
        """,
        PORTAMEM_HOST_CAPACITY="16MiB",
    )
    assert found == {"refused": "OutOfMemory", "free": True, "loaded": None, "left": 12 * MIB}


def test_the_witness_would_see_a_fault(child: Child) -> None:
    """Reports count what is wrong: here bytes that are not what the use before wrote."""
    found = child(f"""
        with witness.heap_keep(stream.handle, 3, 8, {4 * KIB}, seed=1) as kept:
            kept._seed += 1
            report("use", kept.use())
    """)
    assert found["use"]["bad"] == 3 * 4 * KIB
