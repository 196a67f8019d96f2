"""tvm-ffi's plug: the function by itself, and with tvm-ffi on the CPU where it is installed."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import backend
from helpers.memory import MIB
from helpers.process import python_output

from portamem import _loader
from portamem.conformance.kit.dlpack import DataType, Device, Tensor, Versioned

CPU = 1


SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Versioned)), ctypes.c_void_p, SET_ERROR
)
STREAM_OF = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)


class Functions:
    """A tvm-ffi whose current stream is a variable, and its allocator over a resource."""

    def __init__(self, native: ModuleType, resource: Any) -> None:
        self.current = 0
        self.errors: list[tuple[str, str]] = []
        self._stream_of = STREAM_OF(lambda _type, _device: self.current)
        hook = native._LibraryHook(resource)
        addresses = hook.tvm_ffi_functions(ctypes.cast(self._stream_of, ctypes.c_void_p).value)
        self._allocate = ALLOCATE(addresses["allocate"])
        self._set_error = SET_ERROR(lambda _context, kind, text: self.errors.append((kind.decode(), text.decode())))

    def allocate(self, device: tuple[int, int], *shape: int) -> Any:
        extents = (ctypes.c_int64 * len(shape))(*shape)
        like = Tensor(None, Device(*device), len(shape), DataType(2, 32, 1), extents, None, 0)
        out = ctypes.POINTER(Versioned)()
        code = self._allocate(ctypes.byref(like), ctypes.byref(out), None, self._set_error)
        assert (code == 0) == bool(out)
        return out.contents if out else None


@pytest.fixture
def memory(pm: ModuleType, device: Any, shared: dict[str, Any]) -> Any:
    """Pinned memory: the host reaches it on every backend, and so does the device."""
    if "memory" not in shared:
        shared["memory"] = pm.PoolMemoryResource(pm.PinnedMemoryResource(device))
    yield shared["memory"]
    device.synchronize()
    shared["memory"].trim()


@pytest.fixture
def tvm_ffi(pm: ModuleType, memory: Any, shared: dict[str, Any]) -> Functions:
    if "functions" not in shared:
        shared["functions"] = Functions(_loader.load(pm.backend), memory)
    shared["functions"].current = 0
    shared["functions"].errors.clear()
    return shared["functions"]


def test_a_tensor_of_the_host_is_the_resources_own(memory: Any, tvm_ffi: Functions) -> None:
    made = tvm_ffi.allocate((CPU, 0), 3, 5)
    assert memory.live_bytes == 60
    assert [made.tensor.shape[i] for i in range(2)] == [3, 5]
    assert [made.tensor.strides[i] for i in range(2)] == [5, 1]
    values = np.ctypeslib.as_array(ctypes.cast(made.tensor.data, ctypes.POINTER(ctypes.c_float)), (3, 5))
    values[:] = 7
    assert values.sum() == 105
    made.deleter(ctypes.byref(made))
    assert memory.live_bytes == 0


def test_the_librarys_current_stream_is_the_memorys(
    pm: ModuleType, tvm_ffi: Functions, memory: Any, device: Any, stream: Any
) -> None:
    if pm.backend == "host":
        pytest.skip("the CPU's memory has no device type of its own in DLPack")
    tvm_ffi.current = stream.handle
    made = tvm_ffi.allocate(({"cuda": 2, "hip": 10}[backend.driver()], device.ordinal), 1024)
    assert memory.live_bytes == 4096
    made.deleter(ctypes.byref(made))
    assert memory.live_bytes == 0


def test_refusals_are_told_by_kind(tvm_ffi: Functions, memory: Any) -> None:
    assert tvm_ffi.allocate((CPU, 0), -1) is None
    assert tvm_ffi.allocate((14, 0), 1) is None
    assert tvm_ffi.allocate((CPU, 0), 1 << 60) is None
    assert [kind for kind, _ in tvm_ffi.errors] == ["BufferError", "BufferError", "MemoryError"]
    assert memory.live_buffers == 0


def test_with_the_library_itself(pm: ModuleType) -> None:
    pytest.importorskip("tvm_ffi")
    printed = python_output(
        """
        import ctypes, sys
        import portamem as pm
        from portamem.plugins import tvm_ffi as plug
        import tvm_ffi

        backend = getattr(pm, sys.argv[1])
        pool = backend.PoolMemoryResource(backend.PinnedMemoryResource())
        make = tvm_ffi.LIB.TVMFFIEnvTensorAlloc
        like = tvm_ffi.from_dlpack(__import__("numpy").zeros((4, 4), "f4"))
        with plug.use(pool) as installed:
            print(installed.is_active, repr(installed).startswith("<portamem plug of tvm_ffi, active"))
            second = plug.use(pool)
            try:
                installed.undo()
            except RuntimeError as refused:
                print("later plug" in str(refused))
            second.undo()
        print(installed.is_active)
        """,
        pm.backend,
    )
    assert printed.split() == ["True", "True", "True", "False"]


def test_what_is_no_resource_is_refused(pm: ModuleType, device_resource: Any) -> None:
    pytest.importorskip("tvm_ffi")
    from portamem.plugins import tvm_ffi

    with pytest.raises(TypeError, match="not from a int"):
        tvm_ffi.use(3)
    with pytest.raises(ValueError, match="not stream-ordered"):
        tvm_ffi.use(device_resource)
    device_resource.close()
    with pytest.raises(ValueError, match="closed"):
        tvm_ffi.use(device_resource)


def test_16_mib_and_more(memory: Any, tvm_ffi: Functions) -> None:
    made = tvm_ffi.allocate((CPU, 0), 4 * MIB)
    assert memory.live_bytes == 16 * MIB
    made.deleter(ctypes.byref(made))
