# SPDX-License-Identifier: MIT
"""How good the conformance suite is: faults are planted in copies of the sources, and the suite has to see them.

``tools/defects.py`` plants faults that somebody thought of, ``tools/mutants.py`` a hundred that nobody did.
"""
