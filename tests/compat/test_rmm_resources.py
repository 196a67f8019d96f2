# SPDX-License-Identifier: MIT
"""RMM's resources: what memory each gives, within which bounds, and to which functions it turns."""

from __future__ import annotations

import gc
import threading

import pytest
from helpers.process import python_output, run_python
from helpers.waiting import eventually

import portamem
from portamem.conformance.kit.reported import unraisable

KIB, MIB = 1 << 10, 1 << 20


def round_trip(rmm, mr, nbytes=1000):
    """Memory of a resource takes bytes and gives them back."""
    buffer = rmm.DeviceBuffer(size=nbytes, mr=mr)
    data = bytes(i % 251 for i in range(nbytes))
    buffer.copy_from_host(data)
    return buffer.tobytes() == data


PLAIN = [
    ("CudaMemoryResource", "device"),
    ("ManagedMemoryResource", "managed"),
    ("PinnedHostMemoryResource", "pinned"),
    ("CudaAsyncMemoryResource", "async"),
]


@pytest.mark.parametrize(("name", "kind"), PLAIN)
def test_kinds_of_memory(rmm, device, name, kind):
    if kind == "async" and not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
    mr = getattr(rmm.mr, name)()
    assert mr.resource.kind == kind
    assert isinstance(mr, rmm.mr.DeviceMemoryResource)
    assert not isinstance(mr, rmm.mr.UpstreamResourceAdaptor)
    assert round_trip(rmm, mr)


ADAPTORS = [
    lambda mr, below: mr.PoolMemoryResource(below, "1MiB", "4MiB"),
    lambda mr, below: mr.ArenaMemoryResource(below, MIB),
    lambda mr, below: mr.ArenaMemoryResource(below, MIB, dump_log_on_failure=True),
    lambda mr, below: mr.FixedSizeMemoryResource(below, 4 * KIB, 4),
    lambda mr, below: mr.BinningMemoryResource(below, 8, 12),
    lambda mr, below: mr.LimitingResourceAdaptor(below, MIB),
    lambda mr, below: mr.StatisticsResourceAdaptor(below),
    lambda mr, below: mr.TrackingResourceAdaptor(below, capture_stacks=True),
    lambda mr, below: mr.FailureCallbackResourceAdaptor(below, lambda nbytes: False),
    lambda mr, below: mr.PrefetchResourceAdaptor(below),
]


@pytest.mark.parametrize("below", ["CudaMemoryResource", "ManagedMemoryResource", "PinnedHostMemoryResource"])
@pytest.mark.parametrize("make", ADAPTORS)
def test_resources_over_others(rmm, make, below):
    upstream = getattr(rmm.mr, below)()
    mr = make(rmm.mr, upstream)
    assert isinstance(mr, rmm.mr.UpstreamResourceAdaptor)
    assert mr.get_upstream() is mr.upstream_mr is upstream
    assert mr.resource.kind == upstream.resource.kind
    assert mr.resource.is_host_accessible == upstream.resource.is_host_accessible
    assert round_trip(rmm, mr)
    ptr = mr.allocate(500)
    assert ptr
    mr.deallocate(ptr, 500)
    assert mr.resource.live_buffers == 0


@pytest.mark.parametrize("make", ADAPTORS)
def test_an_upstream_is_a_resource(rmm, make):
    with pytest.raises(TypeError, match="`upstream_mr` must not be None"):
        make(rmm.mr, None)
    with pytest.raises(TypeError, match="`upstream_mr` is a memory resource, not a type"):
        make(rmm.mr, rmm.mr.CudaMemoryResource)


def test_addresses_go_out_and_come_back(rmm, pm, stream):
    mr = rmm.mr.CudaMemoryResource()
    ptr = mr.allocate(100, stream)
    assert mr.resource.size_of(ptr) == 100
    mr.deallocate(ptr, 100, stream)
    assert mr.resource.live_bytes == 0
    assert mr.allocate(0) == 0
    mr.deallocate(0, 0)
    with pytest.raises(ValueError, match="not negative"):
        mr.allocate(-1)
    for call in (lambda: mr.allocate(10, stream=None), lambda: mr.deallocate(ptr, 10, stream=None)):
        with pytest.raises(TypeError, match="stream argument cannot be None"):
            call()
    with pytest.raises((ValueError, portamem.Error)):
        mr.deallocate(ptr, 100)


