# SPDX-License-Identifier: MIT
"""``portamem info``: what is built, what is loaded, which devices there are, and what stands in the way."""

from portamem.info.collect import collect
from portamem.info.report import report

__all__ = ["collect", "report"]
