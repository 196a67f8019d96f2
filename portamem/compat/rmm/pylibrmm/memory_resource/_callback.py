# SPDX-License-Identifier: MIT
"""Memory of two functions of the program, and what becomes of their exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import portamem
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource
from portamem.compat.rmm.pylibrmm.stream import Stream

P = ParamSpec("P")
T = TypeVar("T")


class CallbackMemoryResource(DeviceMemoryResource):
    """Memory of two functions of the program. portamem calls them with no lock held."""

    __slots__ = ()

    def __init__(
        self, allocate_func: Callable[[int, Stream], int], deallocate_func: Callable[[int, int, Stream], object]
    ) -> None:
        """Makes a resource for the calling thread's current device of ``allocate_func(nbytes, stream) -> address`` and
        ``deallocate_func(address, nbytes, stream)``, which it keeps alive.

        The address is a multiple of 256, and 0 where there is no memory. What they do is in the order of ``stream``.
        A MemoryError or RuntimeError that they raise reaches the caller as it is, any other exception as the cause of a
        RuntimeError with its text. Raises TypeError for what is no function.
        """
        require_callable(allocate_func, "allocate_func")
        require_callable(deallocate_func, "deallocate_func")

        def allocate(nbytes: int, stream: portamem.Stream) -> int:
            return translated(allocate_func, nbytes, Stream._of(stream))

        def deallocate(ptr: int, nbytes: int, stream: portamem.Stream) -> None:
            translated(deallocate_func, ptr, nbytes, Stream._of(stream))

        super().__init__(portamem.CallbackMemoryResource(allocate, deallocate, stream_ordered=True))


def require_callable(func: object, role: str) -> None:
    """Raises TypeError for what is no function; ``role`` is the parameter's name."""
    if not callable(func):
        raise TypeError(f"Argument `{role}` is a function, not a {type(func).__name__}")


def translated(func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function of the program. Its exception becomes one that code written for RMM expects."""
    try:
        return func(*args, **kwargs)
    except (MemoryError, RuntimeError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise RuntimeError(str(error)) from error
