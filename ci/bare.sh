#!/usr/bin/env bash
# ci/bare.sh: the commands of the README as on a machine with no GPU and no vendor's software, on the newest Python:
# fresh clone, fresh environment, `pip install ".[test]"`, `portamem demo` and `pytest`. (That the demonstration needs no
# extra is in ci/conformance.sh.)
#
# The CUDA toolkit, HIP and any GPU are hidden by a mount namespace, which this script enters by calling itself.
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} != --inside ]]; then
    as_root=()
    [[ $(id -u) == 0 ]] || as_root=(--map-root-user)
    unshare "${as_root[@]}" --mount true 2>/dev/null ||
        die "no mount namespace here (unshare --mount is refused), so the vendors' software cannot be hidden"
    exec unshare "${as_root[@]}" --mount "$(realpath "$0")" --inside
fi

hide_folder() {
    [[ ! -d $1 ]] || mount -t tmpfs -o ro,size=0 none "$1"
}
for folder in /usr/local/cuda /usr/local/cuda-* /opt/rocm /opt/rocm-* /usr/include/hip; do hide_folder "$folder"; done
for library in $(ldconfig -p | sed -n 's/.* => \(.*lib\(cudart\|cuda\|amdhip64\)\.so.*\)/\1/p'); do
    # A library that the loader refuses is as good as an absent one.
    [[ ! -e $library ]] || mount --bind /dev/null "$(realpath "$library")"
done
for node in /dev/nvidia* /dev/kfd; do [[ ! -e $node ]] || mount --bind /dev/null "$node"; done
unset CUDA_PATH CUDA_HOME CUDAToolkit_ROOT ROCM_PATH HIP_PATH LD_LIBRARY_PATH

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
copy_checkout "$home/portamem"
"$(find_python 3.13 || echo "$PYTHON")" -m venv "$home/venv"
export PATH=$home/venv/bin:$PATH
cd "$home/portamem"

pip install -q ".[test]"
portamem demo
python - "$home" <<'EOF'
import json, pathlib, sys
info = next(pathlib.Path(sys.argv[1], "venv").rglob("portamem/_build_info.json"))
built = sorted(json.loads(info.read_text())["backends"])
sys.exit(0 if built == ["host"] else f"ci: {built} were built: the vendors' software was still to be seen")
EOF
pytest
