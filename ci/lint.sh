#!/usr/bin/env bash
# ci/lint.sh: formatting, style and types. Compiler warnings are errors in ci/build.sh (g++) and ci/headers.sh (clang++).
source "$(dirname "$0")/lib.sh"
need_setup
cd "$ROOT"

ruff check --no-cache .
ruff format --no-cache --check .
mypy --strict --cache-dir="$CI_DIR/mypy" portamem
git ls-files -z --cached --others --exclude-standard --deduplicate '*.cpp' '*.hpp' '*.h' |
    xargs -0 clang-format --dry-run -Werror
