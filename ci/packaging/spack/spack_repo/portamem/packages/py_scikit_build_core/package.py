# SPDX-License-Identifier: MIT
"""Spack's own recipe with a version that portamem needs and that Spack's recipes lacked when this one was written.

Remove this file when Spack's own recipe has 1.1 or later.
"""

from spack.package import version
from spack_repo.builtin.packages.py_scikit_build_core.package import PyScikitBuildCore as SpacksOwn


class PyScikitBuildCore(SpacksOwn):
    __doc__ = SpacksOwn.__doc__

    version("1.1.2", sha256="7893709119c5ab1be75cd10442383132c9433b9f104dacef5185949efbea7974")
