# SPDX-License-Identifier: MIT
"""FixedSizeMemoryResource: equal blocks of another resource's memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.memory import allocate, overlapping, pattern, read_back, write
from helpers.waiting import close_when_empty, eventually

import portamem

BLOCK = 4096


@pytest.fixture
def blocks(pm: Any, resource: Any) -> Any:
    """Blocks of every kind of memory in turn."""
    made = pm.FixedSizeMemoryResource(resource, BLOCK, blocks_per_chunk=3)
    yield made
    close_when_empty(made)


def test_it_is_as_its_upstream_is(pm: Any, blocks: Any, resource: Any) -> None:
    assert isinstance(blocks, portamem.FixedSizeMemoryResource)
    assert isinstance(blocks, portamem.MemoryResource)
    assert blocks.upstream is resource
    assert (blocks.kind, blocks.device_id) == (resource.kind, resource.device_id)
    assert blocks.is_host_accessible == resource.is_host_accessible
    assert blocks.is_stream_ordered == (not resource.is_host_accessible)
    assert (blocks.block_size, blocks.blocks_per_chunk, blocks.reserved) == (BLOCK, 3, 0)


def test_blocks_hold_what_is_written(pm: Any, blocks: Any, resource: Any) -> None:
    live = [allocate(blocks, BLOCK - i) for i in range(7)]
    assert not overlapping(live)
    for i, buffer in enumerate(live):
        write(pm, buffer, pattern(buffer.nbytes, i))
    assert [read_back(pm, buffer) == pattern(buffer.nbytes, i) for i, buffer in enumerate(live)] == [True] * 7
    assert (resource.live_buffers, blocks.live_buffers) == (3, 7)
    assert blocks.reserved == 9 * BLOCK
    with pytest.raises(BufferError, match="7 live buffer"):
        blocks.close()
    for buffer in live:
        buffer.close()
    assert eventually(lambda: blocks.live_buffers == 0)
    blocks.trim(keep=5 * BLOCK)
    assert blocks.reserved == 3 * BLOCK
    blocks.trim()
    assert (blocks.reserved, resource.live_buffers) == (0, 0)


def test_a_stream_has_its_block_again_at_once(pm: Any, blocks: Any, stream: Any, latch: Any) -> None:
    with latch(stream):
        buffer = blocks.allocate(BLOCK, stream=stream)
        address = buffer.handle
        blocks.deallocate(buffer.release(), BLOCK, stream=stream)
        again = blocks.allocate(BLOCK, stream=stream)
        assert (again.handle == address) == blocks.is_stream_ordered
        blocks.deallocate(again.release(), BLOCK, stream=stream)
    stream.synchronize()
    handles = {blocks.allocate(BLOCK, stream=stream).handle for _ in range(3)}
    assert len(handles) <= 3


def test_memory_that_the_host_reaches_waits_for_the_work_before_its_free(
    pm: Any, pinned_resource: Any, device_resource: Any, stream: Any, other_stream: Any, latch: Any
) -> None:
    with pm.FixedSizeMemoryResource(pinned_resource, BLOCK, blocks_per_chunk=1) as blocks:
        target = allocate(device_resource, BLOCK)
        with latch(stream):
            old = blocks.allocate(BLOCK)
            memoryview(old)[:] = pattern(BLOCK, 1)
            target.copy_from(old, stream=stream)
            blocks.deallocate(old.release(), BLOCK, stream=stream)
            new = blocks.allocate(BLOCK, stream=other_stream)
            memoryview(new)[:] = pattern(BLOCK, 2)  # while the copy of the old block is still held
        stream.synchronize()
        assert read_back(pm, target) == pattern(BLOCK, 1)
        assert read_back(pm, new) == pattern(BLOCK, 2)
        new.close()
        target.close()


def test_bad_arguments(pm: Any, device_resource: Any, device: Any) -> None:
    make = pm.FixedSizeMemoryResource
    for size, error in ((0, ValueError), (-1, ValueError), (2**80, ValueError), (1.5, TypeError), ("x", ValueError)):
        with pytest.raises(error):
            make(device_resource, size)
    with pytest.raises(ValueError, match="at least 1 block"):
        make(device_resource, 64, blocks_per_chunk=0)
    with pytest.raises(ValueError, match="larger than any memory"):
        make(device_resource, 2**40, blocks_per_chunk=2**40)
    for upstream in (None, 7, device):
        with pytest.raises(TypeError, match="upstream is a MemoryResource of backend"):
            make(upstream, 64)
    closed = pm.PinnedMemoryResource()
    closed.close()
    with pytest.raises(ValueError, match="upstream resource is closed"):
        make(closed, 64)
    blocks = make(device_resource, "4 KiB")
    with pytest.raises(ValueError, match="hold 4096 bytes, not 4097"):
        allocate(blocks, 4097)
    with pytest.raises(ValueError, match="aligns to 256"):
        blocks.allocate(1, stream=device.default_stream, alignment=512)
    assert (blocks.live_buffers, blocks.reserved) == (0, 0)


def test_what_is_not_out_is_not_taken_back(pm: Any, pinned_resource: Any) -> None:
    blocks = pm.FixedSizeMemoryResource(pinned_resource, BLOCK)
    keep = blocks.allocate(BLOCK)
    address = blocks.allocate(BLOCK).release()
    for wrong in (address + 8, address + (1 << 40)):
        with pytest.raises(ValueError, match="not a block of the resource"):
            blocks.deallocate(wrong, 1)
    blocks.deallocate(address, BLOCK)
    with pytest.raises(ValueError, match="free already"):
        blocks.deallocate(address, BLOCK)
    keep.close()
    blocks.close()


def test_the_upstream_stays_open_and_alive(pm: Any) -> None:
    blocks = pm.FixedSizeMemoryResource(pm.PinnedMemoryResource(), BLOCK)
    buffer = blocks.allocate(BLOCK)
    with pytest.raises(BufferError, match="1 live buffer"):
        blocks.upstream.close()
    write(pm, buffer, pattern(BLOCK, 1))
    del blocks
    assert read_back(pm, buffer) == pattern(BLOCK, 1)


def test_threads_and_streams(pm: Any, blocks: Any, pinned_resource: Any) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        with pm.Stream(blocks.device) as stream, pinned_resource.allocate(BLOCK) as out:
            for i in range(40):
                with blocks.allocate(BLOCK, stream=stream) as one, blocks.allocate(BLOCK, stream=stream) as two:
                    one.fill((number * 40 + i) % 256, stream=stream)
                    two.fill((number * 40 + i + 1) % 256, stream=stream)
                    out.copy_from(one, stream=stream)
                    stream.synchronize()
                    if bytes(out) != bytes([(number * 40 + i) % 256]) * BLOCK:
                        wrong.append(number)
                if i % 10 == 9:
                    blocks.trim()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
