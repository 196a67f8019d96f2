#!/usr/bin/env bash
# ci/cpp.sh: the C++ tests of all three backends with g++ and clang++ (warnings are errors), and a plain installation.
# The build with clang++ includes the Python modules, whose g++ build is ci/build.sh.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

for compiler in g++ clang++; do
    modules=OFF
    [[ $compiler == g++ ]] || modules=ON
    build=$CI_DIR/build-cpp-${compiler//+/x}
    cmake -S "$ROOT" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER="$compiler" \
        -DCMAKE_BUILD_TYPE=Debug -DPORTAMEM_WERROR=ON -DPORTAMEM_TESTS=ON -DPORTAMEM_PYTHON=$modules \
        -DPORTAMEM_BACKENDS="host;cuda;hip" -DPORTAMEM_CUDA_WHEELS=13 -DPython_EXECUTABLE="$VENV/bin/python" \
        -DCMAKE_PREFIX_PATH="$(pybind11-config --cmakedir)"
    cmake --build "$build"
    ctest --test-dir "$build" --no-tests=error
done

# Installed in the usual layout, for a program that has no Python: find_package, build, run.
prefix=$CI_DIR/prefix
rm -rf "$prefix" "$CI_DIR/build-consumer"
cmake --install "$CI_DIR/build-cpp-gxx" --prefix "$prefix" >/dev/null
cmake -S "$ROOT/tests/packaging/consumer" -B "$CI_DIR/build-consumer" -G Ninja --log-level=WARNING \
    -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$CI_DIR/build-consumer"
"$CI_DIR/build-consumer/consumer_host"
