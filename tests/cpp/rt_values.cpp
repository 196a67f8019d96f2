// SPDX-License-Identifier: MIT
// tests/cpp/rt_values.cpp: what the ground floor promises where no device is asked: versions, names, corners.
#include <set>

#include "portamem/rt/check.hpp"
#include "portamem/rt/error_names.hpp"
#include "rt_support.hpp"

TEST_CASE("rt: a code has portamem's name, or its number") {
    CHECK(rt::GetErrorName(Error_t::OutOfMemory) == std::string("OutOfMemory"));
    CHECK(rt::GetErrorName(Error_t::Success) == std::string("Success"));
    CHECK(rt::GetErrorName(static_cast<Error_t>(54321)) == std::string("Error_54321"));
    static_assert(rt::error_name(static_cast<Error_t>(54321)) == nullptr);
    std::set<std::string> names;
    int named = 0;
    for (int code = 0; code < 1000; ++code) {
        const char* name = rt::error_name(static_cast<Error_t>(code));
        if (name == nullptr) continue;
        ++named;
        CHECK_MESSAGE(names.insert(name).second, "two codes are called ", name);
    }
    CHECK(named == 35);
}

TEST_CASE("rt: a code has the vendor's sentence") {
    for (const Error_t error : {Success, Error_t::OutOfMemory, Error_t::NotReady, static_cast<Error_t>(54321)}) {
        REQUIRE(rt::GetErrorString(error) != nullptr);
        CHECK(std::string(rt::GetErrorString(error)) != "");
    }
}

TEST_CASE("rt: versions are told without a device") {
    int runtime = -1;
    const Error_t error = rt::RuntimeGetVersion(&runtime);
    if (device_count() > 0) CHECK(error == Success);
    if (error == Success) CHECK(runtime > 0);
    static_assert(rt::CompiledVersion() > 0);
    CHECK(rt::VersionText(rt::CompiledVersion()).find('.') != std::string::npos);
    int driver = -1;
    if (rt::DriverGetVersion(&driver) == Success) CHECK(driver >= 0);
}

TEST_CASE("rt: requests for 0 bytes succeed without the vendor") {
    int somewhere = 0;
    void* const start = &somewhere;
    void* ptr = start;
    CHECK(rt::Malloc(&ptr, 0) == Success);
    CHECK(ptr == nullptr);
    ptr = start;
    CHECK(rt::ExtMallocWithFlags(&ptr, 0, rt::Coherence::Default) == Success);
    CHECK(ptr == nullptr);
    ptr = start;
    CHECK(rt::HostMalloc(&ptr, 0, rt::HostMallocPortable, rt::Coherence::Default) == Success);
    CHECK(ptr == nullptr);
    ptr = start;
    CHECK(rt::MallocManaged(&ptr, 0, rt::MemAttach::Global) == Success);
    CHECK(ptr == nullptr);
    ptr = start;
    CHECK(rt::MallocAsync(&ptr, 0, NullStream) == Success);
    CHECK(ptr == nullptr);
    for (const std::size_t width : {std::size_t{0}, std::size_t{8}}) {
        std::size_t pitch = 99;
        ptr = start;
        CHECK(rt::MallocPitch(&ptr, &pitch, width, 8 - width) == Success);
        CHECK(ptr == nullptr);
        CHECK(pitch == 0);
    }
    CHECK(rt::Memcpy(nullptr, nullptr, 0, MemcpyKind::Default) == Success);
    CHECK(rt::MemcpyAsync(nullptr, nullptr, 0, MemcpyKind::HostToDevice, NullStream) == Success);
    CHECK(rt::Memcpy2D(nullptr, 8, nullptr, 8, 8, 0, MemcpyKind::Default) == Success);
    CHECK(rt::Memcpy2DAsync(nullptr, 8, nullptr, 8, 0, 8, MemcpyKind::Default, NullStream) == Success);
    rt::Memcpy3DParms box;
    box.extent = {4, 0, 4};
    box.src.pitch = box.dst.pitch = 4;
    CHECK(rt::Memcpy3D(box) == Success);
    CHECK(rt::Memcpy3DAsync(box, NullStream) == Success);
    CHECK(rt::MemcpyPeer(nullptr, 0, nullptr, 0, 0) == Success);
    CHECK(rt::MemcpyPeerAsync(nullptr, 0, nullptr, 0, 0, NullStream) == Success);
    CHECK(rt::Memset(nullptr, 1, 0) == Success);
    CHECK(rt::MemsetAsync(nullptr, 1, 0, NullStream) == Success);
    CHECK(rt::Memset2D(nullptr, 8, 1, 8, 0) == Success);
    CHECK(rt::Memset2DAsync(nullptr, 8, 1, 0, 8, NullStream) == Success);
}

TEST_CASE("rt: null is freed, and is unregistered") {
    CHECK(rt::Free(nullptr) == Success);
    CHECK(rt::HostFree(nullptr) == Success);
    CHECK(rt::FreeAsync(nullptr, NullStream) == Success);
}

TEST_CASE("rt: arguments that no vendor need see are refused") {
    void* ptr = nullptr;
    CHECK(rt::ExtMallocWithFlags(&ptr, 64, rt::Coherence::Coherent) == Error_t::InvalidValue);
    CHECK(rt::ExtMallocWithFlags(&ptr, 0, rt::Coherence::NonCoherent) == Error_t::InvalidValue);
    CHECK(rt::HostMalloc(&ptr, 64, 64, rt::Coherence::Default) == Error_t::InvalidValue);
    CHECK(rt::HostMalloc(&ptr, 0, rt::HostMallocDefault, rt::Coherence::Uncached) == Error_t::InvalidValue);
    CHECK(rt::MallocManaged(&ptr, 64, rt::MemAttach::Single) == Error_t::InvalidValue);
    CHECK(rt::MallocManaged(&ptr, 0, rt::MemAttach::Single) == Error_t::InvalidValue);
}

TEST_CASE("rt: the cheap checks") {
    using namespace rt::check;
    static_assert(location({LocationType::Device, 0}) == Error_t::Success);
    static_assert(location({LocationType::Device, -1}) == Error_t::InvalidDevice);
    static_assert(location({LocationType::Host, -7}) == Error_t::Success);
    static_assert(location({LocationType::HostNuma, -1}) == Error_t::InvalidValue);
    static_assert(location({LocationType::None, 0}) == Error_t::InvalidValue);
    static_assert(device_or_cpu({LocationType::Device, 3}) == 3);
    static_assert(device_or_cpu({LocationType::HostNuma, 3}) == rt::CpuDeviceId);
    static_assert(pitches(8, 8, 8) && !pitches(7, 8, 8) && !pitches(8, 7, 8));
    static_assert(direction(MemcpyKind::Default) && !direction(static_cast<MemcpyKind>(5)));
    static_assert(host_malloc(7, rt::Coherence::NonCoherent) && !host_malloc(8, rt::Coherence::Default));
    static_assert(!host_register(nullptr, 8, 0));
    CHECK(true);
}
