# SPDX-License-Identifier: MIT
"""One process of the fuzzer: so many calls from so many threads, and what was wrong with them."""

from __future__ import annotations

import faulthandler
import importlib
import json
import random
import runpy
import signal
import sys
import tempfile
import threading
import warnings
from collections import Counter
from pathlib import Path

from .call import Maker
from .calls import CALLS
from .judge import fault_of, is_nothing_there
from .trail import Trail
from .world import World

MOST_FAULTS = 20
AT_THE_END = 100


class Run:
    """The threads of one process, and what they found."""

    def __init__(self, world: World, trail: Trail, calls: dict[Maker, int], seed: str) -> None:
        self.world, self.trail, self.seed = world, trail, seed
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self._makers, self._weights = list(calls), list(calls.values())
        self._lock = threading.Lock()

    def work(self, thread: int, numbers: range) -> None:
        """Makes the calls of one thread, unless too many are wrong."""
        counts: Counter[str] = Counter()
        for number in numbers:
            rng = random.Random(f"{self.seed}.{thread}.{number}")
            maker = rng.choices(self._makers, self._weights)[0]
            counts[f"{maker.__name__}: {self.one(thread, number, maker, rng)}"] += 1
            if len(self.faults) > MOST_FAULTS:
                break
        with self._lock:
            self.counts += counts

    def one(self, thread: int, number: int, maker: Maker, rng: random.Random) -> str:
        """Makes one call, and answers what it came to."""
        text = maker.__name__
        try:
            text, call = maker(self.world, rng)
            self.trail.begin(thread, number, text)
            self.world.keep(rng, call())
        except Exception as error:
            if is_nothing_there(error):
                return "nothing there"
            if fault := fault_of(error, text):
                self.faults.append(f"call {number} of thread {thread}: {fault}")
            return type(error).__name__
        return "done"

    def look_for_lost_memory(self) -> None:
        """Lets go of everything; portamem then holds nothing."""
        self.world.end()
        self.faults += [f"held on {place}: {held} bytes" for place, held in self.world.held().items() if held]


def main() -> int:
    """``backend threads calls seed trail result [more calls]``: the parent process gives them all."""
    backend, threads, calls, seed, trail, result, *more = sys.argv[1:]
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None  # users' functions raise where no call waits for it
    made = dict(CALLS)
    for path in more:
        made |= runpy.run_path(path)["CALLS"]
    with tempfile.TemporaryDirectory() as folder:
        world = World(importlib.import_module(f"portamem.{backend}"), Path(folder))
        run = Run(world, Trail(Path(trail), int(threads)), made, seed)
        numbers = range(int(calls) // int(threads))
        workers = [threading.Thread(target=run.work, args=(i, numbers)) for i in range(int(threads))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        run.look_for_lost_memory()
        Path(result).write_text(json.dumps({"faults": run.faults, "counts": run.counts}), encoding="utf-8")
        run.work(0, range(numbers.stop, numbers.stop + AT_THE_END))  # and the interpreter ends with what these make
    return 0


if __name__ == "__main__":
    sys.exit(main())
