# SPDX-License-Identifier: MIT
"""Finds the names of people on this machine and of their folders, as far as they can be known. A report to send leaves
these out."""

from __future__ import annotations

import getpass
import os
import platform
import pwd
from contextlib import suppress
from dataclasses import dataclass

_FIRST_OF_PEOPLE = 1000
"""Below are the system's own accounts, which have words such as "bin" and "games" for names."""
_NOBODY = 65534


@dataclass(frozen=True)
class People:
    """Names and folders."""

    host: str = ""
    user: str = ""
    """The user that runs this."""
    accounts: frozenset[str] = frozenset()
    """The names of people's accounts. Some are words too: no name of a person outside of a path."""
    homes: frozenset[str] = frozenset()
    cwd: str = ""


def people() -> People:
    """The people of this process and of the password database. A directory service may keep its people to itself."""
    entries = [entry for entry in pwd.getpwall() if _FIRST_OF_PEOPLE <= entry.pw_uid != _NOBODY]
    with suppress(KeyError):  # a container may run under a number that no account has
        entries.append(pwd.getpwuid(os.getuid()))
    homes = {os.path.expanduser("~"), *(entry.pw_dir for entry in entries)}
    return People(
        platform.node(),
        _user(),
        frozenset(entry.pw_name for entry in entries),
        frozenset(home.rstrip("/") for home in homes if home.startswith("/") and home.strip("/")),
        _cwd(),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.get("USER", "")


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""
