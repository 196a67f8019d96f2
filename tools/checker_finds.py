# SPDX-License-Identifier: MIT
"""Shows that the vendor's memory checker finds what kernels do wrong within the memory of a pool, and nothing else.

    python tools/checker_finds.py --backend cuda --checker /usr/local/cuda/bin/compute-sanitizer

Each case is a process under the checker, which may end a context at the first error. A case that does something wrong
says beforehand which address it will touch; the checker has to report that address, and no other. One that does nothing
wrong has to end without a report. What a process and the checker said is printed where it was not as expected.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

FOUND = 86
"""The checker's exit code where it has found something, and the program ended well."""

held: list[Any] = []
"""Objects that live to the end of a process: after an error there is no context to free anything in."""


class Scene:
    """A pool, a stream, and kernels that portamem has no part in."""

    def __init__(self, backend: str, upstream: str) -> None:
        from portamem.conformance.witness import witness_for

        self.pm = importlib.import_module(f"portamem.{backend}")
        self.witness = witness_for(backend, 0)
        if not self.witness.has_kernels:
            raise SystemExit(f"there are no kernels: {self.witness.why_no_kernels}")
        self.stream = self.pm.Stream(0)
        self.pool = self.pm.PoolMemoryResource(device=0)
        if upstream == "pool":
            held.append(self.pool)
            self.pool = self.pm.PoolMemoryResource(self.pool)
        held.extend((self.stream, self.pool))

    def take(self, nbytes: int, resource: Any = None) -> Any:
        buffer = (resource or self.pool).allocate(nbytes, stream=self.stream)
        held.append(buffer)
        return buffer

    def fill(self, address: int, nbytes: int) -> None:
        """Queues a kernel that writes so many bytes."""
        self.witness.fill(self.stream.handle, address, nbytes, 3)

    def done(self) -> None:
        self.stream.synchronize()


def wrong(scene: Scene, address: int, nbytes: int, at: int) -> None:
    """Writes so many bytes, of which only the one at ``at`` is wrong."""
    print(f"is_checked: {scene.pool.is_checked}", flush=True)
    print(f"wrong: {at:#x}", flush=True)
    scene.fill(address, nbytes)
    try:
        scene.done()
        print("the stream has gone on", flush=True)
    except scene.pm.Error as error:
        print(f"the stream has ended: {error}", flush=True)


def behind(scene: Scene, nbytes: int) -> None:
    block = scene.take(nbytes)
    wrong(scene, block.handle, nbytes + 1, block.handle + nbytes)


def behind_a_plain_allocation(scene: Scene) -> None:
    scene.take(1000)
    block = scene.take(1000, scene.pm.DeviceMemoryResource(0))
    wrong(scene, block.handle, 1001, block.handle + 1000)


def behind_a_block_used_again(scene: Scene) -> None:
    block = scene.take(1000)
    address = block.handle
    scene.fill(address, 1000)
    block.close()
    again = scene.take(990)
    print(f"the same address: {again.handle == address}", flush=True)
    scene.done()
    scene.take(5000)  # by now the pool sees that the first use has ended
    wrong(scene, again.handle, 991, again.handle + 990)


def into_a_freed_block(scene: Scene) -> None:
    scene.take(1000)  # its neighbour
    block = scene.take(1000)
    address = block.handle
    scene.fill(address, 1000)
    block.close()
    scene.done()
    scene.take(5000)
    wrong(scene, address, 1, address)


def all_right(scene: Scene) -> None:
    """Every byte of blocks that are taken, given back and taken again, large and small, with copies between."""
    sizes = (1, 255, 256, 257, 1000, 5000, 100_000, 3_000_001, 20_000_000)
    for nbytes in (*sizes, *reversed(sizes)):
        block, other = scene.take(nbytes), scene.take(nbytes)
        scene.fill(block.handle, nbytes)
        scene.pm.copy(other, block, stream=scene.stream)
        seen = scene.witness.verify(scene.stream.handle, other.handle, nbytes, 3)
        scene.done()
        print(f"{nbytes} bytes: {seen.read()} wrong", flush=True)
        other.close()
        block.close()
    scene.pool.trim()
    block = scene.take(1000)
    scene.fill(block.handle, 1000)
    scene.done()
    print(f"is_checked: {scene.pool.is_checked}", flush=True)


def freed_in_order(scene: Scene) -> None:
    """Blocks are freed, and cut for others, while the work that uses them has not begun."""
    blocks = [scene.take(nbytes) for nbytes in (1000, 1000, 400_000, 3_000_000)]
    with scene.witness.latch(scene.stream.handle) as latch:
        for block in blocks:
            scene.fill(block.handle, block.nbytes)
        for block in blocks:
            block.close()
        for nbytes in (600, 990, 300_000, 50_000, 1_000_000):
            scene.fill(scene.take(nbytes).handle, nbytes)
        latch.release()
    scene.done()
    print(f"is_checked: {scene.pool.is_checked}", flush=True)


