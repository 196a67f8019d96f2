# SPDX-License-Identifier: MIT
class Witness:
    name: str
    has_kernels: bool
