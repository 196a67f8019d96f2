# SPDX-License-Identifier: MIT
"""Shows the clauses of stream order that are about other threads, and about kernels of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portamem.conformance.checks.order_memory import expect_filled
from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.threads import on_a_thread


@check("ORDER-24")
def a_threads_own_stream_is_its_own(env: Env) -> None:
    device = env.device
    expect_equal(device.per_thread_stream, device.per_thread_stream, "this thread's stream")
    theirs = on_a_thread(lambda: device.per_thread_stream)
    expect(theirs.identity != device.per_thread_stream.identity, "two threads have one per-thread stream")
    with env.allocate(env.resource("device"), 256) as buf:
        uses: tuple[Callable[[], object], ...] = (
            lambda: theirs.handle,
            lambda: theirs.synchronize(),
            lambda: theirs.query(),
            lambda: theirs.record(),
            lambda: theirs.wait(env.device.default_stream),
            lambda: theirs.launch_host_func(lambda: None),
            lambda: theirs.begin_capture(),
            lambda: buf.fill(1, stream=theirs),
            lambda: buf.record_stream(theirs),
        )
        for use in uses:
            with refused(ValueError):
                use()


@check("ORDER-24")
def another_thread_may_wait_for_it(env: Env) -> None:
    stream = env.stream()
    with env.allocate(env.resource("device"), NBYTES) as buf:

        def queue() -> tuple[Any, Any]:
            own = env.device.per_thread_stream
            held = env.latch(own)
            buf.fill(7, stream=own)
            return own, held

        theirs, held = on_a_thread(queue)
        held.release_soon()
        stream.wait(theirs)
        stream.synchronize()
        expect_bytes(env.read(buf), b"\x07" * NBYTES, "memory that another thread filled on its own stream")


@check("ORDER-25")
def memory_of_another_threads_stream_goes_back_behind_it(env: Env, resource: Any) -> None:
    stream = env.stream()

    def queue() -> tuple[Any, Any]:
        own = env.device.per_thread_stream
        buf = resource.allocate(NBYTES, stream=own)
        held = env.latch(own)
        buf.fill(0xAA, stream=own)
        return buf, held

    buf, held = on_a_thread(queue)
    held.release_soon()
    buf.close()
    other = resource.allocate(NBYTES, stream=stream)
    other.fill(0x11, stream=stream)
    env.device.synchronize()
    expect_filled(env, [other], 0x11, "memory that came from another thread's stream")


@check("ORDER-28")
def kernels_are_in_stream_order(env: Env, resource: Any, kernels: Any) -> None:
    env.need(resource.is_device_accessible, "pageable_memory_access")
    stream, seed = env.stream(), 7
    with resource.allocate(NBYTES, stream=stream) as buf, kernels.counter() as wrong:
        buf.fill(0x5A, stream=stream)
        kernels.verify_value(stream.handle, buf.handle, NBYTES, 0x5A, into=wrong)
        kernels.fill(stream.handle, buf.handle, NBYTES, seed)
        kernels.verify(stream.handle, buf.handle, NBYTES, seed, into=wrong)
        buf.fill(0x11, stream=stream)
        kernels.verify_value(stream.handle, buf.handle, NBYTES, 0x11, into=wrong)
        stream.synchronize()
        expect_equal(wrong.read(), 0, "the number of bytes that kernels saw wrong")


@check("ORDER-28")
def a_kernel_of_a_declared_stream_keeps_its_memory(env: Env, resource: Any, kernels: Any) -> None:
    env.need(resource.is_device_accessible, "pageable_memory_access")
    home, user, third = env.stream(), env.stream(), env.stream()
    buf = resource.allocate(NBYTES, stream=home)
    home.synchronize()
    buf.record_stream(user)
    with kernels.counter() as wrong:
        with kernels.latch(user.handle) as latch:
            kernels.fill(user.handle, buf.handle, NBYTES, 3)
            buf.close()
            others = [resource.allocate(NBYTES, stream=stream) for stream in (home, third)]
            for other, stream in zip(others, (home, third), strict=True):
                other.fill(2, stream=stream)
            latch.release()
        for stream in (user, home, third):
            stream.synchronize()
        for other, stream in zip(others, (home, third), strict=True):
            kernels.verify_value(stream.handle, other.handle, NBYTES, 2, into=wrong)
        expect_equal(wrong.read(), 0, "the number of bytes that a kernel wrote into others' memory")
    for other in others:
        other.close()
