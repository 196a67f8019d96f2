"""help(), dir() and inspect.signature show what a program may write, and choose no backend for it."""

from __future__ import annotations

import ast
import inspect
import json
import pydoc
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.process import python_output

import portamem
from portamem import _build, _loader, _machine, _types
from portamem._words import WORDS

PACKAGE = Path(portamem.__file__).parent
GENERATOR = Path(__file__).parents[1] / "tools" / "words.py"
CLASSES = [cls.__name__ for cls in _types.TYPES]
MAKE_NONE = {"Buffer", "PitchedBuffer", "GrowableBuffer", "MemoryResource", "ResourceAdaptor"}


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name not in IMPLIED)


# Names that every class has, or that Python itself describes; data classes have __replace__ from Python 3.13 on.
IMPLIED = set(dir(type("Plain", (), {}))) | {"__new__", "__buffer__", "__release_buffer__", "__slots__", "__replace__"}


def members(owner: Any) -> Iterator[tuple[str, Any]]:
    """The members that a class itself defines for programs."""
    for name, value in vars(owner).items():
        if is_public(name) and (callable(value) or hasattr(type(value), "__get__")):
            yield name, inspect.unwrap(value.__func__) if isinstance(value, staticmethod) else value


def undocumented(namespace: dict[str, Any]) -> list[str]:
    missing = []
    for name, value in namespace.items():
        if not (inspect.isclass(value) or inspect.isroutine(value)) or getattr(value, "__module__", None) == "typing":
            continue
        if not (value.__doc__ or "").strip():
            missing.append(name)
        if inspect.isclass(value):
            dir(value)
            missing += [f"{name}.{each}" for each, what in members(value) if not (what.__doc__ or "").strip()]
    return missing


def test_each_public_member_is_described(pm: ModuleType) -> None:
    native = {name: value for name, value in vars(pm).items() if not name.startswith("_")}
    assert len(native) > 50
    assert undocumented(native) == []
    assert undocumented({name: getattr(portamem, name) for name in portamem.__all__}) == []


@pytest.mark.parametrize("name", ["portamem._record", "portamem._pool", "portamem._check", "portamem.enums"])
def test_what_calls_answer_is_described(name: str) -> None:
    module = __import__(name, fromlist=["*"])
    own = {each: value for each, value in vars(module).items() if getattr(value, "__module__", None) == name}
    assert undocumented({each: value for each, value in own.items() if not each.startswith("_")}) == []


@pytest.mark.skipif(not GENERATOR.is_file(), reason="only a checkout has the script that writes the words")
def test_the_words_are_those_of_the_stub() -> None:
    assert {name: tuple(word) for name, word in runpy.run_path(str(GENERATOR))["words"]().items()} == WORDS


def test_the_words_name_the_actor() -> None:
    vague = re.compile(r"\b(who|whom|whoever|nobody|somebody|anybody)\b", re.IGNORECASE)
    assert [name for name, word in WORDS.items() if vague.search(word[3])] == []


def test_native_functions_say_the_words(pm: ModuleType) -> None:
    for key, (kind, _, plain, doc) in WORDS.items():
        owner, _, name = key.rpartition(".")
        what = inspect.getattr_static(getattr(pm, owner), name) if owner else getattr(pm, key)
        assert inspect.cleandoc(what.__doc__ if kind != "static" else what.__func__.__doc__) == doc, key
        if kind in ("function", "static"):
            assert str(inspect.signature(getattr(getattr(pm, owner) if owner else pm, name))) == shown(plain), key


def shown(plain: str) -> str:
    made: dict[str, Any] = {}
    exec(f"def made{plain}: ...", {}, made)
    return str(inspect.signature(made["made"]))


def test_native_methods_have_signatures(pm: ModuleType) -> None:
    assert str(inspect.signature(pm.Buffer.fill)) == "(self, value, *, stream=None)"
    assert str(inspect.signature(pm.MemoryResource.allocate)) == "(self, /, nbytes, *, stream=None, alignment=256)"
    with pm.Stream() as stream:
        assert str(inspect.signature(stream.wait)) == "(other)"
    with pm.empty(4).buffer as buffer:
        assert str(inspect.signature(buffer.copy_to)) == "(dst, *, stream=None)"


