# SPDX-License-Identifier: MIT
"""Shows that resources compose: what one over another says, keeps alive, refuses and leaves behind."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern
from portamem.conformance.kit.outcome import Failed

NBYTES = 64 * 1024
SAME = ("kind", "device", "device_id", "backend", "is_host_accessible", "is_device_accessible")


def _over(env: Env, resource: Any, upstream: Any) -> Any:
    """One like a resource, over another upstream."""
    make = env.kind_of(resource).over
    if make is None:
        raise Failed(f"{resource!r} stands over nothing")
    return make(env.pm, upstream)


@check("RESOURCE-01")
def it_says_what_its_upstream_says(env: Env, resource: Any) -> None:
    upstream = resource.upstream
    expect(isinstance(upstream, env.pm.MemoryResource), f"the upstream is {upstream!r}")
    for name in SAME:
        expect_equal(getattr(resource, name), getattr(upstream, name), name)
    kind = env.kind_of(resource)
    expect_equal(resource.is_stream_ordered, kind.stream_ordered, "is_stream_ordered")
    if kind.cls.endswith("Adaptor"):
        expect_equal(resource.is_stream_ordered, upstream.is_stream_ordered, "is_stream_ordered")
    with env.allocate(resource, NBYTES) as buf, env.allocate(upstream, NBYTES) as other:
        for name in SAME:
            expect_equal(getattr(buf, name), getattr(other, name), f"{name} of a buffer")
        info, theirs = env.pm.pointer_info(buf), env.pm.pointer_info(other)
        expect_equal((info.kind, info.device_id), (theirs.kind, theirs.device_id), "what the runtime says")
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "its memory")


@check("RESOURCE-02")
def it_keeps_its_upstream(env: Env, resource: Any) -> None:
    expect(resource.upstream is resource.upstream, "the upstream is another object each time")
    kind = env.kind_of(resource)
    made = kind.make(env.pm, env.device)  # only it holds the resource below
    alive = weakref.ref(made.upstream)
    gc.collect()
    buf = env.allocate(made, NBYTES)
    del made
    gc.collect()
    env.write(buf, pattern(NBYTES))
    expect_bytes(env.read(buf), pattern(NBYTES), "memory whose resources nobody holds but it")
    expect(not buf.resource.upstream.is_closed, "an upstream was closed that is in use")
    buf.close()
    del buf
    gc.collect()
    expect(alive() is None, "the upstream is kept after all that stood over it is gone")


@check("RESOURCE-03")
def it_closes_alone(env: Env, resource: Any) -> None:
    upstream = resource.upstream
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(1)
        with refused(BufferError, saying="1 live"):
            resource.close()
    resource.close()
    expect_equal((resource.is_closed, upstream.is_closed), (True, False), "is_closed, of both")
    expect_equal((upstream.live_buffers, upstream.live_bytes), (0, 0), "what the upstream has out")
    with env.allocate(upstream, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "memory of an upstream after what stood over it was closed")
    upstream.close()
    expect(upstream.is_closed, "the upstream is open")


@check("RESOURCE-03")
def two_share_an_upstream(env: Env, resource: Any) -> None:
    with (
        _over(env, resource, resource.upstream) as other,
        env.allocate(resource, NBYTES) as mine,
        env.allocate(other, NBYTES) as theirs,
    ):
        env.write(mine, pattern(NBYTES, 1))
        env.write(theirs, pattern(NBYTES, 2))
        expect_bytes(env.read(mine), pattern(NBYTES, 1), "memory of one of two over an upstream")
        expect_bytes(env.read(theirs), pattern(NBYTES, 2), "memory of the other")
        expect_equal((resource.live_buffers, other.live_buffers), (1, 1), "live buffers of both")
        theirs.close()
        expect_equal((resource.live_buffers, other.live_buffers), (1, 0), "live buffers of both, after a close")


@check("RESOURCE-04")
def an_upstream_that_is_in_use_stays_open(env: Env, resource: Any) -> None:
    upstream = resource.upstream
    with env.allocate(resource, NBYTES) as buf:
        with refused(BufferError, saying="live"):
            upstream.close()
        expect(not upstream.is_closed, "an upstream is closed whose memory is in use")
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "memory whose upstream refused to close")


@check("RESOURCE-04")
def an_upstream_that_was_closed(env: Env, resource: Any) -> None:
    resource.upstream.close()
    for nbytes in (NBYTES, 0):
        if nbytes == 0 and env.kind_of(resource).keeps:
            continue  # nothing needs no memory
        with refused(ValueError, saying="the upstream resource is closed"):
            env.allocate(resource, nbytes)
        expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after a refusal")
    expect(not resource.is_closed, "the resource is closed with its upstream")
    resource.close()


@check("RESOURCE-05")
def upstreams_that_are_none(env: Env, resource: Any) -> None:
    closed = env.pm.DeviceMemoryResource(env.device)
    closed.close()
    with refused(ValueError, saying="closed"):
        _over(env, resource, closed)
    for strange in (42, "device", env.device):
        with refused(TypeError):
            _over(env, resource, strange)
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(3)
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "memory of one that was made before")
