# SPDX-License-Identifier: MIT
"""The heap of a device, from which kernels allocate: what kernels found on it, launch by launch."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portamem.conformance.witness.base import Witness


@dataclass(frozen=True)
class HeapReport:
    """The counts of one launch, over all of its threads."""

    asked: int
    """Allocations that were asked for."""
    null: int
    """Allocations that gave NULL. Nothing else was done with them."""
    misaligned: int
    """Allocations that are no multiple of the alignment asked for, or of 16."""
    mismatches: int
    """Bytes that were not what had been written."""

    @property
    def is_clean(self) -> bool:
        return self.null == self.misaligned == self.mismatches == 0


class ReportMemory:
    """The four numbers of a report, in device memory of the witness's own."""

    NBYTES = 32

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.address = witness.malloc(self.NBYTES)
        witness.write(self.address, bytes(self.NBYTES))

    def read(self) -> HeapReport:
        """The report, once everything queued on the device has run, and the memory given back."""
        self._witness.synchronize()
        data = self._witness.read(self.address, self.NBYTES)
        self._witness.free(self.address)
        return HeapReport(*(int.from_bytes(data[i : i + 8], "little") for i in range(0, self.NBYTES, 8)))


class KeptHeapMemory:
    """Allocations of a kernel, one for each of its blocks, that stay across launches until ``release`` frees them.

    ``stream`` is a handle. Each method is a launch of its own and waits for it.
    """

    def __init__(
        self, witness: Witness, stream: int, blocks: int, threads: int, nbytes: int, align: int, seed: int
    ) -> None:
        self._witness, self._stream = witness, stream
        self._blocks, self._threads, self._nbytes, self._seed = blocks, threads, nbytes, seed
        self._table = witness.malloc(8 * blocks)
        witness.write(self._table, bytes(8 * blocks))
        self.allocated = self._launch("heap_keep", nbytes, align, seed)
        """The report of the launch that allocated."""

    @property
    def addresses(self) -> tuple[int, ...]:
        """Device addresses, by block; 0 where there is no allocation. No call of the host may be given one."""
        data = self._witness.read(self._table, 8 * self._blocks)
        return tuple(int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8))

    def use(self) -> HeapReport:
        """Compares what the launch before wrote, and writes other bytes."""
        seed, self._seed = self._seed, self._seed + 1
        return self._launch("heap_use", self._nbytes, seed, self._seed)

    def release(self) -> None:
        """Frees by a kernel, in other threads and blocks than those that allocated. Once released it stays so."""
        if not self._table:
            return
        self._witness.launch("heap_release", self._stream, self._blocks, self._threads, self._table)
        self._witness.synchronize()
        table, self._table = self._table, 0
        self._witness.free(table)

    def _launch(self, kernel: str, *arguments: int) -> HeapReport:
        report = ReportMemory(self._witness)
        self._witness.launch(kernel, self._stream, self._blocks, self._threads, self._table, *arguments, report.address)
        return report.read()

    def __enter__(self) -> KeptHeapMemory:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.release()
