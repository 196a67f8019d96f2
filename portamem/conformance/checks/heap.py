# SPDX-License-Identifier: MIT
"""Shows the clauses of the device heap. A process settles it once, so that each check has one of its own."""

from __future__ import annotations

from typing import Any

from portamem import Error
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import NoWitness
from portamem.conformance.witness import HeapReport, Witness, WitnessMissing, witness_for

REFUSED = (Error, ValueError, TypeError, BufferError)


def _need_limit(env: Env) -> None:
    env.need(env.device.capabilities.malloc_heap_kind == "limit", 'malloc_heap_kind == "limit"')


def _expect_clean(report: HeapReport, asked: int, what: str) -> None:
    expect_equal(report, HeapReport(asked, 0, 0, 0), what)


def _load(kernels: Witness) -> None:
    expect_equal(kernels.load_heap(), None, "the error of loading kernels that use the heap")


def _sizes(env: Env, witness: Witness) -> set[int]:
    """The values of the limit that portamem, the runtime and the runtime's second interface tell."""
    theirs = (witness.limit("malloc_heap_size"), witness.driver_limit("malloc_heap_size"))
    return {env.device.malloc_heap_size, *(size for size in theirs if size is not None)}


@check("HEAP-01", own_process=True)
def the_limit_is_the_runtimes(env: Env, witness: Witness) -> None:
    sizes = _sizes(env, witness)
    expect_equal(len(sizes), 1, f"the number of answers, {sizes},")


@check("HEAP-01", own_process=True)
def the_limit_is_set(env: Env, witness: Witness) -> None:
    def sizes() -> set[int]:
        return _sizes(env, witness)

    _need_limit(env)
    expect_equal(len(sizes()), 1, f"the number of answers, {sizes()},")
    expect(min(sizes()) >= 8 * MIB, f"the limit is {sizes()} at first")
    for nbytes in (32 * MIB, 9 * MIB):
        env.device.malloc_heap_size = nbytes
        expect(min(sizes()) >= nbytes and len(sizes()) == 1, f"{nbytes} were set, and {sizes()} are told")
    expect_equal(witness.set_limit("malloc_heap_size", 12 * MIB), None, "the error of the witness's own setting")
    expect(min(sizes()) >= 12 * MIB and len(sizes()) == 1, f"the witness set 12 MiB, and {sizes()} are told")


@check("HEAP-02", own_process=True)
def the_limit_is_settled_by_the_first_kernel(env: Env) -> None:
    _need_limit(env)
    env.device.malloc_heap_size = 10 * MIB
    settled = env.device.malloc_heap_size
    kernels = env.kernels  # loaded now, and none of them uses the heap
    env.device.malloc_heap_size = settled
    _load(kernels)
    for nbytes in (20 * MIB, 9 * MIB):
        with refused(Error, name="InvalidValue"):
            env.device.malloc_heap_size = nbytes
    expect_equal(env.device.malloc_heap_size, settled, "the limit")
    expect_equal(kernels.limit("malloc_heap_size"), settled, "the limit as the witness reads it")
    _expect_clean(kernels.heap_per_thread(env.stream().handle, 4, 32, 100), 128, "a kernel afterwards")


@check("HEAP-03", own_process=True)
def every_thread_allocates(env: Env, kernels: Witness) -> None:
    stream = env.stream().handle
    for seed, nbytes in enumerate((1, 16, 100, 4097)):
        _expect_clean(kernels.heap_per_thread(stream, 8, 64, nbytes, seed=seed), 512, f"{nbytes} bytes for each thread")


@check("HEAP-04", own_process=True)
def one_thread_allocates_for_its_block(env: Env, kernels: Witness) -> None:
    stream = env.stream().handle
    for seed, nbytes in enumerate((1, 100, 1000)):
        report = kernels.heap_per_block(stream, 16, 64, nbytes, seed=seed)
        _expect_clean(report, 16, f"{nbytes} bytes for each thread of a block")


