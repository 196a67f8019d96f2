# SPDX-License-Identifier: MIT
"""The check that a library and portamem.compat.rmm are of one backend."""

from __future__ import annotations

import portamem


def check(library: str, wanted: str) -> None:
    """Raises RuntimeError where the resources of portamem.compat.rmm are of another backend than a library's memory."""
    if portamem.backend != wanted:
        raise RuntimeError(
            f"{library} is built for {wanted}, and portamem.compat.rmm allocates from {portamem.backend}: set "
            f"PORTAMEM_BACKEND={wanted}"
        )
