# SPDX-License-Identifier: MIT
"""portamem for Spack 1.0 and later, from the checkout that this recipe lies in.

    spack repo add CHECKOUT/ci/packaging/spack/spack_repo/portamem
    spack install portamem                  # the C++ library with the host backend
    spack install portamem +cuda +python    # the Python package, with the C++ library in it, host and CUDA

Spack clones what the checkout has committed. For changes that are not committed, an environment's
`spack develop --path CHECKOUT portamem@main` builds the working tree. docs/guide/install.md says what was checked.
"""

import os

from spack_repo.builtin.build_systems.cmake import CMakeBuilder, CMakePackage
from spack_repo.builtin.build_systems.python import PythonPackage, PythonPipBuilder

from spack.package import *

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))


class Portamem(CMakePackage, PythonPackage):
    """One memory API for NVIDIA GPUs, AMD GPUs and the CPU, from C++ and from Python."""

    # No release has a tag and no address is public yet, so the checkout is the source and has one version.
    git = CHECKOUT
    homepage = "file://" + CHECKOUT

    license("MIT", checked_by="portamem")

    version("main")

    # portamem compiles no device code, so it has no cuda_arch and no amdgpu_target: one build serves all GPUs.
    variant("cuda", default=False, description="Build the CUDA backend beside the host backend")
    variant("rocm", default=False, description="Build the HIP backend beside the host backend")
    variant("python", default=False, description="Install the Python package, with the C++ library in it")
    variant("shared", default=True, description="Make libportamem a shared library", when="~python")

    build_system(conditional("python_pip", when="+python"), conditional("cmake", when="~python"), default="cmake")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("cuda@12:", when="+cuda")
    depends_on("hip@5.2:", when="+rocm")

    with when("+python"):
        depends_on("python@3.10:", type=("build", "run"))
        depends_on("py-scikit-build-core@1.1:", type="build")
        depends_on("py-pybind11@3.1:", type="build")
        depends_on("py-numpy@1.23:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))

    conflicts("platform=darwin", msg="portamem needs Linux")
    conflicts("platform=windows", msg="portamem needs Linux")

    def backends(self):
        """What PORTAMEM_BACKENDS names: a strict list, so that a missing part is an error and no silent loss."""
        chosen = ["host"]
        if self.spec.satisfies("+cuda"):
            chosen.append("cuda")
        if self.spec.satisfies("+rocm"):
            chosen.append("hip")
        return ";".join(chosen)

    def vendors(self):
        """Where the vendors' headers and libraries are, as CMake variables."""
        found = {}
        if self.spec.satisfies("+cuda"):
            found["CUDAToolkit_ROOT"] = self.spec["cuda"].prefix
        if self.spec.satisfies("+rocm"):
            found["PORTAMEM_HIP_INCLUDE"] = self.spec["hip"].prefix.include
        return found


class CMakeBuilder(CMakeBuilder):
    def cmake_args(self):
        return [
            self.define("PORTAMEM_BACKENDS", self.pkg.backends()),
            self.define("PORTAMEM_LIBRARY", "shared" if self.spec.satisfies("+shared") else "static"),
            *(self.define(name, value) for name, value in self.pkg.vendors().items()),
        ]


class PythonPipBuilder(PythonPipBuilder):
    def config_settings(self, spec, prefix):
        settings = {"PORTAMEM_BACKENDS": self.pkg.backends(), **self.pkg.vendors()}
        return {f"cmake.define.{name}": value for name, value in settings.items()}

    def setup_dependent_build_environment(self, env, dependent_spec):
        """The Python package carries CMake's package config in its own folder, where CMake does not look."""
        platlib = self.spec["python"].package.platlib
        env.set("portamem_DIR", join_path(self.prefix, platlib, "portamem", "cmake"))
