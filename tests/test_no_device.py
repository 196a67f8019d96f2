"""The host runtime with no device: what a machine without a GPU is to the other backends."""

from __future__ import annotations

import pytest
from helpers.process import cli, python_output, run_python

pytestmark = pytest.mark.host_only

NONE = {"PORTAMEM_HOST_DEVICES": "0", "PORTAMEM_BACKEND": None, "PORTAMEM_REQUIRE": None}


def test_counting_is_no_error() -> None:
    assert python_output("import portamem.host as pm; print(pm.device_count(), pm.devices())", **NONE) == "0 []\n"


@pytest.mark.parametrize(
    "call",
    [
        "pm.Device(0)",
        "pm.Device()",
        "pm.Stream()",
        "pm.Event()",
        "pm.DeviceMemoryResource()",
        "pm.AsyncMemoryResource()",
        "pm.zeros(4)",
        "pm.current_resource()",
        "pm.pointer_info(4096)",
        "pm.HostRegistration(bytearray(16))",
    ],
)
def test_every_call_says_so(call: str) -> None:
    code = f"""
        import portamem, portamem.host as pm
        try:
            {call}
        except portamem.Error as error:
            print(error.code, error.name, error)
    """
    output = python_output(code, **NONE)
    assert output.startswith("100 NoDevice"), output
    assert "PORTAMEM_HOST_DEVICES" in output


def test_probe_answers() -> None:
    count, code = python_output("import portamem.host as pm; print(*pm.probe()[:2])", **NONE).split()
    assert (count, code) == ("0", "100")


def test_backends_give_the_reason() -> None:
    code = "import portamem; info = portamem.backends()['host']; print(info.is_ready, info.reason.code)"
    assert python_output(code, **NONE).split() == ["False", "no_device"]


def test_the_command_line_says_so() -> None:
    demo = cli("demo", "--backend", "host", **NONE)
    assert demo.returncode != 0
    assert "PORTAMEM_HOST_DEVICES" in demo.stdout + demo.stderr
    assert "Traceback" not in demo.stderr
    assert cli("info", **NONE).returncode == 0


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "100000"])
def test_a_number_of_devices_that_is_none(value: str) -> None:
    done = run_python("import portamem.host as pm; pm.Device(0)", **{**NONE, "PORTAMEM_HOST_DEVICES": value})
    assert done.returncode == 1
    assert "PORTAMEM_HOST_DEVICES" in done.stderr
    assert value in done.stderr


@pytest.mark.parametrize("count", [1, 3, 8])
def test_as_many_as_asked(count: int) -> None:
    code = "import portamem.host as pm; print(len({d.uuid for d in pm.devices()}), pm.device_count())"
    assert python_output(code, **{**NONE, "PORTAMEM_HOST_DEVICES": str(count)}).split() == [str(count)] * 2
