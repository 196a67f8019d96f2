# SPDX-License-Identifier: MIT
"""Shows the clauses of registered memory."""

from __future__ import annotations

import ctypes
import gc
import mmap
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from portamem import Error
from portamem.conformance.checks.pinned import needs_registration
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, pattern
from portamem.conformance.kit.no_bytes import no_bytes
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.base import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

NBYTES = 64 * KIB
ALREADY, NOT_SUPPORTED = 712, 801


def pages(data: bytes) -> mmap.mmap:
    """Memory in pages of its own that starts with ``data``: nothing else's registration can touch it."""
    made = mmap.mmap(-1, len(data))
    made[:] = data
    return made


def address_of(memory: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Owned(bytearray):
    """Memory that can be watched while it lives."""


@check("PINNED-07")
def it_stays_the_objects_own(env: Env) -> None:
    needs_registration(env)
    memory = pages(pattern(NBYTES))
    address = address_of(memory)
    with env.pm.HostRegistration(memory, device=env.device) as registered:
        expect_equal((registered.handle, registered.nbytes), (address, NBYTES), "address and size")
        expect_equal(registered.backend, env.pm.backend, "backend")
        expect(f"{NBYTES} bytes" in repr(registered), f"its size is not in {registered!r}")
        expect(not registered.is_closed, "it says that it is closed")
        expect_bytes(bytes(memory), pattern(NBYTES), "the object's bytes")
        info = env.pm.pointer_info(registered)
        expect_equal((info.kind, info.device_pointer), ("host", registered.device_handle), "kind and device_pointer")
        expect_equal(env.pm.pointer_info(address + NBYTES - 1).kind, "host", "the kind of its last byte")
    expect(registered.is_closed, "it does not say that it is closed")
    for offset in (0, NBYTES - 1):
        expect_equal(env.pm.pointer_info(address + offset).kind, "unregistered", "its kind once that is closed")
    expect_bytes(bytes(memory), pattern(NBYTES), "the object's bytes afterwards")


@check("PINNED-07")
def the_runtime_knows_it_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_registration(env)
    memory = pages(pattern(NBYTES))
    address = address_of(memory)
    with env.pm.HostRegistration(memory, device=env.device) as registered:
        facts = witness.pointer(address)
        expect_equal((facts.kind, facts.device_pointer), ("host", registered.device_handle), "kind, device's address")
    expect_equal(witness.pointer(address).kind, "unregistered", "the runtime's kind once that is closed")


@check("PINNED-08")
def copies_never_wait(env: Env) -> None:
    needs_registration(env)
    stream = env.stream()
    memory, back = pages(pattern(NBYTES)), pages(bytes(NBYTES))
    with (
        env.allocate(env.resource("device"), NBYTES) as far,
        env.pm.HostRegistration(memory, device=env.device) as source,
        env.pm.HostRegistration(back, device=env.device) as target,
    ):
        held = env.latch(stream)
        arrived = far.copy_from(source, stream=stream)
        done = far.copy_to(target, stream=stream)
        expect(not arrived.query() and not done.query(), "a copy overtook what holds the stream")
        expect_bytes(bytes(back), bytes(NBYTES), "the target while the stream is held")
        held.release()
        done.synchronize()
        expect_bytes(bytes(back), pattern(NBYTES), "the bytes after the way through the device")
        target_fill = env.pm.Buffer.from_handle(target.handle, NBYTES, owner=target, device=env.device)
        target_fill.fill(7)
        expect_bytes(bytes(back), b"\x07" * NBYTES, "what the device filled in place")
        target_fill.close()


@check("PINNED-09")
def the_devices_address(env: Env) -> None:
    needs_registration(env)
    same = env.device.capabilities.registered_pointer_is_device_pointer
    memory = pages(pattern(NBYTES))
    with env.pm.HostRegistration(memory, device=env.device) as registered:
        expect(registered.device_handle, "there is not an address for the device")
        if same is None:
            raise Unsupported("registered_pointer_is_device_pointer is None: the runtime does not say")
        expect_equal(registered.device_handle == registered.handle, same, "the equality of the two addresses")
    probed = env.device.probe()
    expect_equal(probed.registered_pointer_is_device_pointer, same, "the probed capability")
    expect_equal(probed.host_register, True, "the probed host_register")


@check("PINNED-09")
def the_devices_address_as_kernels_see_it(env: Env, kernels: Witness) -> None:
    from portamem.conformance.witness import pattern as kernels_pattern

    needs_registration(env)
    stream = env.stream()
    memory = pages(kernels_pattern(NBYTES, 5))
    with env.pm.HostRegistration(memory, device=env.device) as registered:
        wrong = kernels.verify(stream.handle, registered.device_handle, NBYTES, 5).read()
        expect_equal(wrong, 0, "the number of bytes that a kernel saw otherwise than the host wrote them")
        kernels.fill(stream.handle, registered.device_handle, NBYTES, 6)
        stream.synchronize()
        expect_bytes(bytes(memory), kernels_pattern(NBYTES, 6), "what the host read of a kernel's writes")


@check("PINNED-10")
def it_keeps_the_object(env: Env) -> None:
    needs_registration(env)
    memory = Owned(pattern(NBYTES))
    alive = weakref.ref(memory)
    registered = env.pm.HostRegistration(memory, device=env.device)
    with refused(BufferError):
        memory.extend(b"more")
    del memory
    gc.collect()
    expect(alive() is not None, "the object went while its memory was registered")
    with env.allocate(env.resource("device"), NBYTES) as far:
        far.copy_from(registered)
        expect_bytes(env.read(far), pattern(NBYTES), "the memory of an object that nobody else holds")
    registered.close()
    again = alive()
    if again is not None:
        again.extend(b"more")  # nothing holds its buffer any more
    del again, registered
    gc.collect()
    expect(alive() is None, "the object is kept although nothing is registered any more")


@check("PINNED-11")
def closing(env: Env) -> None:
    needs_registration(env)
    stream = env.stream()
    memory = pages(pattern(NBYTES))
    with env.allocate(env.resource("device"), NBYTES) as far:
        registered = env.pm.HostRegistration(memory, device=env.device)
        held = env.latch(stream)
        done = far.copy_from(registered, stream=stream)
        held.release_soon()
        registered.close()
        expect(done.query(), "it was closed before the copy from it had run")
        registered.close()
        expect("closed" in repr(registered), f"a closed one is shown as {registered!r}")
        expect_bytes(env.read(far), pattern(NBYTES), "what was copied from it while it was closed")
        with refused(ValueError, saying="closed"):
            far.copy_from(registered)
        with refused(ValueError, saying="closed"):
            far.copy_to(registered)


@check("PINNED-11")
def nobody_holds_it_any_more(env: Env) -> None:
    needs_registration(env)
    stream = env.stream()
    memory = pages(pattern(NBYTES))
    address = address_of(memory)
    with env.allocate(env.resource("device"), NBYTES) as far:
        held = env.latch(stream)
        done = far.copy_from(env.pm.HostRegistration(memory, device=env.device), stream=stream)
        gc.collect()
        expect_equal(env.pm.pointer_info(address).kind, "host", "its kind while a copy from it is queued")
        held.release()
        done.synchronize()
        expect_bytes(env.read(far), pattern(NBYTES), "the copy of memory that only the copy held")
        env.device.synchronize()
        undone = eventually(lambda: env.pm.pointer_info(address).kind == "unregistered")
        expect(undone, "it is registered although nobody holds the registration")
    with env.pm.HostRegistration(memory, device=env.device) as again:
        expect_equal(again.handle, address, "the address, registered again")


@check("PINNED-12")
def registered_twice(env: Env) -> None:
    needs_registration(env)
    memory = pages(pattern(NBYTES))
    with env.allocate(env.resource("device"), NBYTES) as far, env.pm.HostRegistration(memory, device=env.device) as one:
        with refused(Error, name="HostMemoryAlreadyRegistered") as refusal:
            env.pm.HostRegistration(memory, device=env.device)
        expect_equal(getattr(refusal.error, "code", 0), ALREADY, "the code")
        expect(not one.is_closed, "the first registration is closed")
        far.copy_from(one)
        expect_bytes(env.read(far), pattern(NBYTES), "a copy from the first registration")


@check("PINNED-12")
def an_end_of_it(env: Env) -> None:
    needs_registration(env)
    page = mmap.PAGESIZE  # 64 KiB on some machines
    data = pattern(16 * page)
    memory = pages(data)
    whole = memoryview(memory)
    with (
        env.allocate(env.resource("device"), 4 * page) as far,
        env.pm.HostRegistration(whole[4 * page : 8 * page], device=env.device) as middle,
    ):
        for start, stop in ((0, 5), (7, 9), (5, 6), (4, 16), (0, 8)):
            with refused(Error, name="HostMemoryAlreadyRegistered"):
                env.pm.HostRegistration(whole[start * page : stop * page], device=env.device)
        far.copy_from(middle)
        expect_bytes(env.read(far), data[4 * page : 8 * page], "a copy from the registered range")
        for start, stop in ((0, 4), (8, 16)):
            env.pm.HostRegistration(whole[start * page : stop * page], device=env.device).close()
        far.copy_from(middle)
        expect_bytes(env.read(far), data[4 * page : 8 * page], "a copy once its neighbours came and went")
    whole.release()


@dataclass
class Middle:
    """Memory of which one page is registered, and what surrounds that page."""

    env: Env
    whole: memoryview
    page: bytes  # as it was made
    registered: Any
    far: Any  # memory of the device

    def around(self) -> Iterator[memoryview]:
        """Longer pieces with the page inside of them."""
        for start, stop in ((3, 6), (0, 16)):
            yield self.whole[start * mmap.PAGESIZE : stop * mmap.PAGESIZE]

    def expect_copied(self) -> None:
        self.far.fill(0)
        self.far.copy_from(self.registered)
        expect_bytes(self.env.read(self.far), self.page, "a copy from the range in the middle")


@contextmanager
def registered_in_the_middle(env: Env) -> Iterator[Middle]:
    needs_registration(env)
    size = mmap.PAGESIZE
    data = pattern(16 * size)
    memory = pages(data)
    place = slice(4 * size, 5 * size)
    with (
        memoryview(memory) as whole,
        env.allocate(env.resource("device"), size) as far,
        env.pm.HostRegistration(whole[place], device=env.device) as registered,
    ):
        yield Middle(env, whole, data[place], registered, far)
        expect(not registered.is_closed, "the registration of the middle is closed")
    expect_bytes(bytes(memory), data, "the memory when nothing of it is registered any more")


@check("PINNED-13")
def around_it(env: Env) -> None:
    with registered_in_the_middle(env) as middle:
        for around in middle.around():
            with refused(Error, name="HostMemoryAlreadyRegistered"):
                env.pm.HostRegistration(around, device=env.device)
        middle.expect_copied()


@check("PINNED-13")
def the_middle_keeps_working(env: Env) -> None:
    """The range around it may be refused or not: the check ``around_it`` is about that."""
    with registered_in_the_middle(env) as middle:
        for around in middle.around():
            try:
                env.pm.HostRegistration(around, device=env.device).close()
            except Error as error:
                expect_equal((error.name, error.code), ("HostMemoryAlreadyRegistered", ALREADY), "the refusal")
            middle.expect_copied()
            middle.far.copy_to(middle.registered)


@check("PINNED-14")
def for_reading_only(env: Env) -> None:
    needs_registration(env)
    data = pattern(NBYTES)
    registered = env.pm.HostRegistration(data, device=env.device, read_only=True)
    with registered, env.allocate(env.resource("device"), NBYTES) as far:
        far.copy_from(registered)
        expect_bytes(env.read(far), pattern(NBYTES), "a copy from it")
        far.fill(0)
        with refused(ValueError, BufferError, saying="read-only"):
            far.copy_to(registered)
        expect_bytes(data, pattern(NBYTES), "the read-only object")


@check("PINNED-15")
def what_cannot_be_registered(env: Env) -> None:
    strided = memoryview(bytearray(NBYTES))[::2]
    for memory in (42, None, object(), "text"):
        with refused(TypeError, saying="buffer"):
            env.pm.HostRegistration(memory, device=env.device)
    for memory, error, message in no_bytes("the memory to register"):
        with refused(error, saying=message):
            env.pm.HostRegistration(memory, device=env.device)
    with refused(ValueError, BufferError, saying="contiguous"):
        env.pm.HostRegistration(strided, device=env.device)
    with refused(ValueError, saying="no bytes"):
        env.pm.HostRegistration(bytearray(), device=env.device)
    with refused(ValueError, BufferError, saying="read-only"):
        env.pm.HostRegistration(b"read only", device=env.device)


@check("PINNED-16")
def every_flag_registers(env: Env) -> None:
    needs_registration(env)
    for seed, (portable, mapped) in enumerate(product((False, True), repeat=2)):
        memory = pages(pattern(NBYTES, seed))
        with env.pm.HostRegistration(memory, device=env.device, portable=portable, mapped=mapped) as registered:
            for device in env.pm.devices():
                with env.pm.DeviceMemoryResource(device) as resource, resource.allocate(NBYTES) as far:
                    far.copy_from(registered)
                    env.pm.copy(registered, bytes(NBYTES))
                    far.copy_to(registered)
                    what = f"memory with portable={portable}, mapped={mapped}, to {device!r} and back"
                    expect_bytes(bytes(memory), pattern(NBYTES, seed), what)


@check("PINNED-18")
def what_is_not_there(env: Env) -> None:
    needs_registration(env)
    memory = pages(pattern(4 * NBYTES))
    address = address_of(memory)
    hole = address + 2 * NBYTES
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    expect_equal(protect(hole, NBYTES, 0), 0, "the answer of mprotect")  # an unmapped range could be another's at once
    try:
        for begin, nbytes, what in (
            (8, 8, "the first page"),
            (hole, NBYTES, "pages without access"),
            (address + NBYTES, 2 * NBYTES, "a range whose end has no access"),
            (hole + NBYTES - 4096, 8192, "a range whose start has no access"),
            (address, 4 * NBYTES, "a range whose middle has no access"),
        ):
            nowhere = (ctypes.c_char * nbytes).from_address(begin)
            with refused(Error, name="InvalidValue"):
                env.pm.HostRegistration(nowhere, device=env.device)
            expect_equal(env.pm.pointer_info(begin).kind, "unregistered", f"the kind of {what}")
        with env.pm.HostRegistration((ctypes.c_char * NBYTES).from_address(address), device=env.device):
            expect_equal(env.pm.pointer_info(address).kind, "host", "the kind of the pages in front of it")
    finally:
        protect(hole, NBYTES, mmap.PROT_READ | mmap.PROT_WRITE)
    expect_bytes(bytes(memory), pattern(4 * NBYTES), "the object's bytes")
