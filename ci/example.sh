#!/usr/bin/env bash
# ci/example.sh [host|cuda|hip]...: builds examples/stencil and examples/amr_cpp for the backends named (default: host)
# and runs them on each. The stencil has to give the bits of its serial reference, the adaptive mesh the same bits on a
# pool and on plain memory with any number of threads, and each of them those of host. A backend without a device fails.
#
# Made for a machine without a network: it needs CMake, Ninja and g++, for cuda nvcc (on PATH, in CUDACXX or in
# /usr/local/cuda), for hip hipcc, or nvcc and HIP's headers over CUDA as ci/build.sh takes them: PORTAMEM_HIP_PLATFORM=
# nvidia, PORTAMEM_HIP_INCLUDE, PORTAMEM_HIP_CUDA_ROOT. portamem is taken from the folder $PORTAMEM_PACKAGE, where
# portamem-config.cmake is (`portamem --cmake-dir`); without one it is built from the checkout. What the mesh cost is
# written to amr_cpp-BACKEND.json in $PORTAMEM_EXAMPLE_OUT, for benchmarks/page.py.
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
out=${PORTAMEM_EXAMPLE_OUT:-$CI_DIR/example-out}
mkdir -p "$out"

build=$CI_DIR/example
rm -rf "$build"
# build_example PROGRAM FOLDER TARGET...: builds PROGRAM_host and these.
build_example() {
    local program=$1 log=$build/$1.log
    mkdir -p "$build/$program"
    cmake -S "$ROOT/examples/$2" -B "$build/$program" -G Ninja "-Dportamem_DIR=$package" \
        "-DPORTAMEM_HIP_PLATFORM=${PORTAMEM_HIP_PLATFORM:-amd}" "-DPORTAMEM_HIP_INCLUDE=${PORTAMEM_HIP_INCLUDE:-}" \
        "-DPORTAMEM_HIP_CUDA_ROOT=${PORTAMEM_HIP_CUDA_ROOT:-}" >"$log" || { cat "$log"; die "cmake failed"; }
    grep "$program:" "$log"
    cmake --build "$build/$program" --target "${program}_host" "${@:3}"
}
build_example stencil stencil "${@/#/stencil_}"
build_example amr amr_cpp "${@/#/amr_}"

# The line with the checksum, on which two backends have to agree. (errexit does not reach into $(...): its callers would
# go on with the bits of a program that found them wrong.)
bits_of() {
    local answer code=0
    answer=$("$build/$1/$1_$2" "${@:3}") || code=$?
    echo "$1 on $2, ${*:3}: $answer" >&2
    [[ $code == 0 ]] || return "$code"
    grep '^checksum' <<<"$answer"
}
# has_bits EXPECTED PROGRAM BACKEND ARGUMENT...
has_bits() {
    local found
    found=$(bits_of "${@:2}") || die "$2 failed on $3"
    [[ $found == "$1" ]] || die "$2 on $3 computed other bits than on host"
}
for shape in "1000 1003 20 96" "6 5 9 3"; do
    read -ra shape <<<"$shape"
    expected=$(bits_of stencil host "${shape[@]}")
    for backend in "$@"; do
        [[ $backend == host ]] || has_bits "$expected" stencil "$backend" "${shape[@]}"
    done
done
expected=$(bits_of amr host --threads 3)
for backend in "$@"; do
    has_bits "$expected" amr "$backend" --threads 1 --json "$out/amr_cpp-$backend.json"
    has_bits "$expected" amr "$backend" --threads 4
done
echo "ci: the same bits on host and on: $*"
