# SPDX-License-Identifier: MIT
"""Resources over resources: adaptors, callbacks, and what carves its buffers out of larger memory."""

from __future__ import annotations

from portamem.conformance.clause import Clause

CLAUSES = (
    Clause(
        "RESOURCE-01",
        "A resource over another says of its memory what that one says: kind, device, device_id, and who reaches it.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-02",
        "It keeps the resource below alive, also where nobody else holds that, and names it as `upstream`.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-03",
        "It closes alone: the resource below stays open and usable, holds nothing of it any more, and gives others "
        "memory.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-04",
        "While it holds memory of the resource below, that one refuses to close with BufferError; once that is closed, "
        "what would need new memory of it raises ValueError that says so, and nothing is counted.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-05",
        "No resource stands over one that is closed (ValueError), over none or over what is no resource (TypeError).",
        "resources over an upstream",
    ),
)