@pytest.mark.usefixtures("driver_pools")
def test_a_refusal_of_the_runtime_is_a_memory_error(rmm, pm):
    other = pm.AsyncMemoryResource()
    mr = rmm.mr.CudaAsyncViewMemoryResource(other.pool_handle)
    with pytest.raises(MemoryError):
        mr.allocate(1 << 50)


def test_a_resource_of_portamem_is_an_upstream_too(rmm, device_resource):
    pool = rmm.mr.PoolMemoryResource(device_resource, "1MiB")
    assert pool.get_upstream().resource is device_resource
    assert device_resource.live_bytes >= MIB
    assert rmm.mr.DeviceMemoryResource(device_resource).resource is device_resource
    with pytest.raises(TypeError, match="a memory resource of portamem was expected, not a int"):
        rmm.mr.DeviceMemoryResource(3)


def test_a_pool_begins_and_ends_where_it_is_told(rmm):
    below = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    pool = rmm.mr.PoolMemoryResource(below, initial_pool_size="2MiB", maximum_pool_size=4 * MIB)
    assert pool.pool_size() == below.allocation_counts.current_bytes == 2 * MIB
    kept = rmm.DeviceBuffer(size=3 * MIB, mr=pool)
    assert 3 * MIB <= pool.pool_size() <= 4 * MIB
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=2 * MIB, mr=pool)
    assert kept.capacity() == 3 * MIB
    assert rmm.mr.PoolMemoryResource(below, 0).pool_size() == 0


def test_pools_whose_sizes_make_no_sense(rmm):
    below = rmm.mr.CudaMemoryResource()
    with pytest.raises(RuntimeError, match="Initial pool size exceeds the maximum pool size"):
        rmm.mr.PoolMemoryResource(below, 2048, "1kib")
    for wrong in ("2k", "ib", "", "-1"):
        with pytest.raises(ValueError, match="Could not parse"):
            rmm.mr.PoolMemoryResource(below, wrong)
    with pytest.raises(TypeError):
        rmm.mr.PoolMemoryResource(below, 1.5)


SIZES = [("2kib", 2048), ("2 KB", 2000), ("1.5MiB", 3 * MIB // 2), ("1.1b", 1), ("7", 7), ("1.GB", 10**9), (5, 5)]


@pytest.mark.parametrize(("text", "nbytes"), SIZES)
def test_sizes_as_text(text, nbytes):
    from portamem.compat.rmm._sizes import parse_bytes

    assert parse_bytes(text) == nbytes


def test_an_arena_is_bounded_and_tells_what_it_holds(rmm, caplog):
    arena = rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), "1MiB", dump_log_on_failure=True)
    kept = rmm.DeviceBuffer(size=600 * KIB, mr=arena)
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=600 * KIB, mr=arena)
    (record,) = [record for record in caplog.records if record.name == "portamem.compat.rmm"]
    assert record.levelname == "ERROR"
    assert f"no {600 * KIB} bytes" in record.message
    assert kept.size == 600 * KIB


def test_an_arena_of_no_size_has_half_of_the_free_memory(rmm, device):
    below = rmm.mr.CudaMemoryResource()
    arena = rmm.mr.ArenaMemoryResource(below)
    assert below.resource.live_bytes == 0
    free = device.memory_info().free
    assert free // 4 < arena.resource.limit <= free // 2 + MIB


def test_fixed_blocks(rmm):
    fixed = rmm.mr.FixedSizeMemoryResource(rmm.mr.CudaMemoryResource(), block_size=1000, blocks_to_preallocate=4)
    assert fixed.get_block_size() == 1024
    buffers = [rmm.DeviceBuffer(size=1024, mr=fixed) for _ in range(5)]
    assert fixed.resource.reserved == 8 * 1024
    assert len({each.ptr for each in buffers}) == 5
    over = rmm.mr.StatisticsResourceAdaptor(rmm.mr.LimitingResourceAdaptor(fixed, MIB))
    for mr in (fixed, over):
        with pytest.raises(MemoryError, match="blocks of this resource hold 1024 bytes, not 1025"):
            mr.allocate(1025)


