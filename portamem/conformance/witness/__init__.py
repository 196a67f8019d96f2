# SPDX-License-Identifier: MIT
"""Placeholder."""

from __future__ import annotations

from portamem.conformance.witness.base import Witness


class WitnessMissing(Exception):  # noqa: N818
    """Why there is none."""


def witness_for(backend: str, ordinal: int) -> Witness:
    raise WitnessMissing("none")
