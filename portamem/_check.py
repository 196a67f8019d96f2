# SPDX-License-Identifier: MIT
"""The order checker: ``with portamem.check():`` finds uses of memory that no order covers, with both places."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, TracebackType

from portamem.errors import Error, OrderError


@dataclass(frozen=True)
class OrderUse:
    """One of the two uses of memory in a finding."""

    call: str
    """The runtime call, such as ``MemcpyAsync``."""
    site: str
    """The place of the call: ``file:line`` of the first Python frame outside portamem, else a native symbol and
    offset."""
    stream: str
    """The stream in words."""
    handle: int = field(repr=False)
    """The stream's handle; 0 for default streams and for the host."""
    device: int = field(repr=False)
    """The stream's device; -1 for the host."""


@dataclass(frozen=True)
class OrderFinding:
    """Two uses of the same memory that nothing orders."""

    kind: str
    """The fault: "unordered read after write", "use after free" and the like."""
    address: int
    """The first byte that both touched, when the finding was first made."""
    nbytes: int
    """The bytes from there on that both touched."""
    first: OrderUse
    second: OrderUse
    advice: str
    """A sentence about how to order the two."""
    count: int
    """How often the same two places did it."""
    text: str = field(repr=False, compare=False)
    """The whole finding in words, which ``str()`` gives too."""

    def __str__(self) -> str:
        return self.text


class OrderCheck:
    """The context manager that ``check()`` returns. A program may read ``findings`` within the block and after it."""

    def __init__(self, native: ModuleType, raises: bool) -> None:
        self._native = native
        self._raises = raises
        self._session = 0
        self._findings: tuple[OrderFinding, ...] = ()

    @property
    def findings(self) -> tuple[OrderFinding, ...]:
        """The uses that nothing orders, as far as the checker has found them by now."""
        if self._session:
            self._findings = tuple(_finding(*values) for values in self._native._order_findings(self._session))
        return self._findings

    def __enter__(self) -> OrderCheck:
        """Starts to follow the calls of all threads. Raises Error on a GPU backend, whose calls are not followed."""
        if self._session:
            raise RuntimeError("this check is running already: call check() again for another")
        self._findings = ()
        self._session = self._native._order_begin()
        if not self._session:
            raise Error(
                f"the order checker does not follow the {self._native.backend} backend's calls yet: run the program "
                "on the CPU (PORTAMEM_BACKEND=host, or portamem.host) to check its order",
                name="NotSupported",
                call="check",
                backend=self._native.backend,
            )
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Ends the check. Raises OrderError if there are findings, except with ``raises=False`` and where an exception
        ends the block."""
        findings = self.findings
        self._native._order_end(self._session)
        self._session = 0
        if findings and self._raises and exc_type is None:
            raise OrderError(findings, backend=self._native.backend)


def _finding(
    kind: str,
    address: int,
    nbytes: int,
    first: tuple[str, str, str, int, int],
    second: tuple[str, str, str, int, int],
    advice: str,
    count: int,
    text: str,
) -> OrderFinding:
    return OrderFinding(kind, address, nbytes, OrderUse(*first), OrderUse(*second), advice, count, text)