class Case(NamedTuple):
    act: Callable[[Scene], None]
    is_wrong: bool
    upstream: str = ""
    options: tuple[str, ...] = ()
    is_checked: bool | None = True
    """The answer that the pool has to give; None where it does not matter."""


CASES = {
    "all right": Case(all_right, False),
    "all right, a pool over a pool": Case(all_right, False, upstream="pool"),
    "freed in stream order": Case(freed_in_order, False),
    "one byte behind a block": Case(lambda scene: behind(scene, 1000), True),
    "one byte behind a large block": Case(lambda scene: behind(scene, 3_000_001), True),
    "one byte behind a block used again": Case(behind_a_block_used_again, True),
    "one byte behind a block of a pool over a pool": Case(lambda scene: behind(scene, 1000), True, upstream="pool"),
    "into a freed block": Case(into_a_freed_block, True),
    "one byte behind a plain allocation": Case(behind_a_plain_allocation, True, is_checked=None),
}
# The checker's findings where it is told nothing: they are not judged, but worth seeing.
CONTROLS = {
    "one byte behind a block, and the checker told nothing": Case(
        lambda scene: behind(scene, 1000), True, options=("--nvtx", "no"), is_checked=None
    ),
}


class Said(NamedTuple):
    """The words of a process and of the checker."""

    wrong: set[int]
    reported: set[int]
    is_checked: str
    errors: int


def read(text: str) -> Said:
    """Reports are lines that begin with =========, of which one names the kind of access and a later one its address.
    Words around the address have changed between versions."""
    reported: set[int] = set()
    errors = 0
    waiting = False
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        if re.search(r"Invalid \S+ (write|read|atomic)", line):
            errors += 1
            waiting = True
        elif waiting and (found := re.search(r"\b(?:Address|Access)\b\D*?(0x[0-9a-fA-F]+)", line)):
            reported.add(int(found[1], 16))
            waiting = False
    return Said(
        {int(address, 16) for address in re.findall(r"^wrong: (0x[0-9a-f]+)$", text, re.MULTILINE)},
        reported,
        (re.findall(r"^is_checked: (\w+)$", text, re.MULTILINE) or ["unknown"])[-1],
        errors,
    )


def judge(case: Case, code: int, said: Said) -> str:
    """Empty where all is as it has to be."""
    if case.is_checked is not None and said.is_checked != str(case.is_checked):
        return (
            f"is_checked is {said.is_checked}: the pool tells the checker nothing. Was portamem built where "
            "nvtx3/nvToolsExtMem.h is, and does the checker set NVTX_INJECTION64_PATH?"
        )
    if not case.is_wrong:
        if code != 0 or said.errors:
            return f"exit code {code}, {said.errors} reports: nothing was wrong"
        return ""
    if len(said.wrong) != 1:
        return f"exit code {code}: the process did not get to what it was to do"
    if not said.errors:
        return f"exit code {code}, no report: the checker has not found it"
    if said.reported != said.wrong:
        return f"reported {sorted(map(hex, said.reported))}, wrong was {sorted(map(hex, said.wrong))}"
    if code != FOUND:
        return f"reported, with exit code {code} and not {FOUND}"
    return ""


def run(backend: str, checker: Sequence[str], name: str, case: Case, seconds: int) -> tuple[int, str]:
    command = [*checker, *case.options, sys.executable, __file__, "--backend", backend, "--case", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        return 124, text.decode(errors="replace") if isinstance(text, bytes) else text
    return done.returncode, done.stdout


def indented(text: str) -> str:
    return "\n".join(f"    | {line}" for line in text.splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--checker", help="compute-sanitizer")
    parser.add_argument("--only", action="append", help="cases whose names hold this")
    parser.add_argument("--seconds", type=int, default=90, help="for one process")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    every = {**CASES, **CONTROLS}
    if given.case:
        case = every[given.case]
        case.act(Scene(given.backend, case.upstream))
        return 0
    if not given.checker:
        parser.error("--checker says which")
    checker = [given.checker, "--report-api-errors", "no", "--error-exitcode", str(FOUND)]
    failed = 0
    for name, case in every.items():
        if given.only and not any(word in name for word in given.only):
            continue
        code, text = run(given.backend, checker, name, case, given.seconds)
        said = read(text)
        addresses = ", ".join(sorted(map(hex, said.reported))) or "nothing"
        seen = f"reported {addresses}, exit code {code}, is_checked {said.is_checked}"
        why = judge(case, code, said)
        if name in CONTROLS:
            print(f"control: {name}: {seen}", flush=True)
            continue
        print(f"{'FAILED' if why else 'as it has to be'}: {name}: {seen}", flush=True)
        if why:
            failed += 1
            print(f"  {why}\n{indented(text)}", flush=True)
    print(f"{failed} failed" if failed else "all as it has to be", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
