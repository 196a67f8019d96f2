# SPDX-License-Identifier: MIT
"""Shows the clauses of producers that offer DLPack's C exchange table."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from portamem.conformance.checks.own_dlpack import NBYTES
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import Producer, TableProducer, with_table
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern


def _of(cls: Any, array: Any, **fields: Any) -> Any:
    return cls(array.ctypes.data, array.shape, memory=array, **fields)


@check("OWN-34")
def a_table_is_used(env: Env) -> None:
    array = np.arange(24, dtype=np.float32)
    theirs = _of(with_table(), array)
    view = env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (1, []), "calls of the table and of __dlpack__")
    expect_equal((view.handle, view.shape, view.dtype), (array.ctypes.data, (24,), "float32"), "the View")
    view.fill(0)
    expect(not array.any(), "a fill of the View is not seen by the producer")
    expect_equal(theirs.deleted, [], "calls of the deleter while the View lives")
    del view
    gc.collect()
    expect_equal(len(theirs.deleted), 1, "calls of the deleter")
    target = bytearray(96)
    with env.resource("pinned").allocate(96) as buffer:
        buffer.copy_from(_of(with_table(), np.full(24, 7, np.float32)))
        env.pm.copy(target, buffer)
    expect_equal(bytes(target), np.full(24, 7, np.float32).tobytes(), "what was copied from a producer with a table")


@check("OWN-34")
def the_producers_stream_is_waited_for(env: Env) -> None:
    kind = "device" if env.pm.backend != "host" else "pinned"
    stream, theirs_on = env.stream(), env.stream()
    with env.resource(kind).allocate(NBYTES) as buf, buf.view("float32", (32, 32)) as ours:
        cls = with_table()
        cls.on = theirs_on.handle
        device = ours.__dlpack_device__() if env.pm.backend != "host" else (1, 0)
        theirs = cls(buf.handle, (32, 32), memory=ours, device=device)
        with env.latch(theirs_on) as held:
            buf.fill(3, stream=theirs_on)
            if env.pm.backend != "host":  # the host's memory has no stream
                view = env.pm.from_dlpack(theirs, stream=stream)
                expect(not stream.query(), "the named stream does not wait for the producer's")
                del view
            held.release_soon()
            view = env.pm.from_dlpack(theirs)
            if env.pm.backend != "host":
                expect(theirs_on.query(), "without a stream the memory is not there on return")
            theirs_on.synchronize()
            expect_bytes(env.read(view), b"\x03" * NBYTES, "memory of a producer with a table")
            del view
            gc.collect()


@check("OWN-34")
def what_a_table_cannot_do_is_asked_of_the_object(env: Env) -> None:
    class NeedsGradients(TableProducer):
        requires_grad = True

    class Answers(TableProducer):
        requires_grad = False
        says = ""

        def is_conj(self) -> bool:
            return self.says == "conj"

        def is_neg(self) -> bool:
            return self.says == "neg"

    class Conjugate(Answers):
        says = "conj"

    class Negative(Answers):
        says = "neg"

    class Overrides(with_table()):  # type: ignore[misc]  # a class made at run time
        def __dlpack__(self, **keywords: Any) -> object:
            return Producer.__dlpack__(self, **keywords)

    array = np.arange(24, dtype=np.float32)
    by_object = [with_table(cls) for cls in (NeedsGradients, Conjugate)]
    by_object += [Overrides, with_table(version=(2, 0)), with_table(from_object=None), with_table(current_stream=None)]
    for cls in by_object:
        theirs = _of(cls, array)
        view = env.pm.from_dlpack(theirs)
        expect_equal((theirs.table_calls, len(theirs.calls)), (0, 1), "calls of the table and of __dlpack__")
        expect_equal(view.handle, array.ctypes.data, "the View's address")
        del view
        gc.collect()
    theirs = _of(with_table(Negative), array)
    with refused(BufferError, saying="negative view"):
        env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (0, []), "calls for a negative view")
    theirs = _of(with_table(Answers), array)
    view = env.pm.from_dlpack(theirs)
    expect_equal((theirs.table_calls, theirs.calls), (1, []), "calls for an object that is nothing but its memory")
    del view
    gc.collect()


@check("OWN-34")
def a_table_that_fails(env: Env) -> None:
    array = np.frombuffer(pattern(96), np.float32).copy()
    theirs = _of(with_table(), array)
    theirs.gives_nothing = True
    with refused(BufferError, saying="no tensor"):
        env.pm.from_dlpack(theirs)
    theirs = _of(with_table(), array)
    theirs.fails = True
    view = env.pm.from_dlpack(theirs)
    expect_equal(
        (view.handle, len(theirs.calls)), (array.ctypes.data, 1), "what __dlpack__ gave after the table failed"
    )
    del view
    gc.collect()
    newer = _of(with_table(), array, version=(2, 0))
    with refused(BufferError, saying="DLPack 2.0"):
        env.pm.from_dlpack(newer)
    gc.collect()
    expect_equal(len(newer.deleted), 1, "calls of the deleter of what was refused")
    malformed = _of(with_table(), array, byte_offset=1)
    with refused(BufferError):
        env.pm.from_dlpack(malformed)
    gc.collect()
    expect_equal(len(malformed.deleted), 1, "calls of the deleter of what was malformed")
