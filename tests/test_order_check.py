"""The order checker: every fault planted in tests/order_bugs is found, at the right two lines; mended, all are quiet.

A planted program marks the lines of its two uses with ``# first`` and ``# second``; told ``fixed`` it is the mended
one.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest
from helpers import backend
from helpers.process import python_output, run, run_python

import portamem

pytestmark = pytest.mark.skipif(not backend.is_built("host"), reason="the host backend is not built")

BUGS = Path(__file__).parent / "order_bugs"
KINDS = {
    "address_kept_after_the_free": "use after free",
    "allocation_without_an_event": "use before allocation is ordered",
    "columns_that_overlap": "unordered write after write",
    "default_stream_and_nonblocking": "unordered read after write",
    "double_buffer_off_by_one": "unordered write after read",
    "event_of_another_stream": "unordered read after write",
    "event_recorded_too_early": "unordered read after write",
    "free_of_what_is_still_read": "free while in use",
    "per_thread_streams_of_two_threads": "unordered read after write",
    "pinned_source_given_back": "free while in use",
    "read_of_an_unfinished_copy": "unordered read after write",
    "staging_memory_reused": "unordered write after read",
    "wait_for_the_wrong_event": "unordered read after write",
    "write_into_what_is_still_read": "unordered write after read",
}


def marked(program: Path, mark: str) -> str:
    """``file:line`` of the line that ends with a mark."""
    lines = program.read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return f"{program}:{number}"


def test_every_planted_program_is_tried() -> None:
    assert {path.stem for path in BUGS.glob("*.py")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_with_both_lines(name: str) -> None:
    program = BUGS / f"{name}.py"
    done = run(sys.executable, str(program), env={"PORTAMEM_CHECK": None})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "OrderError: 1 unordered use of memory\n" in done.stderr
    assert f"\n{KINDS[name]}: " in done.stderr
    first, second = (line for line in done.stderr.splitlines() if line.startswith(("  first:", "  second:")))
    assert f" at {marked(program, 'first')} on " in first
    assert f" at {marked(program, 'second')} on " in second


@pytest.mark.parametrize("name", KINDS)
def test_the_mended_program_is_quiet(name: str) -> None:
    done = run(sys.executable, str(BUGS / f"{name}.py"), "fixed", env={"PORTAMEM_CHECK": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


UNORDERED = """
    import threading
    import portamem.host as pm
    device = pm.Device(0)
    a, b = pm.Stream(device), pm.Stream(device)
    memory = pm.DeviceMemoryResource(device).allocate(4096)
    for stream in (a, b):
        memory.record_stream(stream)
    def unordered():
        for stream in (a, b):
            memory.fill(1, stream=stream)
        device.synchronize()
