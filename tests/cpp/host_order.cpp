// SPDX-License-Identifier: MIT
// tests/cpp/host_order.cpp: the order checker over the CPU runtime: which calls order what.
#include <functional>

#include <portamem/order_check.hpp>

#include "host_support.hpp"

using namespace host_tests;
using portamem::OrderCheck;
using portamem::OrderFinding;

namespace {

std::string kinds(const OrderCheck& check) {
    std::string text;
    for (const OrderFinding& finding : check.findings()) text += (text.empty() ? "" : ", ") + finding.kind;
    return text;
}

// Waits for a stream without the checker hearing of it. What is unordered here on purpose must not really race: that is
// undefined, and ThreadSanitizer would say so.
void settle(pmhStream_t stream) {
    portamem_order_own_queries_begin();
    while (pmhStreamQuery(stream) == pmhErrorNotReady) std::this_thread::yield();
    portamem_order_own_queries_end();
}

void fill(void* memory, pmhStream_t stream) {
    HOST_OK(pmhMemsetAsync(memory, 1, KiB, stream));
    settle(stream);
}

// Fills a memory on one stream, calls `between`, fills it on the other. Returns the kinds of the findings.
std::string found(pmhStream_t first, pmhStream_t second, const std::function<void()>& between) {
    const DeviceMemory memory(KiB);
    const OrderCheck check;
    fill(memory, first);
    between();
    fill(memory, second);
    const std::string text = kinds(check);
    HOST_OK(pmhDeviceSynchronize());  // before the free, which may not come while the memory is used
    return text;
}

constexpr const char* write_write = "unordered write after write";

std::atomic<int> asked{0};

int count_questions(char*, std::size_t) {
    ++asked;
    return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"), noinline)) void portamem_test_fills_here(void* memory,
                                                                                          pmhStream_t stream) {
    (void)pmhMemsetAsync(memory, 1, KiB, stream);
    asm volatile("");  // no tail call: the frame is what is looked for
}

TEST_CASE("order check: what orders two streams") {
    const Stream a, b;
    const Event event;
    CHECK(found(a, b, [] {}) == write_write);
    CHECK(found(a, a, [] {}).empty());
    CHECK(found(a, b, [&] {
              HOST_OK(pmhEventRecord(event, a));
              HOST_OK(pmhStreamWaitEvent(b, event, 0));
          }).empty());
    CHECK(found(a, b, [&] { HOST_OK(pmhStreamSynchronize(a)); }).empty());
    CHECK(found(a, b, [&] { HOST_OK(pmhDeviceSynchronize()); }).empty());
    CHECK(found(a, b, [&] { HOST_OK(pmhStreamSynchronize(b)); }) == write_write);
    CHECK(found(a, b, [&] {
              HOST_OK(pmhEventRecord(event, a));
              HOST_OK(pmhEventSynchronize(event));
          }).empty());
    CHECK(found(a, b, [&] { HOST_OK(pmhEventRecord(event, a)); }) == write_write);
    CHECK(found(a, b, [&] {
              HOST_OK(pmhEventRecord(event, b));
              HOST_OK(pmhStreamWaitEvent(b, event, 0));
          }) == write_write);
    HOST_OK(pmhSetDevice(1));
    const auto other_device = [&] {
        HOST_OK(pmhDeviceSynchronize());
        HOST_OK(pmhSetDevice(0));
    };
    CHECK(found(a, b, other_device) == write_write);
}

TEST_CASE("order check: luck is no order, an answer that was asked for is") {
    const Stream a, b;
    const Event event;
    const auto let_it_run = [&] {
        while (pmhStreamQuery(a) == pmhErrorNotReady) std::this_thread::yield();
    };
    CHECK(found(a, b, let_it_run).empty());
    CHECK(found(a, b, [&] {
              settle(a);
              HOST_OK(pmhEventRecord(event, a));
              portamem_order_own_queries_begin();
              CHECK(pmhEventQuery(event) == pmhSuccess);
              portamem_order_own_queries_end();
          }) == write_write);
    CHECK(found(a, b, [&] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }) == write_write);
    CHECK(found(a, b, [&] {
              HOST_OK(pmhEventRecord(event, a));
              while (pmhEventQuery(event) == pmhErrorNotReady) std::this_thread::yield();
          }).empty());
    Latch latch;
    latch.hold(a);
    CHECK(found(b, a, [&] {
              CHECK(pmhStreamQuery(a) == pmhErrorNotReady);
              latch.open();
          }) == write_write);
}

