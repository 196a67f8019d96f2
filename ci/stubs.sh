#!/usr/bin/env bash
# ci/stubs.sh: the stubs say of the compiled modules what is true of them.
source "$(dirname "$0")/lib.sh"
need_build

mkdir -p "$CI_DIR/elsewhere"
cd "$CI_DIR/elsewhere"
"$VENV/bin/python" -m mypy.stubtest portamem._host portamem._knobs portamem.host \
    --ignore-unused-allowlist --allowlist "$ROOT/ci/stubtest-allowlist.txt"
