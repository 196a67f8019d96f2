// SPDX-License-Identifier: MIT
// tests/cpp/rt_nodevice.cpp: without a device every entry point says so, in whatever order they are called.
//
// A runtime sets itself up in its first call, so the order matters most in a fresh process: PORTAMEM_TEST_SEED chooses
// it, and ctest runs this with several, with every device hidden. (tests/source_rules sees to it that the table has
// every rt function.)
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <random>

#include "portamem/rt/checker.hpp"
#include "rt_support.hpp"

namespace {

constexpr int Untouched = 0x5ca1ab1e;

/// Arguments for the calls. The calls must leave them as they were, or empty.
struct Scene {
    explicit Scene(unsigned seed) : random(seed) {}

    std::mt19937 random;
    alignas(64) unsigned char plain[64] = {};
    alignas(64) unsigned char other[64] = {};
    void* ptr = nullptr;
    std::size_t size = Untouched;
    std::size_t size2 = Untouched;
    std::uint64_t wide = Untouched;
    int value = Untouched;
    int value2 = Untouched;
    unsigned flags = Untouched;
    float milliseconds = 0;
    int version = 0;
    char text[16] = {};
    rt::DeviceState_t state{};
    rt::MemAccessFlags access{};
    rt::StreamCaptureMode mode = rt::StreamCaptureMode::Relaxed;
    rt::Stream_t stream{};
    rt::Event_t event{};
    rt::MemPool_t pool{};
    rt::MemGenericAllocationHandle_t memory{};
    rt::Graph_t graph{};

    unsigned pick(unsigned count) { return static_cast<unsigned>(random() % count); }