TEST_CASE("order check: an event stands for its latest record, and what its stream had seen") {
    const Stream a, b, c;
    const Event event, other;
    CHECK(found(a, c, [&] {
              HOST_OK(pmhEventRecord(event, a));
              HOST_OK(pmhStreamWaitEvent(b, event, 0));
              HOST_OK(pmhEventRecord(other, b));
              HOST_OK(pmhStreamWaitEvent(c, other, 0));
          }).empty());
    CHECK(found(a, c, [&] {
              HOST_OK(pmhEventRecord(event, a));
              HOST_OK(pmhEventRecord(event, b));
              HOST_OK(pmhStreamWaitEvent(c, event, 0));
          }) == write_write);
    CHECK(found(a, c, [&] {
              HOST_OK(pmhEventRecord(event, a));
              HOST_OK(pmhStreamWaitEvent(c, event, 0));
              HOST_OK(pmhEventRecord(event, b));  // the wait was for the mark at that moment
          }).empty());
}

TEST_CASE("order check: the legacy default stream and those beside it") {
    const Stream blocking(pmhStreamDefault), other(pmhStreamDefault), free;
    const auto nothing = [] {};
    CHECK(found(nullptr, blocking, nothing).empty());
    CHECK(found(blocking, nullptr, nothing).empty());
    CHECK(found(nullptr, pmhStreamPerThread, nothing).empty());
    CHECK(found(nullptr, free, nothing) == write_write);
    CHECK(found(free, nullptr, nothing) == write_write);
    CHECK(found(blocking, other, nothing) == write_write);
    CHECK(found(blocking, other, [] { HOST_OK(pmhMemset(nullptr, 0, 0)); }) == write_write);
    const Event event(pmhEventDisableTiming);
    // An operation of the legacy stream stands between the two, a mark of it too.
    CHECK(found(blocking, other, [&] { HOST_OK(pmhEventRecord(event, nullptr)); }).empty());
    const DeviceMemory beside(KiB);
    CHECK(found(blocking, other, [&] { fill(beside, nullptr); }).empty());
    CHECK(found(blocking, free, [&] { HOST_OK(pmhStreamSynchronize(nullptr)); }).empty());
    CHECK(found(nullptr, free, [&] { HOST_OK(pmhStreamSynchronize(blocking)); }) == write_write);
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: blocking copies are waited for where the contract says so") {
    const Stream a, b;
    const DeviceMemory from(KiB);
    Bytes bytes(KiB);
    // A copy to the host returns once all before it on its stream is done.
    CHECK(found(a, b, [&] { HOST_OK(pmhMemcpyAsync(bytes.data(), from, KiB, pmhMemcpyDefault, a)); }).empty());
    CHECK(found(a, b, [&] { HOST_OK(pmhMemcpyAsync(bytes.data(), from, KiB, pmhMemcpyDefault, b)); }) == write_write);
    const DeviceMemory to(KiB);
    // A copy from device to device does not, not even without a stream.
    CHECK(found(nullptr, b, [&] { HOST_OK(pmhMemcpy(to, from, KiB, pmhMemcpyDefault)); }) == write_write);
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: readers beside readers, prefetches beside all, rows by their own bytes") {
    const Stream a, b;
    const DeviceMemory memory(4 * KiB), x(KiB), y(KiB);
    const OrderCheck check;
    HOST_OK(pmhMemcpyAsync(x, memory, KiB, pmhMemcpyDefault, a));
    HOST_OK(pmhMemcpyAsync(y, memory, KiB, pmhMemcpyDefault, b));
    HOST_OK(pmhMemset2DAsync(memory.at(2 * KiB), 64, 1, 32, 16, a));
    HOST_OK(pmhMemset2DAsync(memory.at(2 * KiB + 32), 64, 1, 32, 16, b));
    settle(a);
    settle(b);
    CHECK(kinds(check).empty());
    HOST_OK(pmhMemset2DAsync(memory.at(2 * KiB + 31), 64, 1, 2, 16, b));
    const auto findings = check.findings();
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].address == reinterpret_cast<std::uintptr_t>(memory.at(2 * KiB + 31)));
    CHECK(findings[0].nbytes == 1);
    HOST_OK(pmhDeviceSynchronize());
    ManagedMemory managed(KiB);
    HOST_OK(pmhMemsetAsync(managed, 1, KiB, a));
    HOST_OK(pmhMemPrefetchAsync(managed, KiB, {pmhMemLocationTypeDevice, 0}, 0, b));
    HOST_OK(pmhMemsetAsync(managed, 1, KiB, a));
    CHECK(check.findings().size() == 1);
    HOST_OK(pmhStreamSynchronize(a));
    HOST_OK(pmhStreamSynchronize(b));
}