"""


def output(code: str, **env: str | None) -> str:
    return python_output(textwrap.dedent(UNORDERED) + textwrap.dedent(code), PORTAMEM_CHECK=None, **env)


def test_the_block_raises_with_all_findings() -> None:
    output("""
        import pickle, portamem
        try:
            with pm.check() as checking:
                unordered()
                assert len(checking.findings) == 1
        except portamem.OrderError as error:
            caught = error
        assert isinstance(caught, portamem.Error) and caught.backend == "host"
        assert caught.findings == checking.findings
        (finding,) = caught.findings
        assert str(finding) in str(caught) and finding.advice in str(finding)
        assert (finding.kind, finding.nbytes, finding.count) == ("unordered write after write", 4096, 1)
        assert finding.address == memory.handle
        assert (finding.first.handle, finding.second.handle) == (a.handle, b.handle)
        assert finding.first.call == finding.second.call == "MemsetAsync" and finding.second.device == 0
        assert finding.first.site == finding.second.site == "<string>:11", finding
        assert pickle.loads(pickle.dumps(caught)).findings == caught.findings
    """)


def test_one_pair_of_places_is_one_finding_with_a_count() -> None:
    output("""
        with pm.check(raises=False) as checking:
            for _ in range(5):
                unordered()
        (finding,) = checking.findings
        assert finding.count == 5 and "5 times" in str(finding)
    """)


def test_an_exception_of_the_block_is_not_hidden() -> None:
    output("""
        try:
            with pm.check() as checking:
                unordered()
                raise KeyError("mine")
        except KeyError:
            assert len(checking.findings) == 1
    """)


def test_blocks_may_be_nested_and_used_again() -> None:
    output("""
        with pm.check(raises=False) as outer:
            with pm.check(raises=False) as inner:
                unordered()
            with pm.check() as quiet:
                pass
        assert len(outer.findings) == len(inner.findings) == 1 and quiet.findings == ()
        again = pm.check()
        with again:
            memory.fill(0, stream=a)
            try:
                again.__enter__()
            except RuntimeError:
                pass
            else:
                raise AssertionError("entered twice")
        with again:
            pass
        assert again.findings == ()
        unordered()  # nobody looks
        with pm.check():
            memory.fill(0, stream=b)
            device.synchronize()
    """)


def test_the_plain_name_goes_to_the_chosen_backend() -> None:
    output(
        """
        import portamem
        with portamem.check(raises=False) as checking:
            unordered()
        assert len(checking.findings) == 1
        """,
        PORTAMEM_BACKEND="host",
        PORTAMEM_REQUIRE=None,
    )


def test_the_variable_prints_what_is_found_once_and_how_often_at_the_end() -> None:
    done = run_python(textwrap.dedent(UNORDERED) + "for _ in range(3): unordered()\n", PORTAMEM_CHECK="1")
    assert done.returncode == 0
    assert done.stderr.count("portamem: order check: unordered write after write") == 1
    assert done.stderr.count("at <string>:11 on stream") == 2
    assert done.stderr.endswith("portamem: order check: 1 finding(s), seen 3 time(s) in all\n")
    assert run_python(UNORDERED, PORTAMEM_CHECK="1").stderr == ""
    for off in ("0", "", None):
        assert run_python(textwrap.dedent(UNORDERED) + "unordered()\n", PORTAMEM_CHECK=off).stderr == ""


@pytest.mark.parametrize("debug", ["0", "1"])
def test_what_resources_do_by_themselves_is_ordered(debug: str) -> None:
    """The order holds also with redzones, which are work of their own, and where the last use ran long before the
    end."""
    code = """
        import time
        import portamem.host as pm
        for upstream in (pm.DeviceMemoryResource(0), pm.PinnedMemoryResource(0), pm.ManagedMemoryResource(0)):
            for resource in (
                upstream,
                pm.PoolMemoryResource(upstream),
                pm.FixedSizeMemoryResource(upstream, 1_000_000),
                pm.MonotonicMemoryResource(upstream),
            ):
                for _ in range(3):
                    with pm.Stream(0) as stream:
                        for _ in range(30):
                            with resource.allocate(1_000_000, stream=stream) as buffer:
                                buffer.fill(1, stream=stream)
                        time.sleep(0.01)
                if resource is not upstream:
                    resource.close()
            upstream.close()
        print("done")
    """
    assert python_output(code, PORTAMEM_CHECK="1", PORTAMEM_DEBUG=debug) == "done\n"


def test_a_value_of_the_variable_that_is_not_known_is_refused() -> None:
    done = run_python("import portamem.host as pm; pm.Device(0).synchronize()", PORTAMEM_CHECK="yes")
    assert done.returncode == 1
    assert "PORTAMEM_CHECK=yes is not 0 or 1" in done.stderr


def test_places_are_known_on_every_thread_and_with_functions_of_python_on_streams() -> None:
    """Runtime calls wait for one another and for the GIL at once: nothing may wait for ever."""
    output("""
        def work(number):
            with pm.Stream(device) as mine, pm.DeviceMemoryResource(device).allocate(4096, stream=mine) as own:
                for step in range(50):
                    mine.launch_host_func(lambda: sum(range(1000)))
                    own.fill(step, stream=mine)
                    own.copy_from(memory, stream=mine)
                    mine.synchronize()
        with pm.check(raises=False) as checking:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            unordered()
        (finding,) = checking.findings
        assert finding.first.site == "<string>:11"
    """)


def test_a_forked_child_and_an_exit_in_the_block_are_no_trouble() -> None:
    output(
        """
        import os, portamem, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
        checking = pm.check(raises=False)
        with checking:
            unordered()
            child = os.fork()
            if child == 0:
                try:
                    memory.fill(0, stream=b)
                except portamem.Error:
                    checking.__exit__(None, None, None)
                    os._exit(len(checking.findings))
                os._exit(10)
            assert os.waitpid(child, 0)[1] == 0
        assert len(checking.findings) == 1
        pm.check().__enter__()
        a.launch_host_func(lambda: None)
        memory.fill(0, stream=a)
        """
    )


@pytest.mark.skipif(portamem.backends()["cuda"].built is False, reason="the cuda backend is not built")
def test_a_gpu_backend_refuses_in_words() -> None:
    cuda = importlib.import_module("portamem.cuda")
    with pytest.raises(portamem.Error, match="does not follow the cuda backend") as caught, cuda.check():
        pass
    assert caught.value.name == "NotSupported"


def test_a_declared_use_is_compared_with_nothing() -> None:
    """The checker does not see the foreign work: the declaration orders the free, and the uses it sees are judged as
    ever."""
    said = output("""
        c = pm.Stream(device)
        with pm.check(raises=False) as checking:
            other = pm.DeviceMemoryResource(device).allocate(4096)
            other.fill(1, stream=a)
            a.synchronize()
            other.record_stream(b)  # others work on it from now on
            other.fill(2, stream=c)
            print(len(checking.findings))
            other.close()
            print(len(checking.findings))
            unordered()
            print(len(checking.findings))
    """)
    assert said.split() == ["0", "0", "1"]
