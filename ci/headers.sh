#!/usr/bin/env bash
# ci/headers.sh: portamem's headers compile against every generation of vendor headers that packages bring: CUDA 12 and
# 13, HIP 5.2, 6.1 and 7.1 on AMD, HIP 5.2 on NVIDIA. And each source compiles alone, which builds in batches do not
# show. Warnings are errors. Compiled only: nothing is linked or run here.
source "$(dirname "$0")/lib.sh"
need_setup
folder=$CI_DIR/headers
mkdir -p "$folder"

# CUDA 12 from wheels, into a folder of its own: beside CUDA 13's they would be taken for one toolkit.
if [[ ! -d $folder/cuda12/nvidia ]]; then
    pip install -q --target "$folder/cuda12" nvidia-cuda-{runtime,nvcc,cccl,profiler-api}-cu12=="12.9.*"
fi

# HIP's headers, as Triton packs them: the only package that holds those of HIP 6 and 7.
hip_headers() {
    local target=$folder/hip$1 wheel
    [[ ! -d $target ]] || return 0
    wheel=$(mktemp -d)
    pip download -q --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux2014_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64 -d "$wheel" "triton==$2"
    python -m zipfile -e "$wheel"/triton-*.whl "$wheel/all"
    mv "$wheel/all/triton/backends/amd/include" "$target"
    rm -rf "$wheel"
}
hip_headers 6.1 3.0.0
hip_headers 7.1 3.9.0

compiles() {
    local name=$1 compiler
    shift
    for compiler in g++ clang++; do
        echo '#include <portamem/portamem.hpp>' | "$compiler" -x c++ -std=c++17 -fsyntax-only -Wall -Wextra -Wconversion \
            -Werror "-I$ROOT/csrc/include" "$@" -
    done
    echo "compiled: $name"
}

cuda12=$folder/cuda12/nvidia
cuda12_includes=(-isystem "$cuda12/cuda_runtime/include" -isystem "$cuda12/cuda_nvcc/include"
    -isystem "$cuda12/cuda_cccl/include" -isystem "$cuda12/cuda_profiler_api/include")
cuda13=$(python -c "import nvidia; print(nvidia.__path__[0])")/cu13/include

compiles "host" -DPORTAMEM_HOST=1
compiles "CUDA 12.9" -DPORTAMEM_CUDA=1 "${cuda12_includes[@]}"
compiles "CUDA 13" -DPORTAMEM_CUDA=1 -isystem "$cuda13"
# AMD's own headers are found at /usr/include (HIP 5.2, Debian) or in the folder named.
compiles "HIP 5.2 on AMD" -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_AMD__=1
compiles "HIP 6.1 on AMD" -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_AMD__=1 -isystem "$folder/hip6.1"
compiles "HIP 7.1 on AMD" -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_AMD__=1 -isystem "$folder/hip7.1"
compiles "HIP 5.2 on NVIDIA, CUDA 12.9" -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_NVIDIA__=1 "${cuda12_includes[@]}"

# The sources with clang++, whose g++ build is ci/build.sh: one by one for host, because the build in batches does not
# show what a file forgot to include, and all at once for the other backends.
flags=(-std=c++17 -fsyntax-only -fvisibility=hidden -Wall -Wextra -Wconversion -Werror -DPORTAMEM_MODULE=_x
    "-I$ROOT/csrc/include" -isystem "$(python -c "import pybind11; print(pybind11.get_include())")"
    -isystem "$(python -c "import sysconfig; print(sysconfig.get_path('include'))")")
printf '%s\0' "$ROOT"/csrc/{core,host,python,python/knobs}/*.cpp |
    xargs -0 -P "$JOBS" -I % clang++ "${flags[@]}" -DPORTAMEM_HOST=1 %
echo "compiled: each source for host"
all_sources() {
    printf '#include "%s"\n' "$ROOT"/csrc/python/*.cpp | clang++ -x c++ "${flags[@]}" "$@" -
}
all_sources -DPORTAMEM_CUDA=1 -isystem "$cuda13"
all_sources -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_AMD__=1
echo "compiled: the modules' sources for CUDA and HIP"
