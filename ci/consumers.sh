#!/usr/bin/env bash
# ci/consumers.sh: programs that use portamem from C++, built and run: in a prefix, a build folder, a subproject and an
# editable install, with g++, clang++, hipcc and nvcc, and the examples. See tests/packaging/test_builds.py.
source "$(dirname "$0")/lib.sh"
need_build
compile_cache

# ci/setup.sh brings these; without one of them a test fails here, and does not skip.
export PORTAMEM_TEST_TOOLS="cmake ninja g++ clang++ hipcc cccl"
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then PATH=$PATH:/usr/local/cuda/bin; fi
if command -v nvcc >/dev/null; then
    PORTAMEM_TEST_TOOLS+=" nvcc"
else
    echo "ci: no nvcc here: programs with CUDA code are not built"
fi
# The editable install finds compiled what ci/build.sh has compiled with these settings.
export PORTAMEM_TEST_BUILD_DIR=$CI_DIR/build-wheel PORTAMEM_BACKENDS="host;cuda;hip" PORTAMEM_CUDA_WHEELS=13
pytest_installed "$VENV/bin/python" -m builds --durations=5
