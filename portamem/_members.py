# SPDX-License-Identifier: MIT
"""The members of the plain classes, ``portamem.Buffer`` and so on: what help(), dir() and inspect see of them.

They are made of portamem._words once a program asks for one, and forward to the object's own class, or, where there is
no object, to the chosen backend. Making them chooses no backend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

from portamem._words import WORDS

if TYPE_CHECKING:
    from inspect import Signature


_PUBLIC = "portamem"
_KINDS = (FunctionType, property, staticmethod)


class _Shown(str):
    """An annotation, which signatures show as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def doc_of(cls: type) -> str:
    return WORDS[cls.__name__][3]


def signature_of(cls: type) -> Signature:
    """The signature by which a program makes an object of the class. Raises ValueError, as inspect does, where a
    program makes none."""
    import inspect

    signature = WORDS[cls.__name__][1]
    if not signature:
        raise ValueError(f"portamem.{cls.__name__} has no signature: programs make no objects of it by calling it")
    return inspect.signature(_written(cls.__name__, signature, doc_of(cls)))


def names_of(cls: type) -> list[str]:
    """All names that a program may write behind the class."""
    return sorted({name for each in cls.__mro__ for name in _own_names(each)})


def settle(cls: type) -> None:
    """Makes all members and the docstring of a class, and of those that it is derived from, parts of it for good."""
    for each in cls.__mro__:
        for name in _own_names(each):
            _add(each, name)
        if each.__module__ == _PUBLIC and not isinstance(each.__dict__.get("__doc__"), str):
            each.__doc__ = doc_of(each)


def take(cls: type, name: str) -> Any:
    """A member that a class or one that it is derived from has; None where none has it.

    It becomes a part of its class. Where it is one already, the answer is another of the same kind: help() asks the
    metaclass too, and would take it for the home of all members whose answer is the very same.
    """
    for each in cls.__mro__:
        if name in _own_names(each):
            return getattr(cls, name) if _add(each, name) else _plain(_made(each, name))
    return None


def _add(cls: type, name: str) -> bool:
    if isinstance(cls.__dict__.get(name), _KINDS):
        return False
    setattr(cls, name, _made(cls, name))
    return True


def _plain(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod) else member


def _own_names(cls: type) -> list[str]:
    begin = f"{cls.__name__}."
    return [key[len(begin) :] for key in WORDS if key.startswith(begin)] if cls.__module__ == _PUBLIC else []


def _made(cls: type, name: str) -> object:
    kind, signature, _, doc = WORDS[f"{cls.__name__}.{name}"]
    if kind in ("property", "settable"):
        return _property(cls, name, kind == "settable", doc)
    written = _written(name, signature, doc)
    written.__qualname__ = f"{cls.__name__}.{name}"
    written.__module__ = cls.__module__
    if kind == "static":
        return staticmethod(_static(cls, name, written))
    return _method(cls, name, written)


def _static(cls: type, name: str, written: Callable[..., Any]) -> Callable[..., Any]:
    from portamem._types import of_backend

    @wraps(written)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return getattr(of_backend(cls), name)(*args, **kwargs)

    return forward


def _method(cls: type, name: str, written: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(written)
    def forward(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        _require(self, cls, name)
        return getattr(type(self), name)(self, *args, **kwargs)

    return forward


def _property(cls: type, name: str, is_settable: bool, doc: str) -> property:
    def get(self: Any) -> Any:
        _require(self, cls, name)
        return getattr(self, name)

    def put(self: Any, value: Any) -> None:
        _require(self, cls, name)
        setattr(self, name, value)

    return property(get, put if is_settable else None, None, doc)


def _require(value: object, cls: type, name: str) -> None:
    if not isinstance(value, cls):
        kind = "None" if value is None else type(value).__name__
        raise TypeError(f"{cls.__name__}.{name}: the object is a {cls.__name__}, not {kind}")


def _written(name: str, signature: str, doc: str) -> Callable[..., Any]:
    """A function of that signature, which does nothing. Its annotations are text, of which nothing is looked up."""
    made: dict[str, Any] = {}
    exec(f"def {name}{signature}: ...", {}, made)
    function: Callable[..., Any] = made[name]
    function.__doc__ = doc
    function.__annotations__ = {key: _Shown(value) for key, value in function.__annotations__.items()}
    return function
