# SPDX-License-Identifier: MIT
"""Shows the clauses of the default resource that a program sets."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.threads import on_a_thread
from portamem.conformance.kit.together import together


@contextmanager
def default_of(env: Env, device: Any, resource: Any) -> Iterator[None]:
    env.pm.set_default_resource(device, resource)
    try:
        yield
    finally:
        env.pm.set_default_resource(device, None)


@check("THREAD-20")
def a_default_that_is_set(env: Env, resource: Any) -> None:
    pm, device = env.pm, resource.device
    made, inner = pm.default_resource(device), env.resource("pinned")
    with pm.empty(16, "uint8", device=device) as before, default_of(env, device, resource):
        expect(pm.default_resource(device) is resource, "the default is another resource")
        expect(pm.current_resource(device) is resource, "without a scope another resource is current")
        expect(on_a_thread(lambda: pm.current_resource(device)) is resource, "another thread has another default")
        for view in (pm.empty(32, device=device), pm.zeros(32, device=device), pm.asarray(bytes(32), device=device)):
            with view:
                expect(view.buffer.resource is resource, "memory is of another resource than the default")
                view.fill(9)
                expect_bytes(env.read(view.buffer), b"\x09" * view.nbytes, "memory of the default")
        with pm.using(inner):
            expect(pm.current_resource(device) is inner, "the default hides a scope")
            expect(pm.default_resource(device) is resource, "a scope counts as the default")
        before.fill(5)
        expect_bytes(env.read(before), b"\x05" * 16, "memory of the default before")
        expect(before.buffer.resource is made, "live memory has become another resource's")
        after = pm.zeros(64, "uint8", device=device)
    expect(pm.default_resource(device) is made, "the default that was made did not come back")
    with pm.empty(16, "uint8", device=device) as view:
        expect(view.buffer.resource is made, "memory still comes from the resource that was set")
    expect_bytes(env.read(after), bytes(64), "memory of a default that is no more")
    after.close()
    expect_soon(lambda: resource.live_buffers, 0, "live buffers of the resource that was set")


@check("THREAD-20")
def one_default_after_another(env: Env) -> None:
    pm, device = env.pm, env.device
    first, second = pm.PoolMemoryResource(device=device), pm.DeviceMemoryResource(device)
    with default_of(env, device, first):
        pm.empty(64, device=device).close()
        pm.set_default_resource(device, second)
        with pm.empty(64, device=device) as view:
            expect(view.buffer.resource is second, "memory is of the default before")
        pm.set_default_resource(device, second)  # again
        expect(pm.default_resource(device) is second, "the default set twice is another")
    first.close()
    second.close()
    if env.pm.device_count() > 1:
        there = env.resource("device", env.other_device)
        before = pm.default_resource(device)
        with default_of(env, env.other_device, there):
            expect(pm.default_resource(env.other_device) is there, "the default does not count on its device")
            expect(pm.default_resource(device) is before, "a default counts on another device")


@check("THREAD-21")
def a_default_is_kept(env: Env) -> None:
    pm, device = env.pm, env.device
    with default_of(env, device, pm.PoolMemoryResource(pm.DeviceMemoryResource(device))):
        gc.collect()
        with pm.zeros(64, "uint8", device=device) as view:
            expect_equal(view.buffer.resource.live_bytes, 64, "the bytes out of a default that the process alone holds")
            expect_bytes(env.read(view), bytes(64), "its memory")


@check("THREAD-21")
def a_default_that_is_closed(env: Env) -> None:
    pm, device = env.pm, env.device
    mine = pm.DeviceMemoryResource(device)
    with default_of(env, device, mine):
        mine.close()
        for allocate in (pm.empty, pm.zeros):
            with refused(ValueError, saying="closed"):
                allocate(16, device=device)
        with pm.using(env.resource("device")), pm.zeros(16, "uint8", device=device) as view:
            expect_bytes(env.read(view), bytes(16), "memory of a scope under a closed default")
        with refused(ValueError, saying="closed"):
            pm.set_default_resource(device, mine)
    with pm.zeros(16, "uint8", device=device) as view:
        expect_bytes(env.read(view), bytes(16), "memory of the default that is back")


@check("THREAD-21")
def what_is_no_default(env: Env) -> None:
    pm, device = env.pm, env.device
    mine = env.resource("device")
    with default_of(env, device, mine):
        for wrong in (42, "device", pm, device):
            with refused(TypeError):
                pm.set_default_resource(device, wrong)
        with refused(TypeError):
            pm.set_default_resource("nowhere", mine)
        if env.pm.device_count() > 1:
            with refused(ValueError, saying="device"):
                pm.set_default_resource(env.other_device, mine)
        expect(pm.default_resource(device) is mine, "a refused default counts")


KINDS = """
default = pm.default_resource(0)
with pm.zeros(1000, "uint8", device=0) as view:
    assert view.buffer.resource is default is pm.current_resource(0)
    host = bytearray(1000)
    view.fill(7)
    view.copy_to(host)
    assert bytes(host) == b"\\x07" * 1000
try:
    default.close()
except BufferError as error:
    assert "default resource" in str(error)
else:
    raise AssertionError("the default was closed")
print(type(default).__name__, default.kind)
"""


@check("THREAD-22")
def the_setting_of_the_default(env: Env) -> None:
    expected = {
        None: "PoolMemoryResource device",
        "": "PoolMemoryResource device",
        "pool": "PoolMemoryResource device",
        "plain": "DeviceMemoryResource device",
    }
    if env.device.capabilities.memory_pools:
        expected["driver"] = "AsyncMemoryResource async"
    if env.device.capabilities.managed_mode != "none":
        expected["managed"] = "PoolMemoryResource managed"
    for (word, saying), ended in together(lambda case: env.run(KINDS, PORTAMEM_DEFAULT=case[0]), expected.items()):
        expect_equal(ended.output().strip(), saying, f"the default with PORTAMEM_DEFAULT={word}")


@check("THREAD-22")
def a_default_that_has_no_name(env: Env) -> None:
    uses = ("pm.zeros(4, device=0)", "pm.current_resource(0)", "pm.default_resource(0)")
    for use, ended in together(lambda use: env.run(use, PORTAMEM_DEFAULT="rmm"), uses):
        expect_equal(ended.status, 1, f"the exit status of {use}")
        expect("ValueError: PORTAMEM_DEFAULT=rmm" in ended.stderr, f"it said {ended.stderr!r}")
        expect("pool, driver, plain or managed" in ended.stderr, f"it does not say what there is: {ended.stderr!r}")