TEST_CASE("order check: the life of stream-ordered memory") {
    const Stream a, b;
    const Event event;
    Pool pool;
    SUBCASE("used on its own stream, freed there") {
        const OrderCheck check;
        void* ptr = pool.allocate(KiB, a);
        fill(ptr, a);
        HOST_OK(pmhFreeAsync(ptr, a));
        ptr = pool.allocate(KiB, b);
        fill(ptr, b);
        HOST_OK(pmhFreeAsync(ptr, b));
        CHECK(kinds(check).empty());
    }
    SUBCASE("freed on another stream behind an event") {
        const OrderCheck check;
        void* ptr = pool.allocate(KiB, a);
        HOST_OK(pmhEventRecord(event, a));
        HOST_OK(pmhStreamWaitEvent(b, event, 0));
        fill(ptr, b);
        HOST_OK(pmhFreeAsync(ptr, b));
        CHECK(kinds(check).empty());
    }
    SUBCASE("freed on another stream without one") {
        const OrderCheck check;
        void* ptr = pool.allocate(KiB, a);
        fill(ptr, a);
        HOST_OK(pmhFreeAsync(ptr, b));
        CHECK(kinds(check) == "free before allocation is ordered, free while in use");
    }
    SUBCASE("reused by another stream: the pool orders that, and that only") {
        const DeviceMemory other(KiB);
        Pool full(2 * MiB);
        const OrderCheck check;
        void* ptr = full.allocate(2 * MiB, a);
        fill(ptr, a);
        fill(other, a);
        HOST_OK(pmhFreeAsync(ptr, a));
        ptr = full.allocate(2 * MiB, b);  // there is no more: it is the same memory
        fill(ptr, b);
        CHECK(kinds(check).empty());
        fill(other, b);
        CHECK(kinds(check) == write_write);
        HOST_OK(pmhFreeAsync(ptr, b));
        HOST_OK(pmhDeviceSynchronize());
    }
}

TEST_CASE("order check: plain memory is there at once, and is freed behind its uses") {
    const Stream a;
    const OrderCheck check;
    void *device = nullptr, *pinned = nullptr;
    HOST_OK(pmhMalloc(&device, KiB));
    HOST_OK(pmhHostMalloc(&pinned, KiB, 0));
    HOST_OK(pmhMemcpyAsync(device, pinned, KiB, pmhMemcpyDefault, a));
    HOST_OK(pmhHostFree(pinned));
    CHECK(kinds(check) == "free while in use");
    HOST_OK(pmhStreamSynchronize(a));
    HOST_OK(pmhFree(device));
    // Another allocation may get its address next: that is no finding.
    HOST_OK(pmhMalloc(&device, KiB));
    fill(device, a);
    HOST_OK(pmhFreeAsync(device, a));
    CHECK(check.findings().size() == 1);
}

TEST_CASE("order check: unregistering waits, so nothing is in use") {
    const Stream a, b;
    alignas(4096) static unsigned char memory[4096];
    const DeviceMemory device(KiB);
    const OrderCheck check;
    HOST_OK(pmhHostRegister(memory, sizeof memory, 0));
    HOST_OK(pmhMemcpyAsync(device, memory, KiB, pmhMemcpyDefault, a));
    HOST_OK(pmhHostUnregister(memory));
    fill(device, b);  // it has waited for all streams
    CHECK(kinds(check).empty());
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: copies between devices, with a stream and without") {
    const Stream a;
    const DeviceMemory here(KiB);
    HOST_OK(pmhSetDevice(1));
    const DeviceMemory there(KiB);
    const Stream b;
    HOST_OK(pmhSetDevice(0));
    const OrderCheck check;
    fill(here, nullptr);
    HOST_OK(pmhMemcpyPeer(there, 1, here, 0, KiB));
    HOST_OK(pmhSetDevice(1));
    fill(there, nullptr);  // the other device's default stream comes after it
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhSetDevice(0));
    HOST_OK(pmhDeviceSynchronize());
    CHECK(kinds(check).empty());
    HOST_OK(pmhMemcpyPeerAsync(there, 1, here, 0, KiB, a));
    settle(a);
    fill(there, b);
    CHECK(kinds(check) == write_write);
    HOST_OK(pmhStreamSynchronize(a));
    HOST_OK(pmhStreamSynchronize(b));
}

