#!/usr/bin/env bash
# ci/test.sh [plain|guard|apu|coherent] [pytest's arguments]: the Python tests against the installed wheel, with all three
# backends and the vendors' Python packages beside it. Tests that these do not concern run in ci/bare.sh.
# guard: the host runtime keeps the CPU out of device memory by page protection. apu, coherent: its other machine models.
source "$(dirname "$0")/lib.sh"
need_build

mode=${1:-plain}
shift || true
case $mode in
plain) ;;
guard) export PORTAMEM_HOST_GUARD=1 ;;
apu | coherent) export PORTAMEM_HOST_MODEL=$mode ;;
*) die "unknown mode '$mode': plain, guard, apu or coherent" ;;
esac
# ci/conformance.sh runs the conformance suite in each model.
set -- "${NOT_THE_LIBRARY[@]}" "--ignore=$ROOT/tests/test_conformance.py" "$@"
pytest_installed "$VENV/bin/python" "$@"
