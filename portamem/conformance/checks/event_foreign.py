# SPDX-License-Identifier: MIT
"""Shows the clauses of other libraries' streams."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.threads import on_a_thread


class Foreign:
    """A stream as another library gives it, with ``__cuda_stream__``."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __cuda_stream__(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@check("EVENT-07")
def every_call_takes_a_foreign_stream(env: Env) -> None:
    stream = env.stream()
    expect_equal(stream.__cuda_stream__(), (0, stream.handle), "__cuda_stream__ of a stream")
    foreign = Foreign((0, stream.handle))
    plain, pinned = env.resource("device"), env.resource("pinned")
    with plain.allocate(4096, stream=foreign) as buf, pinned.allocate(4096) as target, env.pm.Event(env.device) as mark:
        with env.latch(stream) as held:
            filled = buf.fill(3, stream=foreign)
            copied = env.pm.copy(target, buf, stream=foreign)
            flat = env.pm.copy_2d(target, buf, width=64, height=64, dst_pitch=64, src_pitch=64, stream=foreign)
            deep = env.pm.copy_3d(target, buf, width=16, height=16, depth=16, stream=foreign)
            buf.record_stream(foreign)
            mark.record(foreign)
            for each in (filled, copied, flat, deep, mark):
                expect(not each.query(), "work on a foreign stream is not on that stream")
            held.release()
            mark.synchronize()
        expect_bytes(env.read(target), b"\x03" * 4096, "the target of a copy on a foreign stream")
        buf.close(stream=foreign)


@check("EVENT-07")
def a_wrapped_stream(env: Env) -> None:
    stream = env.stream()
    foreign = Foreign((0, stream.handle))
    alive = weakref.ref(foreign)
    wrapped = env.pm.Stream.wrap(foreign)
    expect_equal((wrapped.handle, wrapped.device), (stream.handle, env.device), "handle and device")
    expect(env.pm.Stream.wrap(stream) is stream, "wrapping a stream of portamem makes another")
    del foreign
    gc.collect()
    expect(alive() is not None, "a foreign stream was let go of before the Stream")
    wrapped.close()
    stream.synchronize()
    del wrapped
    gc.collect()
    expect(alive() is None, "a foreign stream is kept after the Stream is gone")


@check("EVENT-08")
def what_is_no_stream(env: Env) -> None:
    handle = env.stream().handle
    with env.allocate(env.resource("device"), 64) as buf:
        for number in (0, 1, handle):
            with refused(TypeError, saying="from_handle"):
                env.pm.Stream.wrap(number)
            with refused(TypeError, saying="from_handle"):
                buf.fill(0, stream=number)
        for wrong in ("stream", 1.5, object(), b""):
            with refused(TypeError, saying="__cuda_stream__"):
                buf.fill(0, stream=wrong)
        with refused(TypeError, saying="version 1"):
            buf.fill(0, stream=Foreign((1, handle)))
        for nonsense in (None, 7, (0,), (0, "x"), (0, 1, 2)):
            with refused(TypeError, ValueError):
                buf.fill(0, stream=Foreign(nonsense))
        with refused(KeyError, saying="mine"):
            buf.fill(0, stream=Foreign(KeyError("mine")))


@check("EVENT-09")
def a_foreign_default_stream(env: Env) -> None:
    for handle in (0, 1):
        wrapped = env.pm.Stream.wrap(Foreign((0, handle)))
        expect_equal(wrapped, env.pm.Device.current().default_stream, f"the stream of a foreign {handle}")
        wrapped.synchronize()
    own = Foreign((0, 2))

    def identity() -> Any:
        wrapped = env.pm.Stream.wrap(own)
        wrapped.synchronize()
        return wrapped.identity

    expect_equal(identity(), env.pm.Device.current().per_thread_stream.identity, "the identity of a foreign 2")
    expect(on_a_thread(identity) != identity(), "a foreign 2 is one stream on two threads")


@check("EVENT-09")
def a_foreign_default_stream_of_any_device(env: Env) -> None:
    foreign, before = Foreign((0, 0)), env.pm.Device.current()
    try:
        for device in (env.device, env.other_device, env.device):
            device.set_current()
            expect_equal(env.pm.Stream.wrap(foreign).device, device, "the device of a foreign 0")
    finally:
        before.set_current()
