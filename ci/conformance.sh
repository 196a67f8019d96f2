#!/usr/bin/env bash
# ci/conformance.sh: `portamem conformance --backend host`, as a user runs it: the wheel in a fresh environment with no
# extra and no checkout, in each machine model of the CPU runtime, and with pages of device memory shut to the CPU; once
# more under the order checker, which must find nothing but what a check does on purpose; and over every two adaptors on a
# pool what concerns allocation, lifetime and order. The demonstration runs there first.
# Reports are in $REPORTS (default: $CI_DIR/reports).
source "$(dirname "$0")/lib.sh"
need_build

REPORTS=${REPORTS:-$CI_DIR/reports}
venv=$CI_DIR/venv-conformance
mkdir -p "$REPORTS" "$CI_DIR/elsewhere"
rm -rf "$venv"
"$PYTHON" -m venv "$venv"
"$venv/bin/python" -m pip install -q "$CI_DIR"/dist/portamem-*.whl
cd "$CI_DIR/elsewhere"
"$venv/bin/portamem" demo

# NAME FOLDER [VARIABLE=VALUE]...: the report goes into FOLDER. OPTIONS are the command's.
suite() {
    local name=$1 folder=$2
    shift 2
    env "$@" timeout 600 "$venv/bin/portamem" conformance --backend host "${OPTIONS[@]}" --report "$folder/conformance-$name.json" \
        --junit "$REPORTS/conformance-$name.xml" >"$CI_DIR/conformance-$name.log" 2>&1
}

failed=0
# The matrix is long: what matters is what did not hold, and the sums.
tell() {
    local name=$1 code=$2 log=$CI_DIR/conformance-$1.log
    echo "== $name"
    if ((code == 0)); then tail -n 25 "$log"; else failed=1; cat "$log"; fi
}

# One after the other: their reports say how long the suite takes a user.
OPTIONS=()
for model in discrete apu coherent; do
    code=0
    # Where the CPU does not reach device memory, it is kept out.
    [[ $model == discrete ]] && guard=1 || guard=0
    suite "$model" "$REPORTS" "PORTAMEM_HOST_MODEL=$model" "PORTAMEM_HOST_GUARD=$guard" || code=$?
    tell "$model" "$code"
done

names=(ordered pairs) pids=()
suite ordered "$CI_DIR" PORTAMEM_CHECK=1 PORTAMEM_COPY_THREADS=3 & # large copies go through pinned blocks there
pids+=($!)
OPTIONS=(--pairs)
suite pairs "$REPORTS" PORTAMEM_HOST_GUARD=1 &
pids+=($!)
for i in "${!names[@]}"; do
    code=0
    wait "${pids[i]}" || code=$?
    tell "${names[i]}" "$code"
done
((failed == 0)) || die "the suite failed"
