# SPDX-License-Identifier: MIT
"""RMM's logger of what happens inside: over the logger ``portamem.compat.rmm`` of Python's ``logging``.

RMM_DEBUG_LOG_FILE names a file for it, which is begun anew. Without that the messages go where the program sends those
of ``logging``.
"""

from __future__ import annotations

import logging
import os
from enum import IntEnum
from functools import cache
from typing import Any

_NAME = "portamem.compat.rmm"


class level_enum(IntEnum):  # noqa: N801 (RMM's name)
    """How much a message matters."""

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    critical = 5
    off = 6


_PYTHON_LEVELS = {
    level_enum.trace: 5,
    level_enum.debug: logging.DEBUG,
    level_enum.info: logging.INFO,
    level_enum.warn: logging.WARNING,
    level_enum.error: logging.ERROR,
    level_enum.critical: logging.CRITICAL,
    level_enum.off: logging.CRITICAL + 10,
}


class _Settings:
    """The levels that programs set. Each is one assignment."""

    level = level_enum.info
    flush_level = level_enum.off


def should_log(level: level_enum) -> bool:
    """Tells whether a message of ``level`` would be logged. Raises TypeError for what is no ``level_enum``."""
    return _checked(level) >= _Settings.level and level is not level_enum.off


def set_logging_level(level: level_enum) -> None:
    """Logs messages of ``level`` and above from now on. Raises TypeError for what is no ``level_enum``."""
    _Settings.level = _checked(level)


def get_logging_level() -> level_enum:
    """The lowest level that is logged; ``level_enum.info`` at first."""
    return _Settings.level


def set_flush_level(level: level_enum) -> None:
    """Flushes the logger with each message of ``level`` and above. Raises TypeError for what is no ``level_enum``."""
    _Settings.flush_level = _checked(level)


def get_flush_level() -> level_enum:
    """The lowest level that flushes the logger; ``level_enum.off`` at first."""
    return _Settings.flush_level


def flush_logger() -> None:
    """Flushes the handlers of the logger."""
    for handler in _logger().handlers:
        handler.flush()


def log(level: level_enum, message: str) -> None:
    """Logs a message, if its level is logged."""
    if should_log(level):
        _logger().log(_PYTHON_LEVELS[level], message)
        if level >= _Settings.flush_level:
            flush_logger()


def _checked(level: Any) -> level_enum:
    if not isinstance(level, level_enum):
        raise TypeError(f"level is a member of level_enum, such as level_enum.info, not {level!r}")
    return level


@cache
def _logger() -> logging.Logger:
    found = logging.getLogger(_NAME)
    found.setLevel(1)  # should_log decides
    path = os.environ.get("RMM_DEBUG_LOG_FILE")
    if path:
        handler = logging.FileHandler(path, mode="w", encoding="utf-8")
        handler.setFormatter(logging.Formatter("[%(thread)d][%(asctime)s][%(levelname)s] %(message)s"))
        found.addHandler(handler)
        found.propagate = False
    return found
