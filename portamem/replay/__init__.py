# SPDX-License-Identifier: MIT
"""Runs the allocations of a log again, in their order, threads and streams, against any resource."""