def test_bins_are_taken_by_size(rmm):
    upstream, small, large = (rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource()) for _ in range(3))
    bins = rmm.mr.BinningMemoryResource(upstream)
    bins.add_bin(1000, small)  # of 1024 bytes
    bins.add_bin(4096, large)
    assert bins.bin_mrs == [small, large]
    kept = [rmm.DeviceBuffer(size=size, mr=bins) for size in (1, 1024, 1025, 4096, 4097)]
    assert [each.allocation_counts.current_count for each in (small, large, upstream)] == [2, 2, 1]
    del kept
    assert [each.allocation_counts.current_count for each in (small, large, upstream)] == [0, 0, 0]


def test_bins_of_blocks_stand_on_the_upstream(rmm):
    upstream = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    bins = rmm.mr.BinningMemoryResource(upstream, 10, 12)
    assert bins.bin_mrs == []
    kept = [rmm.DeviceBuffer(size=size, mr=bins) for size in (1000, 4000)]
    assert upstream.allocation_counts.total_bytes == 128 * 1024 + 128 * 4096
    bins.add_bin(4096)  # stays as it is
    kept.append(rmm.DeviceBuffer(size=4096, mr=bins))
    assert upstream.allocation_counts.total_count == 2
    kept.append(rmm.DeviceBuffer(size=4097, mr=bins))
    assert upstream.allocation_counts.total_count == 3
    with pytest.raises(TypeError, match="`bin_resource` is a memory resource"):
        bins.add_bin(10, "pool")


def test_memory_of_a_bin_that_was_replaced_goes_back_to_it(rmm):
    first, second = (rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource()) for _ in range(2))
    bins = rmm.mr.BinningMemoryResource(rmm.mr.CudaMemoryResource())
    bins.add_bin(1024, first)
    old = rmm.DeviceBuffer(size=100, mr=bins)
    bins.add_bin(1024, second)
    new = rmm.DeviceBuffer(size=100, mr=bins)
    assert [each.allocation_counts.current_count for each in (first, second)] == [1, 1]
    del old
    assert [each.allocation_counts.current_count for each in (first, second)] == [0, 1]
    del new
    assert second.allocation_counts.current_count == 0


def test_threads_share_bins(rmm):
    upstream = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    bins = rmm.mr.BinningMemoryResource(upstream, 8, 12)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(60):
                buffer = rmm.DeviceBuffer.to_device(bytes([number]) * (1 + 97 * turn))
                assert buffer.tobytes() == bytes([number]) * (1 + 97 * turn)
        except BaseException as error:
            failures.append(error)

    rmm.mr.set_current_device_resource(bins)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert bins.resource.live_buffers == 0


def test_functions_of_the_program(rmm):
    below = rmm.mr.CudaMemoryResource()
    calls: list[tuple[object, ...]] = []

    def allocate(nbytes, stream):
        calls.append(("allocate", nbytes, stream))
        return below.allocate(nbytes, stream)

    def deallocate(ptr, nbytes, stream):
        calls.append(("deallocate", nbytes, stream))
        below.deallocate(ptr, nbytes, stream)

    mr = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    own, default = rmm.pylibrmm.stream.Stream(), rmm.pylibrmm.stream.DEFAULT_STREAM
    per_thread = rmm.pylibrmm.stream.PER_THREAD_DEFAULT_STREAM
    for stream in (default, own, per_thread):
        buffer = rmm.DeviceBuffer(size=77, stream=stream, mr=mr)
        buffer.copy_from_host(b"abc", stream)
        assert buffer.tobytes(stream)[:3] == b"abc"
        del buffer
    assert calls == [(name, 77, s) for s in (default, own, per_thread) for name in ("allocate", "deallocate")]
    assert below.resource.live_buffers == 0


@pytest.mark.parametrize(
    ("raised", "caught"),
    [(MemoryError, MemoryError), (RuntimeError, RuntimeError), (KeyError, RuntimeError), (BaseException, RuntimeError)],
)
def test_what_a_function_raises(rmm, raised, caught):
    def allocate(nbytes, stream):
        raise raised("mine")

    mr = rmm.mr.CallbackMemoryResource(allocate, lambda ptr, nbytes, stream: None)
    for over in (mr, rmm.mr.StatisticsResourceAdaptor(mr)):
        with pytest.raises(caught, match="mine") as found:
            rmm.DeviceBuffer(size=10, mr=over)
        assert isinstance(found.value, raised) or isinstance(found.value.__cause__, raised)


