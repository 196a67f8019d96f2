# SPDX-License-Identifier: MIT
"""Memory over time, drawn by pygal (``pip install pygal``)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pygal
from pygal.style import Style

POINTS = 400


Entry = tuple[int, int, int]
"""A place in the series, bytes live and bytes reserved."""


def thinned(series: list[Any]) -> list[Entry]:
    """At most POINTS entries, each with the most live and the most reserved of those that it stands for."""
    width = max(1, -(-len(series) // POINTS))
    groups = (series[begin : begin + width] for begin in range(0, len(series), width))
    return [(some[0][0], max(live for _, live, _ in some), max(held for *_, held in some)) for some in groups]


def memory_over_time(figures: list[dict[str, Any]]) -> str:
    """An SVG of what is live, the same on either resource, and of what the pool has reserved."""
    chart = pygal.XY(
        title="Memory over time",
        x_title="allocations and frees",
        y_title="MiB",
        show_dots=False,
        width=900,
        height=420,
        legend_at_bottom=True,
        js=(),
        style=Style(background="white", plot_background="white", colors=("#2c6fbb", "#c0392b")),
    )
    chart.uuid = "memory"  # it would be a random one
    series = thinned(figures[-1]["series"])
    for name, which, fill in (("reserved by the pool", 2, False), ("in use", 1, True)):
        chart.add(name, [(entry[0], entry[which] / 2**20) for entry in series], fill=fill)
    # Without pygal's comments, which name the day: the same figures give the same file.
    return ET.canonicalize(chart.render(is_unicode=True)) + "\n"
