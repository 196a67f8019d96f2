# SPDX-License-Identifier: MIT
"""Shows what becomes of functions of the program's: what they are told, what they raise, and what they may use."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.reported import unraisable
from portamem.conformance.kit.threads import on_a_thread
from portamem.errors import OutOfMemoryError

NBYTES = 64 * KIB


class _MineError(Exception):
    """An exception of the program's own."""


class _Functions:
    """Two functions over plain device memory, which keep a record, and raise when they are told to."""

    def __init__(self, env: Env) -> None:
        self.below = env.resource("device")
        self.calls: list[tuple[Any, ...]] = []
        self.raises = ""

    def allocate(self, nbytes: int, stream: Any) -> int:
        self.calls.append(("allocate", nbytes, stream))
        if self.raises == "allocate":
            raise _MineError("in allocate")
        address: int = self.below.allocate(nbytes, stream=stream).release()
        return address

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        self.calls.append(("deallocate", address, nbytes, stream))
        if self.raises == "deallocate":
            raise _MineError("in deallocate")
        self.below.deallocate(address, nbytes, stream=stream)


@check("RESOURCE-15")
def pythons_functions(env: Env) -> None:
    functions, stream = _Functions(env), env.stream()
    with env.pm.CallbackMemoryResource(functions.allocate, functions.deallocate, device=env.device) as resource:
        buf = resource.allocate(NBYTES, stream=stream)
        address = buf.handle
        expect_equal(functions.calls, [("allocate", NBYTES, stream)], "what was called")
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "memory of the program's function")
        resource.allocate(0).close()
        buf.close()
        expect_equal(functions.calls[1:], [("deallocate", address, NBYTES, stream)], "what was called")
    expect_equal((functions.below.live_buffers, resource.is_closed), (0, True), "what is out, and whether it is closed")


@check("RESOURCE-15")
def functions_of_c(env: Env) -> None:
    """The C library's own, through ctypes: what they give is memory of the system's."""
    take_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
    give_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
    backing = env.resource("system").allocate(4 * NBYTES)
    told: list[Any] = []

    def allocate(nbytes: int, stream: int, data: int) -> int:
        told.append((nbytes, data))
        address: int = backing.handle
        return address

    take = take_type(allocate)
    give = give_type(lambda ptr, nbytes, stream, data: told.append((ptr, nbytes, data)))
    with env.pm.CallbackMemoryResource(take, give, device=env.device, kind="system", user_data=7) as resource:
        with resource.allocate(NBYTES) as buf:
            expect_equal((buf.handle, buf.kind, buf.device_id), (backing.handle, "system", -1), "what it says")
            with memoryview(buf) as seen:
                seen[:] = pattern(NBYTES)
            expect_bytes(env.read(buf), pattern(NBYTES), "memory of a C function")
        expect_equal(told, [(NBYTES, 7), (backing.handle, NBYTES, 7)], "what the functions were told")
    backing.close()


@check("RESOURCE-15")
def functions_that_are_none(env: Env) -> None:
    functions = _Functions(env)
    for wrong in (None, "malloc", 1.5):
        with refused(TypeError):
            env.pm.CallbackMemoryResource(wrong, functions.deallocate, device=env.device)
        with refused(TypeError):
            env.pm.CallbackMemoryResource(functions.allocate, wrong, device=env.device)
    strange: tuple[Any, ...] = (lambda nbytes, stream: "0x10", lambda nbytes, stream: 1.5)
    for function in strange:
        with env.pm.CallbackMemoryResource(function, functions.deallocate, device=env.device) as resource:
            with refused(TypeError):
                resource.allocate(NBYTES)
            expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")
    with env.pm.CallbackMemoryResource(lambda *_: 0, functions.deallocate, device=env.device) as resource:
        with refused(OutOfMemoryError):
            resource.allocate(NBYTES)
        expect_equal((resource.live_buffers, functions.calls), (0, []), "live buffers, and calls to free them")


def _stacks(env: Env, functions: _Functions) -> dict[str, Any]:
    pm = env.pm

    def own() -> Any:
        return pm.CallbackMemoryResource(functions.allocate, functions.deallocate, device=env.device)

    return {
        "the functions": own(),
        "a pool": pm.PoolMemoryResource(own()),
        "blocks": pm.FixedSizeMemoryResource(own(), NBYTES),
        "statistics of a limit": pm.StatisticsAdaptor(pm.LimitingAdaptor(own(), 64 * MIB)),
        "what tracks a pool": pm.TrackingAdaptor(pm.PoolMemoryResource(own())),
    }


