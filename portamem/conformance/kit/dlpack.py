# SPDX-License-Identifier: MIT
"""DLPack's capsules, read and made by hand: the structs through ctypes, a consumer and a producer."""

from __future__ import annotations

import ctypes
from typing import Any

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
READ_ONLY, IS_COPIED, IS_PADDED = 1, 2, 4


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    """The struct before version 1."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter))
    name, used_name = b"dltensor", b"used_dltensor"


class Versioned(ctypes.Structure):
    """The struct of version 1."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )
    name, used_name = b"dltensor_versioned", b"used_dltensor_versioned"


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def named_capsule(name: bytes) -> object:
    """A capsule of no tensor."""
    kept = ctypes.create_string_buffer(name)
    capsule: object = _new(ctypes.addressof(kept), kept, None)
    _NAMES.append(kept)
    return capsule


_NAMES: list[Any] = []  # a capsule does not keep its name


def name_of(capsule: object) -> bytes:
    """A capsule's name."""
    return bytes(_get_name(capsule))


class Taken:
    """A tensor that a consumer has taken out of its capsule, until ``delete()``."""

    def __init__(self, capsule: object) -> None:
        self.kind: Any = next(kind for kind in (Legacy, Versioned) if kind.name == name_of(capsule))
        self.address: int = _get_pointer(capsule, self.kind.name)
        self.managed: Any = self.kind.from_address(self.address)
        _set_name(capsule, self.kind.used_name)

    @classmethod
    def at(cls, address: int) -> Taken:
        """One of version 1 that never was in a capsule."""
        self = cls.__new__(cls)
        self.kind, self.address, self.managed = Versioned, address, Versioned.from_address(address)
        return self

    @property
    def tensor(self) -> Any:
        return self.managed.tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[: self.tensor.ndim])

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.tensor.strides[: self.tensor.ndim])

    def delete(self, *, with_gil: bool = False) -> None:
        """Calls the deleter, by default without the GIL, as a library in C may."""
        prototype = ctypes.PYFUNCTYPE if with_gil else ctypes.CFUNCTYPE
        address: Any = ctypes.cast(self.managed.deleter, ctypes.c_void_p).value
        prototype(None, ctypes.c_void_p)(address)(self.address)


class Producer:
    """A DLPack producer over memory that ``memory`` keeps, with every field open to a test."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        *,
        memory: object = None,
        device: tuple[int, int] = (CPU, 0),
        dtype: tuple[int, int, int] = (FLOAT, 32, 1),
        strides: tuple[int, ...] | None = None,
        byte_offset: int = 0,
        kind: Any = Versioned,
        version: tuple[int, int] = (1, 0),
        flags: int = 0,
        has_deleter: bool = True,
    ) -> None:
        self.memory = memory
        self.device = device
        self.deleted: list[int] = []
        self.calls: list[dict[str, Any]] = []
        self._extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.managed = kind()
        self.managed.tensor = Tensor(
            address,
            Device(*device),
            len(shape),
            DataType(*dtype),
            ctypes.cast(self._extents, ctypes.POINTER(ctypes.c_int64)),
            None if self._strides is None else ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64)),
            byte_offset,
        )
        if kind is Versioned:
            self.managed.major, self.managed.minor = version
            self.managed.flags = flags
        if has_deleter:
            self.managed.deleter = Deleter(self._deleted)
        self.capsule = _new(ctypes.addressof(self.managed), kind.name, None)

    def _deleted(self, managed: int) -> None:
        self.deleted.append(managed)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> object:
        self.calls.append(keywords)
        return self.capsule


_SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_Allocate = ctypes.CFUNCTYPE(  # without the GIL, as a library in C may
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, _SetError
)
_AllocateWithGil = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, _SetError
)
_ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
_FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_Lend = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
_CurrentStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class ExchangeTable(ctypes.Structure):
    """DLPack's C exchange table."""

    name = b"dlpack_exchange_api"
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", _Allocate),
        ("from_object", _FromObject),
        ("to_object", _ToObject),
        ("lend", _Lend),
        ("current_stream", _CurrentStream),
    )


def table_of(cls: Any) -> Any:
    """The table of a class."""
    return ExchangeTable.from_address(_get_pointer(cls.__dlpack_c_exchange_api__, ExchangeTable.name))


def taken_by_table(table: Any, given: Any) -> Taken:
    """The tensor that a table gives of an object."""
    out = ctypes.c_void_p()
    table.from_object(given, ctypes.byref(out))
    return Taken.at(out.value or 0)


def allocated_by_table(table: Any, like: Tensor, *, with_gil: bool = False) -> Taken | tuple[str, str]:
    """The tensor that a table allocates, or the kind and the text of its error."""
    errors: list[tuple[str, str]] = []
    note = _SetError(lambda context, kind, text: errors.append((kind.decode(), text.decode())))
    out = ctypes.c_void_p()
    call = ctypes.cast(table.allocate, _AllocateWithGil) if with_gil else table.allocate
    code = call(ctypes.byref(like), ctypes.byref(out), None, note)
    if (code == 0) == bool(errors) or (code == 0) != bool(out.value):
        raise AssertionError(f"the answer is {code}, the address {out.value}, the errors {errors}")
    return errors[0] if errors else Taken.at(out.value or 0)


def made_by_table(table: Any, address: int) -> Any:
    """The object that a table makes of a tensor of version 1."""
    out = ctypes.py_object()
    table.to_object(address, ctypes.byref(out))
    made = out.value  # a reference of its own, beside the one that the table gave
    ctypes.pythonapi.Py_DecRef(out)
    return made


def lent_by_table(table: Any, given: Any) -> Tensor:
    """The tensor that a table lends of an object."""
    out = Tensor()
    table.lend(given, ctypes.byref(out))
    return out


class TableProducer(Producer):
    """One whose class has the C exchange table. ``on`` is the handle of the stream that it works on."""

    on = 0
    fails = False
    gives_nothing = False
    table_calls = 0

    def _give(self, out: Any) -> int:
        self.table_calls += 1
        if self.fails:
            return -1
        out[0] = None if self.gives_nothing else ctypes.addressof(self.managed)
        return 0


def with_table(cls: type[TableProducer] = TableProducer, version: tuple[int, int] = (1, 3), **missing: None) -> Any:
    """A class with a table of its own, whose functions named in ``missing`` are null."""
    made: Any = type(cls.__name__, (cls,), {"__dlpack__": cls.__dlpack__})

    def from_object(given: Any, out: Any) -> int:
        return int(given._give(out))

    def current_stream(device_type: int, device_id: int, out: Any) -> int:
        out[0] = made.on or None
        return 0

    table = ExchangeTable(
        *version, None, _Allocate(), _FromObject(from_object), _ToObject(), _Lend(), _CurrentStream(current_stream)
    )
    for field in missing:
        setattr(table, field, type(getattr(table, field))())
    made.table, made.__dlpack_c_exchange_api__ = table, _new(ctypes.addressof(table), ExchangeTable.name, None)
    return made


class OldProducer(Producer):
    """One that knows the arguments of before version 1 only."""

    def __dlpack__(self, *, stream: int | None = None) -> object:  # type: ignore[override]  # as it was then
        self.calls.append({"stream": stream})
        return self.capsule
