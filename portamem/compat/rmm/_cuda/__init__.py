# SPDX-License-Identifier: MIT
"""Devices, as programs ask RMM about them."""