@check("HEAP-05", own_process=True)
def memory_stays_across_kernels(env: Env, kernels: Witness) -> None:
    stream, other = env.stream().handle, env.stream().handle
    with kernels.heap_keep(stream, 16, 32, 5000) as kept:
        _expect_clean(kept.allocated, 16, "the kernel that allocated")
        for turn in range(3):
            _expect_clean(kept.use(), 0, f"use {turn} by another kernel")
            _expect_clean(kernels.heap_per_thread(other, 4, 32, 500), 128, "a kernel that allocates beside it")
    _expect_clean(kernels.heap_per_thread(stream, 4, 32, 500), 128, "a kernel after all was freed")


@check("HEAP-06", own_process=True)
def memset_and_memcpy_in_kernels(env: Env, kernels: Witness) -> None:
    stream = env.stream().handle
    for seed, nbytes in enumerate((1, 333, 4096)):
        report = kernels.heap_memcpy_memset(stream, 4, 32, nbytes, seed=seed)
        _expect_clean(report, 256, f"copies of {nbytes} bytes")


@check("HEAP-07", own_process=True)
def what_does_not_fit_is_null(env: Env, kernels: Witness) -> None:
    stream, nbytes, blocks = env.stream(), 1 << 16, 64
    bounded = env.device.capabilities.malloc_heap_kind == "limit"
    if bounded:
        blocks = 4 * env.device.malloc_heap_size // nbytes
    with env.resource("device").allocate(1000) as memory:
        data = pattern(1000)
        env.write(memory, data)
        for turn in range(3):
            with kernels.heap_keep(stream.handle, blocks, 32, nbytes) as kept:
                made = kept.allocated
                expect(made.null > 0 or not bounded, "four times the heap was allocated")
                expect(made.null < blocks, f"turn {turn}: nothing could be allocated")
                expect_equal(sum(address != 0 for address in kept.addresses), blocks - made.null, "what was allocated")
                expect_equal((made.misaligned, made.mismatches), (0, 0), "what is wrong with it")
                _expect_clean(kept.use(), 0, "its use")
        expect_equal(kernels.heap_per_thread(stream.handle, 1, 1, 1 << 50), HeapReport(1, 1, 0, 0), "a PiB")
        _expect_clean(kernels.heap_per_thread(stream.handle, 4, 32, 100), 128, "a kernel afterwards")
        expect_equal(env.read(memory), data, "plain memory")


@check("HEAP-08", own_process=True)
def larger_alignments(env: Env, kernels: Witness) -> None:
    env.need(kernels.has_aligned_heap, "an aligned malloc of kernels")
    stream = env.stream().handle
    for align in (16, 64, 256, 4096):
        _expect_clean(kernels.heap_per_thread(stream, 4, 32, 200, align=align), 128, f"threads aligned to {align}")
        _expect_clean(kernels.heap_per_block(stream, 4, 32, 50, align=align), 4, f"blocks aligned to {align}")


def _expect_bounded(env: Env, kernels: Witness, limit: int) -> None:
    """Kernels that ask for twice the heap get a good part of it, and NULL for the rest."""
    expect_equal(_sizes(env, kernels), {limit}, "the limit, as each tells it")
    expect(limit >= 8 * MIB, f"the runtime made a limit of {limit} of it")
    stream, nbytes = env.stream(), max(64 * KIB, limit >> 10)  # one thread writes each
    blocks = 2 * limit // nbytes
    with kernels.heap_keep(stream.handle, blocks, 32, nbytes) as kept:
        made = kept.allocated
        got = (blocks - made.null) * nbytes
        expect(4 * got >= limit, f"kernels got {got} bytes of a heap of {limit}")
        expect(made.null > 0, f"kernels got all of {blocks * nbytes} bytes from a heap of {limit}")
        expect_equal((made.misaligned, made.mismatches), (0, 0), "what is wrong with it")
        _expect_clean(kept.use(), 0, "its use")
    env.note(f"{got} bytes of a heap of {limit} were allocated at once")


