# SPDX-License-Identifier: MIT
"""Takes names of hosts, users and folders out of a document, so that it can be attached to an issue."""

from __future__ import annotations

import getpass
import os
import platform
import re
from pathlib import Path
from typing import Any

_PATH = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+){2,}")


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
