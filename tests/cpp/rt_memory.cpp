// SPDX-License-Identifier: MIT
// tests/cpp/rt_memory.cpp: device, pinned and registered memory, and what the pointer query says of each.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>

#include "rt_support.hpp"

namespace {

struct AlignedFree {
    void operator()(unsigned char* ptr) const { std::free(ptr); }
};

/// Whole pages of plain host memory.
std::unique_ptr<unsigned char, AlignedFree> pages(std::size_t nbytes) {
    return std::unique_ptr<unsigned char, AlignedFree>(static_cast<unsigned char*>(std::aligned_alloc(4096, nbytes)));
}

rt::PointerAttributes attributes_of(const void* ptr) {
    rt::PointerAttributes attributes;
    REQUIRE(rt::PointerGetAttributes(&attributes, ptr) == Success);
    return attributes;
}

}  // namespace

TEST_CASE("rt: device memory keeps what is written") {
    if (no_device()) return;
    for (const std::size_t nbytes : {std::size_t{1}, std::size_t{1000}, 5 * MiB + 3}) {
        const DeviceMemory memory(nbytes);
        CHECK(reinterpret_cast<std::uintptr_t>(memory.ptr) % 256 == 0);
        CHECK(keeps_bytes(memory.ptr, nbytes, 7));
    }
}

TEST_CASE("rt: a wrong free is refused and breaks nothing") {
    if (no_device()) return;
    void* ptr = nullptr;
    auto plain = pages(4096);
    REQUIRE(rt::Malloc(&ptr, 4096) == Success);
    CHECK(rt::Free(static_cast<unsigned char*>(ptr) + 256) == Error_t::InvalidValue);
    CHECK(rt::Free(plain.get()) == Error_t::InvalidValue);
    CHECK(keeps_bytes(ptr, 4096, 3));
    CHECK(rt::Free(ptr) == Success);
    CHECK(rt::Free(ptr) == Error_t::InvalidValue);
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("rt: out of memory is an answer, and the next request works") {
    if (no_device()) return;
    void* ptr = &ptr;
    CHECK(rt::Malloc(&ptr, std::size_t{1} << 50) == Error_t::OutOfMemory);
    CHECK(ptr == nullptr);
    CHECK(rt::PeekAtLastError() == Success);
    const DeviceMemory memory(MiB);
    CHECK(keeps_bytes(memory.ptr, MiB, 11));
}

TEST_CASE("rt: pitched memory has aligned rows") {
    if (no_device()) return;
    void* ptr = nullptr;
    std::size_t pitch = 0;
    const std::size_t width = 100;
    const std::size_t height = 33;
    REQUIRE(rt::MallocPitch(&ptr, &pitch, width, height) == Success);
    CHECK(pitch >= width);
    CHECK(pitch % 64 == 0);
    CHECK(keeps_bytes(ptr, pitch * (height - 1) + width, 5));
    CHECK(rt::Free(ptr) == Success);
}

TEST_CASE("rt: a choice of coherence works or is not supported") {
    if (no_device()) return;
    for (const auto coherence : {rt::Coherence::Default, rt::Coherence::FineGrained, rt::Coherence::Uncached}) {
        void* ptr = nullptr;
        const Error_t error = rt::ExtMallocWithFlags(&ptr, 4096, coherence);
        if (coherence == rt::Coherence::Default) CHECK(error == Success);
        CHECK((error == Success || error == Error_t::NotSupported));
        if (error == Success) CHECK(keeps_bytes(ptr, 4096, 9));
        CHECK(rt::Free(ptr) == Success);
    }
}

TEST_CASE("rt: pinned memory is the host's and the device's") {
    if (no_device()) return;
    for (const unsigned flags : {rt::HostMallocDefault + 0u, rt::HostMallocPortable + 0u, rt::HostMallocMapped + 0u,
                                 rt::HostMallocPortable | rt::HostMallocMapped, rt::HostMallocWriteCombined + 0u}) {
        for (const auto coherence : {rt::Coherence::Default, rt::Coherence::Coherent, rt::Coherence::NonCoherent}) {
            CAPTURE(flags);
            void* ptr = nullptr;
            REQUIRE(rt::HostMalloc(&ptr, 8192, flags, coherence) == Success);
            CHECK(reinterpret_cast<std::uintptr_t>(ptr) % 4096 == 0);
            const Bytes bytes = pattern(8192, flags);
            std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(ptr));
            const DeviceMemory memory(8192);
            CHECK(rt::Memcpy(memory.ptr, ptr, 8192, MemcpyKind::HostToDevice) == Success);
            CHECK(contents(memory.ptr, 8192) == bytes);
            unsigned got = 0;
            CHECK(rt::HostGetFlags(&got, ptr) == Success);
            CHECK((got & rt::HostMallocWriteCombined) == (flags & rt::HostMallocWriteCombined));
            CHECK((got & ~7u) == 0);
            void* device_ptr = nullptr;
            CHECK(rt::HostGetDevicePointer(&device_ptr, ptr) == Success);
            CHECK(rt::Memset(device_ptr, 0x5a, 8192) == Success);
            CHECK(rt::DeviceSynchronize() == Success);
            CHECK(Bytes(static_cast<unsigned char*>(ptr), static_cast<unsigned char*>(ptr) + 8192) ==
                  Bytes(8192, 0x5a));
            CHECK(rt::HostFree(ptr) == Success);
        }
    }
}

