# SPDX-License-Identifier: MIT
"""The CPU reference backend: the whole API with no GPU, and the knobs of its runtime."""

from portamem import _api

_api.populate(globals(), "host")

from portamem import knobs  # noqa: E402, F401  # after the backend, whose reason is the better one where it is missing
