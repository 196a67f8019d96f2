# SPDX-License-Identifier: MIT
"""Shows the clause of arguments."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused


@check("ALLOC-21")
def arguments_go_by_their_names(env: Env, resource: Any) -> None:
    stream = env.stream()
    with resource.allocate(nbytes=16, stream=stream) as buf:
        expect_equal((buf.nbytes, buf.stream), (16, stream), "nbytes and stream")
        buf.fill(value=3, stream=stream)
        with refused(TypeError, saying="positional"):
            buf.close(stream)
        with refused(TypeError, saying="unexpected keyword argument 'on'"):
            buf.close(on=stream)
        with refused(TypeError):
            buf.fill(3, stream)
        expect_bytes(env.read(buf), b"\x03" * 16, "the memory after refusals")
        keywords = {"".join(("str", "eam")): stream}  # another object than the name in the code
        buf.close(**keywords)
        expect(buf.is_closed, "the buffer is open")
    expect_equal(resource.live_buffers, 0, "live buffers")


@check("ALLOC-21")
def wrong_arguments_are_refused(env: Env, resource: Any) -> None:
    stream = env.stream()
    with refused(TypeError, saying="nbytes"):
        resource.allocate()
    with refused(TypeError, saying="nbytes"):
        resource.allocate(stream=stream)
    with refused(TypeError, saying="positional"):
        resource.allocate(1, stream)
    with refused(TypeError, saying="unexpected keyword argument 'size'"):
        resource.allocate(size=1, stream=stream)
    with refused(TypeError, saying="twice"):
        resource.allocate(1, nbytes=1, stream=stream)
    with refused(TypeError, saying="not str"):
        resource.allocate(1, stream="stream")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after refusals")
    with resource.allocate(16, stream=stream) as buf:
        buf.fill(1)
        expect_bytes(env.read(buf), b"\x01" * 16, "the memory")
