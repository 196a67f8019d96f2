"""The choice of the witness's package, and the words where it is missing, overwritten, of another release or twice."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import partners
from helpers.process import python_output

from portamem.conformance import witness as package
from portamem.conformance.witness import (
    PointerFacts,
    WitnessMissing,
    amd,
    nvidia,
    nvrtc,
    witness_for,
)
from portamem.conformance.witness.amd import AmdWitness


def test_no_such_backend() -> None:
    with pytest.raises(ValueError, match=r"'rocm'.*cuda, hip and host"):
        witness_for("rocm", 0)


@pytest.fixture
def forgetful() -> Any:
    """Forgets the packages that were found, before and after the test."""
    caches = (nvidia._bindings, amd.load_hip_python, nvrtc.load, package.witness_for)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def test_without_cuda_python(forgetful: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WitnessMissing, match=r'pip install "portamem\[cuda\]"') as missing:
        witness_for("cuda", 0)
    assert missing.value.reason == str(missing.value)


def test_cuda_python_that_was_overwritten(forgetful: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """hip-python-interop puts modules of the same names in its place: they call HIP."""
    monkeypatch.setattr(nvidia.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(nvidia.importlib, "import_module", lambda name: SimpleNamespace(hip=object()))
    with pytest.raises(WitnessMissing, match="hip-python-interop"):
        witness_for("cuda", 0)


def test_without_hip_python(forgetful: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WitnessMissing, match=r'pip install "portamem\[hip\]"'):
        AmdWitness("hip", 0)


def test_cuda_python_without_a_driver() -> None:
    """Attributes and errors have answers, kernels have a reason. In a process of its own: a runtime keeps it."""
    partners.cuda_runtime()
    told = python_output("""
        from portamem.conformance.witness import WitnessError, witness_for
        witness = witness_for("cuda", 0)
        print(witness.device_count(), witness.has_kernels)
        print(witness.name)
        print(witness.why_no_kernels)
        for call in (witness.memory_info, witness.default_pool, witness.current_device, lambda: witness.malloc(64)):
            try:
                print(call())
            except WitnessError as error:
                print(error.code)
        print(witness.set_limit("malloc_heap_size", 1 << 20))
    """).splitlines()
    if not told[0].startswith("0 "):
        pytest.skip("there is a driver of NVIDIA's here")
    assert told[0] == "0 False"
    assert told[1].startswith("cuda-python ")
    assert "no NVIDIA GPU" in told[2]
    assert set(told[3:7]) <= {"35", "None"}
    assert told[7] == "InsufficientDriver"


def test_hip_python_without_a_device() -> None:
    """Attributes and errors have answers, kernels have a reason. In a process of its own: it loads a HIP runtime."""
    partners.hip_python()
    told = python_output("""
        from portamem.conformance.witness import WitnessError, WitnessMissing
        from portamem.conformance.witness.amd import AmdWitness
        try:
            witness = AmdWitness("hip", 0)
        except WitnessMissing as missing:
            raise SystemExit(print("missing", missing.reason))
        print(witness.device_count(), witness.current_device(), witness.has_kernels)
        print(witness.name)
        print(witness.why_no_kernels)
        attribute = lambda: witness.device_attribute("memory_pools")
        for call in (witness.memory_info, witness.default_pool, attribute, lambda: witness.malloc(64)):
            try:
                print(call())
            except WitnessError as error:
                print(error.code)
        print(witness.set_limit("malloc_heap_size", 1 << 20))
    """).splitlines()
    if told[0].startswith("missing"):
        partners.absent("hip", "hip")
    if not told[0].startswith("0 "):
        pytest.skip("this is about a machine without AMD GPUs, and there are " + told[0].split()[0])
    assert told[0] == "0 None False"
    assert told[1].startswith("hip-python ")
    assert "no AMD GPU" in told[2]
    assert set(told[3:7]) <= {"100", "101"}
    assert told[7] in ("NotSupported", "NoDevice", "InvalidDevice")


def test_two_hip_runtimes_are_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two runtimes does not know the other's memory."""
    calls = SimpleNamespace(hipGetDeviceCount=lambda: (0, 1))
    monkeypatch.setattr(amd, "load_hip_python", lambda: calls)
    monkeypatch.setattr(amd._libraries, "amd_runtimes", lambda: ["/a/libamdhip64.so.6", "/b/libamdhip64.so.7"])
    with pytest.raises(WitnessMissing, match=r"/a/libamdhip64\.so\.6 and /b/libamdhip64\.so\.7"):
        AmdWitness("hip", 0)


@pytest.mark.parametrize("named", ["gfx90a:sramecc+:xnack-", b"gfx90a:sramecc+:xnack-\0\0"])
@pytest.mark.parametrize("arity", [1, 2])
def test_the_architecture_by_every_release_of_hip_python(
    monkeypatch: pytest.MonkeyPatch, named: str | bytes, arity: int
) -> None:
    """Bytes in a record that the caller brings up to release 7, text in one that is answered from release 10 on."""
    record = SimpleNamespace(gcnArchName=named)

    def answered(device: int) -> tuple[int, Any]:
        return 0, record

    def filled(properties: Any, device: int) -> tuple[int]:
        assert properties is record
        return (0,)

    calls = SimpleNamespace(
        hipGetDeviceCount=lambda: (0, 1),
        hipDeviceProp_t=lambda: record,
        hipGetDeviceProperties=answered if arity == 1 else filled,
    )
    monkeypatch.setattr(amd, "load_hip_python", lambda: calls)
    monkeypatch.setattr(amd._libraries, "amd_runtimes", list)
    assert AmdWitness("hip", 0).arch == "gfx90a:sramecc+:xnack-"


def test_memory_types_by_the_runtimes_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device memory is 1 in HIP 5 and 2 in HIP 6, whatever hip-python's enum says."""
    record = (ctypes.c_int * 8)(1)
    told = SimpleNamespace(isManaged=0, device=0, hostPointer=None, devicePointer=4096)

    class Record:
        def __getattr__(self, name: str) -> Any:
            return getattr(told, name)

        def __int__(self) -> int:
            return ctypes.addressof(record)

    version = 50_221_153
    calls = SimpleNamespace(
        hipGetDeviceCount=lambda: (0, 1),
        hipRuntimeGetVersion=lambda: (0, version),
        hipPointerGetAttributes=lambda address: (0, Record()),
    )
    monkeypatch.setattr(amd, "load_hip_python", lambda: calls)
    monkeypatch.setattr(amd._libraries, "amd_runtimes", list)
    assert AmdWitness("hip", 0).pointer(4096) == PointerFacts("device", 0, None, 4096)
    version = 60_443_484
    assert AmdWitness("hip", 0).pointer(4096).kind == "host"
    record[0] = 2
    assert AmdWitness("hip", 0).pointer(4096).kind == "device"
    told.isManaged = 1
    assert AmdWitness("hip", 0).pointer(4096).kind == "managed"


def test_importing_the_package_imports_no_partner() -> None:
    told = python_output("""
        import sys
        import portamem.conformance.witness
        print([name for name in sys.modules if name.partition(".")[0] in ("cuda", "hip", "rocm", "numpy")])
    """)
    assert told.strip() == "[]"
    assert sys.modules["portamem.conformance.witness"] is package
