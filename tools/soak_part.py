# SPDX-License-Identifier: MIT
"""Turn what portamem_soak printed into a part of a report of tools/report.py.

python tools/soak_part.py PRINTED PART.json --backend BACKEND --code EXIT_STATUS [--under SANITIZER]
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

COUNT = re.compile(r"^ *(\d+)  (\S.*)$", re.MULTILINE)
CLOSING = re.compile(r"^soak on \w+: (\d+) threads, (\d+) streams: .* after ([\d.e+]+) s$", re.MULTILINE)


def part(printed: str, backend: str, code: int, under: str = "") -> dict[str, Any]:
    """The row, and where the program came to its closing line what it did. One that did not has failed."""
    closing = CLOSING.search(printed)
    passed = code == 0 and closing is not None
    what = "soak of pools, C++" + (f", under {under}" if under else "")
    row = {"what": what, "backend": backend, "result": "passed" if passed else "failed"}
    if closing is None:
        return {"rows": [row]}
    counts = {what: int(count) for count, what in COUNT.findall(printed)}
    soak = {"what": what, "backend": backend, "seconds": float(closing[3]), "counts": counts}
    return {"rows": [row], "soak": [soak | {"threads": int(closing[1]), "streams": int(closing[2])}]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("printed", type=Path)
    parser.add_argument("part", type=Path)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--code", type=int, required=True)
    parser.add_argument("--under", default="", help="the sanitizer that it ran under")
    options = parser.parse_args()
    found = part(options.printed.read_text(encoding="utf-8"), options.backend, options.code, options.under)
    options.part.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
