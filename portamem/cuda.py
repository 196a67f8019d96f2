# SPDX-License-Identifier: MIT
"""The CUDA backend, for NVIDIA GPUs: the whole API."""

from portamem import _api

_api.populate(globals(), "cuda")
