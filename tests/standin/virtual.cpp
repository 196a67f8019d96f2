// SPDX-License-Identifier: MIT
// virtual.cpp: virtual memory over memfd: ranges of addresses, pieces of memory, and the one mapped into the other.
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include "foreign_records.hpp"
#include "standin.hpp"

using namespace standin;

namespace {

constexpr std::size_t granule = 4096;  // up to 6.x one number for both (ROCm/clr hipamd/src/hip_vm.cpp)
constexpr std::size_t recommended = HIP_VERSION_MAJOR >= 7 ? std::size_t{2} << 20 : granule;

struct Memory {
    Memory(std::size_t size_, int device_) : file(memfd_create("standin", MFD_CLOEXEC)), size(size_), device(device_) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    const int file;
    const std::size_t size;
    const int device;

    ~Memory() {
        (void)close(file);
        give_memory_back(device, size);
    }
};

struct Piece {
    std::size_t size;
    std::shared_ptr<Memory> memory;
    std::set<int> devices;  // that have access

    bool is_open() const { return devices.count(memory->device) != 0; }
};

struct Spaces {
    std::mutex mutex;
    std::map<char*, std::size_t> reserved;
    std::map<char*, Piece> mapped;
    std::map<void*, std::shared_ptr<Memory>> handles;

    // The reservation that holds a range, or the end.
    auto around(char* ptr, std::size_t size) {
        auto found = reserved.upper_bound(ptr);
        if (found == reserved.begin()) return reserved.end();
        --found;
        const auto offset = static_cast<std::size_t>(ptr - found->first);
        return offset < found->second && size <= found->second - offset ? found : reserved.end();
    }

