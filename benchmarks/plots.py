# SPDX-License-Identifier: MIT
"""The pictures of evidence/performance.md, as SVG by pygal."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import Any

import pygal
from bounds import SIZES
from pygal.style import Style

THREADS = (1, 4, 16)

# portamem first, then its peers in order of their names: the same colour for the same name in every picture of a run.
COLOURS = ("#c0392b", "#2c6fbb", "#7f8c8d", "#2e9e6b", "#8e5bb5", "#d99a1c", "#3aa6b9", "#5d6d7e")

Run = dict[str, Any]


def pictures(run: Run) -> dict[str, str]:
    """Every picture of a run by its name."""
    rows = {row["key"]: row for row in run["rows"]}
    drawn = {
        "python": (pygal.Bar, [f"python {size}" for size in SIZES], SIZES, "ns: allocate and free, from Python"),
        "pair": (pygal.Bar, [f"pair {size}" for size in SIZES], SIZES, "ns: allocate and free, from C++"),
        "threads": (
            pygal.Line,
            [f"threads {count}" for count in THREADS],
            [str(count) for count in THREADS],
            "millions of allocations and frees per second, by threads",
        ),
    }
    found = {}
    for name, (kind, keys, labels, title) in drawn.items():
        some = [rows[key]["values"] if key in rows else {} for key in keys]
        if any(some):
            found[name] = chart(kind, f"{run['name']}-{name}", title, labels, some)
    return found


def names(values: list[dict[str, Any]]) -> list[str]:
    """Who is in any of them, portamem first."""
    every = {who for each in values for who in each}
    return sorted(every, key=lambda who: (who != "portamem", who))


def chart(kind: Any, name: str, title: str, labels: Any, values: list[dict[str, Any]]) -> str:
    every = [figures[0] for each in values for figures in each.values()]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    drawn = kind(
        title=title,
        width=900,
        height=460,
        range=(10.0**low, 10.0**high),
        zero=10.0**low,
        margin_bottom=24,
        logarithmic=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=3,
        legend_box_size=14,
        js=(),
        style=Style(background="white", plot_background="white", colors=COLOURS),
    )
    drawn.uuid = name  # it would be a random one
    drawn.x_labels = list(labels)
    drawn.y_labels = [10.0**power for power in range(low, high + 1)]
    for who in names(values):
        drawn.add(who, [each[who][0] if who in each else None for each in values])
    return canonical(drawn.render(is_unicode=True))


def canonical(svg: str) -> str:
    """The same text for the same picture: pygal's comments name the day, and with lxml it writes XML otherwise."""
    return ET.canonicalize(svg) + "\n"
