#!/usr/bin/env bash
# ci/pythons.sh [3.10 ...]: the host backend, compiled by clang++, on every supported Python that this machine has; in a
# machine model that no other stage has pytest run in.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

export CXX=clang++ PORTAMEM_HOST_MODEL=apu
own=$("$PYTHON" -c "import sys; print('%d.%d' % sys.version_info[:2])") # ci/test.sh has run that one
(($#)) || set -- 3.10 3.11 3.12 3.13
versions=()
for version in "$@"; do
    if ! python=$(find_python "$version"); then
        echo "ci: no Python $version here"
        continue
    fi
    [[ $version != "$own" ]] || continue
    venv=$CI_DIR/venv-$version
    rm -rf "$venv"
    "$python" -m venv "$venv"
    PORTAMEM_BACKENDS=host "$venv/bin/python" -m pip install -q --config-settings=cmake.build-type=Debug \
        --config-settings=cmake.define.CMAKE_CXX_FLAGS_DEBUG= "${ROOT}[test]" # no debug information, which takes time
    versions+=("$version")
done
# Side by side: the tests mostly wait for streams and timers.
# Tests about the sources need one Python alone. How runs of the suite start and end is tested with the oldest Python, the
# suite itself by ci/conformance.sh.
pids=() failed=0
for version in "${versions[@]}"; do
    apart=("--ignore=$ROOT/tests/source_rules" "--ignore=$ROOT/tests/test_conformance.py")
    [[ $version == "${versions[0]}" ]] || apart+=("--ignore=$ROOT/tests/test_conformance_runner.py")
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
