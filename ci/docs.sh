#!/usr/bin/env bash
# ci/docs.sh: the documentation site, in $CI_DIR/site. Warnings are errors, links that lead nowhere among them.
#
# Nothing is compiled: the Python pages come from the type stubs, the C++ pages from the headers, by Doxygen. The build
# needs no network once its environment is there.
source "$(dirname "$0")/lib.sh"

docs_venv=$CI_DIR/venv-docs
site=$CI_DIR/site
work=$CI_DIR/docs

if ! command -v doxygen >/dev/null; then
    command -v apt-get >/dev/null && [[ $(id -u) == 0 ]] || die "doxygen is missing, and installing it needs root and apt-get"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends doxygen
fi
if [[ ! -e $docs_venv/.ready || $docs_venv/.ready -ot $ROOT/docs/requirements.txt ]]; then
    rm -rf "$docs_venv"
    "$PYTHON" -m venv "$docs_venv"
    "$docs_venv/bin/python" -m pip install -q -r "$ROOT/docs/requirements.txt"
    touch "$docs_venv/.ready"
fi

"$docs_venv/bin/python" "$ROOT/docs/pictures/make.py" --check
rm -rf "$site" "$work"
mkdir -p "$work/doxygen"
(cd "$ROOT/csrc/include" && { cat "$ROOT/docs/Doxyfile"; echo "OUTPUT_DIRECTORY = \"$work/doxygen\""; } | doxygen -)
# Breathe makes links of "subclassed by" that lead nowhere.
sed -i '/<derivedcompoundref/d' "$work"/doxygen/xml/*.xml
PORTAMEM_DOXYGEN_XML=$work/doxygen/xml "$docs_venv/bin/python" -m sphinx -W --keep-going -n -q -b html \
    -c "$ROOT/docs" -d "$work/doctrees" "$ROOT" "$site"
"$docs_venv/bin/python" "$ROOT/docs/check_site.py" "$site"
echo "ci: the site is $site/index.html"