TEST_CASE("rt: memory that is not pinned is no pinned memory") {
    if (no_device()) return;
    auto plain = pages(4096);
    void* device_ptr = nullptr;
    unsigned flags = 0;
    CHECK(rt::HostFree(plain.get()) == Error_t::InvalidValue);
    CHECK(rt::HostGetDevicePointer(&device_ptr, plain.get()) == Error_t::InvalidValue);
    CHECK(rt::HostGetFlags(&flags, plain.get()) == Error_t::InvalidValue);
}

TEST_CASE("rt: registered memory is the device's until it is unregistered") {
    if (no_device()) return;
    const std::size_t nbytes = 16 * 4096;
    auto plain = pages(nbytes);
    for (const unsigned flags : {rt::HostRegisterDefault + 0u, rt::HostRegisterPortable | rt::HostRegisterMapped}) {
        const Bytes bytes = pattern(nbytes, 40 + flags);
        std::copy(bytes.begin(), bytes.end(), plain.get());
        REQUIRE(rt::HostRegister(plain.get(), nbytes, flags) == Success);
        void* device_ptr = nullptr;
        CHECK(rt::HostGetDevicePointer(&device_ptr, plain.get()) == Success);
        CHECK(contents(device_ptr, nbytes) == bytes);
        CHECK(attributes_of(plain.get()).type == rt::MemoryType::Host);
        const DeviceMemory memory(nbytes);
        const TestStream stream;
        CHECK(rt::MemcpyAsync(memory.ptr, plain.get(), nbytes, MemcpyKind::HostToDevice, stream.handle) == Success);
        CHECK(rt::StreamSynchronize(stream.handle) == Success);
        CHECK(contents(memory.ptr, nbytes) == bytes);
        CHECK(rt::HostUnregister(plain.get()) == Success);
        CHECK(rt::HostUnregister(plain.get()) == Error_t::HostMemoryNotRegistered);
        CHECK(attributes_of(plain.get()).type == rt::MemoryType::Unregistered);
    }
}

TEST_CASE("rt: a wrong registration is refused") {
    if (no_device()) return;
    auto plain = pages(8192);
    CHECK(rt::HostRegister(nullptr, 4096, rt::HostRegisterDefault) == Error_t::InvalidValue);
    CHECK(rt::HostRegister(plain.get(), 0, rt::HostRegisterDefault) == Error_t::InvalidValue);
    CHECK(rt::HostRegister(plain.get(), 4096, 64) == Error_t::InvalidValue);
    REQUIRE(rt::HostRegister(plain.get(), 8192, rt::HostRegisterDefault) == Success);
    // AMD's libraries before 7 let a second registration pass, and count it.
    const Error_t again = rt::HostRegister(plain.get(), 8192, rt::HostRegisterDefault);
    CHECK((again == Error_t::HostMemoryAlreadyRegistered || again == Success));
    if (again == Success) CHECK(rt::HostUnregister(plain.get()) == Success);
    CHECK(rt::HostUnregister(plain.get()) == Success);
    const Error_t read_only = rt::HostRegister(plain.get(), 8192, rt::HostRegisterReadOnly);
    CHECK((read_only == Success || read_only == Error_t::NotSupported));
    if (read_only == Success) CHECK(rt::HostUnregister(plain.get()) == Success);
}

TEST_CASE("rt: the pointer query knows device memory") {
    if (no_device()) return;
    int current = -1;
    REQUIRE(rt::GetDevice(&current) == Success);
    void* ptr = nullptr;
    REQUIRE(rt::Malloc(&ptr, 10000) == Success);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{9999}}) {
        void* const inside = static_cast<unsigned char*>(ptr) + offset;
        const auto attributes = attributes_of(inside);
        CHECK(attributes.type == rt::MemoryType::Device);
        CHECK(attributes.device == current);
        CHECK(attributes.device_pointer == inside);
        CHECK(attributes.base == ptr);
        CHECK(attributes.nbytes >= 10000);
    }
    CHECK(rt::Free(ptr) == Success);
    CHECK(attributes_of(ptr).type == rt::MemoryType::Unregistered);
}

