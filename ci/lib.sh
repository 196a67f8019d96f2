# shellcheck shell=bash
# ci/lib.sh: what every stage shares. Sourced, never run.
#
# A stage is a script that can be called alone, from any folder, by any user: it makes what it needs first (ci/setup.sh)
# and exits non-zero when anything in it failed. All files go below $CI_DIR (default: build/ci in the checkout).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CI_DIR=${CI_DIR:-$ROOT/build/ci}
JOBS=${JOBS:-$(nproc)}
PYTHON=${PYTHON:-python3}
VENV=$CI_DIR/venv
export CMAKE_BUILD_PARALLEL_LEVEL=$JOBS CTEST_PARALLEL_LEVEL=$JOBS CTEST_OUTPUT_ON_FAILURE=1
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$CI_DIR"
# The caller's settings of portamem and of Python's path must not decide what is tested. PORTAMEM_REQUIRE may.
unset PYTHONPATH PORTAMEM_BACKEND PORTAMEM_BACKENDS PORTAMEM_CUDA_WHEELS PORTAMEM_QUIRKS PORTAMEM_CHECK "${!PORTAMEM_HOST_@}"

die() {
    echo "ci: $*" >&2
    exit 1
}

# The Python of a version; fails where this machine has none.
find_python() {
    local candidate
    for candidate in "python$1" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/python; do
        if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# Makes the environment once, and puts it first on PATH.
need_setup() {
    [[ -e $VENV/.ready && $VENV/.ready -nt $ROOT/pyproject.toml && $VENV/.ready -nt $ROOT/ci/setup.sh ]] ||
        "$ROOT/ci/setup.sh"
    export PATH=$VENV/bin:$PATH
}

need_build() {
    need_setup
    compgen -G "$CI_DIR/dist/portamem-*.whl" >/dev/null || "$ROOT/ci/build.sh"
}

# Compiles through ccache where it is installed.
compile_cache() {
    if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
}

# The files of the checkout as a clone would have them: tracked, or new and not ignored.
copy_checkout() {
    mkdir -p "$1"
    (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard --deduplicate |
        while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
        tar --null -T - -cf -) | tar -xf - -C "$1"
}

# Tests that are about the checkout, or about how runs of the suite start and end: half of the time of all, and neither a
# model of the CPU's runtime nor a sanitizer changes what they see.
NOT_THE_LIBRARY=("--ignore=$ROOT/tests/source_rules" "--ignore=$ROOT/tests/test_conformance_runner.py"
    "--ignore=$ROOT/tests/test_require.py")

# pytest over the suite against the portamem that `$1` (a Python) has installed, never against the checkout.
# pytest exits 5 when it ran no test, so no tests are a failure here.
pytest_installed() {
    local python=$1
    shift
    mkdir -p "$CI_DIR/elsewhere"
    (
        cd "$CI_DIR/elsewhere"
        "$python" - "$ROOT" <<'EOF'
import sys, portamem
if "site-packages" not in portamem.__file__ or portamem.__file__.startswith(sys.argv[1] + "/portamem/"):
    sys.exit(f"ci: the portamem under test is {portamem.__file__}, not an installed one")
EOF
        "$python" -m pytest -p no:cacheprovider --config-file="$ROOT/pyproject.toml" --rootdir="$ROOT" "$ROOT/tests" "$@"
    )
}