def test_keys_of_the_user_pass_through(rmm):
    def allocate(nbytes, stream):
        raise KeyboardInterrupt

    mr = rmm.mr.CallbackMemoryResource(allocate, lambda ptr, nbytes, stream: None)
    with pytest.raises(KeyboardInterrupt):
        mr.allocate(10)


def test_no_address_is_no_memory(rmm):
    mr = rmm.mr.CallbackMemoryResource(lambda nbytes, stream: 0, lambda ptr, nbytes, stream: None)
    with pytest.raises(MemoryError):
        mr.allocate(10)


@pytest.mark.parametrize("failures", [1, 99])
def test_a_failure_at_the_end_of_a_buffer_is_tried_again_or_reported(rmm, failures):
    below = rmm.mr.CudaMemoryResource()
    asked = []

    def deallocate(ptr, nbytes, stream):
        asked.append(ptr)
        if len(asked) <= failures:
            raise KeyError("not now")
        below.deallocate(ptr, nbytes, stream)

    mr = rmm.mr.CallbackMemoryResource(below.allocate, deallocate)
    buffer = rmm.DeviceBuffer(size=10, mr=mr)
    ptr = buffer.ptr
    with unraisable() as reported:
        del buffer
        assert eventually(lambda: reported or below.resource.live_buffers == 0)
    assert set(asked) == {ptr}
    if failures == 1:
        assert (len(asked), reported) == (2, [])
    else:
        assert any("not now" in each for each in reported)
        below.deallocate(ptr, 10)


def test_resources_and_their_functions_end(rmm):
    import weakref

    class Functions:
        def __init__(self) -> None:
            self.below = rmm.mr.CudaMemoryResource()

        def allocate(self, nbytes, stream):
            return self.below.allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream):
            self.below.deallocate(ptr, nbytes, stream)

    functions = Functions()
    mr = rmm.mr.BinningMemoryResource(rmm.mr.CallbackMemoryResource(functions.allocate, functions.deallocate), 8, 10)
    assert round_trip(rmm, mr, 300)
    seen = weakref.ref(functions), weakref.ref(mr)
    del functions, mr
    gc.collect()
    assert [each() for each in seen] == [None, None]


def test_a_callback_makes_room(rmm):
    limited = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 1000)
    cache = [rmm.DeviceBuffer(size=400, mr=limited) for _ in range(2)]
    asked = []

    def make_room(nbytes):
        asked.append(nbytes)
        if cache:
            cache.pop()
            return True
        return False

    mr = rmm.mr.FailureCallbackResourceAdaptor(limited, make_room)
    buffer = rmm.DeviceBuffer(size=900, mr=mr)
    assert (buffer.size, asked, cache) == (900, [900, 900], [])
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=200, mr=mr)
    assert asked == [900, 900, 200]


def test_a_callback_is_asked_about_a_programs_own_failure_too(rmm):
    def allocate(nbytes, stream):
        raise MemoryError("none left")

    def callback(nbytes):
        raise KeyError(f"asked for {nbytes}")

    failing = rmm.mr.CallbackMemoryResource(allocate, lambda ptr, nbytes, stream: None)
    with pytest.raises(RuntimeError, match="asked for 256"):
        rmm.mr.FailureCallbackResourceAdaptor(failing, callback).allocate(256)


