#!/usr/bin/env bash
# ci/standins.sh: portamem for AMD with no AMD GPU, simulated: over stand-ins for libamdhip64 of HIP 5.2, 6.1 and 7.1
# (tests/standin), each with a portamem._hip compiled from the same headers.
#   ci/standins.sh [5.2 6.1 7.1]                builds them, all by default, and installs hip-python beside them
#   ci/standins.sh run ABI COMMAND...           runs a command over one of them
#   ci/standins.sh test [pytest's arguments]    what the stand-ins themselves are tested for
#   ci/standins.sh witnesses [ABI...]           tests/partners over those that have a hip-python of their major version
#   ci/standins.sh suite [ABI...]               the whole Python test suite over each
#   ci/standins.sh conformance [ABI...]         the conformance suite over each, with each quirk what it concerns, and `models`
#   ci/standins.sh models [ABI...]              what depends on the machine, over each as a card with XNACK and as an APU
#   ci/standins.sh quirks [ABI...]              writes evidence/quirks.md: which quirk which clause of conformance notices
# Each is a folder $CI_DIR/standins/ABI: include and lib, which are a ROCm root, site-packages, and a link to the
# hip-python that is the witness over it.
source "$(dirname "$0")/lib.sh"
compile_cache

STANDINS=$CI_DIR/standins
ALL=(5.2 6.1 7.1)
WITNESSED=(6.1 7.1) # over 5.2 a hip-python for HIP 6 asks for what is not there

# Headers of a version: Debian's, or those of the header matrix.
headers_of() {
    if [[ $1 == 5.2 ]]; then
        echo /usr/include
    else
        PYTHONPATH=$ROOT/tools python -P - "$1" "$CI_DIR/header-matrix/headers" <<'EOF'
import pathlib, sys
from header_matrix import sets
source = {"6.1": sets.HIP_6_1, "7.1": sets.HIP_7_1}[sys.argv[1]]
root = pathlib.Path(sys.argv[2])
sets.fetch(source, root)
print(source.place(root))
EOF
    fi
}

build() {
    local abi=$1 folder=$STANDINS/$1 headers package
    [[ " ${ALL[*]} " == *" $abi "* ]] || die "there is no stand-in '$abi': there are ${ALL[*]}"
    headers=$(headers_of "$abi")
    mkdir -p "$folder/include"
    ln -sfn "$headers/hip" "$folder/include/hip"
    cmake -S "$ROOT/tests/standin" -B "$folder/build-library" -G Ninja --log-level=WARNING -DPORTAMEM_WERROR=ON \
        -DSTANDIN_HEADERS="$headers" -DCMAKE_INSTALL_PREFIX="$folder"
    cmake --build "$folder/build-library"
    cmake --install "$folder/build-library" >/dev/null

    # The wheel, whose module for HIP is built from the headers of 5.2; another version's takes its place.
    package=$folder/site-packages/portamem
    rm -rf "$folder/site-packages" "$folder/reports"
    mkdir -p "$folder/site-packages"
    python -m zipfile -e "$CI_DIR"/dist/portamem-*.whl "$folder/site-packages"
    rm -f "$package"/_cuda.*.so
    if [[ $abi == 5.2 ]]; then
        write_info "$package" "$package/_build_info.json"
    else
        ROCM_PATH=$folder cmake -S "$ROOT" -B "$folder/build-python" -G Ninja --log-level=WARNING \
            -DPORTAMEM_PYTHON=ON -DPORTAMEM_BACKENDS=hip -DPORTAMEM_WERROR=ON -DPython_EXECUTABLE="$VENV/bin/python" \
            -Dpybind11_DIR="$(python -m pybind11 --cmakedir)"
        cmake --build "$folder/build-python"
        rm "$package"/_hip.*.so
        cmake --install "$folder/build-python" --prefix "$package/.hip" >/dev/null
        mv "$package"/.hip/_hip.*.so "$package"
        write_info "$package" "$package/.hip/_build_info.json"
        rm -r "$package/.hip"
    fi
    over "$abi" python -P -m portamem info
}

# The build information of a package, with what another file says of HIP, and without CUDA.
write_info() {
    python -P - "$1/_build_info.json" "$2" <<'EOF'
import json, pathlib, sys
package, hip = (json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:])
package["backends"]["hip"] = hip["backends"]["hip"]
del package["backends"]["cuda"]
package["not_built"]["cuda"] = "The stand-ins are for AMD."
pathlib.Path(sys.argv[1]).write_text(json.dumps(package))
EOF
}

