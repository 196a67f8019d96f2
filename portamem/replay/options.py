# SPDX-License-Identifier: MIT
"""The options of ``portamem replay``, apart from the command: these cost every start of the command line."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("log", type=Path, metavar="LOG", help="a log of LoggingAdaptor or PORTAMEM_LOG")
    add("--backend", choices=("auto", "cuda", "hip", "host"), help="default: PORTAMEM_BACKEND, or auto")
    resource = (
        "what to allocate from: default, device, pinned, managed, async, pool, or another kind of the suite; or "
        "MODULE:FUNCTION or FILE.py:FUNCTION, which makes one of a backend's module and a device"
    )
    add("--resource", default="default", metavar="NAME", help=resource)
    add("--device", type=int, metavar="N", help="run all on this device (default: each on the one it was on)")
    of = "of a log of several backends, the calls on this one (on what they are made again, --backend says)"
    add("--from", dest="logged", choices=("cuda", "hip", "host"), help=of)
    add(
        "--only",
        type=int,
        metavar="ID",
        help="the calls on this resource of the log, also those that a resource above made",
    )
    add("--json", type=Path, metavar="FILE", help="all figures, as JSON")
