# SPDX-License-Identifier: MIT
"""Modules that are each made for one other library. A module imports its partner only when it is used."""
