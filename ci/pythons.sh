#!/usr/bin/env bash
# ci/pythons.sh [3.10 ...]: the host backend on every supported Python that this machine has.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

find_python() {
    local candidate
    for candidate in "python$1" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/python; do
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

own=$("$PYTHON" -c "import sys; print('%d.%d' % sys.version_info[:2])") # ci/test.sh has run that one
(($#)) || set -- 3.10 3.11 3.12 3.13
versions=()
for version in "$@"; do
    python=$(find_python "$version")
    if [[ -z $python ]]; then
        echo "ci: no Python $version here"
        continue
    fi
    [[ $version != "$own" ]] || continue
    venv=$CI_DIR/venv-$version
    rm -rf "$venv"
    "$python" -m venv "$venv"
    PORTAMEM_BACKENDS=host "$venv/bin/python" -m pip install -q --config-settings=cmake.build-type=Debug "${ROOT}[test]"
    versions+=("$version")
done
# Side by side: the tests mostly wait for streams and timers.
# Tests about the sources need one Python alone. Of the two long files, one is how runs of the suite start and end: the
# oldest Python has it. The other is the suite itself, from the newest.
pids=() failed=0
for version in "${versions[@]}"; do
    apart=("--ignore=$ROOT/tests/source_rules")
    [[ $version == "${versions[0]}" ]] || apart+=("--ignore=$ROOT/tests/test_conformance_runner.py")
    [[ $version == "${versions[-1]}" ]] || apart+=("--ignore=$ROOT/tests/test_conformance.py")
    pytest_installed "$CI_DIR/venv-$version/bin/python" -q "${apart[@]}" >"$CI_DIR/pytest-$version.log" 2>&1 &
    pids+=($!)
done
for i in "${!versions[@]}"; do
    wait "${pids[i]}" || failed=1
    echo "== Python ${versions[i]}"
    cat "$CI_DIR/pytest-${versions[i]}.log"
done
((failed == 0)) || die "the tests failed on a Python above"
echo "ci: Python ${versions[*]:-(none besides $own)}"
