# SPDX-License-Identifier: MIT
"""How good the conformance suite is: faults are planted in copies of the sources, and the suite has to see them.

``ci/defects.py`` plants faults that somebody thought of, ``ci/mutants.py`` a hundred that nobody did.
"""