    /// One of the streams that exist without being created.
    rt::Stream_t any_stream() {
        const rt::Stream_t streams[] = {NullStream, rt::StreamLegacy(), rt::StreamPerThread()};
        return streams[pick(3)];
    }
    int any_device() { return static_cast<int>(pick(3)); }
    std::size_t any_size() { return std::size_t{1} << (pick(3) * 2); }  // 1, 4, 16: all within `plain`
    MemcpyKind any_kind() {
        const MemcpyKind kinds[] = {MemcpyKind::HostToDevice, MemcpyKind::DeviceToHost, MemcpyKind::DeviceToDevice,
                                    MemcpyKind::Default};
        return kinds[pick(4)];
    }
    rt::Coherence any_coherence() {
        const rt::Coherence kinds[] = {rt::Coherence::Default, rt::Coherence::FineGrained, rt::Coherence::Uncached};
        return kinds[pick(3)];
    }
    rt::MemoryAdvise any_advice() {
        const rt::MemoryAdvise advice[] = {rt::MemoryAdvise::SetReadMostly, rt::MemoryAdvise::SetPreferredLocation,
                                           rt::MemoryAdvise::SetAccessedBy};
        return advice[pick(3)];
    }
    Location any_location() {
        const Location locations[] = {{LocationType::Device, 0}, {LocationType::Device, 2}, {LocationType::Host, 0}};
        return locations[pick(3)];
    }
    rt::Memcpy3DParms box() {
        rt::Memcpy3DParms parms;
        parms.src = {plain, 8, 8, 8};
        parms.dst = {other, 8, 8, 8};
        parms.extent = {4, 4, 1};
        parms.kind = any_kind();
        return parms;
    }
};

/// The answer of a call where there is no device.
enum class Answer {
    NoDevice,   ///< one of the codes that say so
    Refused,    ///< one of those, or that the only handle there can be, null, is none
    Success,    ///< it needs no device
    OfMachine,  ///< InsufficientDriver or NoDevice, the two that say it of the whole machine
};

struct Call {
    const char* name;
    Answer answer;
    Error_t (*make)(Scene& s);
};

void never_called(void*) { std::abort(); }

Error_t told(bool right) { return right ? Success : Error_t::Unknown; }

Error_t count_devices() {
    int count = 99;
    const Error_t error = rt::GetDeviceCount(&count);
    CHECK(count == 0);
    return error;
}

Error_t get_properties(int device) {
    rt::DeviceProperties properties;
    const Error_t error = rt::GetDeviceProperties(&properties, device);
    CHECK(properties.total_global_mem == 0);
    return error;
}

Error_t get_uuid(int device) {
    unsigned char uuid[16] = {};
    const unsigned char empty[16] = {};
    const Error_t error = rt::DeviceGetUuid(uuid, device);
    CHECK(std::memcmp(uuid, empty, sizeof uuid) == 0);
    return error;
}

Error_t malloc_pitch(Scene& s) {
    std::size_t pitch = Untouched;
    const Error_t error = rt::MallocPitch(&s.ptr, &pitch, 64, s.any_size());
    CHECK(pitch == 0);
    return error;
}

Error_t pointer_attributes(const void* ptr) {
    rt::PointerAttributes attributes;
    const Error_t error = rt::PointerGetAttributes(&attributes, ptr);
    CHECK(attributes.type == rt::MemoryType::Unregistered);
    CHECK(attributes.base == nullptr);
    return error;
}

Error_t is_capturing(rt::Stream_t stream) {
    rt::StreamCaptureStatus status{};
    const Error_t error = rt::StreamIsCapturing(stream, &status);
    CHECK(status == rt::StreamCaptureStatus::None);
    return error;
}

Error_t heap_register(const void* ptr, std::size_t nbytes) {
    rt::MemHeap_t heap = &heap;
    const Error_t error = rt::MemHeapRegister(&heap, ptr, nbytes);
    CHECK(heap == nullptr);
    return error;
}

// An entry is the function's name, its answer, and either its arguments or a call of another form. `s` is the scene.
#define MAKE(name, answer, made)                                                          \
    Call {                                                                                \
#name, Answer::answer, []([[maybe_unused]] Scene & s) -> Error_t { return made; } \
    }
#define CALL(name, answer, ...) MAKE(name, answer, rt::name(__VA_ARGS__))

const Call calls[] = {
    CALL(RuntimeGetVersion, Success, &s.version),
    CALL(DriverGetVersion, Success, &s.version),
    MAKE(CompiledVersion, Success, told(rt::CompiledVersion() > 0)),
    MAKE(VersionText, Success, told(!rt::VersionText(rt::CompiledVersion()).empty())),
    MAKE(GetErrorName, Success, told(rt::GetErrorName(Error_t::NoDevice) == std::string("NoDevice"))),
    MAKE(GetErrorString, Success, told(rt::GetErrorString(Error_t::NoDevice) != nullptr)),
    // The test does not look at the slot: without a driver CUDA fills it on every call, that of reading it included.
    MAKE(GetLastError, Success, (static_cast<void>(rt::GetLastError()), Success)),
    MAKE(PeekAtLastError, Success, (static_cast<void>(rt::PeekAtLastError()), Success)),

    MAKE(GetDeviceCount, OfMachine, count_devices()),
    CALL(SetDevice, NoDevice, s.any_device()),
    CALL(GetDevice, NoDevice, &s.value),
    CALL(PushDevice, NoDevice, s.any_device(), &s.state),
    CALL(PopDevice, Success, rt::DeviceState_t{}),
    CALL(DeviceGetAttribute, NoDevice, &s.value, rt::DeviceAttr::WarpSize, s.any_device()),
    MAKE(GetDeviceProperties, NoDevice, get_properties(s.any_device())),
    MAKE(DeviceGetUuid, NoDevice, get_uuid(s.any_device())),
    CALL(DeviceGetPCIBusId, NoDevice, s.text, sizeof s.text, s.any_device()),
    CALL(MemGetInfo, NoDevice, &s.size, &s.size2),
    CALL(DeviceSynchronize, NoDevice),
    CALL(DeviceGetLimit, NoDevice, &s.size, rt::Limit::MallocHeapSize),
    CALL(DeviceSetLimit, Refused, rt::Limit::MallocHeapSize, 8 * MiB),
    CALL(DeviceCanAccessPeer, NoDevice, &s.value, 0, 1),
    CALL(DeviceEnablePeerAccess, NoDevice, 1),
    CALL(DeviceDisablePeerAccess, NoDevice, 1),
    CALL(DeviceGetStreamPriorityRange, NoDevice, &s.value, &s.value2),

    CALL(Malloc, NoDevice, &s.ptr, s.any_size()),
    CALL(Free, NoDevice, s.plain),
    MAKE(MallocPitch, NoDevice, malloc_pitch(s)),
    CALL(ExtMallocWithFlags, Refused, &s.ptr, s.any_size(), s.any_coherence()),
    CALL(HostMalloc, NoDevice, &s.ptr, s.any_size(), s.pick(8), rt::Coherence::Default),
    CALL(HostFree, NoDevice, s.plain),
    CALL(HostRegister, NoDevice, s.plain, sizeof s.plain, s.pick(4)),
    CALL(HostUnregister, NoDevice, s.plain),
    CALL(HostGetDevicePointer, NoDevice, &s.ptr, s.plain),
    CALL(HostGetFlags, NoDevice, &s.flags, s.plain),

    CALL(MallocManaged, NoDevice, &s.ptr, s.any_size(), s.pick(2) != 0 ? rt::MemAttach::Global : rt::MemAttach::Host),
    CALL(MemPrefetchAsync, NoDevice, s.plain, 64, s.any_location(), s.any_stream()),
    CALL(MemAdvise, NoDevice, s.plain, 64, s.any_advice(), s.any_location()),
    CALL(MemRangeGetAttribute, NoDevice, &s.value, sizeof s.value, rt::MemRangeAttribute::ReadMostly, s.plain, 64),
    CALL(StreamAttachMemAsync, NoDevice, s.any_stream(), s.plain, 0, rt::MemAttach::Global),
    MAKE(PointerGetAttributes, NoDevice, pointer_attributes(s.plain)),
    CALL(PointerGetAttribute, Refused, &s.value, rt::PointerAttr::IsLegacyIpcCapable, s.plain),
    CALL(MemGetAllocationGranularity, Refused, &s.size, Location{LocationType::Device, s.any_device()},
         rt::MemAllocationGranularity::Minimum),
    CALL(MemAddressReserve, Refused, &s.ptr, 2 * MiB, 0, nullptr),
    CALL(MemAddressFree, Refused, s.plain, 2 * MiB),
    CALL(MemCreate, Refused, &s.memory, 2 * MiB, Location{LocationType::Device, s.any_device()}),
    CALL(MemRelease, Refused, s.memory),
    CALL(MemMap, Refused, s.plain, 2 * MiB, 0, s.memory),
    CALL(MemUnmap, Refused, s.plain, 2 * MiB),
    CALL(MemSetAccess, Refused, s.plain, 2 * MiB, Location{LocationType::Device, s.any_device()},
         rt::MemAccessFlags::ReadWrite),
    CALL(MemGetAccess, Refused, &s.access, Location{LocationType::Device, s.any_device()}, s.plain),

    // No memory checker has announced itself to these programs.
    MAKE(MemCheckerAnnounced, Success, told(!rt::MemCheckerAnnounced())),
    MAKE(MemHeapRegister, Success, told(heap_register(s.plain, 64) == Error_t::NotSupported)),
    CALL(MemHeapUnregister, Refused, nullptr),
    CALL(MemRegionsRegister, Refused, nullptr, s.plain, 64),
    CALL(MemRegionsResize, Refused, nullptr, 64),
    CALL(MemRegionsUnregister, Refused, nullptr),

    CALL(MallocAsync, NoDevice, &s.ptr, s.any_size(), s.any_stream()),
    CALL(FreeAsync, NoDevice, s.plain, s.any_stream()),
    CALL(MallocFromPoolAsync, Refused, &s.ptr, 64, s.pool, s.any_stream()),
    CALL(MemPoolCreate, NoDevice, &s.pool, rt::MemPoolProps{}),
    CALL(MemPoolDestroy, Refused, s.pool),
    CALL(MemPoolTrimTo, Refused, s.pool, 0),
    CALL(MemPoolSetAttribute, Refused, s.pool, rt::MemPoolAttr::ReleaseThreshold, 0),
    CALL(MemPoolGetAttribute, Refused, s.pool, rt::MemPoolAttr::UsedMemCurrent, &s.wide),
    CALL(MemPoolSetAccess, Refused, s.pool, Location{LocationType::Device, 1}, rt::MemAccessFlags::ReadWrite),
    CALL(MemPoolGetAccess, Refused, &s.access, s.pool, Location{LocationType::Device, 0}),
    CALL(DeviceGetDefaultMemPool, NoDevice, &s.pool, s.any_device()),
    CALL(DeviceGetMemPool, NoDevice, &s.pool, s.any_device()),
    CALL(DeviceSetMemPool, NoDevice, s.any_device(), s.pool),

    CALL(Memcpy, NoDevice, s.other, s.plain, s.any_size(), s.any_kind()),
    CALL(MemcpyAsync, NoDevice, s.other, s.plain, s.any_size(), s.any_kind(), s.any_stream()),
    CALL(Memcpy2D, NoDevice, s.other, 8, s.plain, 8, 4, 4, s.any_kind()),
    CALL(Memcpy2DAsync, NoDevice, s.other, 8, s.plain, 8, 4, 4, s.any_kind(), s.any_stream()),
    CALL(Memcpy3D, NoDevice, s.box()),
    CALL(Memcpy3DAsync, NoDevice, s.box(), s.any_stream()),
    CALL(MemcpyPeer, NoDevice, s.other, s.any_device(), s.plain, s.any_device(), 16),
    CALL(MemcpyPeerAsync, NoDevice, s.other, s.any_device(), s.plain, s.any_device(), 16, s.any_stream()),
    CALL(Memset, NoDevice, s.other, 1, s.any_size()),
    CALL(MemsetAsync, NoDevice, s.other, 1, s.any_size(), s.any_stream()),
    CALL(Memset2D, NoDevice, s.other, 8, 1, 4, 4),
    CALL(Memset2DAsync, NoDevice, s.other, 8, 1, 4, 4, s.any_stream()),

    MAKE(StreamLegacy, Success, (static_cast<void>(rt::StreamLegacy()), Success)),
    MAKE(StreamPerThread, Success, told(rt::StreamPerThread() != nullptr)),
    CALL(StreamCreateWithPriority, NoDevice, &s.stream, s.pick(2), 0),
    CALL(StreamDestroy, Refused, s.any_stream()),
    CALL(StreamQuery, NoDevice, s.any_stream()),
    CALL(StreamSynchronize, NoDevice, s.any_stream()),
    CALL(StreamWaitEvent, Refused, s.any_stream(), s.event),
    CALL(LaunchHostFunc, NoDevice, s.any_stream(), &never_called, nullptr),
    CALL(StreamGetFlags, NoDevice, s.any_stream(), &s.flags),
    CALL(StreamGetPriority, NoDevice, s.any_stream(), &s.value),
    CALL(StreamGetDevice, NoDevice, s.any_stream(), &s.value),
    CALL(StreamGetId, Refused, s.any_stream(), &s.wide),
    CALL(StreamBeginCapture, Refused, s.any_stream(), rt::StreamCaptureMode::Relaxed),
    CALL(StreamEndCapture, Refused, s.any_stream(), &s.graph),
    CALL(GraphDestroy, Refused, s.graph),
    MAKE(StreamIsCapturing, NoDevice, is_capturing(s.any_stream())),
    CALL(ThreadExchangeStreamCaptureMode, NoDevice, &s.mode),
    CALL(EventCreateWithFlags, NoDevice, &s.event, s.pick(2) != 0 ? rt::EventDefault : rt::EventDisableTiming),
    CALL(EventDestroy, Refused, s.event),
    CALL(EventRecord, Refused, s.event, s.any_stream()),
    CALL(EventQuery, Refused, s.event),
    CALL(EventSynchronize, Refused, s.event),
    CALL(EventElapsedTime, Refused, &s.milliseconds, s.event, s.event),
};

#undef CALL
#undef MAKE

bool is_right(Answer expected, Error_t error) {
    const bool of_machine = error == Error_t::InsufficientDriver || error == Error_t::NoDevice;
    const bool no_device = of_machine || error == Error_t::InvalidDevice || error == Error_t::InitializationError;
    switch (expected) {
        case Answer::OfMachine:
            return of_machine;
        case Answer::NoDevice:
            return no_device;
        case Answer::Refused:
            return no_device || error == Error_t::InvalidValue || error == Error_t::InvalidHandle ||
                   error == Error_t::NotSupported;
        case Answer::Success:
            return error == Success;
    }
    return false;
}

void call_all(Scene& scene, const std::vector<const Call*>& order) {
    for (const Call* call : order) {
        CAPTURE(std::string(call->name));
        const Error_t error = call->make(scene);
        CHECK_MESSAGE(is_right(call->answer, error), std::string(call->name) << " answers " << toString(error));
        CHECK(scene.ptr == nullptr);
        CHECK(scene.stream == rt::Stream_t{});
        CHECK(scene.event == rt::Event_t{});
        CHECK(scene.pool == rt::MemPool_t{});
        CHECK(scene.graph == rt::Graph_t{});
    }
    // No call made up a value: a call that was refused left what was there, or nothing.
    for (const auto left :
         {scene.size, scene.size2, static_cast<std::size_t>(scene.wide), static_cast<std::size_t>(scene.value2),
          static_cast<std::size_t>(scene.value), static_cast<std::size_t>(scene.flags)}) {
        CHECK((left == static_cast<std::size_t>(Untouched) || left == 0));
    }
    CHECK(scene.plain[0] == 0);
    CHECK(scene.other[0] == 0);
}

}  // namespace

TEST_CASE("rt without a device: every call, in an order of chance") {
    const char* given = std::getenv("PORTAMEM_TEST_SEED");
    const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
    std::printf("rt without a device: PORTAMEM_TEST_SEED=%u\n", seed);
    std::fflush(stdout);
    CAPTURE(seed);
    Scene scene(seed);
    std::vector<const Call*> order;
    for (int round = 0; round < 3; ++round) {
        for (const Call& call : calls) order.push_back(&call);
    }
    std::shuffle(order.begin(), order.end(), scene.random);
    // The first call of the process is one of these where the caller knows that there is no device.
    if (std::getenv("PORTAMEM_TEST_NO_DEVICE") == nullptr && device_count() > 0) return;
    call_all(scene, order);
}
