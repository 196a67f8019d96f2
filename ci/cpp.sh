#!/usr/bin/env bash
# ci/cpp.sh: the C++ tests, with g++ for all three backends and with clang++ for host, there in its default model alone.
# Warnings are errors.
# What programs do with an installation is in ci/consumers.sh; clang++ over the other backends and over the Python
# modules is in ci/headers.sh.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

# tests_with COMPILER BACKENDS [CTEST'S OPTIONS...]
tests_with() {
    local compiler=$1 backends=$2 build=$CI_DIR/build-cpp-${1//+/x}
    # The build writes no debug information: that would be a sixth of its time, and no stage here reads it.
    cmake -S "$ROOT" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER="$compiler" \
        -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DPORTAMEM_WERROR=ON -DPORTAMEM_TESTS=ON \
        -DPORTAMEM_BACKENDS="$backends" -DPORTAMEM_CUDA_WHEELS=13 -DPython_EXECUTABLE="$VENV/bin/python"
    cmake --build "$build"
    ctest --test-dir "$build" --no-tests=error "${@:3}"
}
tests_with g++ "host;cuda;hip"
tests_with clang++ host --tests-regex '^host(-order)?$'
