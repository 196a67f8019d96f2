"""The host's objects as bytes: what packages of others bring, and array interfaces made by hand. The rest is in the
contract."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portamem.conformance.kit.no_bytes import no_bytes
from portamem.interop.array_interface import describe, host_bytes


@pytest.fixture
def memory(pinned_resource: Any) -> Any:
    with pinned_resource.allocate(16) as buf:
        buf.fill(0x3F)
        yield buf


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_element_types_of_ml_dtypes(pm: ModuleType, memory: Any, name: str) -> None:
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    source, target = np.ones(16 // dtype.itemsize, dtype), np.zeros(16 // dtype.itemsize, dtype)
    pm.copy(memory, source)
    pm.copy(target, memory)
    assert target.tobytes() == source.tobytes()


def test_registration_takes_what_copies_take(pm: ModuleType, device: Any) -> None:
    for array in (np.zeros(4096, "datetime64[s]"), np.zeros(4096)):
        with pm.HostRegistration(array, device=device) as registered:
            assert (registered.handle, registered.nbytes) == (array.ctypes.data, array.nbytes)


def test_a_closed_registration_says_so(pm: ModuleType, device: Any) -> None:
    registered = pm.HostRegistration(np.zeros(4096), device=device)
    registered.close()
    for name in ("handle", "device_handle"):
        with pytest.raises(ValueError, match="the registration is closed"):
            getattr(registered, name)


def test_torch_tensors_are_ends(pm: ModuleType, memory: Any) -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        target = torch.zeros(16 // dtype.itemsize, dtype=dtype)
        pm.copy(target, memory)
        memory.fill(0)
        pm.copy(memory, target)
        assert bytes(memory) == b"\x3f" * 16
    numbers = torch.arange(16, dtype=torch.int16).view(4, 4)
    with pm.SystemMemoryResource() as system, system.allocate(16) as half:
        pm.copy(half, numbers[:, ::2])
        target = torch.zeros(4, 4, dtype=torch.int16)
        pm.copy(target.T[:2], half)
    assert torch.equal(target[:, :2].T.reshape(4, 2), numbers[:, ::2])
    assert not target[:, 2:].any()
    with pytest.raises(BufferError, match="grad"):
        pm.copy(memory, torch.zeros(4, requires_grad=True))


def test_torch_round_trips_stay_writable(pm: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.arange(4)
    with pm.from_dlpack(numbers) as view:
        assert not view.readonly
        back = view.to_torch()
        with pm.from_dlpack(back) as again:
            assert not again.readonly
            again.fill(0)
        assert numbers.tolist() == [0, 0, 0, 0]


def test_a_read_only_view_is_no_tensor(pm: ModuleType) -> None:
    array = np.arange(4)
    array.flags.writeable = False
    with pm.from_dlpack(array) as view:
        for method in (view.to_torch, view.to_cupy, view.to_jax):
            with pytest.raises(BufferError, match="read-only"):
                method()


class Answers:
    """An array of a package that NumPy asks for an array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


def test_asarray_refuses_what_is_more_than_bytes(pm: ModuleType) -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    for obj, error, message in no_bytes("the data"):
        with pytest.raises(error, match=message):
            pm.asarray(obj)
    for nested in ([masked, masked], (1.0, [2.0, np.ma.masked]), [[masked]], Answers(masked)):
        with pytest.raises(ValueError, match="masked"):
            pm.asarray(nested)
    assert pm.asarray(Answers(np.arange(3.0))).to_numpy().tolist() == [0, 1, 2]


def test_no_mask_is_lost_on_another_way(pm: ModuleType, memory: Any) -> None:
    numbers = np.ma.masked_array([1, 2], mask=[False, True])
    for call in (
        lambda: pm.from_dlpack(numbers),
        lambda: pm.View.from_dlpack(numbers[:1]),
        lambda: memory.fill(np.ma.masked_array(3, mask=True)),
        lambda: memory.view().fill(np.ma.masked),
    ):
        with pytest.raises(ValueError, match="is a masked array"):
            call()
    with pm.from_dlpack(numbers.data) as view:
        assert view.to_numpy().tolist() == [1, 2]


@pytest.mark.parametrize("value", [np.arange(2), np.array([3]), np.zeros(1, dtype=object)])
def test_arrays_are_no_ints(pm: ModuleType, memory: Any, value: Any) -> None:
    for call, what in (
        (lambda: memory.fill(value), "a fill value"),
        (lambda: pm.Device(value), "a device"),
    ):
        with pytest.raises(TypeError, match=rf"^{what} is an int, not numpy.ndarray$"):
            call()


