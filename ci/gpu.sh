#!/usr/bin/env bash
# ci/gpu.sh [STAGE]...: builds from the checkout and runs what needs an NVIDIA GPU. Without words: all of it, in order.
#
#   build      the Python package, the C++ tests and the benchmarks
#   test       cpp, conformance and pytest: the C++ tests, the conformance suite with its witnesses, and pytest unchanged,
#              on cuda and on hip (with two GPUs where there are)
#   check      memcheck, processes and example: the vendor's memory checker over both kinds of tests, four processes of
#              each at once on one GPU, the example program
#   bench      portamem beside its peers, in one run
#   table      the speed table of the pool and the adaptive mesh, as $REPORTS/performance/*.json for benchmarks/page.py
#   soak       every kind of memory from many threads, for $SOAK_SECONDS (120) each in Python and in C++ on each backend
#   demo       `portamem info` and `portamem demo`
#
# cpp, conformance, pytest, memcheck, processes and example can be named alone. Each takes less than eight minutes and writes
# $REPORTS/STAGE.json (tools/report.py says what is in it) and its JUnit files below $REPORTS (default: $CI_DIR/reports).
#
# Made for a machine without a network: it needs a CUDA toolkit, CMake, Ninja and a Python with scikit-build-core,
# pybind11, numpy, rich, what pyproject.toml's extra "test" names, cuda-bindings, cuda-core with NVRTC, CuPy and PyTorch
# (tests that lack these fail rather than pass over what a GPU is there to show). What such a machine lacks is taken from
# the folder $GPU_DEPS (default: gpu-deps in the checkout), each part where it is there:
#   include/doctest, lib/cmake/doctest   doctest, for the C++ tests
#   hip/include/hip                      HIP's headers: portamem.hip is built on the NVIDIA platform, over
#   cuda12/include, cuda12/lib           the headers and the static runtime of CUDA 12 (HIP's do not take CUDA 13): of
#                                        its packages cuda-runtime, cuda-profiler-api, cuda-nvcc (crt) and cccl (nv)
#   wheels/*.whl                         Python packages: pyelftools, pygal and what that needs (importlib-metadata,
#                                        zipp, lazy-importer), for the tests; RMM for the table: rmm, librmm and
#                                        rapids-logger (6 MB)
# $COMMIT names the commit, for a copy without its history. GPU_BACKENDS=cuda (or hip) leaves the other backend out of
# the stages after build. REHEARSE=host runs every stage on the CPU, without a GPU.
source "$(dirname "$0")/lib.sh"

export CI_DIR
GPU_DEPS=${GPU_DEPS:-$ROOT/gpu-deps}
REPORTS=${REPORTS:-$CI_DIR/reports}
SOAK_SECONDS=${SOAK_SECONDS:-120}
GPU_VENV=$CI_DIR/gpu-venv
GPU_PYTHON=$GPU_VENV/bin/python
CPP_TESTS=$CI_DIR/gpu-cpp/tests/cpp
CUDA_ROOT=${CUDA_PATH:-/usr/local/cuda}
if [[ ! -d $CUDA_ROOT ]] && nvcc=$(command -v nvcc); then CUDA_ROOT=$(dirname "$(dirname "$(realpath "$nvcc")")"); fi
backends="host;cuda"
if [[ ${REHEARSE:-} == host ]]; then
    backends=host
elif [[ -d $GPU_DEPS/hip/include/hip && -d $GPU_DEPS/cuda12/include ]]; then
    backends="host;cuda;hip"
    export PORTAMEM_HIP_PLATFORM=nvidia
    export PORTAMEM_HIP_INCLUDE=$GPU_DEPS/hip/include PORTAMEM_HIP_CUDA_ROOT=$GPU_DEPS/cuda12