def test_functions_of_the_backends_say_the_same_in_the_stub(pm: ModuleType) -> None:
    tree = ast.parse((PACKAGE / "host.pyi").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {"devices", "check", "using", "tag", "asarray", "from_any", "save", "load"}
    assert {node.name for node in functions} == names
    for node in functions:
        assert ast.get_docstring(node) == inspect.getdoc(getattr(pm, node.name))


LOOK = """
    import inspect, json, pydoc, sys
    import portamem
    from portamem import _choice
    NAME
    cls = getattr(portamem, name)
    def look():
        signature = None
        try:
            signature = str(inspect.signature(cls))
        except ValueError as error:
            assert "has no signature" in str(error), error
        return {
            "help": pydoc.plain(pydoc.render_doc(cls)),
            "doc": inspect.getdoc(cls),
            "dir": dir(cls),
            "signature": signature,
        }
    FIRST
    found = look()
    assert look() == found
    assert _choice._chosen is None
    assert not {"portamem._host", "portamem._cuda", "portamem._hip"} & set(sys.modules)
    print(json.dumps(found))
"""
FIRST = {
    "nothing": "",
    "dir": "dir(cls)",
    "doc": "cls.__doc__",
    "init": "cls.__init__",
    "a member": "cls.device if hasattr(cls, 'device') else cls.backend",
    "signature": "inspect.signature(portamem.PoolMemoryResource)",
}


def look(name: str, first: str = "") -> dict[str, Any]:
    code = LOOK.replace("NAME", f"name = {name!r}").replace("FIRST", first)
    found: dict[str, Any] = json.loads(python_output(code))
    found["help"] = re.sub(r"[ \t]+$", "", found["help"], flags=re.MULTILINE)  # pydoc writes none from Python 3.13 on
    return found


@pytest.mark.parametrize("first", FIRST)
def test_help_on_a_plain_class(first: str) -> None:
    found = look("Buffer", FIRST[first])
    assert found["doc"] == WORDS["Buffer"][3]
    assert found["signature"] is None
    page = found["help"]
    assert "class Buffer(builtins.object)\n |  Untyped memory with its resource, device and stream" in page
    assert "fill(self, value: int, *, stream: Stream | Any | None = None) -> Event | None\n" in page
    # From Python 3.13 on pydoc writes a long signature over several lines.
    assert re.search(
        r"Static methods defined here:\n \|\n \|  from_handle\([\s|]*handle: int,[\s|]*nbytes: int \|", page
    )
    assert "Readonly properties defined here:\n |\n |  backend\n" in page
    assert "inherited" not in page
    assert "BackendType" not in page


def test_help_on_a_plain_class_of_another() -> None:
    found = look("PoolMemoryResource")
    page = found["help"]
    assert found["signature"].startswith(
        "(upstream: MemoryResource | None = None, *, device: Device | int | None = None"
    )
    assert "host_access: bool = True" in found["signature"]
    assert " |  Method resolution order:\n |      PoolMemoryResource\n |      MemoryResource\n" in page
    assert "Methods inherited from MemoryResource:\n |\n" in page
    assert "trim(self, keep: int | str = 0, *, stream: Stream | Any | None = None) -> None" in page
    assert {"allocate", "close", "stats", "snapshot", "trim", "upstream", "__enter__"} <= set(found["dir"])


@pytest.mark.parametrize("name", CLASSES)
def test_plain_classes_show_what_native_ones_have(name: str) -> None:
    plain, native = getattr(portamem, name), getattr(portamem.host, name)
    assert inspect.getdoc(plain) == inspect.getdoc(native)
    of_native = {each for each in dir(native) if not each.startswith("_")}
    assert {each for each in dir(plain) if not each.startswith("_")} == of_native
    assert not [each for each in dir(plain) if each.startswith("_") and not each.startswith("__")]
    if name in MAKE_NONE:
        with pytest.raises(ValueError, match=f"portamem.{name} has no signature"):
            inspect.signature(plain)
    else:
        assert names(inspect.signature(plain)) == names(inspect.signature(native))
    for each in of_native:
        mine, its = getattr(plain, each), getattr(native, each)
        assert inspect.getdoc(mine) == inspect.getdoc(its), each
        assert callable(mine) == callable(its), each
        if callable(mine):
            assert names(inspect.signature(mine)) == names(inspect.signature(its)), each


def names(signature: inspect.Signature) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in signature.parameters.values()]


