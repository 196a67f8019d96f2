# SPDX-License-Identifier: MIT
"""The libraries, and the ways from a View to their arrays and back."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from exchange.trial import NOT_KEPT, Route

LINE = (128,)


@dataclass(frozen=True)
class Library:
    """A library by its module, and by the distributions of which one has its version."""

    name: str
    module: str
    distributions: tuple[str, ...]

    @property
    def is_installed(self) -> bool:
        return bool(self.version) and importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        for name in self.distributions:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return ""


def _module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they may warn of themselves at import
        return importlib.import_module(name)


def _calls(module: str, function: str, **keywords: Any) -> Callable[[Any], Any]:
    return lambda given: operator.attrgetter(function)(_module(module))(given, **keywords)


def _warp(function: str, **keywords: Any) -> Callable[[Any], Any]:
    def call(given: Any) -> Any:
        warp = _module("warp")
        warp.config.quiet = True
        warp.init()
        return getattr(warp, function)(given, **keywords)

    return call


@functools.cache
def _put() -> Any:
    def put(array: Any, value: float) -> None:
        array[0, 0] = value

    return _module("numba").njit(put)


def _njit(view: Any) -> tuple[int, Any]:
    """The address that is written when a compiled function writes, and a View of it: the function keeps nothing."""
    own = view[...]
    with view[0, 0] as first:
        before = float(first.to_numpy())
        _put()(view, np.float32(before + 1))
        is_written = float(first.to_numpy()) == before + 1
        _put()(view, np.float32(before))
    return own.handle if is_written else 0, own


class _InMemory:
    """A data set of a file in memory, which is open while this lives."""

    def __init__(self, data: Any) -> None:
        self._file = _module("h5py").File("portamem", "w", driver="core", backing_store=False)
        self.set = self._file.create_dataset("x", data.shape, data.dtype)
        self.set[...] = data


def _zarr(data: Any) -> Any:
    made = _module("zarr").create_array({}, shape=data.shape, dtype=data.dtype, chunks=(2, 32))
    made[:] = data
    return made


def _zarr_raw(data: Any) -> Any:
    made = _module("zarr").create_array({}, shape=data.shape, dtype=data.dtype, chunks=data.shape, compressors=None)
    made[:] = data
    return made


def _arrow_device(view: Any) -> Any:
    return _module("pyarrow").Array._import_from_c_device_capsule(*view.__arrow_c_device_array__())


def _read_only(data: Any) -> Any:
    array = np.array(data)
    array.flags.writeable = False
    return array


# Addresses and elements, as each library tells them.


def _by_numpy(array: Any) -> int:
    return int(np.asarray(array).ctypes.data)


def _by_data_ptr(array: Any) -> int:
    return int(array.data_ptr())


def _by_ptr(array: Any) -> int:
    return int(array.ptr)


def _by_jax(array: Any) -> int:
    return int(array.unsafe_buffer_pointer())


def _by_arrow(array: Any) -> int:
    return int(array.buffers()[1].address) + 4 * int(array.offset)


def _by_polars(series: Any) -> int:
    return int(series.to_numpy(allow_copy=False).ctypes.data)


def _as_numpy(array: Any) -> Any:
    return array.numpy()


def _to_numpy(array: Any) -> Any:
    return array.to_numpy()


LIBRARIES = (
    Library("NumPy", "numpy", ("numpy",)),
    Library("PyTorch", "torch", ("torch",)),
    Library("CuPy", "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy")),
    Library("JAX", "jax", ("jax",)),
    Library("Numba", "numba", ("numba",)),
    Library("Warp", "warp", ("warp-lang",)),
    Library("cuda.core", "cuda", ("cuda-core",)),
    Library("tvm-ffi", "tvm_ffi", ("apache-tvm-ffi",)),
    Library("PyArrow", "pyarrow", ("pyarrow",)),
    Library("pandas", "pandas", ("pandas",)),
    Library("Polars", "polars", ("polars",)),
    Library("zarr", "zarr", ("zarr",)),
    Library("h5py", "h5py", ("h5py",)),
    Library("xarray", "xarray", ("xarray",)),
)

_SMV = "StridedMemoryView.from_dlpack"
_TORCH_TRAP = (
    "PyTorch asks for the buffer protocol before DLPack, and takes its bytes for elements. Use `view.to_torch()`."
)
# JAX reads the dictionary and makes its array of the address in it, with nothing to call at the end of the array.
_JAX_TRAP = (
    "of memory that the GPU reaches, JAX takes the address from `__cuda_array_interface__`, and its array does not "
    "keep the View. Use `view.to_jax()`."
)

OURS = (
    Route("NumPy", "np.asarray(view)", np.asarray, "ctypes.data", _by_numpy),
    Route("NumPy", "np.from_dlpack(view)", np.from_dlpack, "ctypes.data", _by_numpy),
    Route("NumPy", "np.array(view)", np.array, "ctypes.data", _by_numpy),
    Route("NumPy", "view.to_numpy()", _to_numpy, "ctypes.data", _by_numpy),
    Route("PyTorch", "view.to_torch()", lambda v: v.to_torch(), "data_ptr()", _by_data_ptr),
    Route("PyTorch", "torch.from_dlpack(view)", _calls("torch", "from_dlpack"), "data_ptr()", _by_data_ptr),
    Route("PyTorch", "torch.as_tensor(view)", _calls("torch", "as_tensor"), "data_ptr()", _by_data_ptr),
    Route(
        "PyTorch",
        "torch.asarray(view)",
        _calls("torch", "asarray"),
        "data_ptr()",
        _by_data_ptr,
        trap=_TORCH_TRAP,
        sign=r" came as float32\(128,\)$",
    ),
    Route("CuPy", "view.to_cupy()", lambda v: v.to_cupy(), "data.ptr", lambda a: int(a.data.ptr)),
    Route("CuPy", "cupy.from_dlpack(view)", _calls("cupy", "from_dlpack"), "data.ptr", lambda a: int(a.data.ptr)),
    Route("JAX", "view.to_jax()", lambda v: v.to_jax(), "unsafe_buffer_pointer()", _by_jax),
    Route("JAX", "jnp.from_dlpack(view)", _calls("jax.numpy", "from_dlpack"), "unsafe_buffer_pointer()", _by_jax),
    Route(
        "JAX",
        "jnp.asarray(view)",
        _calls("jax.numpy", "asarray"),
        "unsafe_buffer_pointer()",
        _by_jax,
        trap=_JAX_TRAP,
        sign=f"^{NOT_KEPT}$",
    ),
    Route("Numba", "view.to_numba()", lambda v: v.to_numba(), "ctypes.data", _by_numpy),
    Route("Numba", "njit(f)(view)", _njit, "a write in f", lambda pair: int(pair[0]), lambda p: np.asarray(p[1])),
    Route("Warp", "wp.from_dlpack(view)", _warp("from_dlpack"), "ptr", _by_ptr, _as_numpy),
    Route("Warp", "wp.array(view, copy=False)", _warp("array", copy=False), "ptr", _by_ptr, _as_numpy),
    Route("cuda.core", f"{_SMV}(view)", _calls("cuda.core.utils", _SMV, stream_ptr=-1), "ptr", _by_ptr, np.from_dlpack),
    Route(
        "tvm-ffi",
        "tvm_ffi.from_dlpack(view)",
        _calls("tvm_ffi", "from_dlpack"),
        "data_ptr()",
        _by_data_ptr,
        np.from_dlpack,
    ),
    Route("PyArrow", "pa.array(view)", _calls("pyarrow", "array"), "buffers()", _by_arrow, _to_numpy, LINE),
    Route("PyArrow", "view.__arrow_c_device_array__()", _arrow_device, "buffers()", _by_arrow, _to_numpy, LINE),
    Route("pandas", "pd.Series(view)", _calls("pandas", "Series"), "ctypes.data", _by_numpy, shape=LINE),
    Route("pandas", "pd.DataFrame(view)", _calls("pandas", "DataFrame"), "ctypes.data", _by_numpy),
    Route("Polars", "pl.Series(view)", _calls("polars", "Series"), "ctypes.data", _by_polars, _to_numpy, LINE),
    Route("zarr", "array[:] = view", _zarr, "its elements", None, lambda a: a[:]),
    Route("zarr", "array[:] = view  # one chunk, not compressed", _zarr_raw, "its elements", None, lambda a: a[:]),
    Route("h5py", "dataset[...] = view", _InMemory, "its elements", None, lambda a: a.set[...]),
    Route("xarray", "xr.DataArray(view)", _calls("xarray", "DataArray"), "ctypes.data", _by_numpy),
)
"""The ways from a View to a library's array."""

THEIRS = (
    Route("NumPy", "ndarray", np.array, "handle", _by_numpy),
    Route("NumPy", "ndarray that may be read only", _read_only, "handle", _by_numpy),
    Route("PyTorch", "Tensor", _calls("torch", "tensor"), "handle", _by_data_ptr),
    Route("JAX", "Array", _calls("jax.numpy", "array"), "handle", _by_jax),
    Route("Warp", "array", _warp("array", device="cpu"), "handle", _by_ptr),
    Route("tvm-ffi", "Tensor", lambda data: _module("tvm_ffi").from_dlpack(np.array(data)), "handle", _by_data_ptr),
    Route("PyArrow", "Array", _calls("pyarrow", "array"), "handle", _by_arrow, shape=LINE),
    Route("pandas", "Series", _calls("pandas", "Series"), "handle", _by_numpy, shape=LINE),
    Route("Polars", "Series", _calls("polars", "Series"), "handle", _by_polars, shape=LINE),
    Route("xarray", "DataArray", _calls("xarray", "DataArray"), "handle", _by_numpy),
)
"""The libraries' own arrays, which become Views by from_any."""
