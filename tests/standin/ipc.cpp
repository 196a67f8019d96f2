// SPDX-License-Identifier: MIT
// ipc.cpp: device memory of another process. The first handle of an allocation moves its bytes into a memfd, at the
// same address; the other process opens that file through /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "../../csrc/host/entry.hpp"
#include "foreign_records.hpp"
#include "ipc.hpp"
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Hold;
using portamem::host::Kind;
using portamem::host::Mapping;
using portamem::host::State;

namespace {

struct Handle {
    char mark[8];
    int process;
    int file;
    int device;
    std::size_t size;    // of the allocation
    std::size_t mapped;  // of the file
    std::size_t offset;
};

constexpr char mark[8] = "standin";
static_assert(sizeof(Handle) <= sizeof(hipIpcMemHandle_t));

struct Opened {
    void* base;
    std::size_t mapped;
};

struct Shared {
    std::mutex mutex;
    std::map<const void*, int> files;      // by base, of allocations that have a handle
    std::map<const void*, Opened> opened;  // by the address that was handed out
};

Shared& shared() {
    static Shared& all = *new Shared;
    return all;
}

bool map_over(char* address, std::size_t size, int protection, int file) {
    return mmap(address, size, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
}

// Puts a file under both addresses of the memory. Nothing is queued that could write meanwhile: the caller has waited.
int move_into_file(const Mapping& mapping) {
    const int file = memfd_create("standin-ipc", MFD_CLOEXEC);
    if (file < 0) return -1;
    const auto size = static_cast<ssize_t>(mapping.size());
    const bool moved = pwrite(file, mapping.alias(), mapping.size(), 0) == size &&
                       map_over(mapping.alias(), mapping.size(), PROT_READ | PROT_WRITE, file) &&
                       (mapping.user() == mapping.alias() || map_over(mapping.user(), mapping.size(), PROT_NONE, file));
    if (moved) return file;
    (void)close(file);
    return -1;
}

hipError_t make_handle(Handle* handle, void* ptr) {
    const auto memory = known(ptr);
    if (!memory || memory->kind != Kind::Device || !memory->is_freeable) return hipErrorInvalidDevicePointer;
    wait_for_device(memory->device);
    const std::lock_guard<std::mutex> lock(shared().mutex);
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    const auto record = state.allocations.starting_at(memory->base);
    if (record == nullptr) return hipErrorInvalidDevicePointer;
    auto file = shared().files.find(memory->base);
    if (file == shared().files.end()) {
        const int made = move_into_file(*record->mapping);
        if (made < 0) return hipErrorOutOfMemory;
        file = shared().files.emplace(memory->base, made).first;
    }
    *handle = {};
    std::memcpy(handle->mark, mark, sizeof mark);
    handle->process = getpid();
    handle->file = file->second;
    handle->device = record->device;
    handle->size = record->size;
    handle->mapped = record->mapping->size();
    handle->offset = static_cast<std::size_t>(static_cast<char*>(ptr) - record->base);
    return hipSuccess;
}

hipError_t open_handle(void** ptr, const Handle& handle) {
    if (std::memcmp(handle.mark, mark, sizeof mark) != 0) return hipErrorInvalidValue;
    if (handle.process == getpid()) return hipErrorInvalidContext;
    char path[64];
    (void)std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return hipErrorInvalidDevicePointer;
    void* base = mmap(nullptr, handle.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    (void)close(file);
    if (base == MAP_FAILED) return hipErrorOutOfMemory;
    add_device_record(base, handle.size, handle.device);
    *ptr = static_cast<char*>(base) + (has(Quirk::IpcLosesOffset) ? 0 : handle.offset);
    const std::lock_guard<std::mutex> lock(shared().mutex);
    shared().opened[*ptr] = {base, handle.mapped};
    return hipSuccess;
}

}  // namespace

void standin::stop_sharing(const void* base) {
    const std::lock_guard<std::mutex> lock(shared().mutex);
    const auto found = shared().files.find(base);
    if (found == shared().files.end()) return;
    (void)close(found->second);
    shared().files.erase(found);
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* ptr) {
    if (handle == nullptr || ptr == nullptr) return answer(hipErrorInvalidValue);
    Handle made;
    const hipError_t error = make_handle(&made, ptr);
    if (error == hipSuccess) std::memcpy(handle, &made, sizeof made);
    return answer(error);
}

hipError_t hipIpcOpenMemHandle(void** ptr, hipIpcMemHandle_t handle, unsigned flags) {
    if (ptr == nullptr || flags != hipIpcMemLazyEnablePeerAccess) return answer(hipErrorInvalidValue);
    Handle given;
    std::memcpy(&given, &handle, sizeof given);
    return answer(open_handle(ptr, given));
}

hipError_t hipIpcCloseMemHandle(void* ptr) {
    int device = 0;
    if (const pmhError_t error = pmhGetDevice(&device); error != pmhSuccess) return answer(error);
    wait_for_device(device);
    const std::lock_guard<std::mutex> lock(shared().mutex);
    const auto found = shared().opened.find(ptr);
    if (found == shared().opened.end()) return answer(hipErrorInvalidValue);
    erase_record(found->second.base);
    (void)munmap(found->second.base, found->second.mapped);
    shared().opened.erase(found);
    return answer(hipSuccess);
}
