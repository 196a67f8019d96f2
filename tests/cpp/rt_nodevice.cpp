// SPDX-License-Identifier: MIT
// tests/cpp/rt_nodevice.cpp: without a device every entry point says so, and none crashes.
#include "rt_support.hpp"

namespace {

/// The codes by which a runtime says that it has no device to work on.
bool means_no_device(Error_t error) {
    return error == Error_t::InsufficientDriver || error == Error_t::NoDevice || error == Error_t::InvalidDevice ||
           error == Error_t::InitializationError;
}

// The last-error slot is not looked at: without a driver CUDA fills it again on every call, that of reading it included.
#define CHECK_NO_DEVICE(call)                                            \
    do {                                                                 \
        const Error_t error = call;                                      \
        CHECK_MESSAGE(means_no_device(error), #call " answers ", error); \
    } while (false)

}  // namespace

TEST_CASE("rt without a device: devices") {
    int count = 99;
    const Error_t counted = rt::GetDeviceCount(&count);
    if (count > 0) return;
    CHECK(count == 0);
    CHECK((counted == Error_t::InsufficientDriver || counted == Error_t::NoDevice));

    int value = 0;
    std::size_t size = 0;
    char text[16] = {};
    unsigned char uuid[16] = {};
    rt::DeviceState_t state{};
    rt::DeviceProperties properties;
    CHECK_NO_DEVICE(rt::SetDevice(0));
    CHECK_NO_DEVICE(rt::GetDevice(&value));
    CHECK_NO_DEVICE(rt::PushDevice(0, &state));
    CHECK(rt::PopDevice(rt::DeviceState_t{}) == Success);
    CHECK_NO_DEVICE(rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, 0));
    CHECK_NO_DEVICE(rt::GetDeviceProperties(&properties, 0));
    CHECK_NO_DEVICE(rt::DeviceGetUuid(uuid, 0));
    CHECK_NO_DEVICE(rt::DeviceGetPCIBusId(text, sizeof text, 0));
    CHECK_NO_DEVICE(rt::MemGetInfo(&size, &size));
    CHECK_NO_DEVICE(rt::DeviceSynchronize());
    CHECK_NO_DEVICE(rt::DeviceGetLimit(&size, rt::Limit::MallocHeapSize));
    CHECK_NO_DEVICE(rt::DeviceCanAccessPeer(&value, 0, 1));
    CHECK_NO_DEVICE(rt::DeviceEnablePeerAccess(1));
    CHECK_NO_DEVICE(rt::DeviceDisablePeerAccess(1));
    CHECK_NO_DEVICE(rt::DeviceGetStreamPriorityRange(&value, &value));
}

TEST_CASE("rt without a device: memory and pointers") {
    if (device_count() > 0) return;
    void* ptr = nullptr;
    std::size_t pitch = 0;
    unsigned flags = 0;
    alignas(64) unsigned char plain[64] = {};
    const Location here{LocationType::Device, 0};
    rt::PointerAttributes attributes;
    CHECK_NO_DEVICE(rt::Malloc(&ptr, 64));
    CHECK_NO_DEVICE(rt::Free(plain));
    CHECK_NO_DEVICE(rt::MallocPitch(&ptr, &pitch, 64, 64));
    CHECK_NO_DEVICE(rt::HostMalloc(&ptr, 64, rt::HostMallocDefault, rt::Coherence::Default));
    CHECK_NO_DEVICE(rt::HostFree(plain));
    CHECK_NO_DEVICE(rt::HostRegister(plain, sizeof plain, rt::HostRegisterDefault));
    CHECK_NO_DEVICE(rt::HostUnregister(plain));
    CHECK_NO_DEVICE(rt::HostGetDevicePointer(&ptr, plain));
    CHECK_NO_DEVICE(rt::HostGetFlags(&flags, plain));
    CHECK_NO_DEVICE(rt::MallocManaged(&ptr, 64, rt::MemAttach::Global));
    CHECK_NO_DEVICE(rt::MemPrefetchAsync(plain, 64, here, NullStream));
    CHECK_NO_DEVICE(rt::MemAdvise(plain, 64, rt::MemoryAdvise::SetReadMostly, here));
    CHECK_NO_DEVICE(rt::MemRangeGetAttribute(&flags, sizeof flags, rt::MemRangeAttribute::ReadMostly, plain, 64));
    CHECK_NO_DEVICE(rt::StreamAttachMemAsync(NullStream, plain, 0, rt::MemAttach::Global));
    CHECK_NO_DEVICE(rt::PointerGetAttributes(&attributes, plain));
    CHECK(ptr == nullptr);

    // HIP 5.2 says NotSupported of these two, device or not.
    int value = -1;
    std::size_t granularity = 0;
    CHECK(rt::PointerGetAttribute(&value, rt::PointerAttr::IsLegacyIpcCapable, plain) != Success);
    CHECK(rt::MemGetAllocationGranularity(&granularity, here, rt::MemAllocationGranularity::Minimum) != Success);
}