TEST_CASE("order check: threads hand over what one of them has waited for") {
    const Stream a, b;
    CHECK(found(a, b, [&] { std::thread([&] { HOST_OK(pmhStreamSynchronize(a)); }).join(); }).empty());
    pmhStream_t theirs = pmhStreamPerThread;
    const DeviceMemory memory(KiB);
    const OrderCheck check;
    std::thread([&] { fill(memory, theirs); }).join();
    fill(memory, theirs);  // this thread's own
    CHECK(kinds(check) == write_write);
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: captured work is left out") {
    const Stream a, b;
    const DeviceMemory memory(KiB);
    const OrderCheck check;
    fill(memory, b);
    HOST_OK(pmhStreamBeginCapture(a, pmhStreamCaptureModeRelaxed));
    HOST_OK(pmhMemsetAsync(memory, 1, KiB, a));
    pmhGraph_t graph = nullptr;
    HOST_OK(pmhStreamEndCapture(a, &graph));
    HOST_OK(pmhGraphDestroy(graph));
    CHECK(kinds(check).empty());
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: a finding names both places, both streams and the bytes, and counts") {
    const Stream a, b;
    const DeviceMemory memory(KiB);
    const OrderCheck check;
    for (int i = 0; i < 3; ++i) {
        portamem_test_fills_here(memory, a);
        settle(a);
        HOST_OK(pmhMemsetAsync(memory.at(512), 1, 512, b));
        HOST_OK(pmhDeviceSynchronize());
    }
    const auto findings = check.findings();
    REQUIRE(findings.size() == 1);
    const OrderFinding& finding = findings.front();
    CHECK(finding.count == 3);
    CHECK(finding.address == reinterpret_cast<std::uintptr_t>(memory.at(512)));
    CHECK(finding.nbytes == 512);
    CHECK(finding.first.call == "MemsetAsync");
    CHECK(finding.first.site.find("portamem_test_fills_here+0x") != std::string::npos);
    CHECK(finding.second.site.find("portamem_test_fills_here") == std::string::npos);
    CHECK(finding.first.handle == reinterpret_cast<std::uintptr_t>(a.handle));
    CHECK(finding.second.handle == reinterpret_cast<std::uintptr_t>(b.handle));
    CHECK(finding.second.device == 0);
    for (const std::string& part : {finding.kind, finding.advice, finding.first.site, finding.second.stream})
        CHECK(finding.text.find(part) != std::string::npos);
}

TEST_CASE("order check: sessions see their own time, and nothing of the time before any") {
    const Stream a, b;
    const DeviceMemory memory(KiB);
    fill(memory, a);
    {
        const OrderCheck outer;
        fill(memory, b);  // the checker does not know what came before
        CHECK(kinds(outer).empty());
        {
            const OrderCheck inner;
            fill(memory, a);
            CHECK(kinds(inner) == write_write);
        }
        CHECK(kinds(outer) == write_write);
        const OrderCheck later;
        CHECK(kinds(later).empty());
    }
    const OrderCheck fresh;
    fill(memory, b);
    CHECK(kinds(fresh).empty());
    HOST_OK(pmhDeviceSynchronize());
}

TEST_CASE("order check: while it is off nobody is asked where a call is, and nothing is kept") {
    if (portamem_order_is_on(PORTAMEM_BACKEND_HOST) != 0) return;  // PORTAMEM_CHECK
    portamem_order_set_site_provider(count_questions);
    const Stream a, b;
    const DeviceMemory memory(KiB);
    fill(memory, a);
    CHECK(asked == 0);
    {
        const OrderCheck check;
        fill(memory, b);
        CHECK(asked > 0);
    }
    const int before = asked;
    fill(memory, a);
    HOST_OK(pmhDeviceSynchronize());
    CHECK(asked == before);
    portamem_order_set_site_provider(nullptr);
    CHECK(portamem_order_is_on(PORTAMEM_BACKEND_HOST) == 0);
    CHECK(portamem_order_begin(PORTAMEM_BACKEND_CUDA) == 0);
    CHECK(portamem_order_end(0) == -1);
    CHECK(portamem_order_visit(1, nullptr, nullptr) == -1);
}

TEST_CASE("order check: memory that was freed and is gone is refused in words") {
    const Stream a;
    void* ptr = nullptr;
    const OrderCheck check;
    HOST_OK(pmhMalloc(&ptr, 64 * MiB));
    HOST_OK(pmhFree(ptr));
    CHECK(pmhMemcpyAsync(ptr, ptr, 16, pmhMemcpyDefault, a) == pmhErrorInvalidValue);
    CHECK(std::string(pmhGetLastErrorDetail()).find("was freed") != std::string::npos);
    CHECK(kinds(check) == "use after free");
}

TEST_CASE("order check: many threads, streams and sessions at once") {
    const DeviceMemory memory(16 * KiB);
    std::vector<std::thread> threads;
    std::atomic<bool> wrong{false};
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&, number] {
            const Stream mine;
            const Event event;
            for (int round = 0; round < 200; ++round) {
                const OrderCheck check;
                // Each thread has bytes of its own, and shares the rest for reading.
                (void)pmhMemsetAsync(memory.at(static_cast<std::size_t>(number) * KiB), round, KiB, mine);
                (void)pmhEventRecord(event, mine);
                (void)pmhEventSynchronize(event);
                if (!check.findings().empty()) wrong = true;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK_FALSE(wrong);
}
