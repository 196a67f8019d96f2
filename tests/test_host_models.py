"""The host runtime's models and guards, each in a process of its own."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from helpers.process import python_output, run_python

pytestmark = pytest.mark.host_only

PLAIN = {"PORTAMEM_HOST_OPEN": None, "PORTAMEM_HOST_GUARD": None, "PORTAMEM_HOST_MODEL": None}

ASK = """
    import json
    import portamem.host as pm
    capabilities = pm.Device(0).capabilities.as_dict()
    reach = {}
    for kind in ("Device", "Pinned", "Managed", "System"):
        resource = getattr(pm, kind + "MemoryResource")(0)
        reach[kind] = [resource.is_host_accessible, resource.is_device_accessible]
    print(json.dumps([capabilities, reach]))
"""


def ask(**env: str | None) -> list[Any]:
    answers: list[Any] = json.loads(python_output(ASK, **{**PLAIN, **env}))
    return answers


@pytest.mark.parametrize(
    ("model", "device_by_host", "system_by_device"),
    [("discrete", False, False), ("apu", True, True), ("coherent", False, True)],
)
def test_models(model: str, device_by_host: bool, system_by_device: bool) -> None:
    capabilities, reach = ask(PORTAMEM_HOST_MODEL=model)
    assert capabilities["direct_host_access"] == device_by_host
    assert capabilities["pageable_memory_access"] == system_by_device
    assert capabilities["integrated"] == (model == "apu")
    assert reach["Device"] == [device_by_host, True]
    assert reach["System"] == [True, system_by_device]
    assert reach["Pinned"] == reach["Managed"] == [True, True]


def test_without_a_model_it_is_discrete() -> None:
    assert ask() == ask(PORTAMEM_HOST_MODEL="discrete")


def test_open() -> None:
    """PORTAMEM_HOST_OPEN=1 lets the CPU at device memory: for looking at it while debugging."""
    capabilities, reach = ask(PORTAMEM_HOST_OPEN="1")
    assert capabilities["direct_host_access"] is True
    assert reach["Device"] == [True, True]
    code = """
        import portamem.host as pm
        with pm.DeviceMemoryResource(0) as resource, resource.allocate(16) as buf:
            buf.fill(7)
            with memoryview(buf) as seen:
                print(bytes(seen).hex())
    """
    assert python_output(code, **{**PLAIN, "PORTAMEM_HOST_OPEN": "1"}).strip() == "07" * 16


STRAY_READ = """
    import ctypes
    import portamem.host as pm
    resource = pm.{kind}MemoryResource(0)
    buf = resource.allocate(4096, stream=pm.Device(0).default_stream)
    buf.fill(7)
    print("about to read", flush=True)
    print(ctypes.string_at(buf.handle, 1)[0])
"""


@pytest.mark.parametrize("kind", ["Device", "Async"])
def test_the_guard_faults_a_stray_read(kind: str) -> None:
    done = run_python(STRAY_READ.format(kind=kind), **{**PLAIN, "PORTAMEM_HOST_GUARD": "1"})
    assert done.stdout == "about to read\n"
    assert done.returncode in (-signal.SIGSEGV, 1), "a sanitizer turns the fault into exit code 1"


@pytest.mark.parametrize("kind", ["Pinned", "Managed", "System"])
def test_the_guard_lets_the_host_at_its_own(kind: str) -> None:
    output = python_output(STRAY_READ.format(kind=kind), **{**PLAIN, "PORTAMEM_HOST_GUARD": "1"})
    assert output == "about to read\n7\n"


def test_under_the_guard_all_copies_work() -> None:
    code = """
        import portamem.host as pm
        data = bytes(range(256)) * 64
        resource = pm.DeviceMemoryResource(0)
        with resource.allocate(len(data)) as a, resource.allocate(len(data)) as b:
            pm.copy(a, data)
            pm.copy(b, a)
            out = bytearray(len(data))
            pm.copy(out, b)
            assert out == data
    """
    assert python_output(code, **{**PLAIN, "PORTAMEM_HOST_GUARD": "1"}) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORTAMEM_HOST_MODEL", "quantum"),
        ("PORTAMEM_HOST_GUARD", "yes"),
        ("PORTAMEM_HOST_OPEN", "2"),
        ("PORTAMEM_HOST_CAPACITY", "much"),
        ("PORTAMEM_HOST_COPY_DELAY", "-5"),
        ("PORTAMEM_HOST_FAIL", "Malloc"),
    ],
)
def test_settings_that_are_none(name: str, value: str) -> None:
    """A knob that is misspelt is an error, never the default in silence."""
    done = run_python("import portamem.host as pm; pm.Device(0).synchronize()", **{**PLAIN, name: value})
    assert done.returncode == 1
    assert f"{name}={value}" in done.stderr


def test_capacity_by_environment() -> None:
    code = "import portamem.host as pm; print(pm.Device(0).memory_info().total, pm.Device(1).memory_info().total)"
    total = str(48 << 20)
    assert python_output(code, PORTAMEM_HOST_CAPACITY="48MiB", PORTAMEM_HOST_DEVICES="2").split() == [total, total]


def test_a_failing_call_by_environment() -> None:
    code = """
        import portamem, portamem.host as pm
        resource = pm.DeviceMemoryResource(0)
        resource.allocate(16)
        try:
            resource.allocate(16)
        except portamem.OutOfMemoryError as error:
            print(error.call)
        resource.allocate(16)
    """
    assert python_output(code, PORTAMEM_HOST_FAIL="Malloc:2:2") == "Malloc\n"
