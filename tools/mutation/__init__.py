# SPDX-License-Identifier: MIT
"""Measures the conformance suite: faults are planted in copies of the sources, and the suite has to see them.

``tools/defects.py`` plants faults that people thought of, ``tools/mutants.py`` a hundred that are drawn by a seed.
"""
