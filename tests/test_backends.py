"""Three modules in one process, their reasons, and the choice that the plain names make."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import backend
from helpers.process import python_output, run, run_python

import portamem
from portamem.reasons import CODES

IN_ANOTHER_INTERPRETER = """
for name in {names!r}:
    try:
        __import__(name)
    except ImportError as error:
        print(error)
    else:
        print(name, "was imported")
"""

IN_OTHERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
for kind in {kinds!r}:
    failed = interpreters.run_string(interpreters.create(**kind), sys.argv[1])
    assert failed is None, failed
"""


def kinds_of_interpreters() -> list[dict[str, Any]]:
    """Interpreters with a lock of their own, which is the rule from Python 3.12 on, and those that share the first
    one's."""
    if sys.version_info >= (3, 13):
        return [{}, {"config": "legacy"}]
    return [{}, {"isolated": False}]


def said_in_subinterpreters(*names: str) -> list[str]:
    done = run_python(
        IN_OTHERS.format(kinds=kinds_of_interpreters()), IN_ANOTHER_INTERPRETER.format(names=[*names, *names])
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_choice_in_a_forked_child_is_refused() -> None:
    """No backend works there, and the CPU is no way out."""
    code = """
        import os, sys, warnings
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        import portamem, portamem.host
        portamem.host.device_count()
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            sys.exit(os.waitstatus_to_exitcode(status))
        print(portamem.backends()["host"].reason)
        for choice in ("auto", "host"):
            os.environ["PORTAMEM_BACKEND"] = choice
            try:
                portamem.Device(0)
            except portamem.Error as refused:
                print(refused.name, "spawn" in str(refused))
    """
    assert python_output(code).splitlines() == [
        "this process is the child of a fork, in which device runtimes do not work [forked]. "
        "Start it with spawn or exec.",
        *["Forked True"] * 2,
    ]


def test_a_subinterpreter_is_refused_in_words() -> None:
    said = said_in_subinterpreters("portamem.host")
    assert said == ["portamem runs in Python's main interpreter only, and this is a subinterpreter"] * 4


@pytest.mark.parametrize("name", ["_host", "_knobs", "_cuda", "_hip"])
def test_a_subinterpreter_gets_no_native_module(name: str) -> None:
    if name != "_knobs" and not backend.is_built(name[1:]):
        pytest.skip(f"{name} is not built")
    said = said_in_subinterpreters(f"portamem.{name}")
    # Python itself refuses where the interpreters share no lock.
    assert all(
        "main interpreter only" in each or "does not support loading in subinterpreters" in each for each in said
    )
    assert len(said) == 4


def test_a_process_with_subinterpreters_uses_memory_in_its_first() -> None:
    """PyGILState_Check is of no use then."""
    done = run_python(
        """
        import gc, threading
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        interpreters.run_string(interpreters.create(), "import json")
        import portamem.host as pm
        stream, opened = pm.Stream(), threading.Event()
        buffer = pm.PinnedMemoryResource().allocate(4096)
        stream.launch_host_func(opened.wait)
        done = buffer.fill(9, stream=stream)
        threading.Timer(0.1, opened.set).start()
        done.synchronize()
        pm.HostRegistration(bytearray(4096)).close()
        keep = pm.DeviceMemoryResource().allocate(4096)
        keep.copy_from(bytearray(4096), stream=stream)
        del keep, done
        gc.collect()
        pm.Device(0).synchronize()
        print(set(memoryview(buffer)))
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{9}\n", "")


def test_every_backend_is_listed() -> None:
    listed = portamem.backends()
    assert set(listed) == set(backend.NAMES)
    for name, info in listed.items():
        assert info.name == name
        assert info.built == backend.is_built(name)
        assert info.is_ready == (info.reason is None)
        assert not info.is_ready or info.device_count > 0
        if info.reason is not None:
            assert info.reason.code in CODES
            assert info.reason.text
            assert info.reason.fix, "a reason says what to do"
            assert info.device_count == 0


def test_host_is_always_ready() -> None:
    info = portamem.backends()["host"]
    assert info.built
    assert info.loadable
    assert info.is_ready


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_no_driver_and_no_device_are_told_apart(name: str) -> None:
    info = portamem.backends()[name]
    if info.is_ready or not info.loadable:
        pytest.skip(f"{name}: {info.reason or 'ready'}")
    assert info.reason is not None
    assert info.reason.code in ("no_driver", "no_device", "no_permission", "hidden_by_mask", "driver_too_old", "busy")


def test_three_modules_in_one_process() -> None:
    modules = {name: getattr(portamem, name) for name in backend.NAMES if portamem.backends()[name].loadable}
    assert "host" in modules
    for name, module in modules.items():
        assert module.backend == name
        assert issubclass(module.Buffer, portamem.Buffer)
        assert issubclass(module.Stream, portamem.Stream)
        assert len({other.Buffer for other in modules.values()}) == len(modules)


def test_the_modules_have_the_same_names() -> None:
    public = {
        name: {each for each in dir(getattr(portamem, name)) if not each.startswith("_")} - {"knobs"}
        for name in backend.NAMES
        if portamem.backends()[name].loadable
    }
    assert len({frozenset(names) for names in public.values()}) == 1


def test_abstract_types(pm: ModuleType, device_resource: Any, stream: Any) -> None:
    with device_resource.allocate(16) as buf, buf.view() as view, stream.record() as event:
        for instance, kind in (
            (buf, "Buffer"),
            (view, "View"),
            (stream, "Stream"),
            (event, "Event"),
            (stream.device, "Device"),
            (device_resource, "MemoryResource"),
            (device_resource, "DeviceMemoryResource"),
        ):
            assert isinstance(instance, getattr(portamem, kind))
            assert isinstance(instance, getattr(pm, kind))
        assert not isinstance(buf, portamem.View)


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_a_backend_that_is_not_built(name: str) -> None:
    if backend.is_built(name):
        pytest.skip(f"{name} is built")
    with pytest.raises(portamem.BackendUnavailableError, match=name) as caught:
        getattr(portamem, name)
    assert caught.value.reason.code == "not_built"
    assert "PORTAMEM_BACKENDS" in str(caught.value)


@pytest.mark.parametrize("is_checkout", [True, False])
def test_the_source_folder_is_not_the_installed_package(tmp_path: Path, is_checkout: bool) -> None:
    """Python that is started in a checkout imports the sources, which have no module: installing again does not help.

    The child runs without site, so that it does not see an editable installation.
    """
    not_sources = shutil.ignore_patterns("__pycache__", "*.so*", "include", "cmake", "_build_info.json")
    shutil.copytree(Path(portamem.__file__).parent, tmp_path / "portamem", ignore=not_sources)
    (tmp_path / "csrc").mkdir()
    if is_checkout:
        (tmp_path / "pyproject.toml").touch()
    code = "import portamem.reasons, portamem; print(portamem.backends()['host'].reason); portamem.host"
    done = run(sys.executable, "-S", "-c", code, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "[not_built]" in done.stderr
    told = f"this is portamem's source folder {tmp_path.resolve()}, and not the installed package"
    assert (told in done.stdout) == is_checkout
    assert (told in done.stderr) == is_checkout
    assert ("Run Python in another folder" in done.stderr) == is_checkout
    assert ("Install portamem again" in done.stderr) != is_checkout


CHOOSE = "import portamem; print(portamem.Device().backend)"


def test_host_by_name() -> None:
    assert python_output(CHOOSE, PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None).strip() == "host"


def test_auto_chooses_once() -> None:
    code = """
        import portamem
        first = portamem.backend
        assert portamem.empty(4).buffer.backend == first
        with portamem.Stream() as stream:
            assert isinstance(stream, portamem.Stream)
            assert stream.backend == first
        print(first)
    """
    done = run_python(code, PORTAMEM_BACKEND=None, PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in backend.NAMES


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_a_backend_that_cannot_be_used_is_an_error(name: str) -> None:
    if portamem.backends()[name].is_ready:
        pytest.skip(f"{name} is ready")
    for variables in ({"PORTAMEM_BACKEND": name}, {"PORTAMEM_REQUIRE": name, "PORTAMEM_BACKEND": None}):
        done = run_python(CHOOSE, **variables)
        assert done.returncode == 1
        assert f"portamem.{name} cannot be used" in done.stderr


def test_require_a_gpu() -> None:
    """A GPU job never runs silently on the CPU."""
    done = run_python(CHOOSE, PORTAMEM_REQUIRE="gpu", PORTAMEM_BACKEND=None)
    ready = [name for name in ("cuda", "hip") if portamem.backends()[name].is_ready]
    if ready:
        assert done.stdout.strip() == ready[0]
    else:
        assert done.returncode == 1
        assert "BackendUnavailableError" in done.stderr
    done = run_python(CHOOSE, PORTAMEM_REQUIRE="gpu", PORTAMEM_BACKEND="host")
    assert done.returncode == 1
    assert "PORTAMEM_REQUIRE=gpu" in done.stderr


@pytest.mark.parametrize("variable", ["PORTAMEM_BACKEND", "PORTAMEM_REQUIRE"])
def test_a_setting_that_is_none(variable: str) -> None:
    done = run_python(CHOOSE, **{variable: "cudaa"})
    assert done.returncode == 1
    assert f"{variable}=cudaa" in done.stderr
    assert "cuda, hip" in done.stderr


def test_backends_of_a_fresh_process_in_one_order() -> None:
    code = """
        import json, portamem
        print(json.dumps({name: info.is_ready for name, info in portamem.backends().items()}))
    """
    assert json.loads(python_output(code)) == {name: info.is_ready for name, info in portamem.backends().items()}


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="sycl"):
        portamem.sycl  # noqa: B018
