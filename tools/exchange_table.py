# SPDX-License-Identifier: MIT
"""Make evidence/exchange.md: which library takes which memory, and gives its own, with a copy or without.

    python tools/exchange_table.py            prints the page for the libraries that are installed
    python tools/exchange_table.py --write    writes it

Options: --backend host|cuda|hip (host). Each cell is found by trying: the memory holds a pattern, the library takes it,
and its array is asked for its address and its elements. A cell is "wrong" where the elements, their type or their shape
are others, where the buffer could be closed under the array, and where the array is gone and still holds the buffer.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import importlib.metadata
import importlib.util
import operator
import os
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "evidence" / "exchange.md"

GRID, LINE = (4, 32), (128,)
PATIENCE_S = 5.0  # for libraries that let go on threads of their own
ZERO_COPY, COPY, REFUSED, WRONG = "zero-copy", "copy", "refused", "wrong"


@dataclass(frozen=True)
class Cell:
    """The outcome of one try: one of the four words, and the reason of the latter two."""

    word: str
    reason: str = ""


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


@dataclass(frozen=True)
class Route:
    """One way from a View to a library's array (OURS), or from a library's array to a View (THEIRS).

    ``take`` makes the array: of a View, or of NumPy's elements. ``address`` and ``read`` ask it; without an address the
    elements alone are told. ``trap`` says why an answer that is wrong is the library's own way, and ``sign`` is the
    pattern of the reasons by which that is known: any other wrong answer is a fault.
    """

    library: str
    how: str
    take: Callable[[Any], Any]
    told: str
    address: Callable[[Any], int] | None
    read: Callable[[Any], Any] = np.asarray
    shape: tuple[int, ...] = GRID
    trap: str = ""
    sign: str = ""

    def is_trap(self, cell: Cell) -> bool:
        return bool(self.trap) and cell.word == WRONG and re.search(self.sign, cell.reason) is not None


_NOT_KEPT = "the buffer can be closed under the array"


def classify(expected: Any, address: int, seen_address: int | None, seen: Any) -> Cell:
    """Says by the address and the elements of an array which way it came."""
    seen = np.asarray(seen)
    if (seen.shape, seen.dtype) != (expected.shape, expected.dtype):
        return Cell(WRONG, f"{expected.dtype}{expected.shape} came as {seen.dtype}{seen.shape}")
    if not np.array_equal(seen, expected):
        return Cell(WRONG, "the elements are others")
    return Cell(ZERO_COPY if seen_address == address else COPY)


def pattern(shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float32) * 3 + 1).reshape(shape)


# ----- ours, taken by theirs


def try_taking(route: Route, pm: ModuleType, resource: Any) -> Cell:
    """A View of the resource's memory, taken by a library."""
    expected = pattern(route.shape)
    stream = resource.device.default_stream if resource.is_stream_ordered else None
    buffer = resource.allocate(expected.nbytes, stream=stream)
    pm.copy(buffer, expected)
    view = buffer.view("float32", route.shape)
    cell, theirs = _attempt(route.take, view, route, expected, view.handle)
    view.close()
    del view
    gc.collect()
    if cell.word == ZERO_COPY and buffer.exports == 0:
        cell = Cell(WRONG, _NOT_KEPT)
    if cell.word == COPY and route.address is None and buffer.exports != 0:
        cell = Cell(ZERO_COPY)  # the library keeps the memory
    del theirs
    if not _eventually(lambda: buffer.exports == 0):
        return Cell(WRONG, "the array is gone, and still holds the buffer")
    buffer.close()
    return cell


def try_giving(route: Route, pm: ModuleType) -> Cell:
    """A library's own array, wrapped as a View by from_any."""
    expected = pattern(route.shape)
    theirs = route.take(expected)
    assert route.address is not None
    cell, view = _attempt(pm.from_any, theirs, _VIEW, expected, route.address(theirs))
    del theirs, view
    gc.collect()
    return cell


_VIEW = Route("portamem", "", lambda view: view, "handle", lambda view: int(view.handle), lambda view: view.to_numpy())