TEST_CASE("rt: the pointer query tells every thread the same, whatever its device") {
    if (no_device()) return;
    const DeviceMemory device(10000);
    const PinnedMemory pinned(10000);
    for (void* const ptr : {device.ptr, pinned.ptr}) {
        const auto here = attributes_of(ptr);
        CHECK(here.device_pointer != nullptr);
        // A thread that has used no device yet, and one on each device.
        for (int current = -1; current < device_count(); ++current) {
            CAPTURE(current);
            rt::PointerAttributes there;
            Error_t error = Error_t::Unknown;
            int after = -1;
            std::thread([&] {
                if (current >= 0) (void)rt::SetDevice(current);
                error = rt::PointerGetAttributes(&there, ptr);
                (void)rt::GetDevice(&after);
            }).join();
            CHECK(error == Success);
            CHECK(there.type == here.type);
            CHECK(there.device == here.device);
            CHECK(there.device_pointer == here.device_pointer);
            CHECK(there.host_pointer == here.host_pointer);
            CHECK(there.base == here.base);
            CHECK(there.nbytes == here.nbytes);
            CHECK(there.flags == here.flags);
            CHECK(after == std::max(current, 0));
        }
    }
}

TEST_CASE("rt: the pointer query knows pinned memory") {
    if (no_device()) return;
    void* ptr = nullptr;
    REQUIRE(rt::HostMalloc(&ptr, 10000, rt::HostMallocWriteCombined, rt::Coherence::Default) == Success);
    void* const inside = static_cast<unsigned char*>(ptr) + 100;
    const auto attributes = attributes_of(inside);
    CHECK(attributes.type == rt::MemoryType::Host);
    CHECK(attributes.host_pointer == inside);
    CHECK(attributes.device_pointer != nullptr);
    CHECK((attributes.base == nullptr || attributes.base == ptr));
    if (attributes.base != nullptr) CHECK(attributes.nbytes >= 10000);
    CHECK((attributes.flags == 0 || (attributes.flags & rt::HostMallocWriteCombined) != 0));
    CHECK(rt::HostFree(ptr) == Success);
}

TEST_CASE("rt: the pointer query does not know plain host memory, and says so") {
    if (no_device()) return;
    int on_stack = 0;
    auto plain = pages(4096);
    for (void* const ptr :
         {static_cast<void*>(&on_stack), static_cast<void*>(plain.get()), static_cast<void*>(nullptr)}) {
        const auto attributes = attributes_of(ptr);
        CHECK(attributes.type == rt::MemoryType::Unregistered);
        CHECK(attributes.device == rt::InvalidDeviceId);
        CHECK(attributes.host_pointer == ptr);
        CHECK(attributes.base == nullptr);
        CHECK(attributes.nbytes == 0);
    }
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("rt: whether memory goes to other processes is asked of the runtime") {
    if (no_device()) return;
    constexpr auto kIpc = rt::PointerAttr::IsLegacyIpcCapable;
    const DeviceMemory memory(4096);
    const PinnedMemory pinned(4096);
    int plain = 0;
    int capable = -1;
    const Error_t known = rt::PointerGetAttribute(&capable, kIpc, memory.ptr);
    if (known == Error_t::NotSupported) {  // it cannot say, whatever the pointer
        CHECK(rt::PointerGetAttribute(&capable, kIpc, pinned.ptr) == Error_t::NotSupported);
        CHECK(capable == -1);
        return;
    }
    REQUIRE(known == Success);
    CHECK((capable != 0) == has(rt::DeviceAttr::IpcMemHandleSupported));
    int inside = -1;
    CHECK(rt::PointerGetAttribute(&inside, kIpc, static_cast<unsigned char*>(memory.ptr) + 100) == Success);
    CHECK(inside == capable);
    CHECK(rt::PointerGetAttribute(&capable, kIpc, pinned.ptr) == Success);
    CHECK(capable == 0);
    CHECK(rt::PointerGetAttribute(&capable, kIpc, &plain) == Error_t::InvalidValue);
    CHECK(rt::PointerGetAttribute(&capable, kIpc, nullptr) == Error_t::InvalidValue);
    CHECK(rt::PointerGetAttribute(nullptr, kIpc, memory.ptr) == Error_t::InvalidValue);
    CHECK(rt::PeekAtLastError() == Success);
}
