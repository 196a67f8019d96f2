# SPDX-License-Identifier: MIT
"""Shows the clauses of pinned memory."""

from __future__ import annotations

from itertools import product
from typing import Any

from portamem import Error
from portamem.conformance.checks.error_injected import failing
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kernel_words import Words
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.base import Witness

NBYTES = 64 * KIB
FLAGS = [
    dict(zip(("portable", "mapped", "write_combined"), on, strict=True)) for on in product((False, True), repeat=3)
]
WRITE_COMBINED = 4
"""A bit in the flags that ``pointer_info`` tells, and in the vendors'."""
NOT_SUPPORTED, UNKNOWN = 801, 999
"""Codes of the CPU runtime."""


@check("PINNED-01")
def one_memory_for_both(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, env.allocate(env.resource("device"), NBYTES) as far:
        with memoryview(buf) as seen:
            seen[:] = pattern(NBYTES, 1)
        far.copy_from(buf)
        expect_bytes(env.read(far), pattern(NBYTES, 1), "what the device read of the host's writes")
        buf.fill(0x5A)
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), b"\x5a" * NBYTES, "what the host read of the device's fill")
        env.write(far, pattern(NBYTES, 2))
        far.copy_to(buf)
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), pattern(NBYTES, 2), "what the host read of the device's copy")


@check("PINNED-01")
def one_memory_for_both_as_kernels_see_it(env: Env, resource: Any, kernels: Witness) -> None:
    from portamem.conformance.witness import pattern as kernels_pattern

    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        address = kernels.pointer(buf.handle).device_pointer
        expect(address, "the runtime has no address of it for the device")
        assert address is not None
        with memoryview(buf) as seen:
            seen[:] = kernels_pattern(NBYTES, 3)
        wrong = kernels.verify(stream.handle, address, NBYTES, 3).read()
        expect_equal(wrong, 0, "the number of bytes that a kernel saw otherwise than the host wrote them")
        kernels.fill(stream.handle, address, NBYTES, 4)
        stream.synchronize()
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), kernels_pattern(NBYTES, 4), "what the host read of a kernel's writes")


@check("PINNED-02")
def it_is_the_hosts(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        expect_equal(buf.device_id, -1, "device_id")
        expect_equal(resource.device_id, -1, "device_id of the resource")
        expect(buf.is_host_accessible and buf.is_device_accessible, "one side is said not to reach it")
        info = env.pm.pointer_info(buf)
        expect_equal(info.kind, "host", "kind")
        expect_equal(info.host_pointer, buf.handle, "host_pointer")
        expect(info.device_pointer, "there is no device_pointer")


@check("PINNED-02")
def it_is_the_hosts_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    with env.allocate(resource, NBYTES) as buf:
        facts = witness.pointer(buf.handle)
        expect_equal(facts.kind, "host", "the runtime's kind of memory")
        expect_equal(env.pm.pointer_info(buf).device_pointer, facts.device_pointer, "device_pointer")
        expect(facts.device_pointer, "the runtime has no address of it for the device")


@check("PINNED-03")
def every_flag(env: Env) -> None:
    for seed, flags in enumerate(FLAGS):
        with env.pm.PinnedMemoryResource(env.device, **flags) as resource, resource.allocate(4 * KIB) as buf:
            data = pattern(4 * KIB, seed)
            env.write(buf, data)
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), data, f"memory with {flags}")
            for device in env.pm.devices():
                with env.pm.DeviceMemoryResource(device) as there, there.allocate(4 * KIB) as far:
                    env.write(buf, data)
                    far.copy_from(buf)
                    buf.fill(0)
                    far.copy_to(buf)
                    expect_bytes(env.read(buf), data, f"memory with {flags}, to {device!r} and back")


@check("PINNED-04")
def write_combined_when_asked(env: Env) -> None:
    for flags in FLAGS:
        with env.pm.PinnedMemoryResource(env.device, **flags) as resource, resource.allocate(4 * KIB) as buf:
            buf.fill(1)
            found = env.pm.pointer_info(buf).flags
            expect_equal(bool(found & WRITE_COMBINED), flags["write_combined"], f"write-combined, asked as {flags}")


