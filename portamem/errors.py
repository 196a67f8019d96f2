# SPDX-License-Identifier: MIT
"""The exceptions of portamem, defined once: the native modules of all three backends raise these."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for `typing`'s, without the milliseconds that importing that costs
if TYPE_CHECKING:
    from portamem._check import OrderFinding
    from portamem.reasons import Reason


class Error(RuntimeError):
    """A call that a vendor's runtime, or portamem itself, refused.

    ``code`` is the native code, ``name`` portamem's name for it (the same on every backend), ``call`` the call that was
    refused and ``backend`` the backend that made it.
    """

    def __init__(self, message: str, *, code: int = 0, name: str = "", call: str = "", backend: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.call = call
        self.backend = backend


class OutOfMemoryError(Error, MemoryError):
    """There is no memory. The figures are in bytes, and None where they are not known.

    ``asked`` is what the call asked for. ``free`` is what the device has free, and ``used`` what portamem's buffers
    hold of it; of a LimitingAdaptor, what its limit leaves and what is out. ``cached`` is what the resource keeps that
    no buffer has, and ``largest_free_block`` the largest block of that. ``used_by_others`` is what contexts, caches and
    other users of the device hold.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 2,
        name: str = "OutOfMemory",
        call: str = "",
        backend: str = "",
        asked: int | None = None,
        used: int | None = None,
        cached: int | None = None,
        free: int | None = None,
        largest_free_block: int | None = None,
        used_by_others: int | None = None,
    ) -> None:
        super().__init__(message, code=code, name=name, call=call, backend=backend)
        self.asked = asked
        self.used = used
        self.cached = cached
        self.free = free
        self.largest_free_block = largest_free_block
        self.used_by_others = used_by_others


class OrderError(Error):
    """``portamem.check()`` found uses of memory that nothing orders. ``findings`` has each of them, an OrderFinding."""

    def __init__(self, findings: tuple[OrderFinding, ...], *, backend: str = "") -> None:
        count = f"{len(findings)} unordered use{'s' if len(findings) != 1 else ''} of memory"
        super().__init__("\n".join((count, *map(str, findings))), name="Order", call="check", backend=backend)
        self.findings = findings

    def __reduce__(self) -> tuple[type[OrderError], tuple[tuple[OrderFinding, ...]]]:
        return type(self), (self.findings,)


class BackendUnavailableError(Error, ImportError):
    """A backend cannot be used here. ``reason`` says why, in words and as a code, and what to do."""

    name: str

    def __init__(self, backend: str, reason: Reason) -> None:
        super().__init__(f"portamem.{backend} cannot be used: {reason}", name=reason.code, backend=backend)
        self.reason = reason

    def __reduce__(self) -> tuple[type[BackendUnavailableError], tuple[str, Reason]]:
        return type(self), (self.backend, self.reason)