    // True where the pieces from one on are together exactly so large.
    bool covers(std::map<char*, Piece>::const_iterator piece, std::size_t size) const {
        std::size_t total = 0;
        for (; piece != mapped.end() && total < size; ++piece) {
            total += piece->second.size;
            const auto next = std::next(piece);
            if (total < size && next != mapped.end() && next->first != piece->first + piece->second.size) return false;
        }
        return total == size;
    }
};

Spaces& spaces() {
    static Spaces& all = *new Spaces;
    return all;
}

using Lock = std::lock_guard<std::mutex>;

bool is_device(int device) {
    int value = 0;
    return pmhDeviceGetAttribute(&value, pmhDevAttrWarpSize, device) == pmhSuccess;
}

bool is_of_device(const hipMemAllocationProp* prop) {
    return prop != nullptr && prop->type == hipMemAllocationTypePinned &&
           prop->location.type == hipMemLocationTypeDevice && is_device(prop->location.id);
}

bool is_whole(std::size_t size) { return size != 0 && size % granule == 0; }

std::shared_ptr<Memory> make_memory(std::size_t size, int device) {
    if (!reserve_memory(device, size)) return nullptr;
    auto memory = std::make_shared<Memory>(size, device);
    return memory->file >= 0 && ftruncate(memory->file, static_cast<off_t>(size)) == 0 ? memory : nullptr;
}

void* map_at(void* address, std::size_t size, int protection, int flags, int file) {
    void* mapped = mmap(address, size, protection, flags | MAP_NORESERVE, file, 0);
    return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

hipError_t hipMemGetAllocationGranularity(std::size_t* granularity, const hipMemAllocationProp* prop,
                                          hipMemAllocationGranularity_flags option) {
    if (granularity == nullptr || !is_of_device(prop)) return answer(hipErrorInvalidValue);
    *granularity = option == hipMemAllocationGranularityRecommended ? recommended : granule;
    return answer(hipSuccess);
}

hipError_t hipMemAddressReserve(void** ptr, std::size_t size, std::size_t, void*, unsigned long long flags) {
    if (ptr == nullptr || flags != 0) return answer(hipErrorInvalidValue);
    if (!is_whole(size)) return answer(hipErrorOutOfMemory);
    *ptr = map_at(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (*ptr == nullptr) return answer(hipErrorOutOfMemory);
    const Lock lock(spaces().mutex);
    spaces().reserved[static_cast<char*>(*ptr)] = size;
    return answer(hipSuccess);
}

hipError_t hipMemAddressFree(void* ptr, std::size_t size) {
    const Lock lock(spaces().mutex);
    const auto found = spaces().reserved.find(static_cast<char*>(ptr));
    if (found == spaces().reserved.end() || found->second != size) return answer(hipErrorInvalidValue);
    const auto piece = spaces().mapped.lower_bound(found->first);
    if (piece != spaces().mapped.end() && piece->first < found->first + size) return answer(hipErrorInvalidValue);
    spaces().reserved.erase(found);
    (void)munmap(ptr, size);
    return answer(hipSuccess);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, std::size_t size, const hipMemAllocationProp* prop,
                        unsigned long long flags) {
    if (handle == nullptr || flags != 0 || !is_whole(size) || !is_of_device(prop)) return answer(hipErrorInvalidValue);
    auto memory = make_memory(size, prop->location.id);
    if (memory == nullptr) return answer(hipErrorOutOfMemory);
    *handle = reinterpret_cast<hipMemGenericAllocationHandle_t>(memory.get());
    const Lock lock(spaces().mutex);
    spaces().handles.emplace(memory.get(), memory);
    return answer(hipSuccess);
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
    const Lock lock(spaces().mutex);
    return answer(spaces().handles.erase(handle) == 1 ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipMemMap(void* ptr, std::size_t size, std::size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags) {
    char* address = static_cast<char*>(ptr);
    const Lock lock(spaces().mutex);
    const auto found = spaces().handles.find(handle);
    if (found == spaces().handles.end() || offset != 0 || flags != 0 || size != found->second->size ||
        spaces().around(address, size) == spaces().reserved.end())
        return answer(hipErrorInvalidValue);
    const auto next = spaces().mapped.lower_bound(address);
    if (next != spaces().mapped.end() && next->first < address + size) return answer(hipErrorInvalidValue);
    if (next != spaces().mapped.begin() && std::prev(next)->first + std::prev(next)->second.size > address)
        return answer(hipErrorInvalidValue);
    if (map_at(ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second->file) == nullptr)
        return answer(hipErrorOutOfMemory);
    spaces().mapped[address] = {size, found->second, {}};
    return answer(hipSuccess);
}

hipError_t hipMemSetAccess(void* ptr, std::size_t size, const hipMemAccessDesc* descriptions, std::size_t count) {
    if (ptr == nullptr || size == 0 || descriptions == nullptr || count == 0) return answer(hipErrorInvalidValue);
    for (std::size_t i = 0; i < count; ++i)
        if (!is_device(descriptions[i].location.id)) return answer(hipErrorInvalidValue);
    char* address = static_cast<char*>(ptr);
    const Lock lock(spaces().mutex);
    const auto first = spaces().mapped.find(address);
    if (first == spaces().mapped.end() || !spaces().covers(first, size)) return answer(hipErrorInvalidValue);
    if (has(Quirk::SetAccessFailsOnTail)) {
        // The sum is taken from the reservation's first piece, wherever the range begins.
        const auto reservation = spaces().around(address, size);
        const auto whole = spaces().mapped.lower_bound(reservation->first);
        if (!spaces().covers(whole, size)) return answer(hipErrorInvalidValue);
    }
    // Copies do not ask who has access: the runtime below takes what it did not map itself as open to all devices.
    for (auto piece = first; piece != spaces().mapped.end() && piece->first < address + size; ++piece) {
        Piece& each = piece->second;
        const bool was_open = each.is_open();
        if (descriptions[0].flags == hipMemAccessFlagsProtReadWrite) {
            each.devices.insert(descriptions[0].location.id);
        } else {
            each.devices.erase(descriptions[0].location.id);
        }
        if (each.is_open() == was_open) continue;
        (void)mprotect(piece->first, each.size, was_open ? PROT_NONE : PROT_READ | PROT_WRITE);
        if (was_open) {
            erase_record(piece->first);
        } else {
            add_device_record(piece->first, each.size, each.memory->device);
        }
    }
    return answer(hipSuccess);
}

hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location, void* ptr) {
    if (flags == nullptr || location == nullptr || !is_device(location->id)) return answer(hipErrorInvalidValue);
    const Lock lock(spaces().mutex);
    auto found = spaces().mapped.upper_bound(static_cast<char*>(ptr));
    if (found == spaces().mapped.begin()) return answer(hipErrorInvalidValue);
    --found;
    if (static_cast<char*>(ptr) >= found->first + found->second.size) return answer(hipErrorInvalidValue);
    const bool is_reached = found->second.devices.count(location->id) != 0;
    *flags = is_reached ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
    return answer(hipSuccess);
}

hipError_t hipMemUnmap(void* ptr, std::size_t size) {
    const Lock lock(spaces().mutex);
    const auto found = spaces().mapped.find(static_cast<char*>(ptr));
    if (found == spaces().mapped.end() || found->second.size != size) return answer(hipErrorInvalidValue);
    if (found->second.is_open()) erase_record(ptr);
    (void)map_at(ptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    spaces().mapped.erase(found);
    return answer(hipSuccess);
}
