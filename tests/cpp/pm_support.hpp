// SPDX-License-Identifier: MIT
// tests/cpp/pm_support.hpp: what the tests of streams, resources, buffers and copies share.
//
// They pass on every backend, in every model of the host runtime and with guarded device memory: device memory is
// touched by copies only, and nothing is freed by a plain Free while a gate is shut (vendors may wait for the device).
#pragma once

#include <memory>
#include <ostream>  // doctest prints smart pointers
#include <string>
#include <vector>

#include "portamem/portamem.hpp"
#include "rt_support.hpp"

namespace pm = portamem;

using Resource = std::shared_ptr<pm::MemoryResource>;
using StreamPtr = std::shared_ptr<pm::Stream>;

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The text of the exception that a call throws, which has to be a `Thrown`.
template <class Thrown, class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (const Thrown& e) {
        return e.what();
    }
    FAIL("the call went through");
    return {};
}

/// True once a condition comes true, and false if it does not within some seconds.
template <class Condition>
bool eventually(Condition&& condition) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > give_up) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// Marks a test that closes a stream while a gate holds it, and opens the gate afterwards. The runtimes return at once
/// from that; under the vendor's memory checker StreamDestroy waits for the stream's work, and so for the gate: such
/// tests are left out there, by this suite's name.
inline doctest::test_suite ends_a_held_stream() { return doctest::test_suite("ends a held stream"); }

/// Marks tests that leave no memory of the device to other processes: they do not run beside others.
inline doctest::test_suite fills_the_device() { return doctest::test_suite("fills the device"); }

struct Heard : std::exception {};

/// An embedder's way to wait: it throws instead of waiting for what is not done yet.
class HeardInWaits {
  public:
    HeardInWaits() : before_(pm::detail::embedder().wait.load()) {
        pm::detail::embedder().wait = [](bool (*is_done)(void*), void* argument) {
            if (!is_done(argument)) throw Heard();
        };
    }
    ~HeardInWaits() { pm::detail::embedder().wait = before_; }

  private:
    void (*const before_)(bool (*is_done)(void*), void* argument);
    const pm::detail::HearingScope hearing_{pm::detail::Hearing::Everything};
};

/// Holds streams at a host function until it is opened. One that a failed test leaves shut opens by itself.
class Gate {
  public:
    Gate() = default;
    explicit Gate(const StreamPtr& stream) { hold(stream); }
    ~Gate() { open(); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    void hold(const StreamPtr& stream) const {
        auto shared = std::make_unique<std::shared_ptr<std::atomic<bool>>>(open_);
        stream->launch_host_func(&Gate::wait, shared.get());
        (void)shared.release();
    }
    void open() const { *open_ = true; }
    bool is_open() const { return *open_; }

    /// Opens in a moment, for a call that is about to block.
    void open_soon() const {
        std::thread([open = open_] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            *open = true;
        }).detach();
    }

  private:
    static void wait(void* shared) {
        const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> open(
            static_cast<std::shared_ptr<std::atomic<bool>>*>(shared));
        const auto give_up = std::chrono::steady_clock::now() + kPatience;
        while (!**open && std::chrono::steady_clock::now() < give_up) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }

    std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

inline bool has_pools() { return pm::query_capabilities(0).memory_pools; }
inline bool has_virtual() { return pm::query_capabilities(0).virtual_memory; }
inline bool has_managed() { return pm::query_capabilities(0).managed_mode != pm::ManagedMode::None; }

inline Resource device_resource() { return std::make_shared<pm::DeviceMemoryResource>(0); }
inline Resource pinned_resource() { return std::make_shared<pm::PinnedMemoryResource>(0); }

/// One resource of every kind that the first device has.
inline std::vector<Resource> every_resource() {
    std::vector<Resource> all{device_resource(), pinned_resource(), std::make_shared<pm::SystemMemoryResource>(0)};
    if (has_managed()) all.push_back(std::make_shared<pm::ManagedMemoryResource>(0));
    if (has_pools()) all.push_back(pm::AsyncMemoryResource::create(0));
    if (has_virtual()) all.push_back(pm::VirtualMemoryResource::create(0));
    return all;
}

/// Waits until what earlier work kept alive has gone back: from then on a whole device's figures stand still.
inline void settle() {
    REQUIRE(eventually([] { return portamem_held(rt::BackendId, 0) == 0; }));
}

/// Fills a buffer with a pattern, and reads it, by copies that are done on return.
inline void put(const pm::Buffer& buffer, unsigned seed) {
    Bytes bytes = pattern(buffer.nbytes(), seed);
    pm::copy(pm::Span::of(buffer), pm::Span::host(bytes.data(), bytes.size()));
}
inline Bytes get(const pm::Buffer& buffer) {
    Bytes bytes(buffer.nbytes());
    pm::copy(pm::Span::host(bytes.data(), bytes.size()), pm::Span::of(buffer));
    return bytes;
}