fi
gpu_backends=${backends#host;}
read -ra gpu_backends <<<"${GPU_BACKENDS:-${gpu_backends//;/ }}"
mkdir -p "$REPORTS" "$CI_DIR/elsewhere"
REPORTS=$(cd "$REPORTS" && pwd)

rows=() # what the stage under way tells tools/report.py

# Runs a command where a backend must be, and is what the tests test.
on() {
    local backend=$1
    shift
    if [[ $backend == host ]]; then
        PORTAMEM_TEST_BACKEND=host "$@"
    else
        PORTAMEM_REQUIRE=$backend PORTAMEM_TEST_BACKEND=$backend "$@"
    fi
}

# Runs a command in an empty folder: in the checkout, Python would find its portamem, which has no compiled modules.
elsewhere() {
    (cd "$CI_DIR/elsewhere" && "$@")
}

# ran BACKEND WHAT COMMAND...: one row, by the command's exit.
ran() {
    local backend=$1 what=$2 code=0
    shift 2
    echo "== $what on $backend"
    "$@" || code=$?
    rows+=(--ran "$backend" "$what" "$code")
}

not_run() {
    echo "== $2 on $1: not run: $3"
    rows+=(--not-run "$1" "$2" "$3")
}

# The C++ tests of a backend, with a JUnit file; more arguments are doctest's. Before it, what runs the program.
cpp_tests() {
    local backend=$1 junit=$2 separator=$3
    shift 3
    local runner=()
    while [[ $1 != "$separator" ]]; do
        runner+=("$1")
        shift
    done
    shift
    rm -f "$junit"
    on "$backend" "${runner[@]}" "$CPP_TESTS/portamem_tests_$backend" --reporters=junit "--out=$junit" "$@"
}

# Some groups of the conformance suite in one process, with a JUnit file. Before them, what runs the interpreter.
some_clauses() {
    local backend=$1 junit=$2 separator=$3
    shift 3
    local runner=()
    while [[ $1 != "$separator" ]]; do
        runner+=("$1")
        shift
    done
    shift
    rm -f "$junit"
    on "$backend" elsewhere "${runner[@]}" "$GPU_PYTHON" "$GPU_VENV/bin/portamem" conformance --backend "$backend" \
        --in-process "--junit=$junit" "${@/#/--select=}"
}

have_cpp_tests() { [[ -x $CPP_TESTS/portamem_tests_$1 ]]; }
no_doctest="there was no doctest to build them with"

build_package() {
    "$PYTHON" -m venv --system-site-packages "$GPU_VENV"
    # A venv made from a venv sees the base's packages only: the caller's own come by path.
    "$PYTHON" -c 'import site; print("\n".join(site.getsitepackages()))' \
        >"$("$GPU_PYTHON" -c 'import site; print(site.getsitepackages()[0])')/callers.pth"
    local pip=("$GPU_PYTHON" -m pip install --quiet --no-index --no-deps)
    if compgen -G "$GPU_DEPS/wheels/*.whl" >/dev/null; then "${pip[@]}" "$GPU_DEPS"/wheels/*.whl || return; fi
    PORTAMEM_BACKENDS=$backends "${pip[@]}" --no-build-isolation --force-reinstall "$ROOT"
}

# A package that the tests lack is told in a second: each test that imports it would fail for it, minutes later.
have_what_tests_need() {
    elsewhere "$GPU_PYTHON" "$ROOT/ci/missing_packages.py" "portamem[test]"
}

build_cpp() {
    cmake -S "$ROOT" -B "$CI_DIR/gpu-cpp" -G Ninja -DPORTAMEM_TESTS=ON "-DPORTAMEM_BACKENDS=$(IFS=";"; echo "${gpu_backends[*]}")" \
        -DPORTAMEM_WERROR=ON "-Ddoctest_ROOT=$GPU_DEPS" \
        "-DPORTAMEM_HIP_PLATFORM=${PORTAMEM_HIP_PLATFORM:-amd}" \
        "-DPORTAMEM_HIP_INCLUDE=${PORTAMEM_HIP_INCLUDE:-}" \
        "-DPORTAMEM_HIP_CUDA_ROOT=${PORTAMEM_HIP_CUDA_ROOT:-}" >"$CI_DIR/gpu-cmake.log" ||
        { cat "$CI_DIR/gpu-cmake.log"; return 1; }
    cmake --build "$CI_DIR/gpu-cpp" >"$CI_DIR/gpu-cpp.log" || { cat "$CI_DIR/gpu-cpp.log"; return 1; }
}

# The benchmarks' own programs, against the installed libportamem.
build_benchmarks() {
    local flags=(-std=c++17 -O2 "-I$ROOT/csrc/include") package cuda
    cuda=("-I$CUDA_ROOT/include" "-L$CUDA_ROOT/lib64" -lcudart_static -ldl -lrt -lpthread)
    package=$(cd "$CI_DIR" && "$GPU_PYTHON" -c 'import portamem; print(portamem.__path__[0])') || return
    local own=("-L$package" -lportamem "-Wl,-rpath,$package") from=$ROOT/benchmarks/cpp
    g++ "${flags[@]}" -DPORTAMEM_HOST "$from/rt_overhead.cpp" "${own[@]}" -o "$CI_DIR/rt_overhead_host" || return
    if [[ ${gpu_backends[*]} == *cuda* ]]; then
        g++ "${flags[@]}" -DPORTAMEM_CUDA "$from/rt_overhead.cpp" "${own[@]}" "${cuda[@]}" \
            -o "$CI_DIR/rt_overhead_cuda" &&
            g++ "${flags[@]}" "$from/plain_copies.cpp" "${cuda[@]}" -o "$CI_DIR/plain_copies"
    fi
}

build() {
    local backend
    build_package || return
    for backend in "${gpu_backends[@]}"; do rows+=(--ran "$backend" "the package builds" 0); done
    if [[ -d $GPU_DEPS/include/doctest || -d /usr/include/doctest ]]; then
        ran "${gpu_backends[0]}" "the C++ tests build without warnings" build_cpp
    else
        not_run "${gpu_backends[0]}" "the C++ tests build without warnings" "$no_doctest"
    fi
    ran "${gpu_backends[0]}" "the benchmarks build" build_benchmarks
    rows+=(--kind compiled)
    have_what_tests_need
}

cpp() {
    local backend junit
    for backend in "${gpu_backends[@]}"; do
        junit=$REPORTS/cpp-$backend.xml
        if have_cpp_tests "$backend"; then
            echo "== C++ tests on $backend"
            cpp_tests "$backend" "$junit" -- timeout 300 -- || true # the file says what failed
            rows+=(--tests "$backend" "C++ tests" "$junit")
            # The masks of every vendor: HIP on the NVIDIA platform follows CUDA's.
            CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 PORTAMEM_TEST_NO_DEVICE=1 \
                ran "$backend" "every call of rt with all devices hidden" \
                "$CPP_TESTS/portamem_tests_$backend" "--test-case=rt without a device*"
        else
            not_run "$backend" "C++ tests" "$no_doctest"
        fi
    done
}

# The suite as its users run it: its own report goes into FOLDER/NAME.json, its JUnit file into $REPORTS. Up to "--"
# come options of it, then what runs it.
suite() {
    local backend=$1 folder=$2 name=$3 options=()
    shift 3
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    on "$backend" elsewhere "$@" "$GPU_VENV/bin/portamem" conformance --backend "$backend" "${options[@]}" \
        --report "$folder/$name.json" --junit "$REPORTS/$name.xml" >"$CI_DIR/$name.out" 2>&1 ||
        { tail -n 60 "$CI_DIR/$name.out"; return 1; }
    tail -n 12 "$CI_DIR/$name.out"
}

conformance() {
    local backend
    for backend in "${gpu_backends[@]}"; do
        ran "$backend" "the conformance suite" suite "$backend" "$REPORTS" "conformance-$backend" -- timeout 300
        ran "$backend" "conformance over every two adaptors on a pool" \
            suite "$backend" "$REPORTS" "conformance-pairs-$backend" --pairs -- timeout 300
    done
}

pytest() {
    local backend junit
    have_what_tests_need || return
    for backend in "${gpu_backends[@]}"; do
        junit=$REPORTS/pytest-$backend.xml
        rm -f "$junit"
        echo "== pytest on $backend"
        on "$backend" pytest_installed "$GPU_PYTHON" "--junitxml=$junit" --ignore="$ROOT/tests/packaging" \
            --ignore="$ROOT/tests/source_rules" --ignore="$ROOT/tests/test_conformance.py" || true
        rows+=(--tests "$backend" "Python tests" "$junit")
    done
}

# Groups that touch memory most, and close no stream under a latch.
checked_groups=(ALLOC COPY HOSTACCESS MANAGED PINNED POINTER VIRTUAL)

memcheck() {
    local backend junit checker what="C++ tests under the memory checker"
    local and_python="clauses about memory under the memory checker"
    local and_pools="what kernels do wrong within a pool's memory is found by the memory checker, and nothing else"
    checker=$(command -v compute-sanitizer || compgen -G "$CUDA_ROOT/bin/compute-sanitizer") || checker=
    for backend in "${gpu_backends[@]}"; do
        if [[ -z $checker ]]; then
            not_run "$backend" "$what" "there is no compute-sanitizer"
            continue
        fi
        local check=(timeout 115 "$checker" --report-api-errors no --error-exitcode 1)
        junit=$REPORTS/memcheck-cpp-$backend.xml
        if have_cpp_tests "$backend"; then
            # The checker makes StreamDestroy wait for the stream's work: tests/cpp/pm_support.hpp says which tests that
            # stops.
            ran "$backend" "$what: no memory errors" cpp_tests "$backend" "$junit" -- "${check[@]}" -- \
                "--test-suite-exclude=ends a held stream"
            rows+=(--tests "$backend" "$what" "$junit")
        fi
        junit=$REPORTS/memcheck-clauses-$backend.xml
        ran "$backend" "$and_python: no memory errors" some_clauses "$backend" "$junit" -- "${check[@]}" -- \
            "${checked_groups[@]}"
        rows+=(--tests "$backend" "$and_python" "$junit")
        if [[ $backend == cuda ]]; then
            ran "$backend" "$and_pools" on "$backend" elsewhere timeout 400 "$GPU_PYTHON" "$ROOT/tools/checker_finds.py" \
                --backend "$backend" --checker "$checker"
        else
            not_run "$backend" "$and_pools" "the headers that this backend is built with here have no NVTX"
        fi
    done
}

processes() {
    local number backend log pids=() logs=()
    # All but ERROR-05 and HEAP-09, which take much of the device's memory, or ask for all of it.
    local groups=(ALLOC FREE OWN ORDER HOSTACCESS EVENT POOL RESOURCE PINNED MANAGED VIRTUAL COPY POINTER DEVICE CAPTURE
        ERROR-01 ERROR-02 ERROR-03 ERROR-04 ERROR-06 ERROR-07 ERROR-09 ERROR-15 THREAD PROCESS ABSENT CUDA HIP
        HEAP-01 HEAP-02 HEAP-03 HEAP-04 HEAP-05 HEAP-06 HEAP-07 HEAP-08 HEAP-10 HEAP-11)
    echo "== four processes of C++ tests and four of the conformance suite at once, on the same device"
    for number in 0 1 2 3; do
        backend=${gpu_backends[number % ${#gpu_backends[@]}]}
        if have_cpp_tests "$backend"; then
            log=$REPORTS/process-cpp-$number
            cpp_tests "$backend" "$log.xml" -- timeout 300 -- "--test-suite-exclude=fills the device" \
                >"$CI_DIR/${log##*/}.log" 2>&1 &
            pids+=($!) logs+=("$log")
            rows+=(--tests "$backend" "C++ tests, process $((number + 1)) of four at once" "$log.xml")
        fi
        log=$REPORTS/process-clauses-$number
        suite "$backend" "$CI_DIR" "${log##*/}" "${groups[@]/#/--select=}" -- timeout 300 >"$CI_DIR/${log##*/}.log" 2>&1 &
        pids+=($!) logs+=("$log")
        rows+=(--tests "$backend" "conformance, process $((number + 1)) of four at once" "$log.xml")
    done
    for number in "${!pids[@]}"; do wait "${pids[number]}" || tail -n 60 "$CI_DIR/${logs[number]##*/}.log"; done
}

