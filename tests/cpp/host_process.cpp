// SPDX-License-Identifier: MIT
// tests/cpp/host_process.cpp: the CPU runtime at the edges of a process: its environment, fork, threads that come and
// go, and exit in the middle of work. Each runs this program again, with one of the skipped cases below.
#include <csignal>

#include "forked_child.hpp"
#include "host_child.hpp"

using namespace host_tests;

namespace {

void wait_for_ever(void*) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

TEST_CASE("host child: refuses every call" * doctest::skip()) {
    int count = 9;
    void* ptr = nullptr;
    CHECK(pmhGetDeviceCount(&count) == pmhErrorInitializationError);
    CHECK(count == 0);
    CHECK(detail().find(std::getenv("EXPECTED")) != std::string::npos);
    CHECK(pmhMalloc(&ptr, 16) == pmhErrorInitializationError);
    CHECK(pmhStreamQuery(nullptr) == pmhErrorInitializationError);
    int version = 0;
    CHECK(pmhRuntimeGetVersion(&version) == pmhSuccess);
    CHECK(version > 0);
}

TEST_CASE("host process: a knob that cannot be read is told in words") {
    const std::map<std::string, std::vector<const char*>> bad = {
        {"PORTAMEM_HOST_DEVICES", {"two", "-1", "65", "2x"}},
        {"PORTAMEM_HOST_CAPACITY", {"-5", "4GB", "lots", "99999999999999999999", "99999999TiB"}},
        {"PORTAMEM_HOST_MODEL", {"igpu"}},
        {"PORTAMEM_HOST_OPEN", {"yes"}},
        {"PORTAMEM_HOST_GUARD", {"2"}},
        {"PORTAMEM_HOST_COPY_DELAY", {"-1", "99999999999"}},
        {"PORTAMEM_HOST_FAIL", {"Malloc", "Malloc:0:2", "Malloc:1:0", ":1:2", "Malloc:1:2:3"}},
    };
    for (const auto& [name, values] : bad) {
        for (const char* value : values) {
            const std::string expected = name + "=" + value + " is not";
            CAPTURE(expected);
            CHECK(succeeded(run_child("refuses every call", {{name, value}, {"EXPECTED", expected}})));
        }
    }
}

TEST_CASE("host child: a machine without a device" * doctest::skip()) {
    int count = 9;
    void* ptr = nullptr;
    CHECK(pmhGetDeviceCount(&count) == pmhErrorNoDevice);
    CHECK(count == 0);
    CHECK(pmhMalloc(&ptr, 16) == pmhErrorNoDevice);
    CHECK(pmhSetDevice(0) == pmhErrorNoDevice);
}

TEST_CASE("host child: another machine" * doctest::skip()) {
    int count = 0;
    HOST_OK(pmhGetDeviceCount(&count));
    CHECK(count == 5);
    std::size_t free = 0, total = 0;
    HOST_OK(pmhMemGetInfo(&free, &total));
    CHECK(total == 3 * MiB);
    void* ptr = nullptr;
    CHECK(pmhMalloc(&ptr, 4 * MiB) == pmhErrorOutOfMemory);
    HOST_OK(pmhMalloc(&ptr, KiB));
    CHECK(pmhFree(ptr) == pmhErrorUnknown);
    HOST_OK(pmhFree(ptr));
    HOST_OK(pmhKnobSetCapacity(0, KiB));
    HOST_OK(pmhKnobReset());
    HOST_OK(pmhMemGetInfo(&free, &total));
    CHECK(total == 3 * MiB);
    CHECK(pmhFree(nullptr) == pmhErrorUnknown);
}

TEST_CASE("host process: the environment makes the machine") {
    CHECK(succeeded(run_child("a machine without a device", {{"PORTAMEM_HOST_DEVICES", "0"}})));
    CHECK(succeeded(run_child(
        "another machine",
        {{"PORTAMEM_HOST_DEVICES", "5"}, {"PORTAMEM_HOST_CAPACITY", "3 MiB"}, {"PORTAMEM_HOST_FAIL", "Free:1:999"}})));
}

TEST_CASE("host child: touches guarded memory" * doctest::skip()) {
    DeviceMemory device(KiB);
    put(device, pattern(KiB, 1));
    if (get(device, KiB) != pattern(KiB, 1)) std::_Exit(3);
    (void)std::signal(SIGSEGV, [](int) { _exit(42); });  // before any handler of a sanitizer
    *static_cast<volatile unsigned char*>(device.ptr) = 1;
    std::_Exit(4);
}

TEST_CASE("host process: a stray CPU access faults in guarded memory") {
    const auto exit_status = [](const char* model, const char* open) {
        const int status =
            run_child("touches guarded memory",
                      {{"PORTAMEM_HOST_GUARD", "1"}, {"PORTAMEM_HOST_MODEL", model}, {"PORTAMEM_HOST_OPEN", open}});
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    CHECK(exit_status("discrete", "0") == 42);
    CHECK(exit_status("coherent", "0") == 42);
    CHECK(exit_status("apu", "0") == 4);
    CHECK(exit_status("discrete", "1") == 4);
}

TEST_CASE("host process: every call in a forked child refuses, whatever the parent holds") {
    Stream stream;
    Latch latch;
    latch.hold(stream);
    void* device = nullptr;
    HOST_OK(pmhMalloc(&device, KiB));
    const int answer = answer_of_forked_child([&] {
        int number = 0;
        std::size_t size = 0;
        bool refused = pmhStreamSynchronize(stream) == pmhErrorInitializationError;
        refused &= detail().find("fork") != std::string::npos;
        refused &= pmhFree(device) == pmhErrorInitializationError;
        refused &= pmhGetDeviceCount(&number) == pmhErrorInitializationError;
        refused &= pmhRuntimeGetVersion(&number) == pmhErrorInitializationError;
        refused &= pmhMemGetInfo(&size, &size) == pmhErrorInitializationError;
        refused &= pmhGetLastError() == pmhErrorInitializationError;
        refused &= pmhPeekAtLastError() == pmhErrorInitializationError;
        return refused ? 0 : 1;
    });
    CHECK(answer == 0);
    HOST_OK(pmhFree(device));
}

TEST_CASE("host child: ends while it works" * doctest::skip()) {
    static auto* stream = new Stream(pmhStreamDefault);
    static auto* busy = new Stream;
    static auto* device = new DeviceMemory(4 * MiB);
    static auto* pinned = new PinnedMemory(4 * MiB);
    HOST_OK(pmhLaunchHostFunc(*stream, wait_for_ever, nullptr));
    HOST_OK(pmhMemcpyAsync(*device, *pinned, 4 * MiB, pmhMemcpyHostToDevice, *stream));
    HOST_OK(pmhMemsetAsync(*device, 1, KiB, nullptr));
    HOST_OK(pmhMemsetAsync(*device, 1, KiB, pmhStreamPerThread));
    for (int i = 0; i < 200; ++i) HOST_OK(pmhMemcpyAsync(*pinned, *device, 4 * MiB, pmhMemcpyDefault, *busy));
}

TEST_CASE("host process: exit does not wait for queued work, and does not crash on it") {
    for (int i = 0; i < 5; ++i) CHECK(succeeded(run_child("ends while it works")));
}

TEST_CASE("host child: calls while statics are destroyed" * doctest::skip()) {
    static struct Last {
        ~Last() {
            void* ptr = nullptr;
            const bool works = pmhMallocAsync(&ptr, KiB, pmhStreamPerThread) == pmhSuccess &&
                               pmhFreeAsync(ptr, pmhStreamPerThread) == pmhSuccess &&
                               pmhStreamSynchronize(pmhStreamPerThread) == pmhSuccess;
            if (!works) _exit(5);
        }
    } last;
    (void)last;
    HOST_OK(pmhMemsetAsync(nullptr, 0, 0, pmhStreamPerThread));
    HOST_OK(pmhLaunchHostFunc(
        pmhStreamPerThread, [](void*) {}, nullptr));
}

TEST_CASE("host process: the runtime still works while statics are destroyed") {
    CHECK(succeeded(run_child("calls while statics are destroyed")));
}
