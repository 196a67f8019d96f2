// tests/partners/hip/ground_floor.cpp: portamem's ground floor over libamdhip64, call by call, for a loader that knows
// nothing of C++. `ask` gives the number that a call answers, or -1 where there is none of that name.
#include <cstring>

#include "portamem/rt/rt.hpp"

namespace {

namespace rt = portamem::rt;
using rt::Error_t;

using Call = Error_t (*)(unsigned char* plain);

void* ptr;
std::size_t size;
unsigned flags;
int value;

constexpr rt::Stream_t null_stream{};

// Each with the arguments that the script beside this file gives to hip-python. `plain` are 64 bytes of the caller.
const struct {
    const char* name;
    Call call;
} calls[] = {
    {"RuntimeGetVersion", [](unsigned char*) { return rt::RuntimeGetVersion(&value); }},
    {"DriverGetVersion", [](unsigned char*) { return rt::DriverGetVersion(&value); }},
    {"GetDeviceCount", [](unsigned char*) { return rt::GetDeviceCount(&value); }},
    {"GetDevice", [](unsigned char*) { return rt::GetDevice(&value); }},
    {"SetDevice", [](unsigned char*) { return rt::SetDevice(0); }},
    {"DeviceSynchronize", [](unsigned char*) { return rt::DeviceSynchronize(); }},
    {"DeviceGetAttribute", [](unsigned char*) { return rt::DeviceGetAttribute(&value, rt::DeviceAttr::WarpSize, 0); }},
    {"DeviceGetLimit", [](unsigned char*) { return rt::DeviceGetLimit(&size, rt::Limit::MallocHeapSize); }},
    {"DeviceCanAccessPeer", [](unsigned char*) { return rt::DeviceCanAccessPeer(&value, 0, 1); }},
    {"DeviceEnablePeerAccess", [](unsigned char*) { return rt::DeviceEnablePeerAccess(1); }},
    {"DeviceDisablePeerAccess", [](unsigned char*) { return rt::DeviceDisablePeerAccess(1); }},
    {"DeviceGetStreamPriorityRange", [](unsigned char*) { return rt::DeviceGetStreamPriorityRange(&value, &value); }},
    {"MemGetInfo", [](unsigned char*) { return rt::MemGetInfo(&size, &size); }},
    {"Malloc", [](unsigned char*) { return rt::Malloc(&ptr, 64); }},
    {"Free", [](unsigned char* plain) { return rt::Free(plain); }},
    {"MallocPitch", [](unsigned char*) { return rt::MallocPitch(&ptr, &size, 64, 64); }},
    {"MallocManaged", [](unsigned char*) { return rt::MallocManaged(&ptr, 64, rt::MemAttach::Global); }},
    {"HostMalloc",
     [](unsigned char*) { return rt::HostMalloc(&ptr, 64, rt::HostMallocDefault, rt::Coherence::Default); }},
    {"HostFree", [](unsigned char* plain) { return rt::HostFree(plain); }},
    {"HostRegister", [](unsigned char* plain) { return rt::HostRegister(plain, 64, rt::HostRegisterDefault); }},
    {"HostUnregister", [](unsigned char* plain) { return rt::HostUnregister(plain); }},
    {"HostGetDevicePointer", [](unsigned char* plain) { return rt::HostGetDevicePointer(&ptr, plain); }},
    {"HostGetFlags", [](unsigned char* plain) { return rt::HostGetFlags(&flags, plain); }},
    {"PointerGetAttributes",
     [](unsigned char* plain) {
         rt::PointerAttributes attributes;
         return rt::PointerGetAttributes(&attributes, plain);
     }},
    {"MallocAsync", [](unsigned char*) { return rt::MallocAsync(&ptr, 64, null_stream); }},
    {"FreeAsync", [](unsigned char* plain) { return rt::FreeAsync(plain, null_stream); }},
    {"DeviceGetDefaultMemPool",
     [](unsigned char*) {
         rt::MemPool_t pool{};
         return rt::DeviceGetDefaultMemPool(&pool, 0);
     }},
    {"DeviceGetMemPool",
     [](unsigned char*) {
         rt::MemPool_t pool{};
         return rt::DeviceGetMemPool(&pool, 0);
     }},
    {"Memcpy", [](unsigned char* plain) { return rt::Memcpy(plain, plain + 32, 32, rt::MemcpyKind::Default); }},
    {"MemcpyAsync",
     [](unsigned char* plain) { return rt::MemcpyAsync(plain, plain + 32, 32, rt::MemcpyKind::Default, null_stream); }},
    {"Memset", [](unsigned char* plain) { return rt::Memset(plain, 1, 64); }},
    {"MemsetAsync", [](unsigned char* plain) { return rt::MemsetAsync(plain, 1, 64, null_stream); }},
    {"MemPrefetchAsync",
     [](unsigned char* plain) {
         return rt::MemPrefetchAsync(plain, 64, {rt::LocationType::Device, 0}, null_stream);
     }},
    {"MemAdvise",
     [](unsigned char* plain) {
         return rt::MemAdvise(plain, 64, rt::MemoryAdvise::SetReadMostly, {rt::LocationType::Device, 0});
     }},
    {"StreamCreateWithPriority",
     [](unsigned char*) {
         rt::Stream_t stream{};
         return rt::StreamCreateWithPriority(&stream, rt::StreamNonBlocking, 0);
     }},
    {"StreamQuery", [](unsigned char*) { return rt::StreamQuery(null_stream); }},
    {"StreamSynchronize", [](unsigned char*) { return rt::StreamSynchronize(null_stream); }},
    {"StreamGetFlags", [](unsigned char*) { return rt::StreamGetFlags(null_stream, &flags); }},
    {"StreamGetPriority", [](unsigned char*) { return rt::StreamGetPriority(null_stream, &value); }},
    {"EventCreateWithFlags",
     [](unsigned char*) {
         rt::Event_t event{};
         return rt::EventCreateWithFlags(&event, rt::EventDisableTiming);
     }},
};

}  // namespace

extern "C" int ask(const char* name, unsigned char* plain) {
    for (const auto& each : calls) {
        if (std::strcmp(each.name, name) == 0) return static_cast<int>(each.call(plain));
    }
    return -1;
}
