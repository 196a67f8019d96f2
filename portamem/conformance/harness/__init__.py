# SPDX-License-Identifier: MIT
"""Runs the suite: a plan of cases, processes that run them, and the command line."""
