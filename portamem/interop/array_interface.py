# SPDX-License-Identifier: MIT
"""``__array_interface__`` and ``__cuda_array_interface__`` of others, read with care: both are the same dictionary."""

from __future__ import annotations

import math
import operator
import re
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from portamem.interop.host_memory import refuse_no_bytes, refuse_objects

# Letter and size of a typestr, and the unit of a time. Of these alone are the elements all that they show.
_TYPESTR = re.compile(r"[<>|=]?([a-zA-Z])(\d*)(\[.*\])?")
_PLAIN = "biufcmMSUV"
_MOST_BYTES = (1 << 63) - 1


class Described(NamedTuple):
    """Memory as an array interface describes it: the bytes from the first element to the last. Strides are in bytes,
    and None for C order."""

    pointer: int
    nbytes: int
    read_only: bool
    shape: tuple[int, ...]
    typestr: str
    strides: tuple[int, ...] | None = None


def describe(interface: Any, role: str, *, takes_strides: bool = False) -> Described:
    """Reads an array interface. TypeError and ValueError for what is malformed or cannot be taken as bytes, and without
    ``takes_strides`` for what is not C-contiguous."""
    try:
        shape = tuple(map(operator.index, interface["shape"]))
        typestr, (pointer, read_only) = interface["typestr"], interface["data"]
        pointer = operator.index(pointer)
        letter, digits = _element_of(typestr)
    except (KeyError, TypeError, ValueError) as e:
        raise TypeError(f"the array interface of {role} is malformed ({type(e).__name__}: {e}): {interface!r}") from e
    if letter in "OT" or _has_objects(interface.get("descr")):
        refuse_objects(role, f"array of {typestr}")
    if letter not in _PLAIN or not digits:
        raise ValueError(f"{role} has elements of type {typestr!r}, which are no whole bytes: convert it first")
    refuse_mask(interface, role)
    itemsize = int(digits) * (4 if letter == "U" else 1)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"the array interface of {role} has a negative extent: {shape}")
    nbytes = math.prod(shape) * itemsize
    if nbytes > _MOST_BYTES or not 0 <= pointer <= 2 * _MOST_BYTES + 1 - nbytes:
        raise ValueError(f"the array interface of {role} describes more than any memory: {shape} at {pointer}")
    if nbytes != 0 and pointer == 0:
        raise ValueError(f"the array interface of {role} gives address 0 for {nbytes} bytes")
    strides = interface.get("strides")
    if strides is not None and len(strides) != len(shape):
        _refuse_strides(strides, shape, role)
    if is_contiguous(shape, strides, itemsize):
        return Described(pointer, nbytes, bool(read_only), shape, typestr)
    if not takes_strides:
        raise ValueError(f"{role} is not C-contiguous: make a contiguous copy of it first")
    # The stride of an axis with one element does not matter.
    strides = tuple(operator.index(stride) if n != 1 else 0 for n, stride in zip(shape, strides, strict=True))
    if any(stride < 0 or stride % itemsize for stride in strides):
        raise ValueError(
            f"{role} has the strides {strides}, of which one is negative or no multiple of the {itemsize} bytes of an "
            "element: make a contiguous copy of it first"
        )
    reach = itemsize + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if pointer + reach > 2 * _MOST_BYTES:
        raise ValueError(f"the array interface of {role} describes more than any memory: {shape} at {pointer}")
    return Described(pointer, reach, bool(read_only), shape, typestr, strides)


def refuse_mask(interface: Any, role: str) -> None:
    """ValueError for an array interface with a mask, which would be lost."""
    if interface.get("mask") is not None:
        raise ValueError(f"{role} is masked memory: pass the data and the mask on their own")


