# SPDX-License-Identifier: MIT
"""The version that programs ask for."""

from __future__ import annotations

__version__ = "26.08.00"
"""The release of RMM whose Python API this module has. ``portamem.__version__`` is portamem's own."""

__git_commit__ = ""
"""Empty: there is no commit of RMM in here."""
