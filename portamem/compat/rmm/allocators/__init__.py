# SPDX-License-Identifier: MIT
"""The current resource as an allocator of CuPy, of Numba and of PyTorch: a module for each.

Importing them imports none of these libraries.
"""
