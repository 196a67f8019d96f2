"""empty, zeros and asarray. Where their memory comes from is in the conformance suite."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def test_a_scope_keeps_its_resource(pm: ModuleType, device: Any) -> None:
    with pm.using(pm.DeviceMemoryResource(device)), pm.empty(16) as view:
        assert view.buffer.resource.live_bytes == view.nbytes


def test_empty_zeros_asarray(pm: ModuleType, device: Any, stream: Any) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    with (
        pm.empty((3, 4), "int16") as empty,
        pm.zeros(5, np.float64) as zeros,
        pm.asarray(array) as copied,
        pm.asarray(array, stream=stream) as queued,
    ):
        assert (empty.shape, empty.dtype) == ((3, 4), "int16")
        assert (zeros.shape, zeros.dtype) == ((5,), "float64")
        assert not zeros.to_numpy().any()
        assert (copied.shape, copied.dtype) == ((3, 4), "int16")
        assert np.array_equal(copied.to_numpy(), array)
        assert np.array_equal(queued.to_numpy(stream=stream), array)


def test_asarray_takes_what_numpy_takes(pm: ModuleType) -> None:
    with pm.asarray([1.5, 2.5]) as from_list, pm.asarray(b"abc") as from_bytes, pm.asarray(3) as scalar:
        assert (from_list.dtype, from_list.shape) == ("float64", (2,))
        assert (from_bytes.dtype, from_bytes.shape) == ("uint8", (3,))
        assert scalar.shape == ()
    for part in (np.arange(10)[::-2], np.arange(12).reshape(3, 4).T, np.arange(4)[:0:2]):
        with pm.asarray(part) as view:
            assert (view.shape, view.to_numpy().tolist()) == (part.shape, part.tolist())