def test_a_limit(rmm):
    mr = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), allocation_limit=MIB)
    assert mr.get_allocation_limit() == MIB
    buffers = [rmm.DeviceBuffer(size=MIB // 2, mr=mr) for _ in range(2)]
    assert mr.get_allocated_bytes() == MIB
    with pytest.raises(MemoryError):
        mr.allocate(1)
    del buffers
    assert mr.get_allocated_bytes() == 0


def test_tracking_tells_what_is_out_and_where(rmm, caplog):
    mr = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource(), capture_stacks=True)
    plain = rmm.mr.TrackingResourceAdaptor(mr)
    first, second = rmm.DeviceBuffer(size=1000, mr=plain), rmm.DeviceBuffer(size=10, mr=mr)
    assert (mr.get_allocated_bytes(), plain.get_allocated_bytes()) == (1010, 1000)
    assert plain.get_outstanding_allocations_str() == f"{first.ptr:#x}: 1000 B\n"
    text = mr.get_outstanding_allocations_str()
    assert f"{second.ptr:#x}: 10 B : " in text
    assert text.count("test_rmm_resources.py:") == text.count("\n") == 2
    mr.log_outstanding_allocations()
    assert not caplog.records
    rmm.set_logging_level(rmm.level_enum.debug)
    mr.log_outstanding_allocations()
    assert text in caplog.records[-1].message
    del first, second
    assert (mr.get_outstanding_allocations_str(), mr.get_allocated_bytes()) == ("", 0)


@pytest.mark.usefixtures("migrating")
def test_prefetched_managed_memory(rmm, device):
    mr = rmm.mr.PrefetchResourceAdaptor(rmm.mr.ManagedMemoryResource())
    buffer = rmm.DeviceBuffer(size=4096, mr=mr)
    device.synchronize()
    assert buffer.buffer.range_attribute("last_prefetch_location") == device.ordinal


@pytest.mark.usefixtures("driver_pools")
def test_a_driver_pool_begins_with_memory_at_hand(rmm):
    mr = rmm.mr.CudaAsyncMemoryResource(initial_pool_size="2MiB", release_threshold=1 << 30)
    assert mr.resource.reserved >= 2 * MIB
    assert mr.resource.release_threshold == 1 << 30
    assert mr.pool_handle() == mr.resource.pool_handle != 0
    assert round_trip(rmm, mr)


@pytest.mark.usefixtures("driver_pools")
def test_a_driver_pool_of_another_library(rmm, pm):
    class Handle:
        def __init__(self, number):
            self.number = number

        def __int__(self):
            return self.number

    owner = pm.AsyncMemoryResource()
    mr = rmm.mr.CudaAsyncViewMemoryResource(Handle(owner.pool_handle))
    assert mr.pool_handle() == owner.pool_handle
    assert round_trip(rmm, mr)
    kept = rmm.DeviceBuffer(size=100, mr=mr)
    assert owner.used >= 100
    assert kept.size == 100
    for wrong in (None, "pool", 1.5, True, 0):
        with pytest.raises(ValueError, match="pool_handle is the handle of a memory pool"):
            rmm.mr.CudaAsyncViewMemoryResource(wrong)


@pytest.mark.parametrize("flag", ["enable_ipc", "enable_fabric"])
def test_pools_for_other_processes_are_refused(rmm, flag):
    with pytest.raises(RuntimeError, match=r"Requested IPC memory handle type not supported$"):
        rmm.mr.CudaAsyncMemoryResource(**{flag: True})


def test_managed_memory_in_stream_order(rmm):
    mr = rmm.mr.experimental.CudaAsyncManagedMemoryResource()
    assert (mr.resource.kind, mr.resource.is_stream_ordered) == ("managed", True)
    assert round_trip(rmm, mr)
    with pytest.raises(RuntimeError, match="no handle"):
        mr.pool_handle()


@pytest.mark.host_only
def test_system_memory_where_the_device_reaches_it():
    code = """
        import portamem.compat.rmm as rmm
        capacity = rmm.mr.available_device_memory()[0]
        def where(headroom, size=4096):
            buffer = rmm.DeviceBuffer(size=size, mr=rmm.mr.SamHeadroomMemoryResource(headroom))
            buffer.copy_from_host(b"abc")
            assert buffer.tobytes()[:3] == b"abc"
            return buffer.buffer.range_attribute("preferred_location")
        plain = rmm.mr.SystemMemoryResource()
        buffer = rmm.DeviceBuffer(size=10, mr=plain)
        buffer.copy_from_host(b"plain text")
        print(plain.resource.kind, bytes(buffer).decode())
        print(where(1 << 20), where(2 * capacity), where(capacity - 4096, 8192))
        buffer.prefetch()
    """
    found = python_output(code, PORTAMEM_HOST_MODEL="apu", PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None)
    assert found.split() == ["system", "plain", "text", "0", "host", "None"]


@pytest.mark.host_only
def test_system_memory_where_the_device_does_not():
    code = """
        import portamem.compat.rmm as rmm
        for make in (rmm.mr.SystemMemoryResource, lambda: rmm.mr.SamHeadroomMemoryResource(headroom=1 << 20)):
            try:
                make()
            except RuntimeError as error:
                print(error)
    """
    done = run_python(code, PORTAMEM_HOST_MODEL="discrete", PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None)
    assert done.stdout.count("does not reach system memory") == 2, done