@check("HEAP-09", exclusive=True)
def a_heap_that_there_is_no_memory_for(env: Env, kernels: Witness) -> None:
    _need_limit(env)
    stream, resource = env.stream(), env.resource("device")
    on_cpu = env.platform.backend == "host"
    with resource.allocate(4096) as memory, resource.allocate(MIB) as more, kernels.counter() as wrong:
        for each in (memory, more):
            each.fill(9, stream=stream)
        free, total = kernels.memory_info()
        before, asked = env.device.malloc_heap_size, f"asked for {total} bytes with {free} free"
        try:
            env.device.malloc_heap_size = total
        except Error as error:
            env.note(f"{asked}: the limit was refused: {error.name}")
            expect(error.code != 0 and str(error), "the refusal says nothing")
            expect(not on_cpu, f"a limit that the device could have is refused: {error}")
            expect_equal(_sizes(env, kernels), {before}, "the limit after one was refused")
            _load(kernels)
            _expect_clean(kernels.heap_per_thread(stream.handle, 4, 32, 100), 128, "a kernel that uses the heap")
        else:
            failed, limit = kernels.load_heap(), env.device.malloc_heap_size
            left = kernels.memory_info()[0]
            env.note(f"{asked}: the limit is {limit}, loading answers {failed or 'Success'}, and then {left} are free")
            if on_cpu:
                expect_equal(failed, "OutOfMemory", "the error of loading kernels whose heap there is no memory for")
                env.device.malloc_heap_size = 8 * MIB
                _load(kernels)
                limit = env.device.malloc_heap_size
                expect_equal(limit, 8 * MIB, "the limit that was asked for then")
            if on_cpu or not failed:
                _expect_bounded(env, kernels, limit)
        for each in (memory, more):
            kernels.verify_value(stream.handle, each.handle, each.nbytes, 9, wrong)
        expect_equal(wrong.read(), 0, "the number of wrong bytes that a kernel sees afterwards")
        memory.fill(8, stream=stream)
        expect_equal(env.read(memory), b"\x08" * 4096, "memory that is used afterwards")


@check("HEAP-10", own_process=True)
def the_host_takes_no_address_of_the_heap(env: Env, kernels: Witness) -> None:
    stream, resource = env.stream(), env.resource("device")
    with kernels.heap_keep(stream.handle, 2, 32, 8192) as kept, resource.allocate(64) as plain:
        address = kept.addresses[0]
        expect(kernels.pointer(address).kind in ("unregistered", "device"), "the runtime takes it for the host's")
        expect_equal(env.pm.pointer_info(address).kind, kernels.pointer(address).kind, "the kind of such an address")

        def memory() -> Any:
            return env.pm.Buffer.from_handle(address, 64)

        with refused(*REFUSED):
            memory().fill(1, stream=stream).synchronize()
        with refused(*REFUSED) as told:
            memory().fill(1)
        if kernels.pointer(address).kind == "unregistered":
            expect("heap of kernels" in str(told.error), f"the refusal does not say what that is: {told.error}")
        with refused(*REFUSED):
            env.pm.copy(bytearray(64), memory())
        with refused(*REFUSED):
            env.pm.copy(memory(), bytes(64))
        with refused(*REFUSED):
            env.pm.copy(plain, memory(), stream=stream).synchronize()
        with refused(*REFUSED):
            bytes(memoryview(memory()))
        with refused(*REFUSED):
            resource.deallocate(address, 64)
        with refused(*REFUSED):
            env.pm.HostRegistration(memory())
        _expect_clean(kept.use(), 0, "the memory there")
        plain.fill(3)
        expect_equal(env.read(plain), b"\3" * 64, "plain memory")


@check("HEAP-11", own_process=True)
def each_device_has_its_own(env: Env, kernels: Witness) -> None:
    _need_limit(env)
    other = env.other_device
    try:
        theirs = witness_for(env.pm.backend, other.ordinal)
    except WitnessMissing as missing:
        raise NoWitness(f"no witness: {missing}") from None
    env.device.malloc_heap_size = 9 * MIB
    _load(kernels)
    other.malloc_heap_size = 40 * MIB
    expect(theirs.limit("malloc_heap_size") >= 40 * MIB, "the other device's limit was not set")
    here, there = env.stream().handle, env.stream(other).handle
    _expect_clean(theirs.heap_per_block(there, 1, 2, 12 * MIB), 1, "24 MiB on the device whose limit is 40 MiB")
    expect_equal(kernels.heap_per_block(here, 1, 2, 12 * MIB).null, 1, "NULLs of 24 MiB where the limit is 9 MiB")
