# SPDX-License-Identifier: MIT
"""``python -m portamem``: the command line."""

import sys

from portamem.cli import main

sys.exit(main())
