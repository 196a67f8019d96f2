"""Every bound argument, given what it cannot be: what is raised is in portamem's words, never the binding's."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import portamem

STUB = Path(portamem.__file__).parent / "_host.pyi"
FORBIDDEN = re.compile(
    r"incompatible (function|constructor)|portamem\._|pybind11|[Uu]nable to (cast|convert)|std::|C\+\+|vector::"
    r"|basic_string|No constructor|argument types are supported|arg\d\b"
)


class Odd:
    """An object that is no valid argument of any call."""

    def __repr__(self) -> str:
        return "<odd>"


EVIL: tuple[Any, ...] = (
    *(Odd(), Odd, None, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 70), 10**5000, 1.5, float("nan"), 2j),
    *("\ud800", "", "nonsense", "9" * 5000, b"\xff", [], {}, (), (Odd(),), [-1], lambda: None),
)
PLAUSIBLE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("upstream", "resource"), lambda pm: pm.DeviceMemoryResource()),
    **dict.fromkeys(("dst", "src", "buffer", "obj"), lambda pm: pm.PinnedMemoryResource().allocate(64)),
    **dict.fromkeys(("nbytes", "size", "width", "height", "depth", "limit", "block_size", "value"), lambda pm: 8),
    "end": lambda pm: pm.Event(timing=True),
    "name": lambda pm: "stack_size",
    "location": lambda pm: "host",
    "advice": lambda pm: "read_mostly",
    "stream": lambda pm: pm.Stream(),
    "path": lambda pm: "/dev/null",
}


class Bound(NamedTuple):
    """A function or method of the stub, and its parameters without self."""

    owner: str
    name: str
    positional: tuple[str, ...]
    required: frozenset[str]
    by_name: tuple[str, ...]
    kind: str  # "function", "method", "static", "setter"


def bound() -> Iterator[Bound]:
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield described("", node)
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(member, ast.FunctionDef):
                yield described(node.name, member)


def described(owner: str, node: ast.FunctionDef) -> Bound:
    marks = {ast.unparse(each) for each in node.decorator_list}
    kind = "function" if not owner else "static" if "staticmethod" in marks else "method"
    if any(mark.endswith(".setter") for mark in marks):
        kind = "setter"
    elif "property" in marks:
        kind = "getter"
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    optional = names[len(names) - len(node.args.defaults) :] if node.args.defaults else []
    required = {each for each in names if each not in optional}
    by_name = [each.arg for each in node.args.kwonlyargs]
    required |= {each for each, value in zip(by_name, node.args.kw_defaults, strict=True) if value is None}
    if kind in ("method", "setter", "getter"):
        names = names[1:]
    return Bound(owner, node.name, tuple(names), frozenset(required), tuple(by_name), kind)


def make(pm: ModuleType, name: str) -> Any:
    """An object of a class."""
    if name == "Buffer":
        return pm.PinnedMemoryResource().allocate(64)
    if name == "View":
        return pm.PinnedMemoryResource().allocate(64).view()
    if name == "PitchedBuffer":
        return pm.DeviceMemoryResource().allocate_pitched(8, 8)
    if name == "GrowableBuffer":
        return pm.VirtualMemoryResource().allocate_growable(64, 1 << 20)
    if name == "HostRegistration":
        return pm.HostRegistration(bytearray(4096))
    if name == "MemoryResource":
        return pm.DeviceMemoryResource()
    if name == "LoggingAdaptor":
        return pm.LoggingAdaptor(pm.DeviceMemoryResource(), "/dev/null")
    if name == "Capabilities":
        return pm.Device(0).capabilities
    if name == "ProbedCapabilities":
        return pm.Device(0).probe()
    for args in ((), (pm.DeviceMemoryResource(),), (pm.DeviceMemoryResource(), 1 << 20)):
        try:
            return getattr(pm, name)(*args)
        except TypeError:
            continue
    raise AssertionError(f"no way is known here to make a {name}")


def calls(pm: ModuleType, what: Bound) -> Iterator[Callable[[], object]]:
    def at() -> Any:
        if what.kind in ("function", "static") or what.name == "__init__":
            owner = getattr(pm, what.owner) if what.owner else pm
            return owner if what.name == "__init__" else getattr(owner, what.name)
        return getattr(make(pm, what.owner), what.name)

    def call(args: Any, keywords: Any) -> object:
        if (what.owner, what.name) != ("Buffer", "release"):
            return at()(*args, **keywords)
        resource = pm.PinnedMemoryResource()
        address = resource.allocate(64).release(*args, **keywords)
        resource.deallocate(address, 64)  # the memory is the caller's then
        return address

    def plain(name: str) -> Any:
        return PLAUSIBLE.get(name, lambda pm: 1)(pm)

    if what.kind == "setter":
        for evil in EVIL:
            yield lambda evil=evil: setattr(make(pm, what.owner), what.name, evil)
        return
    if what.kind == "getter":
        for evil in EVIL[:4]:
            yield lambda evil=evil: getattr(getattr(pm, what.owner), what.name).fget(evil)
        return
    yield lambda: call((), {})
    yield lambda: call(range(12), {})
    yield lambda: call((), {"nonsense": 1})
    yield lambda: call(range(12), {"nonsense": 1})
    yield lambda: call((1,), dict.fromkeys(what.positional[:1], 1))
    every = (*what.positional, *what.by_name)
    for evil in EVIL:
        yield lambda evil=evil: call(
            [evil for each in what.positional if each in what.required],
            {each: evil for each in what.by_name if each in what.required},
        )
        for name in every:
            yield lambda evil=evil, name=name: call(
                (), {each: evil if each == name else plain(each) for each in every if each in what.required | {name}}
            )
            args = [plain(each) for each in what.positional]
            if name in what.positional:
                args[what.positional.index(name)] = evil
                yield lambda args=args: call(
                    args, {each: plain(each) for each in what.by_name if each in what.required}
                )


# A protocol of the stub's own, and what no call of the CPU backend answers: there is no object to try their methods on.
# A process has few sets of functions of a _LibraryHook, and each call that makes one keeps it.
NO_OBJECTS = ("_HasDlpack", "Quirk", "_LibraryHook")


def is_tried(what: Bound) -> bool:
    if what.owner in NO_OBJECTS and what.kind == "method" and what.name != "__init__":
        return False
    special = what.name.startswith("__") and what.name not in ("__init__", "__getitem__", "__len__", "__dlpack__")
    return not special


def raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error.with_traceback(None)
    return None


@pytest.mark.parametrize("what", [*filter(is_tried, bound())], ids=lambda what: f"{what.owner}.{what.name}:{what.kind}")
def test_no_words_of_the_binding(what: Bound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # text that names a file makes one
    pm = import_module("portamem._host")
    with ThreadPoolExecutor(1) as thread:  # a scope that is begun there and never ended goes with the thread
        refused = thread.submit(lambda: [error for error in map(raised, calls(pm, what)) if error is not None]).result()
    for error in refused:
        text = f"{type(error).__name__}: {error}"
        assert not FORBIDDEN.search(text), text
        is_own = isinstance(error, portamem.Error) or "not open on this thread" in text
        assert is_own or not isinstance(error, (RuntimeError, SystemError)), text
    assert refused or not (what.positional or what.by_name), "nothing was refused"


@pytest.mark.parametrize("name", ["Capabilities", "MemoryInfo", "MemoryResource", "PointerInfo", "Quirk", "Buffer"])
def test_classes_that_make_no_objects(name: str) -> None:
    pm = import_module("portamem._host")
    for args in ((), (1,), ("text", None)):
        with pytest.raises(TypeError, match=name) as caught:
            getattr(pm, name)(*args)
        assert not FORBIDDEN.search(str(caught.value))


SAID: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "a flag": (lambda pm: pm.Event(timing="no"), TypeError, r"Event\(\): 'timing' is True or False, not str"),
    "an int": (lambda pm: pm.Stream(priority="high"), TypeError, r"Stream\(\): 'priority' is an int or None, not str"),
    "an int out of range": (lambda pm: pm.Stream(priority=1 << 40), ValueError, r"'priority' cannot be 1099511627776"),
    "nothing": (
        lambda pm: pm._push_resource(None),
        TypeError,
        r"_push_resource\(\): 'resource' is a MemoryResource, not None",
    ),
    "an event": (
        lambda pm: pm.Event().elapsed_time(3),
        TypeError,
        r"Event.elapsed_time\(\): 'end' is an Event, not int",
    ),
    "the object": (lambda pm: pm.Stream.synchronize(3), TypeError, r"synchronize\(\): the object is a Stream, not int"),
    "a keyword": (lambda pm: pm.Event(color=1), TypeError, r"unexpected keyword argument 'color': its .* timing"),
    "too many": (lambda pm: pm.Event(0, 1, 2), TypeError, r"Event\(\) takes at most 1 arguments by position, not 3"),
    "too few": (lambda pm: pm.Event().elapsed_time(), TypeError, r"needs the argument 'end': an Event"),
    "twice": (lambda pm: pm.Event(0, device=0), TypeError, r"given the argument 'device' twice"),
    "surrogates": (lambda pm: pm.set_quirk("\ud800", True), ValueError, r"'name' cannot be '\\ud800'"),
    "surrogates in a path to write": (
        lambda pm: pm.SystemMemoryResource().allocate(8).save("\ud800"),
        ValueError,
        r"no file has .* '\\ud800'",
    ),
    "surrogates in a path to read": (
        lambda pm: pm.SystemMemoryResource().allocate(8).load("\ud800"),
        ValueError,
        r"no file has .* '\\ud800'",
    ),
    "a null in a path": (
        lambda pm: pm.SystemMemoryResource().allocate(8).load("a\0b"),
        ValueError,
        r"no file has the name 'a\\x00b': give the path",
    ),
    "surrogates in a path of a log": (
        lambda pm: pm.LoggingAdaptor(pm.SystemMemoryResource(), "\ud800"),
        ValueError,
        r"no file has the name '\\ud800': give the path of a log",
    ),
    "a handle below 0": (lambda pm: pm.Stream.from_handle(-1), ValueError, r"handle must not be negative: -1"),
    "a handle past 64 bits": (lambda pm: pm.Stream.from_handle(1 << 70), ValueError, r"handle is beyond all addresses"),
    "a property": (
        lambda pm: setattr(pm.AsyncMemoryResource(), "reuse_allow_opportunistic", {}),
        TypeError,
        r"AsyncMemoryResource.reuse_allow_opportunistic: the value is True or False, not dict",
    ),
    "a flag that has no truth": (
        lambda pm: setattr(pm.AsyncMemoryResource(), "reuse_allow_opportunistic", np.zeros((2, 2))),
        TypeError,
        r"AsyncMemoryResource.reuse_allow_opportunistic: the value is True or False, not ndarray",
    ),
    "a shape": (lambda pm: pm.empty(pm.Event()), TypeError, r"^a shape is an int or a sequence of ints, not Event$"),
    "an extent": (lambda pm: pm.zeros([1, pm.Event()]), TypeError, r"ints, not a list of Event$"),
    "an element type of surrogates": (
        lambda pm: pm.zeros(1, "\ud800"),
        ValueError,
        r"an element type is text that no encoding has: '\\ud800'",
    ),
}


def test_python_itself_says_the_name_that_users_know() -> None:
    host = import_module("portamem.host")
    buffer, stream = make(host, "Buffer"), host.Stream()
    for value, name in ((buffer, "Buffer"), (buffer.view(), "View"), (stream, "Stream"), (host.Event(), "Event")):
        with pytest.raises(TypeError, match=rf"portamem\.host\.{name}\b"):
            operator.lt(value, value)
        assert type(value).__module__ == "portamem.host"
        assert getattr(host, name) is type(value)


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str) -> None:
    call, error, message = SAID[name]
    with pytest.raises(error, match=message):
        call(import_module("portamem._host"))
