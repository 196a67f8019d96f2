# SPDX-License-Identifier: MIT
"""Make evidence/exchange.md: which library takes which memory, and gives its own, with a copy or without.

    python tools/exchange_table.py            prints the page for the libraries that are installed
    python tools/exchange_table.py --write    writes it

Options: --backend host|cuda|hip (host). Each cell is found by trying: the memory holds a pattern, the library takes it,
and its array is asked for its address and its elements. A cell is "wrong" where the elements, their type or their shape
are others, where the buffer could be closed under the array, and where the array is gone and still holds the buffer.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from exchange import page

PAGE = Path(__file__).resolve().parent.parent / "evidence" / "exchange.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("host", "cuda", "hip"), default="host")
    parser.add_argument("--write", action="store_true", help=f"writes {PAGE.name}")
    options = parser.parse_args()
    text = page.page(importlib.import_module(f"portamem.{options.backend}"))
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
