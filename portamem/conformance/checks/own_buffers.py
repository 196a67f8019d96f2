# SPDX-License-Identifier: MIT
"""Shows the clause of Buffers that go out by DLPack themselves."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from portamem.conformance.checks.own_dlpack import NBYTES, VERSIONS, has_device, natural_device
from portamem.conformance.kit import dlpack
from portamem.conformance.kit.check import check
from portamem.conformance.kit.dlpack import CPU, Taken
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import pattern


@check("OWN-38")
def a_buffer_goes_out_as_its_bytes(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        if not has_device(env, buf):
            for call in (buf.__dlpack__, buf.__dlpack_device__, lambda: np.from_dlpack(buf)):
                with refused(BufferError, saying="to_numpy"):
                    call()
        else:
            expect_equal(buf.__dlpack_device__(), natural_device(env, buf), "__dlpack_device__")
            for version in VERSIONS:
                _expect_bytes_of(env, buf, buf, version, 0)
                with refused(BufferError):
                    Taken(buf.__dlpack__(dl_device=(9, 0), max_version=version))
                part = buf[100:300]
                _expect_bytes_of(env, part, buf, version, 100)
                part.close()
        copied = Taken(buf.__dlpack__(dl_device=(CPU, 0), copy=True, max_version=(1, 0)))
        expect_equal((copied.shape, copied.managed.flags), ((NBYTES,), dlpack.IS_COPIED), "a copy on the CPU")
        with env.pm.Buffer.from_handle(copied.tensor.data, NBYTES) as same:
            expect_bytes(env.read(same), pattern(NBYTES), "the copy")
        copied.delete()
        expect_equal(buf.exports, 0, "exports in the end")
    for call in (buf.__dlpack__, buf.__dlpack_device__):
        with refused(ValueError, saying="closed"):
            call()


def _expect_bytes_of(env: Env, given: Any, whole: Any, version: tuple[int, int] | None, start: int) -> None:
    before = whole.exports
    taken = Taken(given.__dlpack__(stream=-1, max_version=version))
    tensor = taken.tensor
    said = ((tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes), taken.shape, taken.strides)
    expect_equal(said, ((dlpack.UINT, 8, 1), (given.nbytes,), (1,)), "the tensor")
    expect_equal((tensor.device.type, tensor.device.id), natural_device(env, whole), "its device")
    expect_equal(whole.exports, before + 1, "exports while the tensor lives")
    with refused(BufferError):
        whole.close()
    with env.pm.Buffer.from_handle(tensor.data, given.nbytes, device=env.device) as same:
        expect_bytes(env.read(same), pattern(NBYTES)[start : start + given.nbytes], "the memory at its address")
    taken.delete()
    expect_equal(whole.exports, before, "exports after the deleter")


@check("OWN-38")
def a_tensor_keeps_a_buffer_that_is_dropped(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, NBYTES)
    env.write(buf, pattern(NBYTES))
    if not has_device(env, buf):
        expect_equal(buf._dlpack_devices(), [], "the devices of memory that DLPack has no name for")
        buf.close()
        return
    taken = Taken(buf.__dlpack__(max_version=(1, 0)))
    del buf
    gc.collect()
    expect_equal(resource.live_buffers, 1, "buffers that are out while the tensor lives")
    with env.pm.Buffer.from_handle(taken.tensor.data, NBYTES, device=env.device) as same:
        expect_bytes(env.read(same), pattern(NBYTES), "the memory")
    taken.delete()
    expect_soon(lambda: resource.live_buffers, 0, "buffers that are out after the deleter")


@check("OWN-38")
def a_buffer_has_no_array_interface(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        for name in ("__array_interface__", "__cuda_array_interface__"):
            expect(not hasattr(buf, name), f"a Buffer has {name}")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory")
