# SPDX-License-Identifier: MIT
"""How much a machine did beside a benchmark, meanwhile.

The load average does not say that: it counts the benchmark's own threads, and what had ended before it began.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")


class OtherWork:
    """From here on, the processors' time that other programs take. The host of a virtual machine counts among them."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._from = self._now()

    def processors(self) -> float | None:
        """How many processors other programs kept busy, in the mean. None where the system does not tell.

        Of the processes that this one started, those count as its own that have ended and were waited for.
        """
        if self._from is None or (now := self._now()) is None:
            return None
        wall, busy, own = (new - old for new, old in zip(now, self._from, strict=True))
        return max(0.0, round((busy - own) / wall, 2)) if wall > 0 else None

    def _now(self) -> tuple[float, float, float] | None:
        try:
            words = self._stat.read_text(encoding="ascii").split(maxsplit=9)[:9]
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:])
        except (OSError, ValueError):
            return None
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])
