"""The heap from which kernels allocate: its limit, what kernels get of it, and that no call of the host takes it.

A process settles the heap of a device once, so that every test is a process of its own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import KIB, MIB
from helpers.process import python_output

from portamem.conformance.witness import Witness

BEGIN = """
    import importlib, json, sys
    import portamem
    from portamem.conformance.witness import witness_for

    MIB = 1 << 20
    pm = importlib.import_module(f"portamem.{sys.argv[1]}")
    device, witness = pm.Device(0), witness_for(sys.argv[1], 0)
    stream = pm.Stream(device)
    found = {}

    def told(name, call, *arguments, **named):
        try:
            found[name] = ["done", str(call(*arguments, **named))]
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]

    def report(name, made):
        found[name] = {"asked": made.asked, "null": made.null, "bad": made.misaligned + made.mismatches}
"""
END = """
    stream.synchronize()
    print(json.dumps(found))
"""

Child = Callable[..., dict[str, Any]]


@pytest.fixture
def kind(kernels: Witness, device: Any) -> str:
    """What the limit means here: "limit" or "initial"."""
    kind: str | None = device.capabilities.malloc_heap_kind
    assert kind in ("limit", "initial"), "kernels run here, and allocate"
    return kind


@pytest.fixture
def child(pm: ModuleType, kind: str) -> Child:
    """Runs code in a process where no kernel has used the heap yet. ``pm``, ``device``, ``witness``, ``stream`` and
    ``found``, which is answered, are there."""

    def run(code: str, **env: str | None) -> dict[str, Any]:
        parts = (textwrap.dedent(part) for part in (BEGIN, code, END))
        answer: dict[str, Any] = json.loads(python_output("\n".join(parts), pm.backend, **env).splitlines()[-1])
        return answer

    return run


def test_the_limit_is_ours_until_a_kernel_uses_the_heap(child: Child, kind: str) -> None:
    """Set before, it is what the runtime and the driver say; afterwards it is settled."""
    found = child("""
        found["default"] = device.malloc_heap_size
        told("before", setattr, device, "malloc_heap_size", 2 * MIB)
        found["ours"], found["theirs"] = device.malloc_heap_size, witness.limit("malloc_heap_size")
        found["driver"] = witness.driver_limit("malloc_heap_size")
        found["loaded"] = witness.load_heap()
        told("after", setattr, device, "malloc_heap_size", 4 * MIB)
        found["settled"] = device.malloc_heap_size
        report("use", witness.heap_per_thread(stream.handle, 2, 32, 256))
    """)
    assert found["loaded"] is None
    assert found["use"] == {"asked": 64, "null": 0, "bad": 0}
    assert found["ours"] == found["theirs"]
    assert found["driver"] in (None, found["ours"])
    if kind == "initial":
        return  # it may not be settable, and does not bound anything
    assert found["default"] >= 8 * MIB
    assert found["before"] == ["done", "None"]
    assert found["ours"] >= 2 * MIB
    assert found["after"][0] == "Error"
    assert "InvalidValue" in found["after"][1]
    assert found["settled"] == found["ours"]


def test_patterns_of_use(child: Child) -> None:
    """One allocation for each thread, one for each block; memset and memcpy on them; all of it freed each time."""
    found = child("""
        for turn in range(3):
            report(f"thread-{turn}", witness.heap_per_thread(stream.handle, 8, 64, 1000, seed=turn))
            report(f"block-{turn}", witness.heap_per_block(stream.handle, 8, 64, 100, seed=turn))
            report(f"copies-{turn}", witness.heap_memcpy_memset(stream.handle, 4, 32, 333, seed=turn))
        report("one", witness.heap_per_thread(stream.handle, 1, 1, 1))
        found["aligned"] = witness.has_aligned_heap
        for align in (16, 256, 4096) if witness.has_aligned_heap else ():
            report(f"aligned-{align}", witness.heap_per_thread(stream.handle, 4, 32, 200, align=align))
            report(f"aligned-block-{align}", witness.heap_per_block(stream.handle, 4, 32, 50, align=align))
    """)
    asked = {"thread": 512, "block": 8, "copies": 256, "one": 1, "aligned": 128}
    aligned = found.pop("aligned")
    assert len(found) == 16 if aligned else 10
    for name, made in found.items():
        what = "block" if "block" in name else name.partition("-")[0]
        expected = 4 if name.startswith("aligned-block") else asked[what]
        assert made == {"asked": expected, "null": 0, "bad": 0}, name


def test_memory_stays_across_launches(child: Child) -> None:
    """Allocated, used three times and freed in five launches, while other kernels allocate and free beside it."""
    found = child("""
        with witness.heap_keep(stream.handle, 16, 32, 5000) as kept:
            report("made", kept.allocated)
            found["addresses"] = kept.addresses
            for turn in range(3):
                report(f"use-{turn}", kept.use())
                report(f"beside-{turn}", witness.heap_per_thread(stream.handle, 4, 32, 500))
        report("again", witness.heap_per_thread(stream.handle, 4, 32, 500))
    """)
    addresses = sorted(found.pop("addresses"))
    assert len(addresses) == 16
    assert all(b - a >= 5000 for a, b in pairwise(addresses))
    assert found.pop("made") == {"asked": 16, "null": 0, "bad": 0}
    assert {made["null"] + made["bad"] for made in found.values()} == {0}


def test_exhaustion_gives_null_and_the_program_goes_on(child: Child, kind: str) -> None:
    found = child("""
        told("limit", setattr, device, "malloc_heap_size", MIB)
        found["bytes"] = device.malloc_heap_size
        blocks = 4 * found["bytes"] // 65536 if device.capabilities.malloc_heap_kind == "limit" else 64
        for turn in range(3):
            with witness.heap_keep(stream.handle, blocks, 32, 65536) as kept:
                report(f"made-{turn}", kept.allocated)
                found[f"live-{turn}"] = sum(address != 0 for address in kept.addresses)
                report(f"use-{turn}", kept.use())
        report("too large", witness.heap_per_thread(stream.handle, 1, 1, 1 << 50))
        report("after", witness.heap_per_thread(stream.handle, 4, 32, 100))
        with pm.DeviceMemoryResource(device) as resource, resource.allocate(1000) as memory:
            memory.fill(7, stream=stream)
            with witness.verify_value(stream.handle, memory.handle, 1000, 7) as counter:
                found["ours"] = counter.read()
    """)
    for turn in range(3):
        made = found[f"made-{turn}"]
        assert made["asked"] - made["null"] == found[f"live-{turn}"] > 0
        assert made["bad"] == found[f"use-{turn}"]["bad"] == 0
        if kind == "limit":
            assert made["null"] > 0, "four times the heap was asked for"
            assert found["live-0"] * 65536 <= found["bytes"]
    assert found["too large"] == {"asked": 1, "null": 1, "bad": 0}
    assert found["after"] == {"asked": 128, "null": 0, "bad": 0}
    assert found["ours"] == 0


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


REFUSED = (
    "pm.Buffer.from_handle(address, 64).fill(1)",
    "pm.Buffer.from_handle(address, 64).fill(1, stream=stream).synchronize()",
    "pm.copy(bytearray(64), pm.Buffer.from_handle(address, 64))",
    "pm.copy(pm.Buffer.from_handle(address, 64), bytes(64))",
    "pm.copy(plain, pm.Buffer.from_handle(address, 64), stream=stream).synchronize()",
    "bytes(memoryview(pm.Buffer.from_handle(address, 64)))",
    "resource.deallocate(address, 64)",
    "pm.HostRegistration(pm.Buffer.from_handle(address, 4096))",
)


def test_no_call_of_the_host_takes_its_memory(child: Child) -> None:
    """Refused in words, whatever the runtime says of such an address, and what kernels keep there is unharmed."""
    found = child(f"""
        resource = pm.DeviceMemoryResource(device)
        plain = resource.allocate(64)
        with witness.heap_keep(stream.handle, 2, 32, 5000) as kept:
            address = kept.addresses[0]
            told("info", lambda: (pm.pointer_info(address).kind, pm.pointer_info(address).base))
            found["kind"] = witness.pointer(address).kind
            for call in {REFUSED!r}:
                told(call, eval, call)
            stream.synchronize()
            report("use", kept.use())
        plain.fill(3)
        with witness.verify_value(stream.handle, plain.handle, 64, 3) as counter:
            found["plain"] = counter.read()
        plain.close()
    """)
    assert found["kind"] in ("unregistered", "device")
    assert found["info"] == ["done", str((found["kind"], None))]
    for call in REFUSED:
        error, text = found[call]
        assert error in ("ValueError", "Error", "TypeError", "BufferError"), f"{call}: {text}"
        if found["kind"] == "unregistered" and "from_handle" in call:
            assert "heap of kernels" in text
    assert found["use"] == {"asked": 0, "null": 0, "bad": 0}
    assert found["plain"] == 0


def test_a_heap_that_cannot_be_reserved(child: Child, kind: str) -> None:
    """An error, and no memory beyond what there is: from the limit, or from loading the kernels that use the heap."""
    if kind == "initial":
        pytest.skip("the heap's limit is not settled when kernels are loaded here")
    found = child("""
        resource = pm.DeviceMemoryResource(device)
        memory = resource.allocate(4096)
        total = witness.memory_info()[1]
        told("limit", setattr, device, "malloc_heap_size", total)
        found["loaded"] = witness.load_heap() if found["limit"][0] == "done" else found["limit"][0]
        found["free"] = witness.memory_info()[0]
        memory.fill(9, stream=stream)
        with witness.verify_value(stream.handle, memory.handle, 4096, 9) as counter:
            found["goes on"] = counter.read()
        with resource.allocate(MIB) as more:
            more.fill(10, stream=stream)
            with witness.verify_value(stream.handle, more.handle, MIB, 10) as counter:
                found["allocates"] = counter.read()
        memory.close()
    """)
    assert found["loaded"], "all of the device's memory was taken where some of it was in use"
    assert found["free"] > 0
    assert found["goes on"] == found["allocates"] == 0


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


def test_each_device_has_its_own(child: Child, kind: str, two_devices: tuple[Any, Any]) -> None:
    """What one device's kernels have settled leaves the other's limit open."""
    found = child("""
        other, theirs = pm.Device(1), witness_for(sys.argv[1], 1)
        told("first", setattr, device, "malloc_heap_size", MIB)
        found["loaded"] = witness.load_heap()
        told("second", setattr, other, "malloc_heap_size", 40 * MIB)
        found["limit"] = theirs.limit("malloc_heap_size")
        with pm.Stream(other) as there:
            report("there", theirs.heap_per_block(there.handle, 1, 2, 8 * MIB))
            report("here", witness.heap_per_block(stream.handle, 1, 2, 8 * MIB))
    """)
    assert found["loaded"] is None
    if kind == "limit":
        assert found["first"] == found["second"] == ["done", "None"]
        assert found["limit"] >= 40 * MIB
        assert found["there"] == {"asked": 1, "null": 0, "bad": 0}
        assert found["here"] == {"asked": 1, "null": 1, "bad": 0}
    else:
        assert found["there"]["bad"] == found["here"]["bad"] == 0


def test_the_witness_would_see_a_fault(child: Child) -> None:
    """Reports count: NULLs were seen above; here bytes that another wrote between two uses."""
    found = child(f"""
        with witness.heap_keep(stream.handle, 3, 8, {4 * KIB}, seed=1) as kept:
            kept._seed += 1
            report("use", kept.use())
    """)
    assert found["use"]["bad"] == 3 * 4 * KIB
