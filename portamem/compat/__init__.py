# SPDX-License-Identifier: MIT
"""The Python APIs of other memory libraries, over portamem.

Code that was written for one of them runs with one import changed. ``portamem.compat.rmm`` has the API of
RMM, which is hipMM's too.
"""
