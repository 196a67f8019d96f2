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

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+){2,}")


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
    """The same document: of paths only the last part stays, and names of this host and user are gone."""
    if isinstance(value, dict):
        return {key: anonymous(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [anonymous(each) for each in value]
    return _cleaned(value) if isinstance(value, str) else value


def _cleaned(text: str) -> str:
    text = _PATH.sub(lambda found: f".../{Path(found[0]).name}", text)
    for name, word in ((platform.node(), "HOST"), (_user(), "USER")):
        if len(name) > 2:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "")