@check("RESOURCE-16")
def what_they_raise_arrives(env: Env) -> None:
    functions, stream = _Functions(env), env.stream()
    for what, resource in _stacks(env, functions).items():
        functions.raises = "allocate"
        with refused(_MineError, saying="in allocate"):
            resource.allocate(NBYTES, stream=stream)
        expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), f"{what}: live buffers and bytes")
        functions.raises = ""
        buf = resource.allocate(NBYTES, stream=stream)
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), f"{what}: memory after an exception")
        functions.raises = "deallocate"
        try:
            buf.close()
        except _MineError:
            expect(not buf.is_closed, f"{what}: memory is closed whose close raised")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), f"{what}: live buffers and bytes")
        functions.raises = ""
        buf.close()
        expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), f"{what}: live buffers and bytes")
        below: Any = resource
        while below is not None:
            below.close()
            below = getattr(below, "upstream", None)
        expect_equal(functions.below.live_buffers, 0, f"{what}: what the functions have out")


@check("RESOURCE-16")
def from_a_failure_callback(env: Env) -> None:
    def raises(nbytes: int) -> bool:
        raise _MineError("no more")

    below = env.resource("device")
    with env.pm.FailureCallbackAdaptor(below, raises) as adaptor:
        with refused(_MineError, saying="no more"):
            adaptor.allocate(1 << 50)
        expect_equal((adaptor.live_buffers, below.live_buffers), (0, 0), "live buffers of both")
        with adaptor.allocate(NBYTES) as buf:
            buf.fill(4)
            expect_bytes(env.read(buf), b"\x04" * NBYTES, "memory after an exception")


@check("RESOURCE-17")
def they_use_what_stands_over_them(env: Env) -> None:
    stream, depth = env.stream(), [0]
    below = env.resource("device")

    def allocate(nbytes: int, on: Any) -> int:
        if depth[0] < 3:  # the pool asks for memory for this very allocation
            depth[0] += 1
            with pool.allocate(3 * MIB, stream=stream) as inner:
                inner.fill(depth[0], stream=stream)
                expect(pool.stats().used >= 3 * MIB, "the pool does not know what it gave meanwhile")
            pool.trim()
        address: int = below.allocate(nbytes, stream=on).release()
        return address

    def deallocate(address: int, nbytes: int, on: Any) -> None:
        if depth[0] < 6:
            depth[0] += 1
            pool.allocate(100, stream=stream).close()
        below.deallocate(address, nbytes, stream=on)

    pool = env.pm.PoolMemoryResource(env.pm.CallbackMemoryResource(allocate, deallocate, device=env.device))
    with pool.allocate(NBYTES, stream=stream) as buf:
        env.write(buf, pattern(NBYTES))
        expect_bytes(env.read(buf), pattern(NBYTES), "memory that was allocated amid others")
    depth[0] = 0
    pool.trim()
    depth[0] = 6
    pool.close()
    expect_equal((pool.live_buffers, below.live_buffers), (0, 0), "live buffers of both")


@check("RESOURCE-09")
def what_could_not_be_freed_is_known_as_before(env: Env) -> None:
    functions, stream = _Functions(env), env.stream()
    below = env.pm.CallbackMemoryResource(functions.allocate, functions.deallocate, device=env.device)
    with below, env.pm.TrackingAdaptor(below) as adaptor:
        with env.pm.tag("first"), env.pm.tag("second"):
            buf = adaptor.allocate(NBYTES, stream=stream)
        env.pm.copy(buf, pattern(NBYTES), stream=stream)
        before = adaptor.outstanding()
        expect_equal(
            [(each.tag, each.stream_device) for each in before], [("first/second", env.ordinal)], "what is out"
        )
        functions.raises = "deallocate"
        with refused(_MineError):
            on_a_thread(buf.close)
        functions.raises = ""
        after = adaptor.outstanding()
        names = ("ptr", "nbytes", "stream", "stream_device", "tag", "thread", "time", "site")
        for name in names:
            found = [getattr(each, name) for each in after]
            expect_equal(found, [getattr(each, name) for each in before], f"{name} after a free that was refused")
        expect_bytes(env.read(buf), pattern(NBYTES), "memory that could not be freed")
        buf.close()
        expect_equal(adaptor.outstanding(), [], "what is out at the end")


