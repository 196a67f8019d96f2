#!/usr/bin/env bash
# ci/cpp.sh: the C++ tests, with g++ for all three backends. Warnings are errors.
# clang++ compiles them in ci/sanitize.sh. What programs do with an installation is in ci/consumers.sh; clang++ over the
# other backends and over the Python modules is in ci/headers.sh.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

build=$CI_DIR/build-cpp-gxx
# The build writes no debug information: that would be a sixth of its time, and no stage here reads it.
cmake -S "$ROOT" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER=g++ \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DPORTAMEM_WERROR=ON -DPORTAMEM_TESTS=ON \
    -DPORTAMEM_BACKENDS="host;cuda;hip" -DPORTAMEM_CUDA_WHEELS=13 -DPython_EXECUTABLE="$VENV/bin/python"
cmake --build "$build"
ctest --test-dir "$build" --no-tests=error --exclude-regex '^host-order-part$' # which is for ThreadSanitizer
