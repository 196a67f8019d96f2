# SPDX-License-Identifier: MIT
"""Checks are written with this: outcomes, the environment of a case, kinds of resources, memory, threads."""
