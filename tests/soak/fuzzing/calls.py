# SPDX-License-Identifier: MIT
"""Every call that the fuzzer makes, and how often beside the others."""

from __future__ import annotations

from . import anything, making, operators, programs, scopes
from .call import Maker

CALLS: dict[Maker, int] = {
    programs.allocate: 30,
    programs.empty: 14,
    programs.copy: 24,
    programs.copy_rows: 3,
    programs.fill: 10,
    programs.slice_of: 8,
    programs.view: 8,
    programs.touch: 8,
    programs.export: 5,
    programs.take_in: 6,
    programs.close: 20,
    programs.drop: 12,
    programs.release_and_return: 3,
    programs.wrong_free: 2,
    programs.order: 14,
    programs.trim: 2,
    scopes.capture: 1,
    scopes.scope: 4,
    making.make_stream: 4,
    making.make_resource: 5,
    making.make_callback_resource: 1,
    making.make_over_foreign: 2,
    making.register: 3,
    anything.any_method: 40,
    anything.any_function: 12,
    operators.any_operator: 12,
}
