"""The resource where none is named: a pool of the device's plain memory, one for the process."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch
from helpers.process import python_output, run_python
from helpers.waiting import eventually

import portamem

MIB = 1 << 20


@pytest.fixture
def default(pm: ModuleType, device: Any) -> Any:
    """The default resource, with nothing cached."""
    found = pm.current_resource(device)
    device.synchronize()
    found.trim()
    return found


def read_back(pm: ModuleType, memory: Any) -> bytes:
    out = bytearray(memory.nbytes)
    pm.copy(out, memory)
    return bytes(out)


def cached(default: Any) -> int:
    stats = default.stats()
    return int(stats.reserved - stats.used)


def test_it_is_a_pool_of_plain_memory(pm: ModuleType, device: Any, default: Any) -> None:
    assert type(default) is pm.PoolMemoryResource
    assert type(default.upstream) is pm.DeviceMemoryResource
    assert default.kind == "device"
    assert default.device == default.upstream.device == device
    assert default.is_stream_ordered
    with pm.zeros(1000, "uint8", device=device) as view:
        assert view.buffer.resource is default
        assert read_back(pm, view) == bytes(1000)


def test_nobody_closes_it_or_what_is_below(default: Any) -> None:
    for resource in (default, default.upstream):
        with pytest.raises(BufferError, match="default resource"):
            resource.close()
        assert not resource.is_closed


def test_the_host_keeps_off_it_on_every_machine(pm: ModuleType, device: Any, default: Any) -> None:
    """Freed memory can then be used again at once, also where the host reaches device memory."""
    assert not default.is_host_accessible
    with pm.empty(16, "uint8", device=device) as view, pytest.raises(BufferError):
        memoryview(view.buffer)


def test_a_loop_gets_the_same_memory_while_the_stream_is_behind(
    pm: ModuleType, device: Any, default: Any, stream: Any, latch: Callable[[Any], Latch]
) -> None:
    with pm.empty(MIB, "uint8", device=device, stream=stream) as first:
        first.fill(1, stream=stream)
        address = first.buffer.handle
    held = latch(stream)
    target = bytearray(MIB)
    for turn in range(50):
        view = pm.empty(MIB, "uint8", device=device, stream=stream)
        assert view.buffer.handle == address
        view.fill(turn, stream=stream)
        view.close()
    last = pm.empty(MIB, "uint8", device=device, stream=stream)
    held.release()
    pm.copy(target, last, stream=stream).synchronize()
    assert bytes(target) == bytes([49]) * MIB
    last.close()


def test_a_pool_without_host_access(pm: ModuleType, device: Any, stream: Any) -> None:
    with pm.PoolMemoryResource(pm.PinnedMemoryResource(device), host_access=False) as pool:
        assert not pool.is_host_accessible
        with pool.allocate(4096, stream=stream) as buffer:
            buffer.fill(3, stream=stream)
            assert read_back(pm, buffer) == b"\x03" * 4096
            with pytest.raises(BufferError):
                memoryview(buffer)
    with pm.PoolMemoryResource(pm.PinnedMemoryResource(device)) as pool:
        assert pool.is_host_accessible


def test_what_it_keeps_is_not_held(pm: ModuleType, device: Any, default: Any) -> None:
    before = pm.held(device)
    with pm.empty(3 * MIB, "uint8", device=device):
        assert pm.held(device) == device.memory_info().held == before + 3 * MIB
    device.synchronize()
    assert pm.held(device) == before
    assert cached(default) >= 3 * MIB
    default.trim()
    assert cached(default) == 0
    assert pm.held(device) == before


def test_another_resource_gets_what_it_keeps(pm: ModuleType, device: Any, default: Any, device_resource: Any) -> None:
    with pm.empty(MIB, "uint8", device=device) as live:
        live.fill(5)
        pm.empty(1024 * MIB, "uint8", device=device).close()
        assert cached(default) >= 1024 * MIB
        with (
            device_resource.allocate(device.memory_info().free - 256 * MIB),
            device_resource.allocate(768 * MIB) as given,
        ):
            with given[767 * MIB :] as end:
                end.fill(9)
                assert read_back(pm, end) == b"\x09" * MIB
            assert read_back(pm, live) == b"\x05" * MIB
            assert cached(default) < 768 * MIB


def test_a_refusal_says_what_it_keeps(pm: ModuleType, device: Any, default: Any, device_resource: Any) -> None:
    pm.empty(8 * MIB, "uint8", device=device).close()
    kept = cached(default)
    held = pm.held(device)
    with pytest.raises(portamem.OutOfMemoryError, match="default resource") as caught:
        device_resource.allocate("1024 TiB")
    assert f"default_resource({device.ordinal}).trim()" in str(caught.value)
    assert caught.value.used == held
    assert cached(default) == kept  # that could not have helped, and no call waited for it
    default.trim()
    with pytest.raises(portamem.OutOfMemoryError) as caught:
        device_resource.allocate("1024 TiB")
    assert "default resource" not in str(caught.value)


def test_its_own_refusal_says_it_once(pm: ModuleType, device: Any, default: Any, stream: Any) -> None:
    pm.empty(8 * MIB, "uint8", device=device).close()
    with pm.empty(MIB, "uint8", device=device), pytest.raises(portamem.OutOfMemoryError) as caught:
        default.allocate("1024 TiB", stream=stream)
    assert caught.value.used == pm.held(device) + MIB
    assert "default resource" not in str(caught.value)


def test_a_captured_stream_gets_what_is_at_hand(pm: ModuleType, device: Any, default: Any, stream: Any) -> None:
    pm.empty(MIB, "uint8", device=device, stream=stream).close()
    stream.begin_capture()
    with pm.empty(MIB, "uint8", device=device, stream=stream) as view:
        assert view.nbytes == MIB
    with pytest.raises(ValueError, match="captured"):
        pm.empty(500 * MIB, "uint8", device=device, stream=stream)
    assert stream.capture_status == "active"
    stream.end_capture()
    with pm.zeros(MIB, "uint8", device=device, stream=stream) as view:
        stream.synchronize()
        assert read_back(pm, view) == bytes(MIB)


PROGRAM = """
import sys
import portamem
pm = getattr(portamem, sys.argv[1])
"""


def output(pm: ModuleType, program: str, **env: str | None) -> str:
    return python_output(PROGRAM + textwrap.dedent(program), pm.backend, **env)


def test_threads_that_come_first_share_one(pm: ModuleType) -> None:
    program = """
        import threading
        barrier, found = threading.Barrier(8), []
        def work():
            barrier.wait()
            resource = pm.current_resource(0)
            with pm.zeros(1000, device=0) as view:
                found.append((resource, view.buffer.resource, bytes(view.to_numpy())))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(found) == 8
        assert {id(r) for pair in found for r in pair[:2]} == {id(pm.current_resource(0))}
        assert {data for *_, data in found} == {bytes(8000)}
        print(pm.held(0))
    """
    assert output(pm, program) == "0\n"


def test_a_process_ends_with_its_memory_out(pm: ModuleType) -> None:
    program = """
        kept = [pm.zeros(n, device=0) for n in (1, 1000, 10**6)]
        kept[1].close()
        print(pm.current_resource(0).live_buffers)
    """
    assert output(pm, program) == "2\n"


def test_a_forked_child_is_refused(pm: ModuleType) -> None:
    program = """
        import os, warnings
        view = pm.zeros(1000, device=0)
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                pm.empty(10, device=0)
            except portamem.Error as error:
                code = 0 if "fork" in str(error) else 2
            pm.held("host")  # answers, and waits for nobody's lock
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), bytes(view.to_numpy()) == bytes(8000))
    """
    assert output(pm, program) == "0 True\n"


def test_pools_off_is_off_for_it_too(pm: ModuleType) -> None:
    program = """
        default = pm.current_resource(0)
        with pm.zeros(1000, "uint8", device=0) as view:
            assert bytes(view.to_numpy()) == bytes(1000)
            print(default.upstream.live_buffers, default.upstream.live_bytes)
        print(default.upstream.live_buffers, default.stats().reserved, pm.held(0))
    """
    assert output(pm, program, PORTAMEM_POOL="off") == "1 1000\n0 0 0\n"


def test_the_limit_of_pools_is_its_limit(pm: ModuleType) -> None:
    program = """
        with pm.zeros(2**20, "uint8", device=0) as view:
            assert bytes(view.to_numpy()) == bytes(2**20)
        try:
            pm.empty(9 * 2**20, "uint8", device=0)
        except portamem.OutOfMemoryError as error:
            print("limit" in str(error), pm.current_resource(0).limit)
    """
    assert output(pm, program, PORTAMEM_POOL_LIMIT="8 MiB") == f"True {8 * MIB}\n"


def test_a_setting_that_cannot_be_read_is_told(pm: ModuleType) -> None:
    done = run_python(PROGRAM + "pm.empty(4, device=0)", pm.backend, PORTAMEM_POOL_LIMIT="plenty")
    assert done.returncode != 0
    assert "PORTAMEM_POOL_LIMIT=plenty" in done.stderr


def test_it_serves_while_it_is_trimmed(pm: ModuleType, device: Any, default: Any) -> None:
    """Threads that allocate from it, and others that make it give back by asking for what is left of the device."""
    wrong: list[BaseException] = []

    def use(number: int) -> None:
        try:
            with pm.Stream(device) as mine:
                for turn in range(60):
                    size = 1 << (10 + (number + turn) % 12)
                    with pm.empty(size, "uint8", device=device, stream=mine) as view:
                        view.fill(turn, stream=mine)
                        mine.synchronize()
                        assert read_back(pm, view) == bytes([turn]) * size
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        default.trim()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert eventually(lambda: default.live_buffers == 0)
