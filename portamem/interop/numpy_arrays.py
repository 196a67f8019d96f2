# SPDX-License-Identifier: MIT
"""NumPy arrays over the bytes of a View: with strides, and of element types that the buffer protocol cannot name."""

from __future__ import annotations

from typing import Any


def typed(
    memory: Any, element: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, copy: bool | None
) -> Any:
    """An array of ``element`` over ``memory``, which has the bytes from the first element to the last. ``dtype`` and
    ``copy`` are those of ``__array__``; a copy is C-contiguous."""
    import numpy as np

    array = np.ndarray(shape, element, np.asarray(memory), strides=None if 0 in shape else strides)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"{array.dtype} becomes {np.dtype(dtype)} by a copy only, which copy=False forbids")
        return array.astype(dtype, order="C")
    return array.copy() if copy else array
