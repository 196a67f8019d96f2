# SPDX-License-Identifier: MIT
"""One try of a way to exchange memory, and its outcome."""

from __future__ import annotations

import gc
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

GRID = (4, 32)
PATIENCE_S = 5.0  # for libraries that let go on threads of their own
ZERO_COPY, COPY, REFUSED, WRONG = "zero-copy", "copy", "refused", "wrong"


@dataclass(frozen=True)
class Cell:
    """The outcome of one try: one of the four words, and the reason of the latter two."""

    word: str
    reason: str = ""


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


NOT_KEPT = "the buffer can be closed under the array"


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
        cell = Cell(WRONG, NOT_KEPT)
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
