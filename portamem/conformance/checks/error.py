# SPDX-License-Identifier: MIT
"""Shows the clauses of errors and recovery."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.outcome import Failed, NotShown, NoWitness
from portamem.errors import Error, OutOfMemoryError

TOO_MUCH = 2**50
NOWHERE = 0x1000


@contextmanager
def failing_calls(env: Env) -> Iterator[dict[str, Callable[[], object]]]:
    """Calls that the runtime refuses, and that leave nothing behind, by their names."""
    plain, device = env.resource("device"), env.device
    with plain.allocate(64):  # so that the resource has something out
        yield {
            "Free": lambda: plain.deallocate(NOWHERE, 64),
            "Malloc": lambda: plain.allocate(TOO_MUCH),
            "DeviceEnablePeerAccess": lambda: device.enable_peer_access(device),
        }


@check("ERROR-01")
def what_an_error_says(env: Env) -> None:
    expect(issubclass(Error, RuntimeError), "portamem.Error is no RuntimeError")
    with failing_calls(env) as calls:
        for call, fails in calls.items():
            with refused(Error) as refusal:
                fails()
            error: Any = refusal.error
            expect_equal((error.call, error.backend), (call, env.pm.backend), "call and backend")
            expect(isinstance(error.code, int) and error.code > 0, f"code is {error.code!r}")
            for word in (error.backend, error.call, error.name, str(error.code)):
                expect(word in str(error), f"{word!r} is not in the text: {error}")


@check("ERROR-02")
def names_of_errors(env: Env) -> None:
    stream = env.stream()
    with failing_calls(env) as calls:
        for call, name, code in (("Free", "InvalidValue", 1), ("Malloc", "OutOfMemory", 2)):
            with refused(Error, name=name) as refusal:
                calls[call]()
            expect_equal(getattr(refusal.error, "code", None), code, f"the code of {name}")
    with env.pm.Event(env.device, timing=True) as start, env.pm.Event(env.device, timing=True) as end:
        start.record(stream)
        with env.latch(stream):
            end.record(stream)
            with refused(Error, name="NotReady") as refusal:
                start.elapsed_time(end)
            expect_equal(getattr(refusal.error, "code", None), 600, "the code of NotReady")
        stream.synchronize()


@check("ERROR-03")
def out_of_memory_by_each_name(env: Env, resource: Any) -> None:
    for error in (OutOfMemoryError, MemoryError, Error, RuntimeError):
        with refused(error, saying="OutOfMemory") as refusal:
            env.allocate(resource, TOO_MUCH)
        expect(type(refusal.error) is OutOfMemoryError, f"a {type(refusal.error).__name__} was raised")
    with refused(Error, saying="InvalidValue") as refusal, env.allocate(env.resource("device"), 64) as buf:
        buf.resource.deallocate(NOWHERE, 64)
    expect(not isinstance(refusal.error, MemoryError), "an error that is about no memory is a MemoryError")


@check("ERROR-04")
def figures_of_out_of_memory(env: Env) -> None:
    plain, device = env.resource("device"), env.device
    with plain.allocate(3 * MIB), refused(OutOfMemoryError) as refusal:
        plain.allocate(TOO_MUCH)
    error: Any = refusal.error
    total = device.memory_info().total
    expect_equal((error.asked, error.cached), (TOO_MUCH, None), "asked and cached")
    expect_equal(error.used, env.pm.held(device) + 3 * MIB, "used")
    expect(0 < error.free < total, f"free is {error.free} of {total}")
    expect(0 <= error.used_by_others <= total - error.free, f"used_by_others is {error.used_by_others}")
    for word in ("1024 TiB", "free", "hold", "others", "close"):
        expect(word in str(error), f"{word!r} is not in the text: {error}")
    stream = env.stream()
    with env.pm.PoolMemoryResource(plain) as pool:  # memory that a pool keeps is no buffer
        pool.allocate(5 * MIB, stream=stream).close()
        with pool.allocate(100, stream=stream):
            held, kept = env.pm.held(device), pool.stats().reserved - pool.stats().used
            with refused(OutOfMemoryError, saying="trim()") as refusal:
                plain.allocate(TOO_MUCH)
        stream.synchronize()
    error = refusal.error
    expect(0 <= error.used <= held - kept, f"{error.used} bytes are used, where a pool keeps {kept} of {held}")
    with refused(OutOfMemoryError) as refusal:
        env.resource("pinned").allocate(TOO_MUCH)
    error = refusal.error
    expect_equal((error.asked, error.free), (TOO_MUCH, None), "asked and free of host memory")


def _error_of_a_pool(pool: Any, stream: Any, advice: str) -> Any:
    with refused(OutOfMemoryError, saying=advice) as refusal:
        pool.allocate(TOO_MUCH, stream=stream)
    error: Any = refusal.error
    expect_equal((error.asked, error.cached), (TOO_MUCH, pool.reserved - pool.used), "asked and cached")
    expect("cached in this resource" in str(error), f"what is cached is not in the text: {error}")
    return error


@check("ERROR-04")
def figures_of_a_pool_without_memory(env: Env) -> None:
    _error_of_a_pool(env.resource("async"), env.stream(), "ask for less at a time")


@check("ERROR-04")
def figures_of_a_pool_with_memory_that_is_cached(env: Env) -> None:
    pool, stream = env.resource("async"), env.stream()
    pool.allocate(8 * MIB, stream=stream).close()
    stream.synchronize()
    error = _error_of_a_pool(pool, stream, "trim()")
    expect(error.cached >= 8 * MIB, f"cached is {error.cached} after 8 MiB were given back")


@check("ERROR-05")
def after_a_refused_allocation(env: Env, resource: Any) -> None:
    held = env.pm.held(env.device), env.pm.held("host")
    with env.allocate(resource, NBYTES) as kept:
        env.write(kept, NEW)
        for turn in range(3):
            with refused(OutOfMemoryError):
                env.allocate(resource, TOO_MUCH)
            expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes")
            with env.allocate(resource, MIB) as buf:
                env.write(buf, pattern(MIB, turn))
                expect_bytes(env.read(buf), pattern(MIB, turn), "memory that was allocated after a refusal")
        expect_bytes(env.read(kept), NEW, "memory from before a refusal")
    if not env.kind_of(resource).keeps:
        expect_equal((env.pm.held(env.device), env.pm.held("host")), held, "what portamem holds")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")


def _ask_for_more_than_is_free(env: Env, resource: Any) -> None:
    """Asks with half of the device's memory taken for three quarters of it, which are more than can be free whatever
    others take or give back meanwhile. A runtime sees only while it takes memory that this is too much, and has to give
    back what it got; a request beyond the device's size it refuses at once."""
    device = env.device
    if device.capabilities.integrated:
        raise NotShown("the memory of an integrated device is the machine's: others may end for lack of it")
    total = device.memory_info().total
    with ExitStack() as taken:
        try:
            taken.enter_context(env.resource("device").allocate(total // 2))
        except OutOfMemoryError:
            raise NotShown("others have half of the device's memory") from None
        kept = taken.enter_context(env.allocate(resource, NBYTES))
        env.write(kept, NEW)
        before, left = env.pm.held(device), device.memory_info().free // 2
        if left < 2 * MIB:
            raise NotShown("others have nearly all of the device's memory")
        for turn in range(2):
            try:
                env.allocate(resource, total // 4 * 3).close()
            except OutOfMemoryError:
                pass
            else:
                raise NotShown("the runtime gives more device memory than there is")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes")
            expect(env.pm.held(device) <= before, "portamem holds more than before a refusal")
            try:
                buf = env.allocate(resource, left)
            except OutOfMemoryError as error:
                raise Failed(f"half of what was free is not to be had after a refused allocation: {error}") from None
            with buf, buf[:MIB] as start, buf[left - MIB :] as end:
                for seed, part in enumerate((start, end), 2 * turn):
                    env.write(part, pattern(MIB, seed))
                    expect_bytes(env.read(part), pattern(MIB, seed), "memory that was allocated after a refusal")
        expect_bytes(env.read(kept), NEW, "memory from before a refusal")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")


@check("ERROR-05", exclusive=True)
def after_more_than_is_free(env: Env) -> None:
    _ask_for_more_than_is_free(env, env.resource("device"))


@check("ERROR-05", exclusive=True)
def after_more_than_is_free_of_a_pool(env: Env) -> None:
    for name in ("async", "async-default_pool"):
        pool = env.resource(name)
        _ask_for_more_than_is_free(env, pool)
        env.device.synchronize()
        pool.trim()  # the next one would lack the memory that it keeps


@check("ERROR-06")
def an_error_does_not_come_back(env: Env) -> None:
    stream = env.stream()
    with failing_calls(env) as calls, env.allocate(env.resource("device"), NBYTES, stream) as buf:
        for value, fails in enumerate(calls.values()):
            for _ in range(3):
                with refused(Error):
                    fails()
            with stream.record() as mark:
                mark.synchronize()
            buf.fill(value, stream=stream)
            stream.synchronize()
            env.device.synchronize()
            expect(stream.query(), "a stream that was waited for is not done")
            expect_bytes(env.read(buf), bytes([value]) * NBYTES, "memory that was filled after an error")


@check("ERROR-15")
def the_last_error_is_clean(env: Env, witness: Any) -> None:
    if witness.last_error() is None:
        raise NoWitness(f"{witness.name} cannot see the last error of portamem's runtime")
    stream = env.stream()
    with failing_calls(env) as calls:
        for call, fails in calls.items():
            with refused(Error):
                fails()
            expect_equal(witness.last_error(), 0, f"the last error after a refused {call}")
    with env.latch(stream):
        expect(not stream.query(), "a stream that is held is done")
        expect(not stream.record().query(), "an event behind a latch is done")
        expect_equal(witness.last_error(), 0, "the last error after asking what is not ready")


@check("ERROR-07")
def misuse_is_no_error_of_the_runtime(env: Env, resource: Any) -> None:
    pm, other = env.pm, env.resource("device")
    stream = env.stream()
    closed = resource.allocate(64, stream=stream)
    closed.close()
    with resource.allocate(64, stream=stream) as buf, other.allocate(32) as small:
        buf.fill(5)
        misuse: tuple[tuple[type[BaseException], Callable[[], object]], ...] = (
            (ValueError, lambda: resource.allocate(-1, stream=stream)),
            (ValueError, lambda: resource.allocate("64 miles", stream=stream)),
            (ValueError, lambda: resource.allocate(2**63, stream=stream)),
            (TypeError, lambda: resource.allocate(1.5, stream=stream)),
            (TypeError, lambda: resource.allocate(None, stream=stream)),
            (TypeError, lambda: resource.allocate(64, stream=3)),
            (ValueError, lambda: buf.fill(256)),
            (ValueError, lambda: buf.fill(-1)),
            (TypeError, lambda: buf.fill("x")),
            (ValueError, lambda: pm.copy(buf, small)),
            (ValueError, lambda: pm.copy(buf, bytes(65))),
            (ValueError, lambda: pm.copy(buf, buf)),
            (ValueError, lambda: closed.fill(1)),
            (ValueError, lambda: pm.copy(buf, closed)),
            (BufferError, lambda: resource.close()),
        )
        for error, call in misuse:
            with refused(error) as refusal:
                call()
            expect(not isinstance(refusal.error, Error), f"misuse is told as the runtime's: {refusal.error}")
        with buf[:8], refused(BufferError):
            buf.close()
        expect_bytes(env.read(buf), b"\x05" * 64, "memory after misuse")
        expect_equal((resource.live_buffers, resource.is_closed), (1, False), "live buffers, and whether it is closed")


@check("ERROR-09")
def errors_can_be_pickled(env: Env) -> None:
    with failing_calls(env) as calls:
        for fails in calls.values():
            with refused(Error) as refusal:
                fails()
            error = refusal.error
            for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                expect_equal(type(again), type(error), "the type of an error's copy")
                expect_equal((str(again), vars(again)), (str(error), vars(error)), "what a copy knows")
