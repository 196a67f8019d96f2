# SPDX-License-Identifier: MIT
"""Shows the clauses of the devices as which DLPack tensors go out, of copies, and of the order of both."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from portamem.conformance.checks.own_dlpack import NBYTES, has_device, natural_device, types_of
from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import CPU, Taken
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern


@check("OWN-21")
def every_device_that_the_memory_is(env: Env, resource: Any) -> None:
    types = types_of(env)
    with env.allocate(resource, NBYTES) as buf, buf.view("uint8") as view:
        env.write(buf, pattern(NBYTES))
        devices = view._dlpack_devices()
        expect_equal((CPU, 0) in devices, buf.is_host_accessible, "whether the CPU is among its devices")
        if env.pm.backend != "host":
            own = (types["device"], env.ordinal)
            expect_equal(own in devices, buf.is_device_accessible, "whether the device is among its devices")
        for each in devices:
            for copy in (None, False):
                pair = list(each) if copy is None else each  # C consumers give tuples, others what they have
                taken = Taken(view.__dlpack__(dl_device=pair, copy=copy, max_version=(1, 0)))
                expect_equal((taken.tensor.device.type, taken.tensor.device.id), each, "the tensor's device")
                expect_equal(taken.managed.flags, 0, "flags of memory that was not copied")
                with env.pm.Buffer.from_handle(taken.tensor.data, NBYTES, device=env.device) as same:
                    expect_bytes(env.read(same), pattern(NBYTES), f"the memory as device {each}")
                taken.delete()
        with env.pm.Buffer.from_handle(buf.handle, NBYTES, device=env.device) as same, same.view() as foreign:
            if foreign.is_host_accessible == buf.is_host_accessible:  # of a pool's own, the host keeps away everywhere
                expect_equal(foreign._dlpack_devices(), devices, "the devices of the same memory as somebody else's")
        for wanted in ((0, 0), (4, 0), (14, 0), (999, 0), (1, 7), (1, (1 << 31) - 1), ((1 << 31) - 1, 0)):
            for copy in (None, False, True):
                with refused(BufferError, saying=f"DLPack device {wanted[0]}, {wanted[1]})") as refusal:
                    view.__dlpack__(dl_device=wanted, copy=copy)
                expect("Without a copy it is" in str(refusal.error), f"it is not told what it is: {refusal.error}")
        expect_equal(buf.exports, 1, "exports after refusals")


@check("OWN-21")
def copies_for_the_cpu(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    with env.allocate(resource, NBYTES) as buf, buf.view("int16", (64, 32)) as view:
        env.write(buf, data)
        if not buf.is_host_accessible:
            with refused(BufferError, saying="copy=False"):
                view.__dlpack__(dl_device=(CPU, 0), copy=False)
        for copy in (None, True):
            array = np.from_dlpack(view, device="cpu", copy=copy)
            expect_equal((array.shape, array.dtype), ((64, 32), np.int16), "NumPy's array")
            expect_bytes(array.tobytes(), data, "its bytes")
            copied = copy or not buf.is_host_accessible
            expect_equal(buf.exports, 1 if copied else 2, "exports")
            if copied:
                buf.fill(0)
                expect_bytes(array.tobytes(), data, "a copy after the source was written")
                env.write(buf, data)
            del array


@check("OWN-22")
def copies_are_other_memory(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf, buf.view("float32") as view:
        env.write(buf, pattern(NBYTES))
        if not has_device(env, buf):
            with refused(BufferError, saying="to_numpy"):
                view.__dlpack__(copy=True)
            return
        device = view.__dlpack_device__()
        numbers = [None, -1] if device[0] != types_of(env)["device"] or device[0] == CPU else [None, -1, stream.handle]
        for number in numbers:
            taken = Taken(view.__dlpack__(stream=number, copy=True, max_version=(1, 0)))
            expect_equal(taken.managed.flags, dlpack.IS_COPIED, "flags")
            expect_equal((taken.tensor.device.type, taken.tensor.device.id), natural_device(env, buf), "its device")
            expect(taken.tensor.data != view.handle, "the copy is the same memory")
            expect_equal((buf.exports, buf.resource.live_buffers), (1, 2), "exports and live buffers under a copy")
            env.device.synchronize()
            with env.pm.Buffer.from_handle(taken.tensor.data, NBYTES, device=env.device) as copied:
                expect_bytes(env.read(copied), pattern(NBYTES), "the copy")
                buf.fill(0)
                expect_bytes(env.read(copied), pattern(NBYTES), "the copy after the source was written")
            env.write(buf, pattern(NBYTES))
            taken.delete()
            # Work of the consumer's may use it still, on a stream that portamem does not see: it goes behind that.
            expect(eventually(lambda: resource.live_buffers == 1), "the copy did not go back")


@check("OWN-22")
def copies_of_memory_of_others(env: Env, resource: Any) -> None:
    """There is no resource to give the copy: it comes from one of the kind that DLPack names."""
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        with env.pm.Buffer.from_handle(buf.handle, NBYTES, device=env.device) as foreign, foreign.view() as view:
            if not has_device(env, foreign):
                with refused(BufferError, saying="to_numpy"):
                    view.__dlpack__(copy=True)
            else:
                taken = Taken(view.__dlpack__(copy=True, max_version=(1, 0)))
                expect_equal(taken.managed.flags, dlpack.IS_COPIED, "flags")
                expect_equal((taken.tensor.device.type, taken.tensor.device.id), natural_device(env, buf), "its device")
                env.device.synchronize()
                with env.pm.Buffer.from_handle(taken.tensor.data, NBYTES, device=env.device) as copied:
                    expect_bytes(env.read(copied), pattern(NBYTES), "the copy")
                taken.delete()
            array = np.from_dlpack(view, device="cpu", copy=True)
            expect_bytes(array.tobytes(), pattern(NBYTES), "a copy on the CPU")
            del array
        expect_equal(resource.live_buffers, 1, "live buffers")


@check("OWN-23")
def the_host_waits(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.resource("device").allocate(NBYTES) as source, env.allocate(resource, NBYTES) as buf, buf.view() as view:
        source.fill(9)
        buf.fill(0)
        held = env.latch(stream)
        buf.copy_from(source, stream=stream)
        quick = Taken(view.__dlpack__(stream=-1, dl_device=(CPU, 0)))
        expect_bytes(ctypes.string_at(quick.tensor.data, NBYTES), bytes(NBYTES), "the memory for who waits for nothing")
        held.release_soon()
        array = np.from_dlpack(view)
        expect_bytes(array.tobytes(), b"\x09" * NBYTES, "the memory for who does wait")
        quick.delete()
        del array
    _a_copy_waits_too(env, stream)


def _a_copy_waits_too(env: Env, stream: Any) -> None:
    with env.resource("device").allocate(NBYTES) as buf, buf.view() as view:
        buf.fill(0)
        held = env.latch(stream)
        buf.fill(9, stream=stream)
        held.release_soon()
        array = np.from_dlpack(view, device="cpu")
        expect_bytes(array.tobytes(), b"\x09" * NBYTES, "a copy on the CPU")
        del array


@check("OWN-23")
def a_view_may_be_closed_meanwhile(env: Env, resource: Any) -> None:
    """An export that waits holds the memory already."""
    stream = env.stream()
    with env.resource("device").allocate(NBYTES) as source, env.allocate(resource, NBYTES) as buf:
        source.fill(9)
        view = buf.view()
        held = env.latch(stream)
        buf.copy_from(source, stream=stream)
        taken: list[Taken] = []
        exporter = threading.Thread(target=lambda: taken.append(Taken(view.__dlpack__())))
        exporter.start()
        expect(eventually(lambda: buf.exports > 1), "the export does not hold the memory while it waits")
        view.close()
        held.release()
        exporter.join()
        expect_bytes(ctypes.string_at(taken[0].tensor.data, NBYTES), b"\x09" * NBYTES, "the memory")
        expect_equal(buf.exports, 1, "exports")
        taken[0].delete()


@check("OWN-24")
def a_stream_waits(env: Env) -> None:
    """Copies from a driver's pool only: other memory may be allocated when the device has nothing to do."""
    stream, theirs = env.stream(), env.stream()
    for kind, copy in (("device", False), ("managed", False), ("pinned", False), ("async", False), ("async", True)):
        if kind == "managed" and env.device.capabilities.managed_mode == "none":
            continue
        if kind == "async" and not env.device.capabilities.memory_pools:
            continue
        target = env.resource("device" if kind == "pinned" else "pinned").allocate(NBYTES)
        with target, env.allocate(env.resource(kind), NBYTES, stream) as buf, buf.view() as view:
            buf.fill(0, stream=stream)
            target.fill(0)
            held = env.latch(stream)
            buf.fill(9, stream=stream)
            taken = Taken(view.__dlpack__(stream=theirs.handle, copy=copy, max_version=(1, 0)))
            with env.pm.Buffer.from_handle(taken.tensor.data, NBYTES, device=env.device, stream=theirs) as borrowed:
                target.copy_from(borrowed, stream=theirs)
                expect(not theirs.query(), f"the consumer's stream does not wait for work on {kind} memory")
                held.release()
                theirs.synchronize()
                expect_bytes(env.read(target), b"\x09" * NBYTES, f"{kind} memory as the consumer's stream saw it")
            taken.delete()
