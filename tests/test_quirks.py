"""Known faults of runtimes: what is told of them, how they are switched, and what the policies do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.memory import MIB, pattern, read_back, write
from helpers.process import cli, python_output, run_python
from helpers.waiting import eventually

OWN_STREAM = "free_on_other_stream"
TINY = "tiny_pool_allocation"
POLICIES = ("free_on_allocating_stream", "at_least_eight_bytes", "bridged", "report")


@pytest.fixture
def switch(pm: ModuleType) -> Iterator[Callable[[str, bool], None]]:
    """Switches quirks for one test."""
    yield pm.set_quirk
    for name in (OWN_STREAM, TINY):
        pm.set_quirk(name, None)


def named(device: Any, name: str) -> list[Any]:
    return [quirk for quirk in device.quirks if quirk.name == name]


def test_each_is_told_whole(device: Any, switch: Callable[[str, bool], None]) -> None:
    switch(OWN_STREAM, True)
    assert named(device, OWN_STREAM)
    for quirk in device.quirks:
        assert quirk.policy in POLICIES
        assert "#" in quirk.thread
        assert quirk.about
        assert quirk.name in repr(quirk)
        assert set(quirk.as_dict()) == {"name", "policy", "is_active", "about", "thread"}


@pytest.mark.host_only
def test_the_reference_has_none(device: Any) -> None:
    assert device.quirks == ()


def test_switched_off_it_is_told_as_off(pm: ModuleType, device: Any, switch: Callable[[str, bool], None]) -> None:
    applies = bool(named(device, OWN_STREAM))
    switch(OWN_STREAM, False)
    assert [quirk.is_active for quirk in named(device, OWN_STREAM)] == [False] * applies
    pm.set_quirk(OWN_STREAM, None)
    assert [quirk.is_active for quirk in named(device, OWN_STREAM)] == [True] * applies


@pytest.mark.parametrize(
    ("name", "on", "error", "words"),
    [
        ("no_such_quirk", True, ValueError, f"no quirk called 'no_such_quirk'.*{OWN_STREAM}"),
        ("pinned_flags_drop_coherence", False, ValueError, "cannot be switched"),
        (OWN_STREAM, 1, TypeError, "True, False or None"),
        (OWN_STREAM, "off", TypeError, "True, False or None"),
    ],
)
def test_what_switches_nothing(pm: ModuleType, name: str, on: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pm.set_quirk(name, on)


def test_by_environment(pm: ModuleType) -> None:
    code = f"import portamem.{pm.backend} as pm; print(*((q.name, q.is_active) for q in pm.Device(0).quirks))"
    assert f"('{OWN_STREAM}', True)" in python_output(code, PORTAMEM_QUIRKS=f"{OWN_STREAM}=on,{TINY}=off")
    assert f"('{TINY}', True)" in python_output(code, PORTAMEM_QUIRKS=f"{TINY}=on")


@pytest.mark.parametrize("text", ["no_such=off", OWN_STREAM, f"{OWN_STREAM}=maybe", "pinned_flags_drop_coherence=off"])
@pytest.mark.parametrize("use", ["pm.Device(0).quirks", "pm.AsyncMemoryResource(0)"])
def test_an_environment_that_cannot_be_read(pm: ModuleType, device: Any, text: str, use: str) -> None:
    """An error in words at the first use, never the default in silence."""
    if "Async" in use and not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
    done = run_python(f"import portamem.{pm.backend} as pm; {use}", PORTAMEM_QUIRKS=text)
    assert done.returncode == 1
    assert f"ValueError: PORTAMEM_QUIRKS={text}" in done.stderr


def test_info_tells_of_an_environment_that_cannot_be_read(pm: ModuleType, device: Any) -> None:
    """The devices are as usable as before, and the setting is what has to be mended."""
    settings = {"PORTAMEM_QUIRKS": "no_such=off"}
    state = json.loads(cli("info", "--json", **settings).stdout)["backends"][pm.backend]
    assert state["reason"] is None
    assert len(state["devices"]) == pm.device_count()
    assert state["devices"][0]["quirks"] is None
    text = cli("info", **settings).stdout
    assert "quirks ?" in next(line for line in text.splitlines() if device.uuid in line)
    warnings = [line for line in text.splitlines() if line.startswith("warning: PORTAMEM_QUIRKS=no_such=off: ")]
    assert len(warnings) == 1
    assert "no quirk called 'no_such'" in warnings[0]


def test_info_tells_them(pm: ModuleType, device: Any) -> None:
    settings = {"PORTAMEM_QUIRKS": f"{TINY}=on"}
    found = json.loads(cli("info", "--json", **settings).stdout)
    quirks = found["backends"][pm.backend]["devices"][device.ordinal]["quirks"]
    assert TINY in [quirk["name"] for quirk in quirks if quirk["is_active"]]
    text = cli("info", **settings).stdout
    assert TINY in next(line for line in text.splitlines() if device.uuid in line)
    assert f"PORTAMEM_QUIRKS={TINY}=on" in text


# ---- the policies ----


@pytest.fixture
def pool(pm: ModuleType, device: Any, switch: Callable[[str, bool], None]) -> Iterator[Any]:
    """A pool under both policies that do something."""
    if not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
    switch(OWN_STREAM, True)
    switch(TINY, True)
    with pm.AsyncMemoryResource(device) as made:
        yield made


def test_the_free_goes_back_on_the_allocating_stream(
    pm: ModuleType, pool: Any, stream: Any, other_stream: Any, latch: Callable[[Any], Latch]
) -> None:
    buf = pool.allocate(MIB, stream=stream)
    buf.fill(1, stream=stream)
    stream.synchronize()
    held = latch(other_stream)
    buf.close(stream=other_stream)
    assert not stream.query(), "the free does not wait for the stream that was named"
    held.release()
    stream.synchronize()
    assert pool.used == 0
    with pool.allocate(MIB, stream=stream) as again:
        data = pattern(MIB)
        write(pm, again, data)
        assert read_back(pm, again) == data


def test_a_pool_made_before_the_switch_is_as_it_was(
    pm: ModuleType, device: Any, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], switch: Any
) -> None:
    if not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
    switch(OWN_STREAM, False)
    with pm.AsyncMemoryResource(device) as pool:
        switch(OWN_STREAM, True)
        buf = pool.allocate(MIB, stream=stream)
        stream.synchronize()
        held = latch(other_stream)
        buf.close(stream=other_stream)
        assert eventually(stream.query)
        assert not other_stream.query()
        held.release()
        other_stream.synchronize()


def test_the_stream_is_gone(pm: ModuleType, device: Any, pool: Any, other_stream: Any) -> None:
    with pm.Stream(device) as short:
        buf = pool.allocate(MIB, stream=short)
        buf.fill(3, stream=short)
    buf.close(stream=other_stream)
    other_stream.synchronize()
    assert pool.used == 0


def test_tiny_requests(pm: ModuleType, pool: Any, stream: Any) -> None:
    for nbytes in range(1, 10):
        with pool.allocate(nbytes, stream=stream) as buf:
            assert buf.nbytes == nbytes == pool.live_bytes
            assert pool.used >= 8
            write(pm, buf, pattern(nbytes))
            assert read_back(pm, buf) == pattern(nbytes)


def test_many_buffers_over_many_streams(pm: ModuleType, device: Any, pool: Any) -> None:
    streams = [pm.Stream(device) for _ in range(4)]
    for turn in range(64):
        made, freed = streams[turn % 4], streams[(turn * 3 + 1) % 4]
        buf = pool.allocate(4096 * (turn % 5 + 1), stream=made)
        buf.fill(turn, stream=made)
        buf.close(stream=freed)
    for each in streams:
        each.synchronize()
        each.close()
    assert pool.used == 0
