#!/usr/bin/env bash
# ci/sanitize.sh [address|thread|soak ...]: the host backend under sanitizers. Without words: address and thread.
# address: AddressSanitizer, LeakSanitizer and UBSan over the C++ tests, the first and last over pytest too; with
#   clang++, whose warnings are errors here.
# thread: ThreadSanitizer over the C++ tests, with g++: clang++'s does not let a program define operator new.
# soak: ThreadSanitizer over the soak of the pools, for $SOAK_SECONDS (600); a report of it in $CI_DIR/reports.
source "$(dirname "$0")/lib.sh"
need_setup
compile_cache

# A request that no machine can meet is answered with null, as without a sanitizer: tests make such requests.
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
# Sanitizers reserve fixed addresses, which kernels with much address randomisation hand out to others.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi

# build_with NAME SANITIZERS [CMAKE'S OPTIONS...]: the C++ tests and the soak, in $CI_DIR/build-NAME.
build_with() {
    local build=$CI_DIR/build-$1 sanitizers=$2 flags= compiler=clang++ # in half the time of g++
    shift 2
    # Optimised a little, programs run in two thirds of the time under ThreadSanitizer. (Under AddressSanitizer compiling
    # takes longer then than is won.)
    [[ $sanitizers != thread ]] || flags=-O1 compiler=g++
    cmake -S "$ROOT" -B "$build" -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER="$compiler" \
        -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="$flags" -DPORTAMEM_WERROR=ON \
        -DPORTAMEM_TESTS=ON -DPORTAMEM_BACKENDS=host -DPORTAMEM_SANITIZE="$sanitizers"
    cmake --build "$build" "$@"
}

# The C++ tests of the host backend; under ThreadSanitizer also a part of them with the order checker, which has locks of
# its own. Not all: its lock orders threads that nothing else does. (Its memory is tested by core_order.cpp, under both.)
# Machine models, and pages that are shut, run the same code: ci/cpp.sh has them all.
cpp_tests() {
    local order_part=
    [[ $1 != thread ]] || order_part='-order-part|'
    build_with "$1" "$2"
    "${fixed_addresses[@]}" ctest --test-dir "$CI_DIR/build-$1" --no-tests=error \
        --tests-regex "^host(${order_part}-debug|-soak.*)?\$"
}

soak() {
    local seconds=${SOAK_SECONDS:-600} printed=$CI_DIR/soak-thread.txt part=$CI_DIR/soak-thread.json code=0
    build_with thread thread --target portamem_soak
    TSAN_OPTIONS=halt_on_error=1 "${fixed_addresses[@]}" timeout $((seconds + 300)) \
        "$CI_DIR/build-thread/tests/cpp/portamem_soak_host" --seconds "$seconds" --threads 16 --streams 16 |
        tee "$printed" || code=$?
    "$VENV/bin/python" "$ROOT/tools/soak_part.py" "$printed" "$part" --backend host --code "$code" --under ThreadSanitizer
    "$VENV/bin/python" "$ROOT/tools/report.py" soak-thread --out "$CI_DIR/reports" --seconds "$seconds" --part "$part"
}

python_tests() {
    local venv=$CI_DIR/venv-address preload
    rm -rf "$venv" "$CI_DIR/dist-address"
    "$PYTHON" -m venv "$venv"
    "$venv/bin/python" -m pip install -q -r "$CI_DIR/requirements.txt"
    CXX=clang++ PORTAMEM_BACKENDS=host PORTAMEM_SANITIZE=address,undefined pip wheel -q "$ROOT" --no-build-isolation --no-deps \
        -w "$CI_DIR/dist-address" -Cbuild-dir="$CI_DIR/build-wheel-address" -Ccmake.build-type=Debug \
        -Ccmake.define.CMAKE_CXX_FLAGS_DEBUG= -Cinstall.strip=false
    "$venv/bin/python" -m pip install -q --no-deps --no-index "$CI_DIR"/dist-address/portamem-*.whl
    # Python itself is not instrumented: the sanitizer has to be loaded before it, and libstdc++ with it, or the first
    # C++ exception finds no function to go to. Python never frees its own objects at exit, so leaks are not looked for.
    preload="$(clang++ -print-file-name="libclang_rt.asan-$(uname -m).so") $(g++ -print-file-name=libstdc++.so)"
    # Output is not captured at file level, where a report that ends the process would be lost.
    # OpenBLAS starts threads anew in the child of a fork. They allocate, and the sanitizer's allocator may have been locked
    # by another thread at the fork, which the child has not: it would wait for ever.
    # Programs that are linked with this libportamem would need the sanitizer themselves (tests/packaging).
    # The machine model is one that no other stage has pytest run in.
    LD_PRELOAD=$preload OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 PORTAMEM_HOST_MODEL=coherent \
        pytest_installed "$venv/bin/python" --capture=sys "${NOT_THE_LIBRARY[@]}" "--ignore=$ROOT/tests/packaging" \
        "--ignore=$ROOT/tests/test_conformance.py"
}

(($#)) || set -- address thread
for sanitizer in "$@"; do
    case $sanitizer in
    address)
        cpp_tests address address,undefined
        python_tests
        ;;
    thread) TSAN_OPTIONS=halt_on_error=1 cpp_tests thread thread ;;
    soak) soak ;;
    *) die "unknown word '$sanitizer': address, thread or soak" ;;
    esac
done
