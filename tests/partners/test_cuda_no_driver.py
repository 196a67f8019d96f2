"""Without NVIDIA's driver, cuda-python's own runtime and the cuda backend's give the same answers."""

from __future__ import annotations

import pytest
from helpers import backend, partners, process

NONE: dict[str, str | None] = {"PORTAMEM_BACKEND": None, "PORTAMEM_REQUIRE": None}

BOTH = ("import portamem", "from cuda.bindings import runtime", "pm = portamem.cuda")


def output(*lines: str) -> list[str]:
    """The lines that a script prints, in a process of its own: a runtime keeps what it first found."""
    return process.python_output("\n".join((*BOTH, *lines)), **NONE).splitlines()


@pytest.fixture(scope="module")
def no_driver() -> None:
    if not backend.is_built("cuda"):
        pytest.skip("the cuda backend is not built")
    partners.cuda_runtime()
    (version,) = output("print(runtime.cudaDriverGetVersion()[1])")
    if version != "0":
        pytest.skip("there is a driver of NVIDIA's here")


def test_the_first_answer(no_driver: None) -> None:
    theirs, ours, text, our_text = output(
        "print(int(runtime.cudaGetDeviceCount()[0]))",
        "print(pm.probe()[1])",
        "print(runtime.cudaGetErrorString(runtime.cudaError_t.cudaErrorInsufficientDriver)[1].decode())",
        "print(pm.probe()[2])",
    )
    assert theirs == ours == "35"
    assert text == our_text


def test_counts_and_versions(no_driver: None) -> None:
    count, drivers, runtimes = output(
        "print(pm.device_count(), pm.devices())",
        "print(pm.driver_version(), runtime.cudaDriverGetVersion()[1])",
        "print(pm.runtime_version() // 1000, runtime.cudaRuntimeGetVersion()[1] // 1000)",
    )
    assert count == "0 []"
    assert drivers == "0 0"
    assert all(int(major) >= 12 for major in runtimes.split()), "a runtime knows its own version without a driver"


def test_the_reason(no_driver: None) -> None:
    (told,) = output("print(portamem.backends()['cuda'].reason.code)")
    assert told in ("no_driver", "no_permission")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("pm.Device(0).memory_info()", "runtime.cudaMemGetInfo()"),
        ("pm.Device.current()", "runtime.cudaGetDevice()"),
        ("pm.DeviceMemoryResource().allocate(64)", "runtime.cudaMalloc(64)"),
        ("pm.PinnedMemoryResource().allocate(64)", "runtime.cudaHostAlloc(64, 0)"),
        ("pm.ManagedMemoryResource().allocate(64)", "runtime.cudaMallocManaged(64, 1)"),
        ("pm.AsyncMemoryResource.default_pool()", "runtime.cudaDeviceGetDefaultMemPool(0)"),
        ("pm.HostRegistration(bytearray(64))", "runtime.cudaHostRegister(4096, 64, 0)"),
        ("pm.Stream()", "runtime.cudaStreamCreateWithFlags(1)"),
        ("pm.Stream.wrap(runtime.cudaStream_t(0))", "runtime.cudaStreamQuery(0)"),
        ("pm.Event()", "runtime.cudaEventCreateWithFlags(2)"),
        ("pm.pointer_info(4096)", "runtime.cudaPointerGetAttributes(4096)"),
        ("pm.Buffer.from_handle(4096, 64)", "runtime.cudaMemset(4096, 0, 64)"),
    ],
)
def test_every_call_answers_the_same(no_driver: None, ours: str, theirs: str) -> None:
    code, said = output(
        f"print(int({theirs}[0]))",
        f"try: print({ours})",
        'except portamem.Error as error: print(error.code, error.name, "portamem info" in str(error))',
    )
    assert code == "35"
    assert said == "35 NoDevice True"
