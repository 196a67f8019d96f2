# SPDX-License-Identifier: MIT
"""Tries which library takes which memory, and gives its own: ``tools/exchange_table.py`` makes a page of it."""
