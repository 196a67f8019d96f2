# SPDX-License-Identifier: MIT
"""The conformance suite: what portamem promises, checked on the machine at hand."""
