# SPDX-License-Identifier: MIT
"""Memory over time, drawn by pygal (``pip install pygal``)."""

from __future__ import annotations

from typing import Any

import pygal

POINTS = 400


def thinned(values: list[int]) -> list[tuple[int, int]]:
    """At most POINTS of them with their places, each the largest of those that it stands for."""
    width = max(1, -(-len(values) // POINTS))
    return [(begin, max(values[begin : begin + width])) for begin in range(0, len(values), width)]


def memory_over_time(figures: list[dict[str, Any]]) -> str:
    """An SVG of what is live, the same on either resource, and of what the pool has reserved."""
    chart = pygal.XY(
        title="Memory over time",
        x_title="allocations and frees",
        y_title="MiB",
        show_dots=False,
        width=900,
        height=420,
        include_x_axis=True,
        legend_at_bottom=True,
        js=(),
        style=pygal.style.CleanStyle,
    )
    chart.uuid = "memory"  # it would be a random one
    pool = figures[-1]
    for name, which, fill in (("reserved by the pool", 1, False), ("in use", 0, True)):
        points = thinned([entry[which] for entry in pool["series"]])
        chart.add(name, [(at, nbytes / 2**20) for at, nbytes in points], fill=fill)
    return str(chart.render(is_unicode=True))