# Runs a command over a stand-in.
over() {
    local folder=$STANDINS/$1
    shift
    mkdir -p "$CI_DIR/elsewhere"
    (
        cd "$CI_DIR/elsewhere"
        export PYTHONPATH=$folder/hip-python:$folder/site-packages
        export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        "$@"
    )
}

need() {
    local abi
    for abi in "$@"; do [[ -d $STANDINS/$abi/site-packages ]] || build "$abi"; done
}

# The hip-python of a version, or the one next to it: for HIP 5 there is none.
witness_of() {
    case $1 in
    5.2 | 6.1) echo 6.2 ;;
    7.1) echo 7.2 ;;
    esac
}

# hip-python of three generations, each alone in a folder: the oracles of what the stand-ins say.
need_oracles() {
    local version folder abi
    for version in 6.2.0 7.2.2 10.0.0; do
        folder=$STANDINS/hip-python-${version%.*}
        [[ -e $folder/.ready ]] && continue
        rm -rf "$folder"
        pip install -q --target "$folder" "hip-python==$version.*"
        touch "$folder/.ready"
    done
    for abi in "${ALL[@]}"; do
        mkdir -p "$STANDINS/$abi"
        ln -sfn "../hip-python-$(witness_of "$abi")" "$STANDINS/$abi/hip-python"
    done
}

pytest_here() {
    python -P -m pytest -p no:cacheprovider --config-file="$ROOT/pyproject.toml" --rootdir="$ROOT" "$@"
}

# The groups of clauses that follow what the device reaches: over a discrete card they are shown by `conformance`.
in_the_models() {
    local abi model groups=(HOSTACCESS MANAGED POINTER HIP)
    for abi in "$@"; do
        for model in coherent apu; do
            echo "== the conformance suite over the stand-in for HIP $abi, $model: ${groups[*]}"
            STANDIN_MODEL=$model over "$abi" python -P -m portamem conformance --backend hip "${groups[@]/#/--select=}" \
                >"$CI_DIR/standin-$abi-$model.out" 2>&1 || { cat "$CI_DIR/standin-$abi-$model.out"; return 1; }
            tail -n 2 "$CI_DIR/standin-$abi-$model.out"
        done
    done
}

need_build
case ${1:-} in
run)
    need "$2"
    need_oracles
    over "${@:2}"
    ;;
test)
    need "${ALL[@]}"
    need_oracles
    # The tests themselves run on the CPU; each starts processes over a stand-in.
    cd "$CI_DIR"
    PORTAMEM_STANDINS=$STANDINS PYTHONPATH=$STANDINS/5.2/site-packages \
        pytest_here "$ROOT/tests/standin" -m standins "${@:2}"
    ;;
witnesses)
    shift
    (($#)) || set -- "${WITNESSED[@]}"
    need "$@"
    need_oracles
    failed=0
    for abi in "$@"; do
        echo "== the witness and portamem over the stand-in for HIP $abi"
        PORTAMEM_TEST_BACKEND=hip over "$abi" pytest_here "$ROOT/tests/partners" -q || failed=1
    done
    ((failed == 0)) || die "the witness does not agree"
    ;;
suite)
    shift
    (($#)) || set -- "${ALL[@]}"
    need "$@"
    need_oracles
    for abi in "$@"; do
        echo "== the test suite over the stand-in for HIP $abi"
        # tests/packaging asks the wheel, and is left out here.
        PORTAMEM_TEST_BACKEND=hip over "$abi" pytest_here "$ROOT/tests" --ignore="$ROOT/tests/packaging" -q
    done
    ;;
conformance)
    shift
    (($#)) || set -- "${ALL[@]}"
    need "$@"
    need_oracles
    python -P "$ROOT/tools/quirks.py" --standins "$STANDINS" --check "$@"
    in_the_models "$@"
    ;;
models)
    shift
    (($#)) || set -- "${ALL[@]}"
    need "$@"
    need_oracles
    in_the_models "$@"
    ;;
quirks)
    shift
    (($#)) || set -- "${ALL[@]}"
    need "$@"
    need_oracles
    python -P "$ROOT/tools/quirks.py" --standins "$STANDINS" --write "$ROOT/evidence/quirks.md" "$@"
    ;;
*)
    (($#)) || set -- "${ALL[@]}"
    for abi in "$@"; do build "$abi"; done
    need_oracles # here, once: commands over the stand-ins may run side by side
    ;;
esac
