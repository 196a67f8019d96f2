# SPDX-License-Identifier: MIT
"""The rows of the speed table: what each is, and what portamem has to reach in it.

A row's figures are medians by the name of who was measured. A bound is portamem's figure by a peer's, or a figure of
portamem alone. One whose peer was not there is not measured, and neither holds nor is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

OWN = "portamem"
ARENA, RMM_POOL, CUPY, NUMPY, UMPIRE = "RMM arena", "RMM pool", "cupy.cuda.alloc", "np.empty", "Umpire QuickPool"
SIZES = ("256 B", "64 KiB", "1 MiB", "64 MiB")

Figures = Mapping[str, Mapping[str, float]]
"""The median of each row by who was measured."""


class MissingError(Exception):
    """Says who was not measured."""


def figure(figures: Figures, row: str, who: str) -> float:
    found = figures.get(row, {}).get(who)
    if found is None:
        raise MissingError(who)
    return found


class Bound(NamedTuple):
    """What has to hold: ``of(figures)`` at most, or at least, ``bound``."""

    text: str
    bound: float
    of: Callable[[Figures], float]
    at_most: bool = True
    predicted_by: tuple[str, str] | None = None
    """The row and the peer whose figure of another machine makes a prediction where the peer is missing."""
    on_host: bool = True
    """Whether it says anything on the CPU."""
    where: tuple[str, str] | None = None
    """A row that is 0 on a machine that the bound is not meant for, and what to say there."""

    def judged(self, figures: Figures, backend: str) -> dict[str, Any]:
        words = "at most" if self.at_most else "at least"
        text = f"{words} {self.bound:g} {self.text}".rstrip()
        found: dict[str, Any] = {"text": text, "ratio": None, "holds": None}
        if backend == "host" and not self.on_host:
            return found | {"missing": "a GPU"}
        try:
            ratio = self.of(figures)
        except MissingError as missing:
            return found | {"missing": str(missing)} | self.predicted(figures)
        if self.where is not None and figures.get(self.where[0], {}).get(OWN) == 0:
            return found | {"ratio": ratio, "aside": self.where[1]}
        return found | {"ratio": ratio, "holds": ratio <= self.bound if self.at_most else ratio >= self.bound}

    def predicted(self, figures: Figures) -> dict[str, Any]:
        """What the ratio would be if the peer took what it took on the machine of KNOWN. No measurement."""
        if self.predicted_by is None or self.predicted_by not in KNOWN:
            return {}
        row, peer = self.predicted_by
        there = KNOWN[row, peer]
        with_peer = {name: dict(values) for name, values in figures.items()}
        with_peer.setdefault(row, {})[peer] = there
        try:
            return {"predicted": self.of(with_peer), "from": f"{peer} at {there:g}"}
        except MissingError:
            return {}


KNOWN_ON = "an NVIDIA H200 with a 4th generation Xeon of 2.1 GHz"
KNOWN = {
    **{(f"pair {size}", ARENA): ns for size, ns in zip(SIZES, (188, 200, 158, 491), strict=True)},
    **{(f"python {size}", CUPY): ns for size, ns in zip(SIZES, (625, 614, 614, 773), strict=True)},
    ("live 4 MiB", ARENA): 415,
    ("other thread", ARENA): 158,
    ("threads 16", ARENA): 2.3,
    ("stream pairs", RMM_POOL): 0.55,
    ("mixed p50", ARENA): 208,
}
"""Peers' figures measured there earlier, in the units of the rows (64 KiB from Python stands for cupy's 1 MiB; other
thread and mixed from the nearest work that was measured)."""


def by(row: str, peer: str, of: str = "") -> Callable[[Figures], float]:
    """portamem's figure of a row by a peer's, of that row or another."""
    return lambda figures: figure(figures, row, OWN) / figure(figures, of or row, peer)


def alone(row: str) -> Callable[[Figures], float]:
    return lambda figures: figure(figures, row, OWN)


def scaling(who: str) -> Callable[[Figures], float]:
    return lambda figures: figure(figures, "threads 16", who) / figure(figures, "threads 1", who)


class Row(NamedTuple):
    key: str
    what: str
    bounds: tuple[Bound, ...] = ()


def times(row: str, peer: str, bound: float, *, at_most: bool = True) -> Bound:
    return Bound(f"x {peer}", bound, by(row, peer), at_most, (row, peer))


BLOCKS = (100_000, 1_000_000, 10_000_000)
"""Live blocks of 256 B whose host memory is measured,"""

LARGER = {16 << 10: "16 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB"}
"""and sizes of 100,000 more each. Above 2 MiB the table of addresses takes 4 bytes more for each MiB."""


REGISTERED = "pinned start-up, registered pages"


SET, SET_AND_WAIT, GET = "cupy.ndarray.set", "cupy.ndarray.set and a wait", "cupy.ndarray.get"
FROM_TORCH, FROM_VIEW = "torch.from_dlpack of it", "torch.from_dlpack"
EMPTY = "cupy.empty"


def memory(blocks: int, nbytes: int = 256) -> str:
    return f"host memory, {blocks} blocks of {nbytes}"


ROWS = (
    *(
        Row(
            f"python {size}",
            f"Python: allocate and free {size}, warm",
            (times(f"python {size}", NUMPY, 0.75), times(f"python {size}", CUPY, 0.3))
            if size != "64 MiB"
            else (times(f"python {size}", CUPY, 0.5),),
        )
        for size in SIZES
    ),
    Row(
        "typed, on a stream",
        "Python: a typed array of 1 MiB, made on a stream and dropped, warm",
        (times("typed, on a stream", NUMPY, 1.5), times("typed, on a stream", EMPTY, 1)),
    ),
    Row(
        "typed",
        "Python: the same without a stream, there for all streams",
        (times("typed", NUMPY, 1.5), times("typed", EMPTY, 1)),
    ),
    # CuPy's set returns while the bytes are still on their way, so each form has its like beside it.
    Row("copy in, queued", "Python: 4 KiB from NumPy, on a stream", (times("copy in, queued", SET, 0.8),)),
    Row("copy in", "Python: 4 KiB from NumPy, done on return", (times("copy in", SET_AND_WAIT, 1),)),
    Row("copy out", "Python: 4 KiB to NumPy, done on return", (times("copy out", GET, 0.8),)),
    Row("to_torch", "Python: a View's host memory as a PyTorch tensor", (times("to_torch", FROM_VIEW, 1.2),)),
    Row("from_dlpack", "Python: a PyTorch tensor of host memory as a View", (times("from_dlpack", FROM_TORCH, 1.2),)),
    *(
        Row(f"pair {size}", f"C++: allocate and free {size}, warm", (times(f"pair {size}", ARENA, 0.15),))
        for size in SIZES
    ),
    *(
        Row(
            f"reachable {size}",
            f"C++: host memory in blocks of {size}, 64 live, freed and allocated in random order",
            (times(f"reachable {size}", UMPIRE, 1),),
        )
        for size in ("256 KiB", "1 MiB", "16 MiB", "64 MiB")
    ),
    Row("live 4 MiB", "100k live blocks of 256 B to 4 MiB, freed in random order", (times("live 4 MiB", ARENA, 0.4),)),
    Row(
        "live 4 MiB, reserved",
        "of that, peak reserved by peak live",
        (Bound("", 1.15, alone("live 4 MiB, reserved")),),
    ),
    Row("live 16 KiB", "100k live blocks of 256 B to 16 KiB, freed in random order"),
    Row("other thread", "freed on another thread, 64 KiB", (times("other thread", ARENA, 0.25),)),
    Row("threads 1", "one thread on a stream, 64 KiB, on one CPU after the other"),
    Row("threads 4", "4 threads, each on a stream of its own, 64 KiB"),
    Row(
        "threads 16",
        "16 threads, each on a stream of its own, 64 KiB",
        (
            Bound(
                "x the scaling of a thread's own malloc",
                0.75,
                lambda figures: scaling(OWN)(figures) / scaling("malloc")(figures),
                at_most=False,
            ),
            times("threads 16", ARENA, 100, at_most=False),
        ),
    ),
    Row(
        "stream pairs",
        "8 threads, each allocating on one stream and freeing on another",
        (times("stream pairs", RMM_POOL, 5, at_most=False),),
    ),
    Row(
        "stream pairs, nobody waits for the device",
        "of that, 1 where it goes on while another stream is held up",
        (Bound("", 1, alone("stream pairs, nobody waits for the device"), at_most=False),),
    ),
    Row("mixed p50", "mixed work, p50 of a call"),
    Row(
        "mixed p99.9",
        "mixed work, p99.9 of a call",
        (Bound(f"x the p50 of {ARENA}", 1, by("mixed p99.9", ARENA, of="mixed p50"), True, ("mixed p50", ARENA)),),
    ),
    Row(
        "pinned start-up",
        "start-up of a pinned pool, 4 GiB (host: 256 MiB, not pinned)",
        (
            Bound(
                "x HostMalloc",
                0.2,
                by("pinned start-up", "HostMalloc"),
                on_host=False,
                where=(REGISTERED, "as capabilities do not say that registered memory is as good as HostMalloc's"),
            ),
        ),
    ),
    Row(REGISTERED, "of that, 1 where the memory is pages that were registered: elsewhere it is HostMalloc's"),
    *(Row(memory(blocks), f"host memory for each of {blocks:,} live blocks of 256 B") for blocks in BLOCKS[:-1]),
    Row(
        memory(BLOCKS[-1]),
        f"host memory for each of {BLOCKS[-1]:,} live blocks of 256 B",
        (
            Bound("bytes", 96, alone(memory(BLOCKS[-1]))),
            Bound(f"x that of {BLOCKS[-2]:,} blocks", 1.1, by(memory(BLOCKS[-1]), OWN, of=memory(BLOCKS[-2]))),
        ),
    ),
    *(
        Row(
            memory(BLOCKS[0], nbytes),
            f"host memory for each of {BLOCKS[0]:,} live blocks of {name}",
            (Bound("bytes", 96, alone(memory(BLOCKS[0], nbytes))),),
        )
        for nbytes, name in LARGER.items()
    ),
)
