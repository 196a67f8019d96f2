"""A clause that a witness decides is shown with it, and only with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from helpers import witnesses

from portamem.conformance import witness as witness_package
from portamem.conformance.checks import checks, cuda
from portamem.conformance.checks import device as of_devices
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually
from portamem.conformance.kit.outcome import Failed, NoWitness
from portamem.conformance.kit.platform import platform_of
from portamem.conformance.witness import WitnessError, WitnessMissing, amd
from portamem.conformance.witness import nvidia as of_nvidia
from portamem.conformance.witness.nvidia import NvidiaWitness

READ_THROUGH_IT = (
    *("POOL-08", "POOL-12", "POOL-16", "POOL-21", "EVENT-02", "DEVICE-04", "DEVICE-05", "DEVICE-14", "DEVICE-28"),
    *("POINTER-01", "POINTER-04", "POINTER-08", "MANAGED-08", "MANAGED-09", "HIP-06", "HIP-07"),
)


@pytest.fixture
def env(pm: ModuleType) -> Env:
    return Env(pm, platform_of(pm))


@pytest.mark.parametrize("id", READ_THROUGH_IT)
def test_what_the_runtime_tells_is_read_through_the_witness(id: str) -> None:
    taken = {name for check in checks() if id in check.ids for name in check.parameters}
    assert taken & {"witness", "kernels"}


def test_what_the_drivers_calls_decide_counts_as_witnessed(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_package, "witness_for", lambda backend, ordinal: SimpleNamespace(name="somebody"))
    monkeypatch.setattr(env, "output", lambda source: "one\ntwo\n")
    assert cuda.told(env, "") == ["one", "two"]
    assert env.decided_by == "somebody"


def test_without_the_drivers_calls_contexts_are_not_shown(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(backend: str, ordinal: int) -> NoReturn:
        raise WitnessMissing("it has gone home")

    monkeypatch.setattr(witness_package, "witness_for", missing)
    monkeypatch.setattr(env, "output", lambda source: pytest.fail("nobody is there to answer"))
    with pytest.raises(NoWitness, match="no witness: it has gone home"):
        cuda.told(env, "")


def test_a_call_that_is_not_there_leaves_it_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd.AmdWitness, "name", "an old package")
    witness = object.__new__(amd.AmdWitness)
    witness.backend, witness.ordinal, witness.hip = "hip", 0, SimpleNamespace()
    for ask in (witness.uuid, witness.pci_address):
        with pytest.raises(NoWitness, match=r"an old package cannot be asked: .* no such call in this runtime"):
            ask()


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> NvidiaWitness:
    """A witness over cuda-python without a driver: its calls take their arguments, and fail."""
    try:
        witness = NvidiaWitness("cuda", 0)
    except WitnessMissing as missing:
        pytest.skip(f"cuda: {missing.reason}")
    if witness.runtime.cudaDriverGetVersion()[1]:
        pytest.skip("there is a driver of NVIDIA's here")
    monkeypatch.setattr(witness, "context", nullcontext)
    return witness


ASKED: tuple[Callable[[NvidiaWitness], object], ...] = (
    lambda witness: witness.uuid(),
    lambda witness: witness.pci_address(),
    lambda witness: witness.stream_priority(64),
    lambda witness: witness.pool_access(64, 0),
    lambda witness: witness.accessed_by(4096, 64, 1),
    lambda witness: witness.accessed_by(4096, 64, 8),
)


@pytest.mark.parametrize("ask", ASKED)
def test_cuda_python_takes_what_it_is_asked(nvidia: NvidiaWitness, ask: Callable[[NvidiaWitness], object]) -> None:
    with pytest.raises(WitnessError):
        ask(nvidia)


def test_cuda_python_gives_no_handle_without_a_driver(nvidia: NvidiaWitness) -> None:
    assert not nvidia.gives_ipc_handle(4096)


ANSWERS: dict[str, object] = {
    "cuInit": (),
    "cuDeviceGet": 0,
    "cuDeviceGetUuid": SimpleNamespace(bytes=bytes(range(16))),
    "cudaDeviceGetPCIBusId": b"0000:AB:00.0" + bytes(20),
    "cudaStreamGetPriority": -3,
    "cudaMemPoolGetAccess": 3,
    "cudaMemRangeGetAttribute": [1, 0, -2, -2],
}
"""As cuda-python gives them where there is a device."""


def test_what_cuda_python_answers_is_read(nvidia: NvidiaWitness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_nvidia, "_call", lambda name, *arguments: ANSWERS[name.removesuffix("_v2")])
    assert nvidia.uuid() == "000102030405060708090a0b0c0d0e0f"
    assert nvidia.pci_address() == "0000:ab:00.0"
    assert nvidia.stream_priority(64) == -3
    assert nvidia.pool_access(64, 0) == "read_write"
    assert nvidia.accessed_by(4096, 64, 4) == [1, 0]


class Restless:
    """A witness whose figure of free memory is another one each time, as beside other users of the device."""

    name = "somebody"

    def __init__(self, total: int) -> None:
        self.free, self.total = 0, total

    def memory_info(self) -> tuple[int, int]:
        self.free += 1
        return self.free, self.total


def test_free_memory_that_was_never_compared_is_not_shown(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_devices, "eventually", lambda condition: eventually(condition, seconds=0.05))
    restless: Any = Restless(env.device.memory_info().total)
    with pytest.raises(NoWitness, match="free memory was not compared: somebody has told another figure"):
        of_devices.memory_as_the_witness_sees_it(env, restless)
    assert restless.free > 2, "it was asked once"


def test_free_memory_that_differs_is_a_failure(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = witnesses.of(env.pm.backend, env.ordinal)
    free, total = theirs.memory_info()
    monkeypatch.setattr(theirs, "memory_info", lambda: (free // 2, total))
    with pytest.raises(Failed, match="free is "):
        of_devices.memory_as_the_witness_sees_it(env, theirs)