def test_names_of_fields_are_no_references(pm: ModuleType, memory: Any) -> None:
    records = np.zeros(1, [("O", "i8"), ("xO:", "i8")])
    pm.copy(records, memory)
    assert records.tobytes() == b"\x3f" * 16


def interface(**fields: Any) -> dict[str, Any]:
    return {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3, **fields}


MALFORMED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no shape": ({"shape": None}, TypeError, "malformed"),
    "no address": ({"data": None}, TypeError, "malformed"),
    "an address of text": ({"data": ("4096", False)}, TypeError, "malformed"),
    "no type": ({"typestr": "float32"}, TypeError, "malformed"),
    "a negative extent": ({"shape": (-1,)}, ValueError, "negative extent"),
    "beyond all memory": ({"shape": (1 << 62, 4)}, ValueError, "more than any memory"),
    "beyond all addresses": ({"data": ((1 << 64) - 8, False)}, ValueError, "more than any memory"),
    "a negative address": ({"data": (-8, False)}, ValueError, "more than any memory"),
    "elements at 0": ({"data": (0, False)}, ValueError, "address 0"),
    "too few strides": ({"shape": (2, 2), "strides": (4,)}, ValueError, "1 strides for 2"),
    "strides that wrap": (
        {"shape": (2, 2), "strides": (-(1 << 40), 1 << 20), "data": ((1 << 64) - (1 << 19), False)},
        ValueError,
        "more than any memory|not C-contiguous",
    ),
    "strides beyond all addresses": ({"strides": (1 << 63,)}, ValueError, "more than any memory|not C-contiguous"),
    "a mask": ({"mask": [True]}, ValueError, "mask"),
    "bits": ({"typestr": "|t4"}, ValueError, "no whole bytes"),
    "objects": ({"typestr": "|O8"}, TypeError, "references"),
    "objects in records": (
        {"typestr": "|V16", "descr": [("a", "<i8"), ("b", [("c", "|O8", (1,))])]},
        TypeError,
        "references",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_array_interfaces(pm: ModuleType, memory: Any, name: str) -> None:
    fields, error, message = MALFORMED[name]
    with pytest.raises(error, match=message):
        describe(interface(**fields), "the source")
    for call in (pm.copy, lambda a, b: pm.copy(b, a)):
        with pytest.raises(error, match=message):
            call(memory, SimpleNamespace(__array_interface__=interface(**fields)))


def test_array_interfaces() -> None:
    described = describe(interface(typestr="<U3", data=(4096, True), shape=(2, 0)), "it")
    assert (described.nbytes, described.read_only) == (0, True)
    assert describe(interface(typestr="<U3"), "it").nbytes == 48
    assert describe(interface(typestr="<M8[ns]", strides=(8,)), "it").nbytes == 32
    assert host_bytes(object(), "it") is None


@pytest.mark.host_only
def test_a_gpus_array_interface_is_nothing_to_the_host(pm: ModuleType, memory: Any) -> None:
    theirs = SimpleNamespace(__cuda_array_interface__=interface())
    for call in (pm.copy, lambda a, b: pm.copy(b, a)):
        with pytest.raises(TypeError, match="memory of a GPU"):
            call(memory, theirs)


def test_old_capsules_are_sources_and_no_targets(pm: ModuleType, memory: Any) -> None:
    from portamem.conformance.kit.dlpack import Legacy, Producer

    def theirs(array: Any) -> Any:
        return Producer(array.ctypes.data, array.shape, memory=array, kind=Legacy)

    array = np.arange(4, dtype=np.float32)
    pm.copy(memory, theirs(array))
    assert bytes(memory) == array.tobytes()
    with pytest.raises(ValueError, match=r"before version 1.*read-only"):
        pm.copy(theirs(array), memory)


def test_a_producer_without_an_array_is_data(pm: ModuleType, make_resource: Callable[[str], Any]) -> None:
    from portamem.conformance.kit.dlpack import Producer

    array = np.arange(4, dtype=np.float32)
    for dtype in (None, "float64"):
        theirs = Producer(array.ctypes.data, array.shape, memory=array)
        with pm.asarray(theirs, dtype=dtype, resource=make_resource("pinned")) as view:
            assert (view.dtype, view.readonly) == (dtype or "float32", False)
            assert view.to_numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["numpy", "numpy.ma", "ctypes"])
def test_a_module_that_another_thread_imports_is_not_asked(
    pm: ModuleType, device_resource: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    half = ModuleType(name)
    half.__spec__ = ModuleSpec(name, None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]  # the import system itself goes by this
    monkeypatch.setitem(sys.modules, name, half)
    with device_resource.allocate(8) as buf:
        pm.copy(buf, memoryview(bytes(range(8))))
        with buf.view("int16"):
            pass
        with pytest.raises(ValueError, match="not an element type"):
            buf.view("nonsense")
