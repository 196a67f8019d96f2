# SPDX-License-Identifier: MIT
"""Counters: numbers on the device that kernels add to."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portamem.conformance.witness.base import Witness


class Counter:
    """A 64-bit number in device memory of the witness's own. Starts at 0."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.address = witness.malloc(8)
        witness.write(self.address, bytes(8))

    def read(self) -> int:
        """The number, once everything queued on the device has run."""
        self._witness.synchronize()
        return int.from_bytes(self._witness.read(self.address, 8), "little")

    def close(self) -> None:
        """Gives the memory back. Once closed it stays so."""
        address, self.address = self.address, 0
        if address:
            self._witness.free(address)

    def __enter__(self) -> Counter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
