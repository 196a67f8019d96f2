# SPDX-License-Identifier: MIT
"""Call the whole Python API at random, with right and with wrong arguments, and see that nothing breaks.

    python tests/soak/fuzz.py [--backend host] [--calls 1000000] [--threads 1] [--seed 0] [--first 0]

Processes of twenty thousand calls each share them out; every third runs with PORTAMEM_DEBUG, every third with
PORTAMEM_CHECK. Wrong are: a process that crashes or hangs, memory that is held when everything was let go of, an
exception that tells of a fault of portamem's own, and words of the machinery in a message. With one thread, a seed and
the number of a process make the same calls again: ``--seed S --first N --calls 20000``.

It exits 0 only if nothing was wrong, and prints what each kind of call came to.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing.process import Process

PER_PROCESS = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first process (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=60, help="seconds without a call that are a hang (60)")
    parser.add_argument(
        "--more", action="append", default=[], help="a Python file whose CALLS are made beside the others"
    )
    options = parser.parse_args()

    counts: Counter[str] = Counter()
    faults: list[str] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for done in range(0, options.calls, PER_PROCESS):
            number = options.first + done // PER_PROCESS
            process = Process(options, number, min(PER_PROCESS, options.calls - done))
            process.run(Path(folder))
            counts += process.counts
            faults += process.faults
            for fault in process.faults:
                print(fault, file=sys.stderr, flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:>12,}  {what}")
    seconds, made = time.monotonic() - start, sum(counts.values())
    print(
        f"fuzz on {options.backend}: {made:,} calls, {options.threads} threads, {seconds:.0f} s, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
