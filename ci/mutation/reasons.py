# SPDX-License-Identifier: MIT
"""Why mutants survive, by their ids, as people found who looked at them.

"Equivalent" is one that no program can tell from the original. "Not seen from Python" is one that the suite, which is a
Python program, has no call for. "Hole" is one that a clause should have noticed.
"""

from __future__ import annotations

REASONS: dict[str, str] = {}
