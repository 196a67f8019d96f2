# SPDX-License-Identifier: MIT
"""Shows the clauses of devices: how they are told apart, which is current, what they have."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import portamem
from portamem import Error
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kinds import KINDS
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import NoWitness
from portamem.conformance.witness.base import Witness

NBYTES = 64 * KIB


@check("DEVICE-01")
def ordinals(env: Env) -> None:
    count = env.pm.device_count()
    expect_equal([device.ordinal for device in env.pm.devices()], list(range(count)), "the ordinals of devices()")
    for ordinal in range(count):
        expect_equal(env.pm.Device(ordinal).ordinal, ordinal, "the ordinal")
    for wrong in (-1, count, count + 7, 2**31, 2**70, -(2**70)):
        with refused(ValueError, saying=f"there are {count}"):
            env.pm.Device(wrong)
    for nothing in ("0", "gpu", 0.0, True, b"0", [0]):
        with refused(TypeError, saying="a device is"):
            env.pm.Device(nothing)


@check("DEVICE-01")
def counted_by_backends_too(env: Env) -> None:
    state = portamem.backends()[env.pm.backend]
    expect_equal((state.is_ready, state.loadable, state.built), (True, True, True), "is_ready, loadable, built")
    expect_equal((state.device_count, state.reason), (env.pm.device_count(), None), "device_count and reason")
    expect_equal(state.compiled_version, env.pm.version_text(env.pm.compiled_version()), "compiled_version")
    expect_equal(state.runtime_version, env.pm.version_text(env.pm.runtime_version()), "runtime_version")


@check("DEVICE-01")
def ordinals_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    expect_equal(env.pm.device_count(), witness.device_count(), "the number of devices")


@check("DEVICE-02")
def a_value(env: Env) -> None:
    devices, again = env.pm.devices(), env.pm.devices()
    for device, same in zip(devices, again, strict=True):
        expect(device == same and hash(device) == hash(same), "one ordinal made two devices")
        expect_equal(env.pm.Device(device), device, "the device of a device")
        expect_equal((int(device), list(range(len(devices)))[device]), (device.ordinal, device.ordinal), "as an index")
        expect_equal(device.backend, env.pm.backend, "backend")
        expect_equal(repr(device), f"portamem.{env.pm.backend}.Device({device.ordinal})", "the repr")
        expect(device != device.ordinal and device != "0", "a device is equal to what is none")
    expect_equal(len(set(devices)), len(devices), "the number of different devices")


@check("DEVICE-03")
def the_current_one(env: Env) -> None:
    expect_equal(env.pm.Device(), env.pm.Device.current(), "Device()")
    before = env.pm.Device.current()
    seen: list[Any] = []

    def other_thread() -> None:
        for device in reversed(env.pm.devices()):
            device.set_current()
            seen.append((env.pm.Device.current(), env.pm.Device()))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    expect_equal(seen, [(device, device) for device in reversed(env.pm.devices())], "what another thread made current")
    expect_equal(env.pm.Device.current(), before, "the current device of this thread")


@check("DEVICE-03")
def the_current_one_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    before = env.pm.Device.current()
    try:
        for device in env.pm.devices():
            device.set_current()
            expect_equal(witness.current_device(), device.ordinal, "the runtime's current device")
    finally:
        before.set_current()


UUIDS = "print(*(device.uuid for device in pm.devices()))"


@check("DEVICE-04")
def uuids(env: Env) -> None:
    found = [device.uuid for device in env.pm.devices()]
    for uuid in found:
        expect(re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", uuid), f"{uuid!r} is not written as usual")
        expect(set(uuid) - set("0-"), "a uuid is of zeros")
    expect_equal(len(set(found)), len(found), "the number of different uuids")
    expect_equal([device.uuid for device in env.pm.devices()], found, "the uuids, asked again")
    expect_equal(env.output(UUIDS).split(), found, "the uuids in another process")


@check("DEVICE-04")
def its_uuid_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    expect_equal(env.device.uuid.replace("-", ""), witness.uuid(), "the uuid, which the witness sees too,")


@check("DEVICE-05")
def where_it_is(env: Env) -> None:
    for device in env.pm.devices():
        where = device.pci_bus_id
        expect(re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", where), f"{where!r} is not an address")
        try:
            node = int(Path(f"/sys/bus/pci/devices/{where}/numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            node = -1
        expect_equal(device.numa_node, node if node >= 0 else None, "numa_node")
    addresses = {device.pci_bus_id for device in env.pm.devices()}
    expect(len(addresses) <= env.pm.device_count() and "" not in addresses, "there are addresses of no device")


@check("DEVICE-05")
def where_it_is_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    expect_equal(env.device.pci_bus_id, witness.pci_address(), "the PCI address, which the witness sees too,")


@check("DEVICE-06")
def what_it_is(env: Env) -> None:
    for device in env.pm.devices():
        able = device.capabilities
        expect(device.name.strip() and device.arch.strip(), "it has no name or no architecture")
        expect(able.multi_processor_count > 0 and able.warp_size > 0, "it has no multiprocessors or no warps")
        if device.arch.startswith("sm_"):
            major, minor = able.compute_capability
            expect_equal(device.arch, f"sm_{major}{minor}", "the architecture")


@check("DEVICE-06")
def what_it_is_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    able = env.device.capabilities
    for name, ours in (
        ("multi_processor_count", able.multi_processor_count),
        ("warp_size", able.warp_size),
        ("compute_capability_major", able.compute_capability[0]),
        ("compute_capability_minor", able.compute_capability[1]),
    ):
        expect_equal(ours, witness.device_attribute(name), name)


@check("DEVICE-07")
def memory_is_counted(env: Env) -> None:
    before = env.device.memory_info()
    expect(0 < before.free <= before.total, f"{before.free} of {before.total} bytes are free")
    expect(env.pm.backend in before.source and "MemGetInfo" in before.source, f"the source is {before.source!r}")
    expect_equal(before.held, env.pm.held(env.device), "held")
    expect_equal(env.pm.held(), env.pm.held(env.pm.Device.current()), "held() of the current device")
    on_host = env.pm.held("host")
    with env.allocate(env.resource("device"), 3 * MIB + 1) as buf, env.allocate(env.resource("pinned"), 5000) as pinned:
        buf.fill(1)
        pinned.fill(1)
        now = env.device.memory_info()
        expect_equal(now.held, before.held + 3 * MIB + 1, "held with a buffer out")
        expect_equal(env.pm.held(env.device), now.held, "held() with a buffer out")
        expect_equal(env.pm.held("host"), on_host + 5000, "held('host') with a pinned buffer out")
        expect_equal(now.total, before.total, "total")
        for figure in (now.free, now.total, now.held):
            expect(str(figure) in repr(now), f"{figure} is not in {now!r}")
    back = eventually(lambda: env.device.memory_info().held == before.held and env.pm.held("host") == on_host)
    expect(back, "held counts what was closed")


@check("DEVICE-07")
def memory_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    differed = 0

    def compared() -> bool:
        nonlocal differed
        before = witness.memory_info()
        info = env.device.memory_info()
        expect_equal(info.total, before[1], "total")
        expect(0 <= info.free <= info.total, f"{info.free} of {info.total} bytes are free")
        if witness.memory_info() != before:
            return False
        # Another process that takes memory and gives it back meanwhile makes one answer differ, and hardly three in a
        # row.
        differed = 0 if info.free == before[0] else differed + 1
        if differed == 3:
            expect_equal(info.free, before[0], "free")
        return differed == 0

    # Others may use the device: what counts is an answer between two that agree.
    if not eventually(compared):
        raise NoWitness(f"free memory was not compared: {witness.name} has told another figure at each try")


@check("DEVICE-24")
def on_the_device_that_was_named(env: Env) -> None:
    other = env.other_device
    env.device.set_current()
    with env.pm.DeviceMemoryResource(other) as resource, resource.allocate(NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        expect_equal((resource.device, resource.device_id), (other, other.ordinal), "the resource's device")
        expect_equal((buf.device, buf.device_id), (other, other.ordinal), "the buffer's device")
        expect_equal(env.pm.pointer_info(buf).device_id, other.ordinal, "the pointer's device")
        expect_bytes(env.read(buf), pattern(NBYTES), "its bytes")
        expect(env.pm.held(other) >= NBYTES, "it is counted for another device")
    stream, event = env.stream(other), env.pm.Event(other)
    expect_equal((stream.device, event.device), (other, other), "the devices of a stream and of an event")
    event.close()


@check("DEVICE-24")
def on_that_device_as_the_witness_sees_it(env: Env) -> None:
    from portamem.conformance.witness import WitnessMissing, witness_for

    other = env.other_device
    try:
        witness = witness_for(env.pm.backend, other.ordinal)
    except WitnessMissing as missing:
        raise NoWitness(f"no witness: {missing}") from None
    env.decided_by = witness.name
    env.device.set_current()
    with env.pm.DeviceMemoryResource(other) as resource, resource.allocate(NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        expect_equal(witness.pointer(buf.handle).device_id, other.ordinal, "the runtime's device of the memory")
        expect_bytes(witness.read(buf.handle, NBYTES), pattern(NBYTES), "its bytes")


@check("DEVICE-23")
def the_current_device_is_left_alone(env: Env) -> None:
    other = env.other_device
    env.device.set_current()
    stream = env.stream(other)
    for name, kind in KINDS.items():
        if kind.needs(other.capabilities):
            _use(env, env.resource(name, other), stream)
    other.memory_info()
    other.limit("malloc_heap_size")
    other.synchronize()
    _ = (other.name, other.uuid, other.capabilities, other.quirks, other.stream_priority_range, other.probe())
    expect_equal(env.pm.Device.current(), env.device, "the current device after asking another")


def _use(env: Env, resource: Any, stream: Any) -> None:
    """Uses a resource of a device that is not current, and looks after each step which is."""

    def still(what: str) -> None:
        expect_equal(env.pm.Device.current(), env.device, f"the current device after {what} ({resource.kind})")

    with env.pm.Event(stream.device) as event, env.allocate(resource, NBYTES, stream) as buf:
        still("allocating")
        with env.allocate(resource, NBYTES, stream) as target:
            buf.fill(7, stream=stream)
            target.copy_from(buf, stream=stream)
            still("a fill and a copy")
            stream.record(event)
            stream.wait(event)
            event.synchronize()
            stream.synchronize()
            still("recording, waiting and synchronizing")
            expect_bytes(env.read(target), b"\x07" * NBYTES, "what was copied there")
            target.close(stream=stream)
        env.pm.pointer_info(buf)
        still("closing and asking for a pointer")
    stream.synchronize()
    still("all of it")


@check("DEVICE-25")
def peers(env: Env) -> None:
    for device in env.pm.devices():
        expect(not device.can_access_peer(device), "a device is its own peer")
        reached = [peer.ordinal for peer in env.pm.devices() if device.can_access_peer(peer)]
        expect_equal(device.capabilities.peers, tuple(reached), "the peers among the capabilities")
    other = env.other_device
    env.need(env.device.can_access_peer(other), "access to the other device")
    env.device.enable_peer_access(other)
    try:
        with refused(Error, name="PeerAccessAlreadyEnabled") as refusal:
            env.device.enable_peer_access(other)
        expect_equal(getattr(refusal.error, "code", 0), 704, "the code")
        with env.pm.DeviceMemoryResource(other) as there, there.allocate(NBYTES) as far:
            env.write(far, pattern(NBYTES))
            with env.allocate(env.resource("device"), NBYTES) as near:
                near.copy_from(far)
                expect_bytes(env.read(near), pattern(NBYTES), "a copy between the devices")
    finally:
        env.device.disable_peer_access(other)
    with refused(Error, name="PeerAccessNotEnabled") as refusal:
        env.device.disable_peer_access(other)
    expect_equal(getattr(refusal.error, "code", 0), 705, "the code")


@check("DEVICE-25")
def peers_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    other = env.other_device
    expect_equal(env.device.can_access_peer(other), witness.can_access_peer(other.ordinal), "can_access_peer")


class Stranger:
    """A device of a backend that there is none of."""

    backend = "abacus"
    ordinal = 0


@check("DEVICE-26")
def of_another_backend(env: Env) -> None:
    for use in (env.pm.Device, env.pm.Stream, env.pm.DeviceMemoryResource, env.device.can_access_peer):
        with refused(TypeError, saying="abacus"):
            use(Stranger())
    with env.allocate(env.resource("device"), NBYTES) as buf, refused(TypeError, saying=env.pm.backend):
        env.pm.Buffer.from_handle(buf.handle, NBYTES, device=Stranger())


@check("DEVICE-26")
def of_another_device(env: Env) -> None:
    other = env.other_device
    stream = env.stream(other)
    for name in ("async", "async-default_pool"):
        resource = env.resource(name)
        with refused(ValueError, saying=f"device {other.ordinal}"):
            resource.allocate(NBYTES, stream=stream)
        with env.allocate(resource, NBYTES) as buf:
            env.write(buf, pattern(NBYTES))
            with refused(ValueError, saying=f"device {other.ordinal}"):
                buf.close(stream=stream)
            expect_equal((buf.is_closed, resource.live_buffers), (False, 1), "is_closed and live buffers")
            expect_bytes(env.read(buf), pattern(NBYTES), "memory after what was refused")


@check("DEVICE-26")
def handles_of_another_devices_streams(env: Env) -> None:
    other = env.other_device
    theirs = env.stream(other)
    for words in ({}, {"owner": theirs}, {"ends_announced": True}):
        with refused(ValueError, saying=f"device {other.ordinal}, not of device {env.device.ordinal}"):
            env.pm.Stream.from_handle(theirs.handle, device=env.device, **words)
        for named in ({}, {"device": other}):
            found = env.pm.Stream.from_handle(theirs.handle, **named, **words)
            expect_equal(found.device, other, "the stream's device")
    if env.pm.backend != "host":  # where DLPack has streams, any stream can wait for the memory
        with env.allocate(env.resource("device"), NBYTES) as buf:
            buf.view().__dlpack__(stream=theirs.handle)
    theirs.synchronize()


@check("DEVICE-26")
def memory_of_another_device(env: Env) -> None:
    other = env.other_device
    with env.allocate(env.resource("device", other), NBYTES) as buf:
        with refused(ValueError, saying=f"device {other.ordinal}, not on device {env.device.ordinal}"):
            env.pm.Buffer.from_handle(buf.handle, NBYTES, device=env.device)
        for named in ({}, {"device": other}, {"stream": env.stream()}):
            with env.pm.Buffer.from_handle(buf.handle, NBYTES, **named) as seen:
                expect_equal(seen.device, other, "the device of its memory")
    with (
        env.allocate(env.resource("pinned", other), NBYTES) as pinned,
        env.pm.Buffer.from_handle(pinned.handle, NBYTES, device=env.device) as seen,
    ):
        expect_equal(seen.device, env.device, "the device that was named for memory of the host")


@check("DEVICE-26")
def events_of_another_device(env: Env) -> None:
    other = env.other_device
    here, there = env.pm.Event(env.device, timing=True), env.pm.Event(other, timing=True)
    ours, theirs = env.stream(), env.stream(other)
    calls: tuple[Callable[[], object], ...] = (
        lambda: here.record(theirs),
        lambda: theirs.record(here),
        lambda: there.record(ours),
        lambda: here.record(other.default_stream),
        lambda: here.elapsed_time(there),
    )
    for event, stream in ((here, ours), (there, theirs)):
        event.record(stream)
        event.synchronize()
    for call in calls:
        with refused(ValueError, saying=f"device {other.ordinal}"):
            call()
    ours.wait(there)  # which both vendors allow
    ours.synchronize()
    expect(here.query() and here.elapsed_time(here) == 0, "an event after refusals")


@check("DEVICE-27")
def versions(env: Env) -> None:
    pm = env.pm
    for number in (pm.compiled_version(), pm.runtime_version(), pm.driver_version()):
        expect(number > 0, "a version is not known")
        expect(re.match(r"\d+\.\d+", pm.version_text(number)), f"{pm.version_text(number)!r} is no version")
    compiled, runtime = (
        pm.version_text(number).split(".")[0] for number in (pm.compiled_version(), pm.runtime_version())
    )
    if (pm.backend, env.platform.vendor) != ("hip", "nvidia"):  # there the runtime is CUDA's, the headers are HIP's
        expect_equal(runtime, compiled, "the runtime's major version beside that of the headers")
    count, code, text = pm.probe()
    expect_equal((count, code, type(text)), (pm.device_count(), 0, str), "what probe() answers")
