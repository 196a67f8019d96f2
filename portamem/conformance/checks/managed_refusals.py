# SPDX-License-Identifier: MIT
"""Shows the clauses of managed memory that are about places, attachment and what is refused."""

from __future__ import annotations

from typing import Any

from portamem import Error
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, pattern
from portamem.conformance.kit.outcome import NotShown
from portamem.conformance.witness.base import Witness
from portamem.enums import MemoryAdvice

NBYTES = 64 * KIB
NOT_SUPPORTED = 801


@check("MANAGED-11")
def places_that_are_none(env: Env) -> None:
    count = env.pm.device_count()
    wrong: list[tuple[Any, type[Exception], str]] = [
        ("moon", ValueError, "host"),
        ("host_numa:", ValueError, "host_numa"),
        ("host_numa:-1", ValueError, "host_numa"),
        ("host_numa:1x", ValueError, "host_numa"),
        (count, ValueError, f"there are {count}"),
        (-2, ValueError, f"there are {count}"),
        (2**70, ValueError, f"there are {count}"),
        (None, TypeError, "host"),
        (1.5, TypeError, "device"),
        (True, TypeError, "device"),
    ]
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        for location, error, words in wrong:
            with refused(error, saying=words):
                buf.prefetch(location)
            if location is not None:
                with refused(error, saying=words):
                    buf.advise(MemoryAdvice.PREFERRED_LOCATION, location)
        for advice in ("preferred_location", "accessed_by", "unset_accessed_by"):
            with refused(ValueError, saying="location"):
                buf.advise(advice)
        with refused(ValueError, saying="read_mostly"):
            buf.advise("read_often")
        with refused(ValueError, saying="last_prefetch_location"):
            buf.range_attribute("colour")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory after what was refused")


@check("MANAGED-12")
def not_managed(env: Env) -> None:
    reached = env.device.capabilities.pageable_memory_access
    for name in ("device", "pinned") if reached else ("device", "pinned", "system"):
        with env.allocate(env.resource(name), NBYTES) as buf:
            env.write(buf, pattern(NBYTES))
            with refused(ValueError, saying=f"{name} memory"):
                buf.prefetch(env.device)
            with refused(ValueError, saying=f"{name} memory"):
                buf.prefetch("host", stream=env.device.default_stream)
            with refused(ValueError, saying=f"{name} memory"):
                buf.advise(MemoryAdvice.READ_MOSTLY)
            with refused(ValueError, saying=f"{name} memory"):
                buf.range_attribute("read_mostly")
            expect_bytes(env.read(buf), pattern(NBYTES), f"{name} memory after what was refused")


@check("MANAGED-13")
def coarse_grain(env: Env) -> None:
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        for advice in (MemoryAdvice.COARSE_GRAIN, MemoryAdvice.UNSET_COARSE_GRAIN):
            if env.platform.vendor == "amd":
                buf.advise(advice, env.device)
                continue
            with refused(Error, name="NotSupported") as refusal:
                buf.advise(advice, env.device)
            expect_equal(getattr(refusal.error, "code", 0), NOT_SUPPORTED, "the code")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory afterwards")


@check("MANAGED-14")
def nothing_to_move(env: Env) -> None:
    stream = env.stream()
    with env.allocate(env.resource("managed"), 0) as empty, env.allocate(env.resource("managed"), NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        with buf[5:5] as part:
            for nothing in (empty, part):
                nothing.prefetch(env.device, stream=stream).synchronize()
                nothing.prefetch("host")
                nothing.advise(MemoryAdvice.READ_MOSTLY)
                nothing.advise(MemoryAdvice.ACCESSED_BY, env.device)
                with refused(ValueError):
                    nothing.prefetch("moon")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory around nothing")
        if env.device.capabilities.managed_mode == "migrating":
            expect_equal(buf.range_attribute("read_mostly"), False, "read_mostly of the memory around nothing")


@check("MANAGED-15")
def attached(env: Env) -> None:
    env.resource("managed")  # or there is no such memory
    for attach in ("global", "host"):
        with env.pm.ManagedMemoryResource(env.device, attach=attach) as resource, resource.allocate(NBYTES) as buf:
            with memoryview(buf) as seen:
                seen[:] = pattern(NBYTES)
            expect_bytes(env.read(buf), pattern(NBYTES), f"memory attached to {attach}, as a copy sees it")
            env.write(buf, pattern(NBYTES, 1))
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), pattern(NBYTES, 1), f"memory attached to {attach}, as the host sees it")
    for wrong in ("everyone", "single", ""):
        with refused(ValueError, saying="global"):
            env.pm.ManagedMemoryResource(env.device, attach=wrong)


@check("MANAGED-16")
def the_host_is_at_it_while_the_device_is_busy(env: Env) -> None:
    env.need(env.device.capabilities.concurrent_managed_access, "concurrent_managed_access")
    busy = env.stream()
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        held = env.latch(busy)
        with memoryview(buf) as seen:
            seen[:] = pattern(NBYTES)
            expect_bytes(bytes(seen), pattern(NBYTES), "what the host wrote while the device was busy")
        expect(not busy.query(), "the device was not busy")
        held.release()
        expect_bytes(env.read(buf), pattern(NBYTES), "what a copy read afterwards")


@check("MANAGED-16")
def while_a_kernel_runs(env: Env, kernels: Witness) -> None:
    env.need(env.device.capabilities.concurrent_managed_access, "concurrent_managed_access")
    busy = env.stream()
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        with kernels.latch(busy.handle) as held:
            with memoryview(buf) as seen:
                seen[:] = pattern(NBYTES)
                expect_bytes(bytes(seen), pattern(NBYTES), "what the host wrote while a kernel ran")
            expect(not busy.query(), "the kernel was not running")
        busy.synchronize()
        expect(not held.timed_out, "the host's access waited for the kernel")
        expect_bytes(env.read(buf), pattern(NBYTES), "what a copy read afterwards")


@check("MANAGED-20")
def on_every_device(env: Env, resource: Any) -> None:
    others = [device for device in env.pm.devices() if device != env.device]
    if not others:
        raise NotShown(f"{env.pm.backend} has one device here")
    with env.allocate(resource, NBYTES) as buf:
        for seed, device in enumerate(others):
            stream = env.stream(device)
            env.write(buf, pattern(NBYTES, seed))
            with env.pm.DeviceMemoryResource(device) as there, there.allocate(NBYTES) as far:
                far.copy_from(buf, stream=stream)
                stream.synchronize()
                expect_bytes(env.read(far), pattern(NBYTES, seed), f"what {device!r} read of it")
                far.fill(seed)
                far.copy_to(buf, stream=stream)
                stream.synchronize()
                expect_bytes(env.read(buf), bytes([seed]) * NBYTES, f"what {device!r} wrote to it")