example() {
    local backend package
    package=$(elsewhere "$GPU_PYTHON" -c 'import portamem; print(portamem.get_cmake_dir())') || return
    for backend in "${gpu_backends[@]}"; do
        if [[ -x $ROOT/ci/example.sh ]]; then
            ran "$backend" "the example" env PORTAMEM_PACKAGE="$package" PORTAMEM_REQUIRE="${backend#host}" \
                PORTAMEM_EXAMPLE_OUT="$REPORTS/performance" "$ROOT/ci/example.sh" "$backend"
        else
            not_run "$backend" "the example" "there is none"
        fi
    done
}

bench() {
    local kind tables=() plain=() arguments=(--backend host --rounds 3 --repeats 2) part=$CI_DIR/bench-part.json
    rm -f "$part"
    for kind in host cuda; do
        if [[ -x $CI_DIR/rt_overhead_$kind ]]; then
            "$CI_DIR/rt_overhead_$kind" >"$CI_DIR/rt_overhead_$kind.txt" || return
            tables+=(--overhead "$CI_DIR/rt_overhead_$kind.txt")
        fi
    done
    if [[ ${gpu_backends[*]} == *cuda* ]]; then
        plain=(--plain "$CI_DIR/plain_copies")
        arguments=(--backend cuda --rounds 15 --repeats 5)
    fi
    elsewhere "$GPU_PYTHON" "$ROOT/benchmarks/peers.py" "${arguments[@]}" "${plain[@]}" "${tables[@]}" \
        --json "$part" || return
    rows+=(--part "$part")
}