TEST_CASE("rt without a device: pools") {
    if (device_count() > 0) return;
    void* ptr = nullptr;
    rt::MemPool_t pool{};
    CHECK_NO_DEVICE(rt::MallocAsync(&ptr, 64, NullStream));
    CHECK_NO_DEVICE(rt::FreeAsync(&ptr, NullStream));
    CHECK_NO_DEVICE(rt::MemPoolCreate(&pool, rt::MemPoolProps{}));
    CHECK_NO_DEVICE(rt::DeviceGetDefaultMemPool(&pool, 0));
    CHECK_NO_DEVICE(rt::DeviceGetMemPool(&pool, 0));
    CHECK_NO_DEVICE(rt::DeviceSetMemPool(0, pool));
}

TEST_CASE("rt without a device: copies") {
    if (device_count() > 0) return;
    unsigned char from[64] = {};
    unsigned char to[64] = {};
    rt::Memcpy3DParms box;
    box.src = {from, 8, 8, 8};
    box.dst = {to, 8, 8, 8};
    box.extent = {8, 8, 1};
    const auto kind = MemcpyKind::Default;
    CHECK_NO_DEVICE(rt::Memcpy(to, from, 64, kind));
    CHECK_NO_DEVICE(rt::MemcpyAsync(to, from, 64, kind, NullStream));
    CHECK_NO_DEVICE(rt::Memcpy2D(to, 8, from, 8, 8, 8, kind));
    CHECK_NO_DEVICE(rt::Memcpy2DAsync(to, 8, from, 8, 8, 8, kind, NullStream));
    CHECK_NO_DEVICE(rt::Memcpy3D(box));
    CHECK_NO_DEVICE(rt::Memcpy3DAsync(box, NullStream));
    CHECK_NO_DEVICE(rt::MemcpyPeer(to, 0, from, 0, 64));
    CHECK_NO_DEVICE(rt::MemcpyPeerAsync(to, 0, from, 0, 64, NullStream));
    CHECK_NO_DEVICE(rt::Memset(to, 1, 64));
    CHECK_NO_DEVICE(rt::MemsetAsync(to, 1, 64, NullStream));
    CHECK_NO_DEVICE(rt::Memset2D(to, 8, 1, 8, 8));
    CHECK_NO_DEVICE(rt::Memset2DAsync(to, 8, 1, 8, 8, NullStream));
}

TEST_CASE("rt without a device: streams and events") {
    if (device_count() > 0) return;
    rt::Stream_t stream{};
    rt::Event_t event{};
    int value = 0;
    unsigned flags = 0;
    rt::StreamCaptureStatus status{};
    CHECK_NO_DEVICE(rt::StreamCreateWithPriority(&stream, rt::StreamDefault, 0));
    CHECK_NO_DEVICE(rt::StreamQuery(NullStream));
    CHECK_NO_DEVICE(rt::StreamSynchronize(NullStream));
    CHECK_NO_DEVICE(rt::LaunchHostFunc(
        NullStream, [](void*) {}, nullptr));
    CHECK_NO_DEVICE(rt::StreamGetFlags(NullStream, &flags));
    CHECK_NO_DEVICE(rt::StreamGetPriority(NullStream, &value));
    CHECK_NO_DEVICE(rt::StreamGetDevice(NullStream, &value));
    CHECK_NO_DEVICE(rt::StreamIsCapturing(NullStream, &status));
    CHECK_NO_DEVICE(rt::EventCreateWithFlags(&event, rt::EventDefault));
}
