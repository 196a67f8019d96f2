#!/usr/bin/env bash
# tools/reports.sh: the reports of a machine without a GPU, in $REPORTS (default: $CI_DIR/reports). `here`: the tests of the
# host backend. `library`: what the vendors' real libraries answer without a device. `compiled`: what was built.
# ci/gpu.sh makes those of a GPU; `python tools/evidence.py --add NAME FOLDER` takes either into evidence/runs.
source "$(dirname "$0")/../ci/lib.sh"
need_build
export CI_DIR

REPORTS=${REPORTS:-$CI_DIR/reports}
mkdir -p "$REPORTS" "$CI_DIR/elsewhere"
REPORTS=$(cd "$REPORTS" && pwd)
cd "$CI_DIR/elsewhere"

failed=0
report() {
    local name=$1
    shift
    "$VENV/bin/python" "$ROOT/tools/report.py" "$name" --out "$REPORTS" "$@" || failed=1
}

# The tests that are about one backend, by its name in brackets: how it answers where it cannot be used.
without_a_device() {
    local backend=$1 on=$2 junit=$REPORTS/library-$1.xml
    rm -f "$junit"
    if [[ $("$VENV/bin/python" -c "import portamem; print(portamem.backends()['$backend'].device_count)") == 0 ]]; then
        pytest_installed "$VENV/bin/python" -q -k "${backend}] and not lazy and not not_built" "--junitxml=$junit" || true
        report "library-$backend" --kind library --on "$on" --tests "$backend" "says why without a device" "$junit"
    fi
}

built=()
for backend in host cuda hip; do
    if "$VENV/bin/python" -c "import portamem._$backend" 2>/dev/null; then
        built+=(--ran "$backend" "the package builds" 0)
    fi
done
report compiled --kind compiled "${built[@]}"
if [[ -e $CI_DIR/header-matrix/compiled.json ]]; then # of ci/headers.sh
    report headers --kind compiled --part "$CI_DIR/header-matrix/compiled.json"
fi

start=$SECONDS here=()
program=$CI_DIR/build-cpp-gxx/tests/cpp/portamem_tests_host # of ci/cpp.sh
if [[ -x $program ]]; then
    rm -f "$REPORTS/here-cpp.xml"
    "$program" --reporters=junit "--out=$REPORTS/here-cpp.xml" || true # the file says what failed
    here+=(--tests host "C++ tests" "$REPORTS/here-cpp.xml")
fi
rm -f "$REPORTS/here.xml"
pytest_installed "$VENV/bin/python" -q "--junitxml=$REPORTS/here.xml" || true
here+=(--tests host "Python tests" "$REPORTS/here.xml")
rm -f "$CI_DIR/soak-here.json"
"$VENV/bin/python" "$ROOT/tests/soak/soak.py" --backend host --seconds 20 --json "$CI_DIR/soak-here.json" || true
if [[ -e $CI_DIR/soak-here.json ]]; then here+=(--part "$CI_DIR/soak-here.json"); else here+=(--ran host soak 1); fi
report here --seconds $((SECONDS - start)) "${here[@]}"

hip=$(dpkg-query -W -f 'Debian libamdhip64 ${Version}' libamdhip64-5 2>/dev/null) || hip="libamdhip64"
cuda=$("$VENV/bin/python" -c "import portamem.cuda as c; print('CUDA runtime', c.version_text(c.compiled_version()))")
without_a_device hip "$hip, no device"
without_a_device cuda "$cuda, no driver"
# The conformance suite where there is no GPU: the CPU backend, the vendors' libraries without a device, the stand-ins.
REPORTS=$REPORTS "$ROOT/ci/conformance.sh" || failed=1
for backend in hip cuda; do
    "$VENV/bin/portamem" conformance --backend "$backend" --report "$REPORTS/conformance-library-$backend.json" >/dev/null ||
        failed=1
done
for abi in 5.2 6.1 7.1; do
    "$ROOT/ci/standins.sh" run "$abi" python -P -m portamem conformance --backend hip \
        --report "$REPORTS/conformance-simulated-$abi.json" >/dev/null || failed=1
done
[[ $failed == 0 ]] || die "not all of it passed"