# A library that is not here to be measured is named: a table without it holds fewer bounds.
table() {
    local backend out=$REPORTS/performance
    mkdir -p "$out"
    for backend in "${gpu_backends[@]}"; do
        if [[ $backend == cuda ]] && ! elsewhere "$GPU_PYTHON" -c 'import librmm, rmm' 2>/dev/null; then
            not_run "$backend" "RMM in the speed table" "its wheels are not here"
        fi
        ran "$backend" "the speed table" on "$backend" elsewhere "$GPU_PYTHON" "$ROOT/benchmarks/table.py" \
            --backend "$backend" --json "$out/table-$backend.json"
        ran "$backend" "the adaptive mesh" on "$backend" elsewhere "$GPU_PYTHON" "$ROOT/examples/amr/amr.py" \
            --backend "$backend" --json "$out/amr-$backend.json"
    done
}

soak() {
    local backend part code
    for backend in "${gpu_backends[@]}"; do
        part=$CI_DIR/soak-part-$backend.json code=0
        rm -f "$part"
        on "$backend" elsewhere timeout $((SOAK_SECONDS + 90)) "$GPU_PYTHON" "$ROOT/tests/soak/soak.py" --backend "$backend" \
            --seconds "$SOAK_SECONDS" --threads 16 --streams 4 --devices 2 --json "$part" || code=$?
        if [[ -e $part ]]; then rows+=(--part "$part"); else rows+=(--ran "$backend" soak "$code"); fi
        if [[ -x $CPP_TESTS/portamem_soak_$backend ]]; then
            part=$CI_DIR/soak-cpp-part-$backend.json code=0
            on "$backend" timeout $((SOAK_SECONDS + 90)) "$CPP_TESTS/portamem_soak_$backend" --seconds "$SOAK_SECONDS" \
                --threads 16 --streams 16 | tee "$CI_DIR/soak-cpp-$backend.txt" || code=$?
            "$GPU_PYTHON" "$ROOT/tools/soak_part.py" "$CI_DIR/soak-cpp-$backend.txt" "$part" --backend "$backend" --code "$code"
            rows+=(--part "$part")
        else
            not_run "$backend" "soak of pools, C++" "$no_doctest"
        fi
    done
}

