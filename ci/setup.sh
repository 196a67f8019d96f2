#!/usr/bin/env bash
# ci/setup.sh: the machine's packages and one virtual environment with all tools, CUDA headers and test partners.
source "$(dirname "$0")/lib.sh"

packages=(g++ clang libclang-rt-14-dev doctest-dev libamdhip64-dev hipcc git ccache)
missing=()
if command -v dpkg-query >/dev/null; then
    for package in "${packages[@]}"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    if ((${#missing[@]})); then
        [[ $(id -u) == 0 ]] || die "packages are missing and installing them needs root: apt-get install ${missing[*]}"
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
    fi
else
    echo "ci: no apt here; expecting what these Debian packages hold: ${packages[*]}"
    for tool in g++ clang++ hipcc git; do command -v $tool >/dev/null || die "$tool is missing"; done
fi

rm -rf "$VENV"
"$PYTHON" -m venv "$VENV"
pip=("$VENV/bin/python" -m pip install -q)
"${pip[@]}" --upgrade pip
# Packages that build (pyproject.toml's build requirements, and CUDA from wheels, so that no toolkit is needed) and
# check.
"${pip[@]}" "scikit-build-core>=1.1" "pybind11>=3.1" "cmake>=3.22" ninja "cuda-toolkit[cccl,cudart,crt,nvtx]==13.*" \
    "ruff>=0.12" "mypy>=1.15" "clang-format==14.0.6" "libclang==18.1.1"
# Packages that run: the requirements that pyproject.toml names, so that they are written once. The partners of
# interoperation (cuda-python, hip-python) are apart, because not every environment needs them.
"$VENV/bin/python" - "$ROOT/pyproject.toml" "$CI_DIR" <<'EOF'
import pathlib, sys
from scikit_build_core._compat import tomllib
project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
folder = pathlib.Path(sys.argv[2])
(folder / "requirements.txt").write_text("\n".join(project["dependencies"] + extras["test"]), encoding="utf-8")
(folder / "partners.txt").write_text("\n".join(extras["cuda"] + extras["hip"]), encoding="utf-8")
EOF
"${pip[@]}" -r "$CI_DIR/requirements.txt" -r "$CI_DIR/partners.txt"
touch "$VENV/.ready"
