"""Each quirk of a stand-in, seen by calling HIP itself: on, off, and as the version is said to be.

Simulated: these tests show what the stand-ins do, not what a GPU does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from helpers.standins import ABIS, StandIn, standin

pytestmark = pytest.mark.standins


@dataclass(frozen=True)
class Look:
    """Code that says one thing with a quirk and another without it."""

    code: str
    on: Any
    off: Any
    env: tuple[tuple[str, str], ...] = ()


SLOW = (("STANDIN_COPY_DELAY", "200000"),)

LOOKS = {
    "plain_host_pointer_refused": Look("say(attributes(ctypes.create_string_buffer(64))[0])", 1, 0),
    "null_pointer_refused": Look("say(attributes(None)[0])", 1, 0),
    "free_async_null_refused": Look("say(hip.hipFreeAsync(None, None))", 1, 0),
    "async_zero_refused": Look("say(hip.hipMallocAsync(byref(c_void_p()), c_size_t(0), None))", 1, 0),
    "managed_zero_refused": Look("say(hip.hipMallocManaged(byref(c_void_p()), c_size_t(0), c_uint(1)))", 1, 0),
    "pinned_flags_drop_coherence": Look(
        """
        source, target, queue, event = malloc(64), pinned(64, 1), stream(), given("hipEventCreateWithFlags", c_uint(2))
        expect("hipMemset", source, 7, c_size_t(64))
        expect("hipDeviceSynchronize")
        expect("hipMemcpyAsync", target, source, c_size_t(64), TO_HOST, queue)
        expect("hipEventRecord", event, queue)
        expect("hipEventSynchronize", event)
        after_event = ctypes.string_at(target, 64)
        expect("hipStreamSynchronize", queue)
        say([after_event[0], ctypes.string_at(target, 64)[63]])
        """,
        [0, 7],
        [7, 7],
    ),
    "free_takes_pinned": Look("say([hip.hipFree(pinned(64)), hip.hipHostFree(malloc(64))])", [0, 0], [1, 1]),
    "free_waits": Look(
        """
        queue = stream()
        memory = given("hipMallocAsync", c_size_t(MIB), queue)
        expect("hipMemsetAsync", memory, 1, c_size_t(MIB), queue)
        expect("hipFree", memory)
        say(hip.hipStreamQuery(queue))
        """,
        0,
        600,
        SLOW,
    ),
    "register_overlap_allowed": Look(
        """
        memory = ctypes.create_string_buffer(8192)
        expect("hipHostRegister", memory, c_size_t(8192), c_uint(0))
        say(hip.hipHostRegister(memory, c_size_t(4096), c_uint(0)))
        """,
        0,
        712,
    ),
    "prefetch_ignores_foreign": Look(
        """
        plain = ctypes.create_string_buffer(64)
        say([hip.hipMemPrefetchAsync(malloc(64), c_size_t(64), 0, None),
             hip.hipMemPrefetchAsync(plain, c_size_t(64), -1, None),
             hip.hipMemPrefetchAsync(plain, c_size_t(64), 0, None)])
        """,
        [0, 0, 801],
        [1, 1, 1],
    ),
    "pools_not_supported": Look(
        """
        value, memory = c_int(), c_void_p()
        expect("hipDeviceGetAttribute", byref(value), 88, 0)
        say([value.value, hip.hipMallocAsync(byref(memory), c_size_t(64), None),
             hip.hipDeviceGetDefaultMemPool(byref(memory), 0)])
        """,
        [0, 801, 801],
        [1, 0, 0],
    ),
    "pool_exhaustion_unseen": Look(
        """
        memory = c_void_p()
        error = hip.hipMallocFromPoolAsync(byref(memory), c_size_t(1 << 40), pool(), None)
        say([error, memory.value])
        """,
        [0, None],
        [2, None],
    ),
    "tiny_pool_allocation": Look("say(hip.hipMallocAsync(byref(c_void_p()), c_size_t(4), None))", 2, 0),
    "pitched_copy_direction": Look(
        """
        near, far = given("hipHostMalloc", c_size_t(8192), c_uint(0)), malloc(8192)
        behind = c_void_p(near.value + 4096)
        row, rows = c_size_t(64), c_size_t(64)
        say([hip.hipMemcpy2D(behind, row, far, row, row, rows, kind) for kind in (4, 2)]
            + [hip.hipMemcpy2DAsync(far, row, behind, row, row, rows, kind, None) for kind in (4, 1)]
            + [hip.hipMemcpy2D(near, row, far, row, row, rows, 4)])
        """,
        [1, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ),
    "release_threshold_ignored": Look(
        """
        queue, most = stream(), c_uint64(2**64 - 1)
        expect("hipMemPoolSetAttribute", pool(), 4, byref(most))
        memory = given("hipMallocAsync", c_size_t(8 * MIB), queue)
        expect("hipFreeAsync", memory, queue)
        expect("hipStreamSynchronize", queue)
        say([pool_attribute(pool(), 4) == most.value, pool_attribute(pool(), 5)])
        """,
        [True, 0],
        [True, 8 << 20],
    ),
    # Two slow fills on the first stream; the third stream's one happens between them, and is lost.
    "free_on_other_stream": Look(
        """
        first, second, third = stream(), stream(), stream()
        event = given("hipEventCreateWithFlags", c_uint(2))
        memory = given("hipMallocAsync", c_size_t(MIB), first)
        for _ in range(2):
            expect("hipMemsetAsync", memory, 1, c_size_t(MIB), first)
        expect("hipEventRecord", event, first)
        expect("hipStreamWaitEvent", second, event, c_uint(0))
        expect("hipFreeAsync", memory, second)
        again = given("hipMallocAsync", c_size_t(MIB), third)
        reused_early = again.value == memory.value and hip.hipStreamQuery(first) == 600
        expect("hipMemsetAsync", again, 2, c_size_t(MIB), third)
        expect("hipDeviceSynchronize")
        say([reused_early, byte_at(again)])
        """,
        [True, 1],
        [False, 2],
        SLOW,
    ),
    "failed_allocation_keeps_memory": Look(
        """
        held = malloc(32 * MIB)
        error = hip.hipMallocAsync(byref(c_void_p()), c_size_t(48 * MIB), None)
        beyond = hip.hipMallocAsync(byref(c_void_p()), c_size_t(65 * MIB), None)
        say([error, beyond, free_memory() // MIB])
        """,
        [2, 2, 0],
        [2, 2, 32],
        (("STANDIN_CAPACITY", "64MiB"),),
    ),
    "ipc_loses_offset": Look(
        """
        import subprocess
        memory, handle = malloc(8192), ctypes.create_string_buffer(64)
        inside = c_void_p(memory.value + 4096)
        expect("hipMemset", memory, 1, c_size_t(4096))
        expect("hipMemset", inside, 2, c_size_t(4096))
        expect("hipDeviceSynchronize")

        class Handle(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_char * 64)]

        lazy = 0 if MAJOR < 6 else 1
        if len(sys.argv) > 1:
            theirs = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))
            opened = given("hipIpcOpenMemHandle", theirs, c_uint(lazy))
            seen = byte_at(opened)
            expect("hipMemset", opened, 9, c_size_t(16))
            expect("hipDeviceSynchronize")
            expect("hipIpcCloseMemHandle", opened)
            say([seen, hip.hipIpcCloseMemHandle(opened)])
        else:
            expect("hipIpcGetMemHandle", handle, inside)
            code = os.environ["ITSELF"]
            done = subprocess.run([sys.executable, "-c", code, handle.raw.hex()], capture_output=True, check=True)
            here = hip.hipIpcOpenMemHandle(byref(c_void_p()), Handle.from_buffer_copy(handle.raw), c_uint(lazy))
            say([*json.loads(done.stdout), byte_at(memory), byte_at(inside), here])
        """,
        [1, 1, 9, 2, 201],
        [2, 1, 1, 9, 201],
    ),
    "set_access_fails_on_tail": Look(
        """
        class Prop(ctypes.Structure):
            _fields_ = [("words", c_int * 64)]
        prop = Prop()
        # The fields of this structure moved; the kind of memory, the place and the device are 1, 1 and 0 in each.
        for at in (1, 4) if MAJOR < 6 else (0, 2):
            prop.words[at] = 1
        class Access(ctypes.Structure):
            _fields_ = [("place", c_int), ("device", c_int), ("flags", c_int)]
        access = Access(1, 0, 3)
        space = given("hipMemAddressReserve", c_size_t(16384), c_size_t(0), None, c_uint64(0))
        errors = []
        for offset, size in ((0, 8192), (8192, 4096)):
            piece = c_void_p(space.value + offset)
            memory = given("hipMemCreate", c_size_t(size), byref(prop), c_uint64(0))
            expect("hipMemMap", piece, c_size_t(size), c_size_t(0), memory, c_uint64(0))
            errors.append(hip.hipMemSetAccess(piece, c_size_t(size), byref(access), c_size_t(1)))
            expect("hipMemRelease", memory)
        if errors[1]:
            # The whole at once is what the library takes.
            expect("hipMemSetAccess", space, c_size_t(12288), byref(access), c_size_t(1))
        tail = c_void_p(space.value + 8192)
        expect("hipMemset", tail, 5, c_size_t(4096))
        expect("hipDeviceSynchronize")
        seen, refused = byte_at(tail, 4095), hip.hipFree(tail)
        for offset, size in ((0, 8192), (8192, 4096)):
            expect("hipMemUnmap", c_void_p(space.value + offset), c_size_t(size))
        gone = hip.hipMemset(tail, 5, c_size_t(16))
        expect("hipMemAddressFree", space, c_size_t(16384))
        say([errors, seen, refused, gone, free_memory() == 4 << 30])
        """,
        [[0, 1], 5, 1, 1, True],
        [[0, 0], 5, 1, 1, True],
    ),
}


ALWAYS = {"5.2": {"plain_host_pointer_refused", "null_pointer_refused"}}
"""Quirks that cannot be switched off: no number of that version says that memory is unregistered."""


@pytest.fixture(scope="module", params=ABIS)
def over(request: pytest.FixtureRequest) -> StandIn:
    return standin(request.param)


def look(over: StandIn, name: str, quirks: str | None) -> Any:
    from textwrap import dedent

    from helpers.standins import RAW

    code = dedent(LOOKS[name].code)
    itself = dedent(RAW) + code
    return over.call(code, STANDIN_QUIRKS=quirks, ITSELF=itself, **dict(LOOKS[name].env))


def test_every_quirk_is_looked_at(over: StandIn) -> None:
    assert set(over.quirks()) == set(LOOKS)


@pytest.mark.parametrize("name", LOOKS)
def test_on_off_and_by_default(over: StandIn, name: str) -> None:
    expected = LOOKS[name]
    assert look(over, name, name) == expected.on
    off = expected.on if name in ALWAYS.get(over.abi, ()) else expected.off
    assert look(over, name, f"-{name}") == off
    assert look(over, name, None) == (expected.on if over.quirks()[name]["by_default"] else off)


def test_a_quirk_that_does_not_exist(over: StandIn) -> None:
    from helpers.process import run_python

    code = "import ctypes, os; ctypes.CDLL(os.environ['STANDIN_LIBRARY']).hipFreeAsync(None, None)"
    done = run_python(code, **over.environment(STANDIN_QUIRKS="managed_zero_refused,slow"))
    assert done.returncode != 0
    assert "names 'slow'" in done.stderr
    assert "managed_zero_refused" in done.stderr


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Every quirk has a source; the table goes to the log of the run."""
    tables = {abi: standin(abi).quirks() for abi in ABIS}
    lines = ["", f"{'quirk':32}{''.join(f'{abi:>5}' for abi in ABIS)}  source"]
    for name in LOOKS:
        on = "".join(f"{'on' if tables[abi][name]['by_default'] else 'off':>5}" for abi in ABIS)
        source = tables[ABIS[0]][name]["source"]
        assert "#" in source or "ROCm" in source
        lines.append(f"{name:32}{on}  {source}")
    with capsys.disabled():
        print("\n".join(lines))
