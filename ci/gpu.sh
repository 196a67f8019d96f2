#!/usr/bin/env bash
# ci/gpu.sh [build|test|demo]...: builds from the checkout and runs what needs an NVIDIA GPU. Without words: all three.
#
# Made for a machine without a network: it needs a CUDA toolkit, CMake, Ninja and a Python with scikit-build-core,
# pybind11, numpy, rich, pytest, pytest-timeout, hypothesis, cuda-bindings and cuda-core with NVRTC (tests that lack
# these fail rather than pass over what a GPU is there to show). What such a machine lacks is taken from the folder
# $GPU_DEPS (default: gpu-deps in the checkout), each part where it is there:
#   include/doctest, lib/cmake/doctest   doctest, for the C++ tests
#   hip/include/hip                      HIP's headers: portamem.hip is built on the NVIDIA platform, over
#   cuda12/include, cuda12/lib           the headers and the static runtime of CUDA 12 (HIP's do not take CUDA 13)
#   wheels/*.whl                         Python packages
source "$(dirname "$0")/lib.sh"

GPU_DEPS=${GPU_DEPS:-$ROOT/gpu-deps}
GPU_VENV=$CI_DIR/gpu-venv
backends="host;cuda"
if [[ -d $GPU_DEPS/hip/include/hip && -d $GPU_DEPS/cuda12/include ]]; then
    backends="host;cuda;hip"
    export PORTAMEM_HIP_PLATFORM=nvidia
    export PORTAMEM_HIP_INCLUDE=$GPU_DEPS/hip/include PORTAMEM_HIP_CUDA_ROOT=$GPU_DEPS/cuda12
fi
gpu_backends=${backends#host;}

build() {
    "$PYTHON" -m venv --system-site-packages "$GPU_VENV"
    # A venv made from a venv sees the base's packages only: the caller's own come by path.
    "$PYTHON" -c 'import site; print("\n".join(site.getsitepackages()))' \
        >"$("$GPU_VENV/bin/python" -c 'import site; print(site.getsitepackages()[0])')/callers.pth"
    local pip=("$GPU_VENV/bin/python" -m pip install --quiet --no-index --no-deps)
    if compgen -G "$GPU_DEPS/wheels/*.whl" >/dev/null; then "${pip[@]}" "$GPU_DEPS"/wheels/*.whl; fi
    PORTAMEM_BACKENDS=$backends "${pip[@]}" --no-build-isolation --force-reinstall "$ROOT"
    if [[ -d $GPU_DEPS/include/doctest ]]; then
        cmake -S "$ROOT" -B "$CI_DIR/gpu-cpp" -G Ninja -DPORTAMEM_TESTS=ON "-DPORTAMEM_BACKENDS=$backends" \
            -DPORTAMEM_WERROR=ON "-Ddoctest_ROOT=$GPU_DEPS" \
            "-DPORTAMEM_HIP_PLATFORM=${PORTAMEM_HIP_PLATFORM:-amd}" \
            "-DPORTAMEM_HIP_INCLUDE=${PORTAMEM_HIP_INCLUDE:-}" \
            "-DPORTAMEM_HIP_CUDA_ROOT=${PORTAMEM_HIP_CUDA_ROOT:-}" >"$CI_DIR/gpu-cmake.log" ||
            { cat "$CI_DIR/gpu-cmake.log"; return 1; }
        cmake --build "$CI_DIR/gpu-cpp"
    fi
}

tests() {
    local failed=0 backend
    for backend in ${gpu_backends//;/ }; do
        echo "== C++ on $backend"
        if [[ -x $CI_DIR/gpu-cpp/tests/cpp/portamem_tests_$backend ]]; then
            PORTAMEM_REQUIRE=$backend "$CI_DIR/gpu-cpp/tests/cpp/portamem_tests_$backend" || failed=1
        else
            echo "not run: there is no doctest in $GPU_DEPS"
        fi
        echo "== pytest on $backend"
        PORTAMEM_REQUIRE=$backend PORTAMEM_TEST_BACKEND=$backend \
            pytest_installed "$GPU_VENV/bin/python" --ignore="$ROOT/tests/packaging" \
            --ignore="$ROOT/tests/source_rules" || failed=1
    done
    return $failed
}

demo() {
    local failed=0 backend
    "$GPU_VENV/bin/portamem" info --memory || failed=1
    for backend in ${gpu_backends//;/ }; do
        "$GPU_VENV/bin/portamem" demo --backend "$backend" || failed=1
    done
    return $failed
}

[[ $# -gt 0 ]] || set -- build test demo
for stage in "$@"; do
    case $stage in
    build) build ;;
    test) tests ;;
    demo) demo ;;
    *) die "unknown stage '$stage': build, test or demo" ;;
    esac
done
