# SPDX-License-Identifier: MIT
"""The form to send: short, and without names of hosts, users and folders, so that it can be attached to an issue."""

from __future__ import annotations

import json
import re
from typing import Any

from portamem.conformance.report.people import People, people

_PART = r"/[\w.+@~-]+"
_ADDRESS = r"https?://[^\s<>\"']+"
_PATH = rf"(?<![\w.])(?:{_PART})+"
_OF_A_HOME = rf"(?<![\w.:])~(?:[A-Za-z_][\w.-]*)?(?:{_PART})*"
_HOMES = ("/home", "/Users")
_OWN_WORDS = {"id", "backend", "outcome", "evidence", "vendor", "check", "resource", "witness", "witnesses", "when"}
"""Keys whose values are the suite's own words: a host that is called "gpu" does not change them."""


def sharable(document: dict[str, Any]) -> str:
    """A document of results as JSON with a line for each clause. Cases that just passed are counted, not told."""
    who = people()
    head = {key: value for key, value in document.items() if key != "clauses"}
    opening = json.dumps(anonymous(head, who), indent=1).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(anonymous(_short(clause), who)) for clause in document["clauses"])
    return f'{opening},\n "clauses": [\n{lines}\n ]\n}}\n'


def _short(clause: dict[str, Any]) -> dict[str, Any]:
    plain = [case for case in clause["cases"] if case["outcome"] == "pass" and not case.get("notes")]
    told = [case for case in clause["cases"] if case not in plain]
    kept = {key: clause[key] for key in ("id", "backend", "outcome", "witnessed")}
    if clause["outcome"] in ("fail", "defect"):
        kept["text"] = clause["text"]
    return {**kept, "passed": len(plain), "cases": told}


def anonymous(value: Any, who: People | None = None) -> Any:
    """Returns the document without names of this host and of users, and with the last part of each path only.
    Addresses of pages stay whole, and so does a word that is the name of another person's account, unless it is a
    part of a path."""
    who = who or people()
    if isinstance(value, dict):
        return {key: each if key in _OWN_WORDS else anonymous(each, who) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [anonymous(each, who) for each in value]
    return _cleaned(value, who) if isinstance(value, str) else value


def _cleaned(text: str, who: People) -> str:
    kept: list[str] = []

    def shortened(found: re.Match[str]) -> str:
        if found[0].startswith("http"):
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"
        path = found[0].rstrip(".")  # the end of a sentence is no part of it
        return (_shortened(path, who) if path.strip("/") else path) + found[0][len(path) :]

    text = re.sub(_addresses_and_paths(who), shortened, text)
    # The paths that are left are relative.
    text = re.sub(r"(?<=\w/)[\w.-]+(?=/\w)", lambda part: "USER" if part[0] in who.accounts else part[0], text)
    for name, word in ((who.host, "HOST"), (who.host.partition(".")[0], "HOST"), (who.user, "USER")):
        if len(name) > 2:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, text)
    return re.sub(r"\0(\d+)\0", lambda number: kept[int(number[1])], text)


def _addresses_and_paths(who: People) -> str:
    """A folder with a space in it is seen as one only if it is known."""
    odd = [folder for folder in {*who.homes, who.cwd} if folder and not re.fullmatch(rf"(?:{_PART})+", folder)]
    folders = [rf"(?<![\w.]){re.escape(each)}(?![\w+@~-])(?:{_PART})*" for each in sorted(odd, key=len, reverse=True)]
    return "|".join([_ADDRESS, *folders, _PATH, _OF_A_HOME])


def _shortened(path: str, who: People) -> str:
    folder, _, name = path.rpartition("/")
    if name.removeprefix("~") in who.accounts:
        name = "USER"
    if path.startswith("~") and not folder:
        return "~" if name == "USER" else path  # it may be a destructor
    if path in who.homes or folder in _HOMES:
        return "~"
    return f".../{name}" if folder else f"/{name}"