def test_members_of_plain_classes_work(pm: ModuleType) -> None:
    with pm.empty(8, "uint8").buffer as buffer, pm.Stream() as stream:
        portamem.Buffer.fill(buffer, 3, stream=stream).synchronize()
        assert portamem.Buffer.nbytes.fget(buffer) == 8
        assert portamem.Stream.query(stream) is True
        with pytest.raises(TypeError, match=r"Buffer.fill: the object is a Buffer, not Stream"):
            portamem.Buffer.fill(stream, 3)
        with pytest.raises(TypeError, match=r"Stream.device: the object is a Stream, not None"):
            portamem.Stream.device.fget(None)
    with pytest.raises(TypeError):
        portamem.Stream.query()
    with pytest.raises(AttributeError, match=r"'portamem\.Buffer' has no attribute 'nonsense'"):
        portamem.Buffer.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="'_dlpack_devices'"):
        portamem.View._dlpack_devices  # noqa: B018


def test_static_members_go_to_the_chosen_backend() -> None:
    code = """
        import portamem
        for ask in (lambda: None, lambda: dir(portamem.Buffer)):
            ask()
            made = portamem.Device.current()
            print(type(made).__module__, portamem.Stream.wrap(made.default_stream).backend)
    """
    assert python_output(code, PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None).split() == ["portamem.host", "host"] * 2


def test_importing_loads_no_words() -> None:
    code = "import sys, portamem; print({'portamem._words', 'portamem._members'} & set(sys.modules))"
    assert python_output(code).strip() == "set()"


def test_dir_of_the_package() -> None:
    code = """
        import json, portamem
        print(json.dumps([dir(portamem), [*portamem.__all__]]))
    """
    found, promised = json.loads(python_output(code))
    assert set(promised) <= set(found)
    here = {name for name in ("cuda", "hip", "host") if _loader.is_for_this_machine(name)}
    assert set(found) - set(promised) == {"conformance", "enums", "errors", *here}
    assert [name for name in found if name.startswith("_")] == ["__version__"]


@pytest.mark.parametrize("shown", [(), ("cuda",), ("cuda", "hip")])
def test_dir_lists_backends_of_the_machines_gpus(monkeypatch: pytest.MonkeyPatch, shown: tuple[str, ...]) -> None:
    """Another backend, built as it may be, has nothing to run on."""
    monkeypatch.setattr(_build, "module_path", lambda backend: Path(f"_{backend}.so"))
    monkeypatch.setattr(_loader, "_vendor", lambda backend: backend)  # HIP may be built for NVIDIA's cards here
    nodes = _machine.GpuNodes(("/dev/node",), ())
    monkeypatch.setattr(_machine, "gpu_nodes", lambda name: nodes if name in shown else _machine.GpuNodes())
    assert {"cuda", "hip", "host"} & set(dir(portamem)) == {"host", *shown}
    monkeypatch.setattr(_build, "module_path", lambda backend: None)
    assert not {"cuda", "hip", "host"} & set(dir(portamem))


def test_help_on_the_package(pm: ModuleType) -> None:
    page = pydoc.plain(pydoc.render_doc(portamem))
    for words in ("class PoolMemoryResource(MemoryResource)", "asarray(", "get_include()"):
        assert words in page
