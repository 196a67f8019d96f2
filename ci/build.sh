#!/usr/bin/env bash
# ci/build.sh: one wheel with all three backends (g++, warnings are errors), installed into the environment.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

rm -rf "$CI_DIR/dist"
PORTAMEM_BACKENDS="host;cuda;hip" PORTAMEM_CUDA_WHEELS=13 pip wheel -q "$ROOT" \
    --no-build-isolation --no-deps -w "$CI_DIR/dist" \
    -Cbuild-dir="$CI_DIR/build-wheel" -Ccmake.define.PORTAMEM_WERROR=ON
pip install -q --no-deps --no-index --force-reinstall "$CI_DIR"/dist/portamem-*.whl
cd "$CI_DIR" && portamem info
