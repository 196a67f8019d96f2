"""hip-python beside the hip backend, over one libamdhip64: on a machine with no AMD GPU both say the same of it.

What calls the library runs in a process of its own: it finds no device there, and that may change later answers.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import installed
import pytest
from helpers import backend, partners, process

import portamem
from portamem import _build, _foreign
from portamem.demo import rates

FOLDER = Path(__file__).with_name("hip")

NONE: dict[str, str | None] = {"PORTAMEM_BACKEND": None, "PORTAMEM_REQUIRE": None}

HIP_PYTHON = 'hip = __import__("hip", fromlist=["hip"]).hip'
BOTH = ("import portamem", HIP_PYTHON, "pm = portamem.hip")


def output(*lines: str) -> list[str]:
    """The lines that a script prints."""
    return process.python_output("\n".join(lines), **NONE).splitlines()


@pytest.fixture(scope="module")
def no_device() -> None:
    """The hip backend, hip-python and a library with no device."""
    if not backend.is_built("hip") or _build.info()["backends"]["hip"].get("platform") != "amd":
        pytest.skip("the hip backend for AMD's platform is not built")
    partners.hip_python()
    (counted,) = output(
        *(HIP_PYTHON, "try: print(hip.hipGetDeviceCount()[1])"),
        *("except RuntimeError as error: print(error)",),
    )
    if not counted.isdigit():
        partners.absent(f"the library that hip-python loads ({counted})", "hip")
    if counted != "0":
        pytest.skip(f"this is about a machine without AMD GPUs, and there are {counted}")


def test_both_use_one_library(no_device: None) -> None:
    """Pointers of one copy of the library would mean nothing to another."""
    mapped = 'print(*{line.split()[-1] for line in open("/proc/self/maps") if "libamdhip64" in line}, sep="\\n")'
    assert len(output(*BOTH, "hip.hipGetDeviceCount(), pm.device_count()", mapped)) == 1


def test_count(no_device: None) -> None:
    theirs, ours, count = output(
        *BOTH,
        "error, count = hip.hipGetDeviceCount()",
        "print(count, int(error))",
        "print(*pm.probe()[:2])",
        "print(pm.device_count(), pm.devices())",
    )
    assert theirs == ours == "0 100"
    assert count == "0 []"


def test_the_text_of_an_error(no_device: None) -> None:
    theirs, ours = output(
        *BOTH, "print(hip.hipGetErrorString(hip.hipError_t.hipErrorNoDevice))", "print(pm.probe()[2])"
    )
    assert ours
    assert ours in theirs


def test_versions(no_device: None) -> None:
    theirs, ours = output(
        *BOTH,
        "print(hip.hipRuntimeGetVersion()[1], hip.hipDriverGetVersion()[1])",
        "print(pm.runtime_version(), pm.driver_version())",
    )
    assert theirs == ours
    assert int(ours.split()[0]) > 50200000


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("pm.Device(0).memory_info()", "hip.hipMemGetInfo()"),
        ("pm.Device.current()", "hip.hipGetDevice()"),
        ("pm.DeviceMemoryResource().allocate(64)", "hip.hipMalloc(64)"),
        ("pm.PinnedMemoryResource().allocate(64)", "hip.hipHostMalloc(64, 0)"),
        ("pm.ManagedMemoryResource().allocate(64)", "hip.hipMallocManaged(64, 1)"),
        ("pm.AsyncMemoryResource.default_pool()", "hip.hipDeviceGetDefaultMemPool(0)"),
        ("pm.HostRegistration(bytearray(64))", "hip.hipHostRegister(4096, 64, 0)"),
        ("pm.Stream()", "hip.hipStreamCreateWithPriority(1, 0)"),
        ("pm.Stream.wrap(hip.ihipStream_t(0))", "hip.hipStreamQuery(None)"),
        ("pm.Event()", "hip.hipEventCreateWithFlags(2)"),
        ("pm.pointer_info(4096)", "hip.hipFree(4096)"),
        ("pm.Buffer.from_handle(4096, 64)", "hip.hipMemset(4096, 0, 64)"),
    ],
)
def test_calls_that_need_a_device(no_device: None, ours: str, theirs: str) -> None:
    """portamem says NoDevice and keeps a code of the library where that says InvalidDevice because there is none."""
    code, said = output(
        *BOTH,
        f"print(int({theirs}[0]))",
        f"try: print({ours})",
        'except portamem.Error as error: print(error.name, error.code, "portamem info" in str(error))',
    )
    assert code == "101"
    assert said in ("NoDevice 100 True", "NoDevice 101 True")


def compiled(folder: Path) -> Path:
    """The library of ground_floor.cpp: portamem's own calls, one by one."""
    roots = [Path(os.environ.get("ROCM_PATH", "/opt/rocm")), Path("/usr")]
    root = next((root for root in roots if (root / "include/hip/hip_runtime_api.h").is_file()), None)
    if root is None:
        pytest.skip("HIP's headers are not here")
    made = folder / "ground_floor.so"
    beside = () if root == Path("/usr") else (f"-I{root}/include", f"-L{root}/lib", f"-Wl,-rpath,{root}/lib")
    command = [
        *(installed.compiler(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
        *("-DPORTAMEM_HIP", "-D__HIP_PLATFORM_AMD__", f"-I{portamem.get_include()}"),
        *(str(FOLDER / "ground_floor.cpp"), "-o", str(made), *beside, "-lamdhip64", "-Wl,-z,now"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def answers(no_device: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = compiled(tmp_path_factory.mktemp("ground_floor"))
    done = process.run(sys.executable, str(FOLDER / "both_answer.py"), str(made), env=NONE)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_every_call_answers_the_same(answers: dict[str, Any]) -> None:
    """The ground floor passes the library's answers on as they are, to the number."""
    told = {name: (each["theirs"], each["ours"]) for name, each in answers["answers"].items()}
    assert {name: codes for name, codes in told.items() if codes[0] != codes[1]} == {}
    assert told["GetDeviceCount"] == (100, 100)
    assert told["RuntimeGetVersion"] == told["DriverGetVersion"] == (0, 0)
    counted = {"GetDeviceCount", "RuntimeGetVersion", "DriverGetVersion"}
    others = {codes for name, codes in told.items() if name not in counted}
    assert others == {(101, 101)}
    assert len(told) > 35


def test_no_refused_call_wrote_anything(answers: dict[str, Any]) -> None:
    assert len(answers["libraries"]) == 1
    assert set(bytes.fromhex(answers["memory"])) == {0}


def test_their_streams_are_known_by_their_class() -> None:
    """The handle is read without a call, so that no device is needed."""
    stream = partners.hip_python().ihipStream_t(0x1000)
    assert _foreign.stream_handle(stream, "hip") == 0x1000
    for other in ("cuda", "host"):
        with pytest.raises(TypeError, match=rf"hip backend.*{other} backend"):
            _foreign.stream_handle(stream, other)


def test_their_events_are_known_by_their_class() -> None:
    event = partners.hip_python().ihipEvent_t(0x2000)
    assert _foreign.event_handle(event, "hip") == 0x2000
    with pytest.raises(TypeError, match=r"hip backend.*cuda backend"):
        _foreign.event_handle(event, "cuda")


def test_their_pointers_take_our_memory(pinned_resource: Any) -> None:
    """Their calls accept our objects for an address. None of these calls the library."""
    pointer = partners.hip_python().ihipStream_t.__mro__[1]
    with pinned_resource.allocate(4096) as buf, buf[1000:2000] as part, buf.view("float32") as view:
        for ours in (buf, part, view):
            assert int(pointer(ours)) == ours.handle
            with memoryview(ours) as exported:
                assert int(pointer(exported)) == ours.handle
        assert int(pointer(buf.handle)) == buf.handle
        gc.collect()
        assert buf.exports == 2, "their pointers have let go of what they took"


def test_our_buffers_take_their_pointers(pm: ModuleType, pinned_resource: Any) -> None:
    pointer = partners.hip_python().ihipStream_t.__mro__[1]
    with pinned_resource.allocate(4096) as buf:
        theirs = pointer(buf.handle)
        with pm.Buffer.from_handle(int(theirs), 4096, owner=theirs) as ours:
            ours.fill(0x31)
            assert ours.owner is theirs
        assert bytes(memoryview(buf)) == b"\x31" * 4096


def test_the_demo_finds_hip_python() -> None:
    """hip-python has it as a submodule or as a name in the package, by release."""
    theirs = partners.hip_python()
    assert rates.hip_python() is theirs
    assert theirs.hipMemcpyKind.hipMemcpyDefault == 4


def test_the_demo_measures_nothing_without_a_device(no_device: None) -> None:
    code = ("from portamem.demo import rates", "rates.pm = __import__('portamem').hip", "print(rates.vendor_copy())")
    assert output(*code) == ["None"]
