# SPDX-License-Identifier: MIT
"""ci/header-matrix: portamem's headers against every generation of vendor headers that packages bring."""
