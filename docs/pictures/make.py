# SPDX-License-Identifier: MIT
"""Draws the pictures of docs/ as SVG from the text in this file.

python docs/pictures/make.py          writes them
python docs/pictures/make.py --check  fails where a committed picture is not what this file draws
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

STYLE = """<style>
text { font-family: system-ui, sans-serif; font-size: 15px; fill: #1b2733; }
.small { font-size: 12.5px; fill: #45566a; }
.title { font-weight: 600; }
.box { fill: #eef3f8; stroke: #5b7083; stroke-width: 1.2; }
.strong { fill: #d8e8f8; stroke: #2f6ea8; }
.vendor { fill: #f3efe6; stroke: #8a7a55; }
.arrow { stroke: #45566a; stroke-width: 1.6; fill: none; marker-end: url(#head); }
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L10 5 L0 10 z" fill="#45566a"/></marker></defs>"""


class Picture:
    """An SVG file in the making: boxes with a title and lines, arrows with a label."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            STYLE,
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = "") -> None:
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="{f"box {kind}".strip()}"/>'
        )
        first = y + height / 2 - 9 * len(lines) + 5
        self.text(x + width / 2, first, title, "title")
        for number, line in enumerate(lines, 1):
            self.text(x + width / 2, first + 18 * number, line, "small")

    def arrow(self, x1: int, y1: int, x2: int, y2: int, *words: str, side: str = "right") -> None:
        self.parts.append(f'<path d="M{x1} {y1} L{x2} {y2}" class="arrow"/>')
        middle = (y1 + y2) / 2 - 8 * (len(words) - 1) + 4
        for number, line in enumerate(words):
            if side == "right":
                self.text(max(x1, x2) + 9, middle + 16 * number, line, "small", "start")
            else:
                self.text((x1 + x2) / 2, min(y1, y2) - 10 - 16 * (len(words) - 1 - number), line, "small")

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def layers() -> str:
    picture = Picture(860, 500, "The layers of portamem: each calls only those below it")
    picture.box(20, 20, 400, 58, "your Python program", kind="vendor")
    picture.box(440, 20, 400, 58, "your C++ program", kind="vendor")
    picture.box(20, 116, 400, 58, "Python package", "portamem: facade, command line, conformance suite")
    picture.box(20, 204, 400, 58, "native modules", "_host, _cuda, _hip: csrc/python, one source built three times")
    picture.box(20, 292, 520, 66, "C++ headers", "Buffer, Stream, Event, copy, resources and adaptors", kind="strong")
    picture.box(
        620, 292, 220, 66, "libportamem", "pools, registry, recorder,", "order checker: no vendor code", kind="strong"
    )
    picture.box(20, 396, 520, 58, "rt", "one inline function per vendor primitive: rt/cuda, rt/hip, rt/host")
    picture.box(620, 396, 220, 58, "CPU runtime", "csrc/host, in libportamem")
    picture.arrow(220, 78, 220, 116)
    picture.arrow(220, 174, 220, 204)
    picture.arrow(220, 262, 220, 292)
    picture.arrow(490, 78, 490, 292)
    picture.arrow(540, 318, 620, 318, "C functions", side="above")
    picture.arrow(620, 340, 540, 340)
    picture.text(580, 360, "callbacks", "small")
    picture.arrow(220, 358, 220, 396)
    picture.arrow(540, 425, 620, 425)
    picture.text(580, 416, "rt/host", "small")
    picture.arrow(280, 454, 280, 478)
    picture.text(292, 480, "rt/cuda: the CUDA runtime; rt/hip: the HIP runtime", "small", "start")
    return picture.svg()


def pool_paths() -> str:
    picture = Picture(860, 430, "The three paths of a pool: hit, heap and full")
    picture.box(20, 26, 240, 62, "allocate(nbytes, stream)", "owner thread, stream", kind="vendor")
    picture.box(
        20, 140, 240, 80, "1. hit", "the thread's cache of the stream", "has a block of the size class", kind="strong"
    )
    picture.box(310, 140, 240, 80, "2. heap", "the stream's arena has", "a batch of such blocks", kind="strong")
    picture.box(600, 140, 240, 80, "3. full", "memory of other streams first,", "then a new chunk", kind="strong")
    picture.box(20, 290, 240, 80, "no lock, no call", "the cache and one word", "of the block are written")
    picture.box(310, 290, 240, 80, "one lock: the heap's", "no call of the upstream;", "a batch refills the cache")
    picture.box(
        600, 290, 240, 80, "calls with no lock held", "events, waits, Malloc; then", "OutOfMemoryError, in words"
    )
    picture.arrow(140, 88, 140, 140)
    picture.arrow(260, 180, 310, 180, "empty", side="above")
    picture.arrow(550, 180, 600, 180, "empty", side="above")
    for x in (140, 430, 720):
        picture.arrow(x, 220, x, 290, "costs")
    picture.text(
        430, 408, "deallocate takes the same way: into the cache, into the arena, back to the upstream", "small"
    )
    return picture.svg()


PICTURES = {"layers.svg": layers, "pool_paths.svg": pool_paths}


def main() -> None:
    stale = []
    for name, draw in PICTURES.items():
        file = FOLDER / name
        if "--check" not in sys.argv[1:]:
            file.write_text(draw(), encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != draw():
            stale.append(name)
    if stale:
        sys.exit(f"docs/pictures: {', '.join(stale)} is not what make.py draws: run python docs/pictures/make.py")


if __name__ == "__main__":
    main()
