# SPDX-License-Identifier: MIT
"""The HIP backend, for AMD GPUs: the whole API."""

from portamem import _api

_api.populate(globals(), "hip")