class _Owner:
    """An owner of foreign memory that counts its own end."""

    def __init__(self, told: Callable[[], object]) -> None:
        self.told = told

    def __del__(self) -> None:
        self.told()


def _drop_under_an_exception(make: Callable[[], Any]) -> str:
    """Says what arrives of a KeyError that is raised while only the call's arguments hold the object that was made."""
    try:
        print(make(), dict[str, int]()["on its way"])
    except BaseException as e:
        return f"{type(e).__name__}: {e}"
    return "nothing"


@check("RESOURCE-21")
def an_exception_on_its_way(env: Env) -> None:
    functions, stream, told, kept = _Functions(env), env.stream(), list[str](), list[Any]()
    backing = env.resource("system").allocate(NBYTES)
    mine = env.pm.CallbackMemoryResource(functions.allocate, functions.deallocate, device=env.device)

    def tell(*_: Any) -> int:
        try:
            int("no number")
        except ValueError:
            told.append("told")
        return 0

    def policy(stats: Any) -> int:
        tell()
        raise _MineError("in a policy")

    def asked() -> Any:
        return env.pm.PoolMemoryResource(env.resource("device"), release=tell).allocate(65 * MIB, stream=stream)

    def asked_in_vain() -> Any:
        return env.pm.PoolMemoryResource(env.resource("device"), release=policy).allocate(65 * MIB, stream=stream)

    def owned() -> Any:
        return env.pm.Buffer.from_handle(backing.handle, NBYTES, owner=_Owner(tell), device=env.device)

    def watched() -> Any:
        made = mine.allocate(NBYTES, stream=stream)
        kept.append(weakref.ref(made, tell))
        return made

    for make, lost in ((asked, []), (asked_in_vain, ["_MineError: in a policy"]), (owned, []), (watched, [])):
        told.clear()
        with unraisable() as reported:
            arrived = _drop_under_an_exception(make)
        expect_equal(arrived, "KeyError: 'on its way'", f"what arrives ({make.__name__})")
        expect(bool(told), f"the function was not called ({make.__name__})")
        expect(reported == lost or set(reported) == set(lost), f"sys.unraisablehook was told {reported}, not {lost}")
    functions.raises = "deallocate"
    with unraisable() as reported:
        arrived = _drop_under_an_exception(lambda: mine.allocate(NBYTES, stream=stream))
        # More than once, where the memory is tried again before this looks.
        expect_soon(lambda: sorted(set(reported)), ["_MineError: in deallocate"], "what sys.unraisablehook was told")
    functions.raises = ""
    expect_equal(arrived, "KeyError: 'on its way'", "what arrives")


@check("RESOURCE-22")
def memory_that_is_out(env: Env) -> None:
    stream = env.stream()
    back: list[int] = []
    answers: list[int] = []
    with env.resource("device").allocate(4 * MIB) as below:
        resource = env.pm.CallbackMemoryResource(
            lambda nbytes, stream: below.handle + answers[-1],
            lambda address, nbytes, stream: back.append(address - below.handle),
            device=env.device,
        )
        answers.append(MIB)
        with resource, resource.allocate(NBYTES, stream=stream) as out:
            env.write(out, pattern(NBYTES))
            for offset, nbytes in ((MIB, NBYTES), (MIB, 1), (MIB + 256, 256), (MIB - 256, 257), (0, 2 * MIB)):
                answers.append(offset)
                with refused(ValueError, saying=f"{NBYTES} bytes"):
                    resource.allocate(nbytes, stream=stream)
                expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes")
            expect_equal(back, [], "what went back of the memory that is in use")
            answers.append(2 * MIB + 1)
            with refused(ValueError, saying="multiple"):
                resource.allocate(NBYTES, stream=stream)
            expect_equal(back, [2 * MIB + 1], "what went back of the address that is not aligned")
            for offset, nbytes in ((MIB - 256, 256), (MIB + NBYTES, 256)):
                answers.append(offset)
                resource.allocate(nbytes, stream=stream).close()
            expect_bytes(env.read(out), pattern(NBYTES), "the memory that is out")