demo() {
    local backend
    for backend in "${gpu_backends[@]}"; do
        ran "$backend" "portamem info" elsewhere "$GPU_VENV/bin/portamem" info --memory --probe
        ran "$backend" "portamem demo" elsewhere "$GPU_VENV/bin/portamem" demo --backend "$backend"
    done
}

failed=()
# Runs one stage and writes its report. A stage that breaks off has failed, with what it had found by then.
run_stage() {
    local name=$1 start=$SECONDS python=$GPU_PYTHON
    rows=()
    echo "=== $name"
    "$name" || rows+=(--ran "${gpu_backends[0]}" "$name came to its end" 1)
    [[ -x $python ]] || python=$PYTHON
    elsewhere "$python" "$ROOT/tools/report.py" "$name" --out "$REPORTS" --seconds $((SECONDS - start)) "${rows[@]}" ||
        failed+=("$name")
}

[[ $# -gt 0 ]] || set -- build test check bench table soak demo
for word in "$@"; do
    case $word in
    build | cpp | conformance | pytest | memcheck | processes | example | bench | table | soak | demo) run_stage "$word" ;;
    test) for stage in cpp conformance pytest; do run_stage "$stage"; done ;;
    check) for stage in memcheck processes example; do run_stage "$stage"; done ;;
    *) die "unknown stage '$word': build, test, check, bench, table, soak or demo" ;;
    esac
done
[[ ${#failed[@]} == 0 ]] || die "failed: ${failed[*]}"
