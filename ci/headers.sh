#!/usr/bin/env bash
# ci/headers.sh: portamem's headers compile under every generation of vendor headers that packages bring, and
# evidence/header-matrix.md says what is true of them (tools/header-matrix). And each source compiles alone, which builds in
# batches do not show. Warnings are errors. Compiled only: nothing is linked or run here.
source "$(dirname "$0")/lib.sh"
need_setup

"$ROOT/tools/header-matrix"

# The sources with clang++, whose g++ build is ci/build.sh: one by one for host, because the build in batches does not
# show what a file forgot to include, and all at once for the other backends.
flags=(-std=c++17 -fsyntax-only -fvisibility=hidden -Wall -Wextra -Wconversion -Werror -DPORTAMEM_MODULE=_x
    "-I$ROOT/csrc/include" -isystem "$(python -c "import pybind11; print(pybind11.get_include())")"
    -isystem "$(python -c "import sysconfig; print(sysconfig.get_path('include'))")")
one_by_one() {
    xargs -0 -P "$JOBS" -I % clang++ "${flags[@]}" -DPORTAMEM_HOST=1 "$@" %
}
shopt -s extglob
cd "$ROOT/csrc"
printf '%s\0' {core,core/*,host,python/knobs}/*.cpp python/plugins/torch_error.cpp | one_by_one
# The others all include bindings.hpp (tests/source_rules says so), which is parsed once for all.
clang++ "${flags[@]/-fsyntax-only/-xc++-header}" -DPORTAMEM_HOST=1 python/bindings.hpp -o "$CI_DIR/bindings.pch"
printf '%s\0' python/{,fast/}*.cpp python/plugins/!(torch_error).cpp | one_by_one -include-pch "$CI_DIR/bindings.pch"
echo "compiled: each source for host"
cuda13=$(python -c "import nvidia; print(nvidia.__path__[0])")/cu13/include
all_sources() {
    printf '#include "%s"\n' "$ROOT"/csrc/python/{,fast/,plugins/}*.cpp | clang++ -x c++ "${flags[@]}" "$@" -
}
all_sources -DPORTAMEM_CUDA=1 -isystem "$cuda13" &
all_sources -DPORTAMEM_HIP=1 -D__HIP_PLATFORM_AMD__=1
wait $!
echo "compiled: the modules' sources for CUDA and HIP"