def _attempt(take: Callable[[Any], Any], given: Any, route: Route, expected: Any, address: int) -> tuple[Cell, Any]:
    """The cell, and the array where there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = take(given)
            seen = None if route.address is None else route.address(theirs)
            return classify(expected, address, seen, route.read(theirs)), theirs
    except Exception as error:
        return Cell(REFUSED, _reason(error)), None


def _reason(error: BaseException) -> str:
    """The first sentence of an exception, without what changes from run to run and from kind to kind."""
    text = re.sub(r"0x[0-9a-f]+", "0x0", " ".join(str(error).split()))
    text = re.sub(r"\b(device|pinned|managed|system|async) memory\b", "memory of this kind", text)
    return f"{type(error).__name__}: {re.split(r'(?<=[a-z0-9)])[.:;] ', text, maxsplit=1)[0].rstrip('.')}"


def _eventually(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        gc.collect()
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


# ----- the libraries


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
        sign=f"^{_NOT_KEPT}$",
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


# ----- the kinds of memory


def kinds(pm: ModuleType) -> dict[str, Callable[[], Any]]:
    """Makers of each kind of resource, and of a pool over each."""
    plain: dict[str, Callable[[], Any]] = {
        "device": pm.DeviceMemoryResource,
        "pinned": pm.PinnedMemoryResource,
        "managed": pm.ManagedMemoryResource,
        "system": pm.SystemMemoryResource,
        "async": pm.AsyncMemoryResource,
    }
    return {**plain, **{f"pool({name})": _pool_over(pm, make) for name, make in plain.items()}}


def _pool_over(pm: ModuleType, make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: pm.PoolMemoryResource(make())


# ----- the page


def installed(routes: tuple[Route, ...], library: str | None = None) -> list[Route]:
    """The routes of the libraries that are here, or of one of them."""
    here = {each.name for each in LIBRARIES if each.is_installed and library in (None, each.name)}
    return [route for route in routes if route.library in here]


def cells(route: Route, pm: ModuleType) -> dict[str, Cell]:
    """One of OURS, with every kind of memory."""
    found = {}
    for kind, make in kinds(pm).items():
        resource = make()
        found[kind] = try_taking(route, pm, resource)
        if resource.live_buffers == 0:
            resource.close()
    return found


HEAD = """\
# What goes to other libraries, and comes from them, without a copy

Generated by `python tools/exchange_table.py --write`: do not edit.

Tried on the {backend} backend{model}, with Python {python}. The memory holds a pattern, and a library takes it.

- *zero-copy*: the library's array has the address of the memory, its elements, type and shape are the pattern's, and
  the buffer cannot be closed while the array lives. Where a library tells no address, the latter says it alone.
- *copy*: the elements are the same, elsewhere.
- *refused*: an exception says why. The number is that of the reason, below.
- *wrong*: the elements, their type or their shape are others, the buffer could be closed under the array, or the array
  is gone and still holds the buffer.

A pool over each kind is tried too, and named where its answer is another one.
"""


def page(pm: ModuleType) -> str:
    return "\n".join(_lines(pm)) + "\n"


def _lines(pm: ModuleType) -> Iterator[str]:
    model = f" (model {os.environ.get('PORTAMEM_HOST_MODEL', 'discrete')})" if pm.backend == "host" else ""
    yield HEAD.format(backend=pm.backend, model=model, python=".".join(map(str, sys.version_info[:2])))
    yield from ["| library | version |", "|---|---|"]
    yield from (f"| {each.name} | {each.version if each.is_installed else 'not tried'} |" for each in LIBRARIES)
    reasons: list[str] = []
    traps = []
    names = [name for name in kinds(pm) if not name.startswith("pool")]
    yield from ["", "## Their arrays over our memory", ""]
    yield "| library | by | told by | " + " | ".join(names) + " |"
    yield "|" + "---|" * (len(names) + 3)
    for route in installed(OURS):
        found = cells(route, pm)
        answers = [_with_pool(found[name], found[f"pool({name})"], reasons) for name in names]
        yield f"| {route.library} | `{route.how}` | {route.told} | " + " | ".join(answers) + " |"
        if any(map(route.is_trap, found.values())):
            traps.append(_wrapped(f"`{route.how}` is wrong: {route.trap}"))
    yield from ["", *traps] if traps else []
    yield from ["", "## Our views over their memory, by `from_any`", ""]
    yield from ["| library | of | told by | answer |", "|---|---|---|---|"]
    for route in installed(THEIRS):
        yield f"| {route.library} | {route.how} | {route.told} | {_text(try_giving(route, pm), reasons)} |"
    yield from ["", "## Reasons", ""]
    yield from (_wrapped(f"{n}. {_escaped(reason)}", "   ") for n, reason in enumerate(reasons, 1))


def _with_pool(plain: Cell, pool: Cell, reasons: list[str]) -> str:
    return _text(plain, reasons) + ("" if pool == plain else f"; of a pool {_text(pool, reasons)}")


def _text(cell: Cell, reasons: list[str]) -> str:
    if not cell.reason:
        return cell.word
    if cell.reason not in reasons:
        reasons.append(cell.reason)
    word = f"**{cell.word}**" if cell.word == WRONG else cell.word
    return f"{word} ({reasons.index(cell.reason) + 1})"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("host", "cuda", "hip"), default="host")
    parser.add_argument("--write", action="store_true", help=f"writes {PAGE.name}")
    options = parser.parse_args()
    text = page(importlib.import_module(f"portamem.{options.backend}"))
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
