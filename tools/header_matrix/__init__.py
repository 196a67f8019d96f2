# SPDX-License-Identifier: MIT
"""tools/header-matrix: portamem's headers against every generation of vendor headers that packages bring."""