def refuse_misaligned(described: Described, role: str) -> None:
    """ValueError where elements do not begin at addresses that a CPU reads them from."""
    letter, digits = _element_of(described.typestr)
    alignment = min(int(digits) // (2 if letter == "c" else 1), 8)
    if described.nbytes and alignment and described.pointer % alignment:
        raise ValueError(f"{role} begins at an address that is not a multiple of {alignment} bytes: copy it first")


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    """C order; the stride of an axis with one element does not matter, nor any stride of an empty array."""
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def host_bytes(obj: Any, role: str) -> tuple[int, int, bool] | None:
    """Address, bytes and whether they may only be read, of an object with ``__array_interface__``; else None."""
    refuse_no_bytes(obj, role)
    interface = getattr(obj, "__array_interface__", None)
    if interface is None:
        return None
    described = describe(interface, role)
    return described.pointer, described.nbytes, described.read_only


def array_with_strides(obj: Any, role: str) -> Any:
    """A NumPy array of the same memory with the same strides, where ``obj`` has ``__array_interface__`` and is not
    C-contiguous; else None. Its elements are plain bytes, so that it has a buffer. TypeError and ValueError as
    ``describe``."""
    refuse_no_bytes(obj, role)
    interface = getattr(obj, "__array_interface__", None)
    if not isinstance(interface, dict) or interface.get("strides") is None:
        return None
    packed = describe({**interface, "strides": None}, role)
    try:
        strides = tuple(map(operator.index, interface["strides"]))
    except TypeError as e:
        raise TypeError(f"the array interface of {role} is malformed ({e}): {interface!r}") from e
    if len(strides) != len(packed.shape):
        _refuse_strides(strides, packed.shape, role)
    letter, digits = _element_of(packed.typestr)
    if is_contiguous(packed.shape, strides, int(digits) * (4 if letter == "U" else 1)):
        return None
    ends = [(extent - 1) * stride for extent, stride in zip(packed.shape, strides, strict=True)]
    lowest, highest = (packed.pointer + sum(pick(end, 0) for end in ends) for pick in (min, max))
    if lowest < 0 or highest > 2 * _MOST_BYTES or max(map(abs, strides)) > _MOST_BYTES:
        raise ValueError(f"the array interface of {role} describes more than any memory: {packed.shape} by {strides}")
    import numpy as np

    array = np.asarray(obj)
    if array.nbytes != packed.nbytes:
        raise ValueError(f"the array interface of {role} describes {packed.nbytes} bytes, and its descr others")
    return None if array.flags.c_contiguous else array.view(f"V{array.itemsize}")


def _refuse_strides(strides: Any, shape: tuple[int, ...], role: str) -> NoReturn:
    raise ValueError(f"the array interface of {role} has {len(strides)} strides for {len(shape)} dimensions")


def device_buffer(
    native: ModuleType, obj: Any, stream: Any, role: str, *, takes_strides: bool = False
) -> tuple[Any, Described] | None:
    """The memory of an object with ``__cuda_array_interface__`` as a Buffer, ready as asarray says; else None."""
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if native.backend == "host":
        raise TypeError(f"{role} is memory of a GPU, which the host backend cannot reach: copy it through host memory")
    described = describe(interface, role, takes_strides=takes_strides)
    device = native.pointer_info(described.pointer).device_id if described.nbytes else None
    _order(native, interface.get("stream"), stream, device)
    buffer = native.Buffer.from_handle(
        described.pointer, described.nbytes, owner=obj, device=device, stream=stream, readonly=described.read_only
    )
    return buffer, described


def _order(native: ModuleType, producer: int | None, stream: Any, device: int | None) -> None:
    """Puts what the producer has queued before what the caller will do: on ``stream``, or by waiting here."""
    if producer is None:
        return
    # A default stream is that of the memory's device. Another stream may be of any device.
    theirs = native.Stream.from_handle(producer, device=device if producer in (0, 1, 2) else None)
    if stream is None:
        theirs.synchronize()
    else:
        ours = stream if isinstance(stream, native.Stream) else native.Stream.wrap(stream)
        ours.wait(theirs)


def _element_of(typestr: Any) -> tuple[str, str]:
    """Letter and size: of references to Python objects NumPy gives no size."""
    found = _TYPESTR.fullmatch(typestr)
    if found is None:
        raise ValueError(f"{typestr!r} is not a type of elements")
    return found[1], found[2]


def _has_objects(descr: Any) -> bool:
    """True where a field of a record, or of one in it, refers to Python objects."""
    if not isinstance(descr, (list, tuple)):
        return False
    for field in descr:
        kind = field[1] if isinstance(field, (list, tuple)) and len(field) > 1 else None
        if isinstance(kind, str) and kind.lstrip("<>|=")[:1] in ("O", "T"):
            return True
        if _has_objects(kind):
            return True
    return False
