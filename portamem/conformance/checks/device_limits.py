# SPDX-License-Identifier: MIT
"""Shows the clauses of limits. What changes one does so in a process of its own."""

from __future__ import annotations

from typing import Any

from portamem import Error
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused
from portamem.conformance.kit.memory import KIB
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.base import LIMITS, Witness

UNSUPPORTED_LIMIT, NOT_SUPPORTED = 215, 801


def limit(env: Env, name: str) -> int | None:
    """A limit, or None where the runtime has no such limit."""
    try:
        return int(env.device.limit(name))
    except Error as error:
        expect_equal((error.name, error.code), ("UnsupportedLimit", UNSUPPORTED_LIMIT), f"the refusal of {name}")
        return None


@check("DEVICE-08")
def limits(env: Env) -> None:
    known = [name for name in LIMITS if limit(env, name) is not None]
    expect("malloc_heap_size" in known, f"of the limits only {known} are known")
    expect_equal(env.device.malloc_heap_size, env.device.limit("malloc_heap_size"), "malloc_heap_size")
    with refused(ValueError, saying="malloc_heap_size"):
        env.device.limit("heap")
    with refused(ValueError, saying="stack_size"):
        env.device.set_limit("heap", 1)
    with refused(TypeError):
        env.device.limit(2)
    for wrong, error in (
        (-1, ValueError),
        (2**70, ValueError),
        ("much", ValueError),
        (1.5, TypeError),
        (True, TypeError),
    ):
        with refused(error):
            env.device.set_limit("stack_size", wrong)
        with refused(error):
            env.device.malloc_heap_size = wrong
    expect_equal([name for name in LIMITS if limit(env, name) is not None], known, "the known limits afterwards")


@check("DEVICE-08")
def limits_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    for name in LIMITS:
        ours = limit(env, name)
        if ours is not None:
            expect_equal(ours, witness.limit(name), name)


def set_stack(device: Any, nbytes: int | str) -> None:
    """Sets a limit, or says that there is no setting it; any other refusal is an error."""
    try:
        device.set_limit("stack_size", nbytes)
    except Error as error:
        if error.name not in ("NotSupported", "UnsupportedLimit"):
            raise
        raise Unsupported(f"stack_size cannot be set: {error}") from None


@check("DEVICE-09", own_process=True)
def a_limit_that_was_set(env: Env) -> None:
    before = limit(env, "stack_size")
    env.need(before, "the limit stack_size")
    others = [device.limit("stack_size") for device in env.pm.devices() if device != env.device]
    set_stack(env.device, "16 KiB")
    expect(env.device.limit("stack_size") >= 16 * KIB, f"16 KiB were set, and it is {env.device.limit('stack_size')}")
    set_stack(env.device, 32 * KIB)
    expect(env.device.limit("stack_size") >= 32 * KIB, f"32 KiB were set, and it is {env.device.limit('stack_size')}")
    found = [device.limit("stack_size") for device in env.pm.devices() if device != env.device]
    expect_equal(found, others, "the same limit of other devices")
    expect(env.device.malloc_heap_size != 32 * KIB, "another limit was set")
    if before is not None:
        set_stack(env.device, before)
        expect_equal(env.device.limit("stack_size"), before, "the limit that was put back")


@check("DEVICE-09", own_process=True)
def a_limit_of_another_device(env: Env) -> None:
    other = env.other_device
    env.device.set_current()
    mine = limit(env, "stack_size")
    env.need(mine, "the limit stack_size")
    set_stack(other, "24 KiB")
    expect(other.limit("stack_size") >= 24 * KIB, "the other device's limit is not in force")
    expect_equal(limit(env, "stack_size"), mine, "the current device's limit")
    expect_equal(env.pm.Device.current(), env.device, "the current device")


@check("DEVICE-09", own_process=True)
def a_limit_that_was_set_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    set_stack(env.device, "16 KiB")
    expect(
        witness.limit("stack_size") >= 16 * KIB, f"16 KiB were set, and the device has {witness.limit('stack_size')}"
    )
    set_stack(env.device, 48 * KIB)
    expect(
        witness.limit("stack_size") >= 48 * KIB, f"48 KiB were set, and the device has {witness.limit('stack_size')}"
    )
