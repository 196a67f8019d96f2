# SPDX-License-Identifier: MIT
"""Random calls of the whole Python API, with right and with wrong arguments. ``tests/soak/fuzz.py`` runs them."""
