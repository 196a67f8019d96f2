#!/usr/bin/env bash
# ci/example.sh [host|cuda|hip]...: builds examples/stencil for the backends named (default: host) and runs it on each.
# Every run has to give the bits of its serial reference, and the same bits as host. A backend without a device fails.
#
# Made for a machine without a network: it needs CMake, Ninja and g++, for cuda nvcc (on PATH, in CUDACXX or in
# /usr/local/cuda), for hip hipcc, or nvcc and HIP's headers over CUDA as ci/build.sh takes them: PORTAMEM_HIP_PLATFORM=
# nvidia, PORTAMEM_HIP_INCLUDE, PORTAMEM_HIP_CUDA_ROOT. portamem is taken from the folder $PORTAMEM_PACKAGE, where
# portamem-config.cmake is (`portamem --cmake-dir`); without one it is built from the checkout.
source "$(dirname "$0")/lib.sh"

(($#)) || set -- host
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export CUDACXX=${CUDACXX:-/usr/local/cuda/bin/nvcc}
fi
package=${PORTAMEM_PACKAGE:-}
if [[ -z $package ]]; then
    package=$CI_DIR/example-portamem # a build folder is a package: libportamem is the same for every backend
    cmake -S "$ROOT" -B "$package" -G Ninja --log-level=WARNING -DPORTAMEM_BACKENDS=host
    cmake --build "$package"
fi

build=$CI_DIR/example
rm -rf "$build"
cmake -S "$ROOT/examples/stencil" -B "$build" -G Ninja "-Dportamem_DIR=$package" \
    "-DPORTAMEM_HIP_PLATFORM=${PORTAMEM_HIP_PLATFORM:-amd}" "-DPORTAMEM_HIP_INCLUDE=${PORTAMEM_HIP_INCLUDE:-}" \
    "-DPORTAMEM_HIP_CUDA_ROOT=${PORTAMEM_HIP_CUDA_ROOT:-}" >"$build.log" || { cat "$build.log"; die "cmake failed"; }
grep "stencil:" "$build.log"
cmake --build "$build" --target stencil_host "${@/#/stencil_}"

# The line with the checksum, on which two backends have to agree. (errexit does not reach into $(...): its callers would
# go on with the bits of a program that found them wrong.)
bits_of() {
    local answer code=0
    answer=$("$build/stencil_$1" "${@:2}") || code=$?
    echo "$1: $answer" >&2
    [[ $code == 0 ]] || return "$code"
    grep '^checksum' <<<"$answer"
}
for shape in "1000 1003 20 96" "6 5 9 3"; do
    read -ra shape <<<"$shape"
    expected=$(bits_of host "${shape[@]}")
    for backend in "$@"; do
        [[ $backend != host ]] || continue
        found=$(bits_of "$backend" "${shape[@]}") || die "the example failed on $backend"
        [[ $found == "$expected" ]] || die "$backend computed other bits than host"
    done
done
echo "ci: the same bits on host and on: $*"
