# SPDX-License-Identifier: MIT
"""portamem for Spack 1.0 and later, from the checkout that this recipe lies in.

    spack repo add CHECKOUT/ci/packaging/spack/spack_repo/portamem
    spack install portamem                  # the C++ library with the host backend
    spack install portamem +cuda +python    # the Python package, with the C++ library in it, host and CUDA

Spack clones what the checkout has committed. docs/guide/install.md says what of this has been checked.
"""

import os

from spack.package import build_system, conditional, conflicts, depends_on, join_path, license, variant, version, when
from spack_repo.builtin.build_systems import cmake, python

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 7))


class Portamem(cmake.CMakePackage, python.PythonPackage):
    """One memory API for NVIDIA GPUs, AMD GPUs and the CPU, from C++ and from Python."""

    # No release has a tag and no address is public yet, so the checkout is the source and has one version.
    homepage = "file://" + CHECKOUT
    git = CHECKOUT

    license("MIT")
    version("main", git=CHECKOUT)

    # portamem compiles no device code, so it has no cuda_arch and no amdgpu_target: one build serves all GPUs.
    variant("cuda", default=False, description="Build the CUDA backend beside the host backend")
    variant("rocm", default=False, description="Build the HIP backend beside the host backend")
    variant("python", default=False, description="Install the Python package, with the C++ library in it")
    variant("shared", default=True, description="Make libportamem a shared library", when="~python")

    build_system(conditional("python_pip", when="+python"), conditional("cmake", when="~python"), default="cmake")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("cuda@12:", when="+cuda")
    depends_on("hip@5.2: +rocm", when="+rocm")

    with when("+python"):
        depends_on("python@3.10:", type=("build", "run"))
        depends_on("py-scikit-build-core@1.1:", type="build")
        depends_on("py-pybind11@3.1:", type="build")
        depends_on("py-numpy@1.23:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))

    conflicts("platform=darwin", msg="portamem needs Linux")
    conflicts("platform=windows", msg="portamem needs Linux")

    def cmake_options(self):
        """Lists the parts to build, of which a missing one is an error, and where the vendors' files are."""
        backends = ["host"]
        options = {}
        if self.spec.satisfies("+cuda"):
            backends.append("cuda")
            options["CUDAToolkit_ROOT"] = self.spec["cuda"].prefix
        if self.spec.satisfies("+rocm"):
            backends.append("hip")
            options["PORTAMEM_HIP_INCLUDE"] = self.spec["hip"].prefix.include
        return {"PORTAMEM_BACKENDS": ";".join(backends), **options}


class CMakeBuilder(cmake.CMakeBuilder):
    def cmake_args(self):
        library = "shared" if self.spec.satisfies("+shared") else "static"
        options = {"PORTAMEM_LIBRARY": library, **self.pkg.cmake_options()}
        return [self.define(name, value) for name, value in options.items()]


class PythonPipBuilder(python.PythonPipBuilder):
    def config_settings(self, spec, prefix):
        return {f"cmake.define.{name}": value for name, value in self.pkg.cmake_options().items()}

    def setup_dependent_build_environment(self, env, dependent_spec):
        """Tells CMake where the package config is: the Python package has it in its own folder."""
        folder = join_path(self.prefix, self.spec["python"].package.platlib, "portamem", "cmake")
        env.set("portamem_DIR", folder)
