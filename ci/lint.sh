#!/usr/bin/env bash
# ci/lint.sh: formatting, style and types, and the tests of tools that read the sources by libclang: the environment of
# ci/bare.sh lacks it. Compiler warnings are errors in ci/build.sh (g++) and ci/headers.sh (clang++).
source "$(dirname "$0")/lib.sh"
need_setup
cd "$ROOT"

ruff check --no-cache .
ruff format --no-cache --check .
mypy --strict --cache-dir="$CI_DIR/mypy" portamem
git ls-files -z --cached --others --exclude-standard --deduplicate '*.cpp' '*.hpp' '*.h' |
    xargs -0 clang-format --dry-run -Werror
PYTHONPATH=tests python -m pytest -q -p no:cacheprovider --noconftest tests/source_rules/test_{mutation,header_matrix}.py