@check("PINNED-04")
def write_combined_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    for flags in FLAGS:
        with env.pm.PinnedMemoryResource(env.device, **flags) as resource, resource.allocate(4 * KIB) as buf:
            buf.fill(1)
            found = witness.host_flags(buf.handle)
            expect(found is not None, "the runtime does not know it as pinned memory")
            is_so = bool((found or 0) & WRITE_COMBINED)
            expect_equal(is_so, flags["write_combined"], f"the runtime's write-combined, asked as {flags}")


@check("PINNED-05")
def coherent_whatever_the_flags(env: Env, kernels: Witness) -> None:
    env.need(env.device.capabilities.pinned_coherent, "pinned_coherent")
    stream = env.stream()
    for coherence, flags in product(("default", "coherent"), FLAGS):
        with (
            env.pm.PinnedMemoryResource(env.device, coherence=coherence, **flags) as resource,
            resource.allocate(4 * KIB) as buf,
        ):
            what = f"coherence={coherence!r} and {flags}"
            with Words(kernels, buf, stream) as words:
                expect(words.kernel_is_seen(), f"the host does not see what a running kernel wrote, with {what}")
                expect(words.host_is_seen(), f"a running kernel does not see what the host wrote, with {what}")


@check("PINNED-06")
def the_coherence_that_was_asked(env: Env) -> None:
    for coherence in ("default", "coherent", "non_coherent"):
        with env.pm.PinnedMemoryResource(env.device, coherence=coherence) as resource:
            expect_equal(resource.coherence, coherence, "coherence")
            with resource.allocate(4 * KIB) as buf:
                env.write(buf, pattern(4 * KIB))
                expect_bytes(env.read(buf), pattern(4 * KIB), f"memory with coherence={coherence!r}")
    for wrong in ("fine_grained", "uncached", "sometimes", ""):
        with refused(ValueError, saying="non_coherent"):
            env.pm.PinnedMemoryResource(env.device, coherence=wrong)
    with refused(TypeError):
        env.pm.PinnedMemoryResource(env.device, coherence=None)


@check("PINNED-06")
def of_device_memory_too(env: Env) -> None:
    for wrong in ("coherent", "non_coherent"):
        with refused(ValueError, saying="fine_grained"):
            env.pm.DeviceMemoryResource(env.device, coherence=wrong)
    for coherence in ("default", "fine_grained", "uncached"):
        with env.pm.DeviceMemoryResource(env.device, coherence=coherence) as resource:
            expect_equal(resource.coherence, coherence, "coherence")
            try:
                buf = resource.allocate(4 * KIB)
            except Error as error:
                expect(coherence != "default", f"plain memory is refused: {error}")
                expect_equal(getattr(error, "name", ""), "NotSupported", "the refusal")
                continue
            with buf:
                env.write(buf, pattern(4 * KIB))
                expect_bytes(env.read(buf), pattern(4 * KIB), f"memory with coherence={coherence!r}")


@check("PINNED-17", backends=("host",))
def memory_without_registration(env: Env) -> None:
    with env.pm.PrefaultedPinnedMemoryResource(env.device) as resource:
        with failing(env, "HostRegister", 1, NOT_SUPPORTED):
            buffers = [resource.allocate(4 * MIB)]
        buffers += [resource.allocate(4 * MIB) for _ in range(2)]
        with failing(env, "HostMalloc", 1, UNKNOWN), refused(Error, saying="HostMalloc"):
            resource.allocate(4 * MIB)
        buffers.append(resource.allocate(8 * MIB))
        for seed, buf in enumerate(buffers):
            env.write(buf, pattern(buf.nbytes, seed))
        for seed, buf in enumerate(buffers):
            expect_bytes(env.read(buf), pattern(buf.nbytes, seed), f"memory number {seed} without registration")
            buf.close()
        expect_equal(resource.live_bytes, 0, "live bytes when all is closed")


def needs_registration(env: Env) -> None:
    """Unsupported where the runtime says that it registers nothing; where it does not say, it is tried."""
    if env.device.capabilities.host_register is False:
        raise Unsupported(f"host_register is False for {env.device!r}")
