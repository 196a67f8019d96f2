# SPDX-License-Identifier: MIT
"""Small HTML tables, by which notebooks show figures and views. They read no memory that a view is of."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from portamem._sizes import format_size

_SIZES = {"used", "reserved", "peak", "largest_free", "free", "total", "held"}
_MOST_CHUNKS = 20


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of two columns under a title. All text is escaped."""
    body = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def pool_stats(stats: Any) -> str:
    return table("PoolStats", ((name, _shown(name, getattr(stats, name))) for name in stats.__dataclass_fields__))


def pool_snapshot(snapshot: Any) -> str:
    """The pool's own fields, and for each chunk how many bytes its pieces have in each state."""
    chunks = snapshot.get("chunks", ())
    rows: list[tuple[str, object]] = [
        (name, _shown(name, value)) for name, value in snapshot.items() if name != "chunks"
    ]
    rows.append(("chunks", len(chunks)))
    for chunk in chunks[:_MOST_CHUNKS]:
        sums: dict[str, int] = {}
        for piece in chunk["pieces"]:
            sums[piece["state"]] = sums.get(piece["state"], 0) + piece["nbytes"]
        states = ", ".join(f"{state} {format_size(nbytes)}" for state, nbytes in sums.items())
        rows.append((hex(chunk["address"]), f"{format_size(chunk['nbytes'])}: {states}"))
    if len(chunks) > _MOST_CHUNKS:
        rows.append(("", f"and {len(chunks) - _MOST_CHUNKS} more"))
    return table("PoolSnapshot", rows)


def memory_info(info: Any) -> str:
    rows = [(name, _shown(name, getattr(info, name))) for name in ("free", "total", "held")]
    return table("MemoryInfo", [*rows, ("source", info.source)])


def view(shown: Any) -> str:
    try:
        element = shown.dtype
    except ImportError:  # a type of ml_dtypes, which is not installed
        element = shown.typestr
    rows: list[tuple[str, object]] = [("dtype", element), ("shape", shown.shape)]
    rows.append(("nbytes", _shown("used", shown.nbytes)))
    if shown.is_closed:
        return table("View", [*rows, ("state", "closed")])
    buffer = shown.buffer
    rows += [("kind", buffer.kind), ("device", buffer.device.ordinal), ("address", hex(shown.handle))]
    rows += [(name, getattr(shown, name)) for name in ("is_host_accessible", "is_device_accessible", "readonly")]
    return table(f"portamem.{shown.backend}.View", rows)


def _shown(name: str, value: object) -> object:
    if name in _SIZES and isinstance(value, int):
        return f"{value} ({format_size(value)})" if value >= 1024 else f"{value} B"
    return f"{value:.3g}" if isinstance(value, float) else value
