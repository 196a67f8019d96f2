# SPDX-License-Identifier: MIT
"""What is made for one other library. Each module imports its partner only when it is used."""
