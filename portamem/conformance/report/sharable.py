# SPDX-License-Identifier: MIT
"""The form to send: short, and without names of hosts, users and folders, so that it can be attached to an issue."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

_ADDRESS_OR_PATH = re.compile(r"https?://[^\s<>\"']+|(?<![\w.])(?:/[\w.+@~-]+){2,}")
_HOMES = ("/home", "/Users")
_OWN_WORDS = {"id", "backend", "outcome", "evidence", "vendor", "check", "resource", "witness", "witnesses", "when"}
"""What has words of the suite's own: a host that is called "gpu" does not change them."""


def sharable(document: dict[str, Any]) -> str:
    """A document of results as JSON with a line for each clause. Cases that just passed are counted, not told."""
    head = {key: value for key, value in document.items() if key != "clauses"}
    opening = json.dumps(anonymous(head), indent=1).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(anonymous(_short(clause))) for clause in document["clauses"])
    return f'{opening},\n "clauses": [\n{lines}\n ]\n}}\n'


def _short(clause: dict[str, Any]) -> dict[str, Any]:
    plain = [case for case in clause["cases"] if case["outcome"] == "pass" and not case.get("notes")]
    told = [case for case in clause["cases"] if case not in plain]
    kept = {key: clause[key] for key in ("id", "backend", "outcome", "witnessed")}
    if clause["outcome"] in ("fail", "defect"):
        kept["text"] = clause["text"]
    return {**kept, "passed": len(plain), "cases": told}


def anonymous(value: Any) -> Any:
    """The same document: of paths only the last part stays, and names of this host and of users are gone. Addresses of
    pages stay whole."""
    if isinstance(value, dict):
        return {key: each if key in _OWN_WORDS else anonymous(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [anonymous(each) for each in value]
    return _cleaned(value) if isinstance(value, str) else value


def _cleaned(text: str) -> str:
    kept: list[str] = []

    def shortened(found: re.Match[str]) -> str:
        if found[0].startswith("http"):
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"
        path = Path(found[0])
        return "~" if str(path.parent) in _HOMES else f".../{path.name}"

    text = _ADDRESS_OR_PATH.sub(shortened, text)
    host = platform.node()
    for name, word in ((host, "HOST"), (host.partition(".")[0], "HOST"), (_user(), "USER")):
        if len(name) > 2:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, text)
    return re.sub(r"\0(\d+)\0", lambda number: kept[int(number[1])], text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "")
