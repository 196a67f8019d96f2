# SPDX-License-Identifier: MIT
"""A process of the fuzzer, as its parent sees it: begun, watched, and judged by how it ends."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from .trail import Trail

#: Variables that the processes run with, in turn: each of the two in every third.
MODES: tuple[tuple[str, ...], ...] = (
    (),
    ("PORTAMEM_DEBUG",),
    ("PORTAMEM_CHECK",),
    (),
    ("PORTAMEM_DEBUG", "PORTAMEM_CHECK"),
    (),
)

#: Seconds that a process has for its first call.
TO_BEGIN = 60


class Process:
    """One process: its task, the outcomes of its calls, and the faults."""

    def __init__(self, options: argparse.Namespace, number: int, calls: int) -> None:
        self.options, self.number, self.calls = options, number, calls
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self, folder: Path) -> None:
        """Runs it to its end."""
        trail_file, result = folder / f"trail-{self.number}", folder / f"result-{self.number}"
        trail = Trail(trail_file, self.options.threads)
        mode = MODES[self.number % len(MODES)]
        environment = os.environ | {"PORTAMEM_HOST_CAPACITY": "512 MiB", "PYTHONPATH": str(Path(__file__).parents[1])}
        environment |= dict.fromkeys(mode, "1")
        words = [self.options.backend, self.options.threads, self.calls, f"{self.options.seed}.{self.number}"]
        words += [trail_file, result, *self.options.more]
        command = [sys.executable, "-m", "fuzzing.child", *map(str, words)]
        with (folder / f"said-{self.number}").open("w+b") as said:
            child = subprocess.Popen(command, env=environment, cwd=folder, stdout=said, stderr=said)
            hung = self._watch(child, trail)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        where = f"process {self.number} (seed {self.options.seed}{''.join(f', {name}' for name in mode)})"
        if hung or child.returncode != 0 or not result.exists():
            how = f"hung: no call in {self.options.patience} s" if hung else f"ended with {child.returncode}"
            self.faults.append("\n".join([f"{where} {how}", text[-6000:], *trail.last()]))
            return
        found = json.loads(result.read_text(encoding="utf-8"))
        self.counts.update(found["counts"])
        self.faults += [f"{where}: {fault}" for fault in found["faults"]]

    def _watch(self, child: subprocess.Popen[bytes], trail: Trail) -> bool:
        """Waits for the end; True if it had to be made."""
        begun, since = trail.begun(), time.monotonic()
        while True:
            try:
                child.wait(0.2)
                return False
            except subprocess.TimeoutExpired:
                now = trail.begun()
                if now != begun:
                    begun, since = now, time.monotonic()
                elif time.monotonic() - since > (self.options.patience if any(now) else TO_BEGIN):
                    child.send_signal(signal.SIGUSR1)  # it prints where its threads are
                    time.sleep(1)
                    child.kill()
                    child.wait()
                    return True
