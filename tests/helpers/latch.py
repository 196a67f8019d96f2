"""Latches: host functions that hold a stream until released. They are the conformance suite's."""

from __future__ import annotations

from portamem.conformance.kit.latch import TIMEOUT_S, Latch

__all__ = ["TIMEOUT_S", "Latch"]
