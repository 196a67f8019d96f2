// SPDX-License-Identifier: MIT
// host/virtual_memory.cpp: reserves addresses, creates memory, maps the one to the other and gives access.
#include "virtual_memory.hpp"

#include <iterator>
#include <utility>

#include "entry.hpp"
#include "memory.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

std::uintptr_t address_of(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }

// Whether a range shares a byte with another. Neither is empty, and no sum is made that could overflow.
bool overlap(std::uintptr_t a, std::size_t a_size, std::uintptr_t b, std::size_t b_size) {
    return a < b ? b - a < a_size : a - b < b_size;
}

// Returns the last range that begins before the end of [begin, begin + size), or the end.
template <class Ranges>
auto last_before_end(const Ranges& ranges, std::uintptr_t begin, std::size_t size) {
    const std::uintptr_t last = size - 1 > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + (size - 1);
    const auto after = ranges.upper_bound(last);
    return after == ranges.begin() ? ranges.end() : std::prev(after);
}

}  // namespace

// ---- addresses ----

void* VirtualMemory::reserve(std::size_t size, std::size_t alignment, bool guarded) {
    auto reservation = std::make_shared<Reservation>(size, alignment < granule ? granule : alignment, guarded);
    char* const base = reservation->user();
    reservations_.emplace(address_of(base), std::move(reservation));
    note_reserved(base, size);
    return base;
}

void VirtualMemory::free(Hold& hold, void* ptr, std::size_t size) {
    const auto found = reservations_.find(address_of(ptr));
    if (found == reservations_.end() || found->second->size() != size)
        refuse(pmhErrorInvalidValue, "no range of %zu bytes is reserved at %p", size, ptr);
    if (const auto piece = piece_within(ptr, size); piece != pieces_.end())
        refuse(pmhErrorInvalidValue, "memory is mapped at %p, within the range: MemUnmap comes first",
               reinterpret_cast<void*>(piece->first));
    hold.release(found->second);  // first, because only this may need host memory
    reservations_.erase(found);
}

bool VirtualMemory::is_reserved(const void* ptr, std::size_t size) const {
    if (size == 0) return false;
    const auto found = last_before_end(reservations_, address_of(ptr), size);
    return found != reservations_.end() && overlap(found->first, found->second->size(), address_of(ptr), size);
}

const std::shared_ptr<Reservation>& VirtualMemory::reservation_around(const void* ptr, std::size_t size) const {
    const auto found = last_before_end(reservations_, address_of(ptr), 1);
    if (found == reservations_.end() || address_of(ptr) - found->first >= found->second->size() ||
        size > found->second->size() - (address_of(ptr) - found->first))
        refuse(pmhErrorInvalidValue, "the %zu bytes at %p are not within one reserved range", size, ptr);
    return found->second;
}

// ---- physical memory ----

VirtualMemory::Handle VirtualMemory::create(State& state, Hold& hold, Device& device, std::size_t size) {
    take_memory(state, hold, device, size, size);
    try {
        const auto handle = reinterpret_cast<Handle>(next_handle_);
        handles_.emplace(handle, std::make_shared<PhysicalMemory>(file_, size, device.ordinal));
        ++next_handle_;
        return handle;
    } catch (...) {
        device.reserved -= size;
        throw;
    }
}

void VirtualMemory::release(State& state, Hold& hold, Handle handle) {
    const auto found = handles_.find(handle);
    if (found == handles_.end())
        refuse(pmhErrorInvalidValue, "%p is no handle of memory: it was released already, or never given",
               static_cast<void*>(handle));
    hold.make_room();
    auto memory = std::move(found->second);
    handles_.erase(found);
    let_go(state, hold, std::move(memory));
}

// Ends one use of memory. With the last one the device has its bytes back; the pages go once the lock is free.
void VirtualMemory::let_go(State& state, Hold& hold, std::shared_ptr<PhysicalMemory> memory) {
    if (--memory->uses != 0) return;
    device_of(state, memory->device).reserved -= memory->size;
    hold.release(std::move(memory));
}

// ---- mappings ----

// Returns a piece that shares a byte with a range, or the end.
VirtualMemory::Pieces::const_iterator VirtualMemory::piece_within(const void* ptr, std::size_t size) const {
    const auto found = last_before_end(pieces_, address_of(ptr), size);
    if (found == pieces_.end()) return found;
    return overlap(found->first, found->second.memory->size, address_of(ptr), size) ? found : pieces_.end();
}

const VirtualMemory::Piece* VirtualMemory::piece_at(const void* ptr) const {
    const auto found = piece_within(ptr, 1);
    return found == pieces_.end() ? nullptr : &found->second;
}

void VirtualMemory::map(const State& state, void* ptr, std::size_t size, Handle handle) {
    const auto found = handles_.find(handle);
    if (found == handles_.end())
        refuse(pmhErrorInvalidValue, "%p is no handle of memory: it was released, or never given",
               static_cast<void*>(handle));
    const std::shared_ptr<PhysicalMemory>& memory = found->second;
    if (memory->size != size)
        refuse(pmhErrorInvalidValue, "all %zu bytes of the memory are mapped at once, not %zu", memory->size, size);
    const std::shared_ptr<Reservation>& reservation = reservation_around(ptr, size);
    if (const auto piece = piece_within(ptr, size); piece != pieces_.end())
        refuse(pmhErrorInvalidValue, "memory is mapped at %p already", reinterpret_cast<void*>(piece->first));
    Piece piece{reservation, memory, std::vector<bool>(state.devices.size())};
    const auto entered = pieces_.emplace(address_of(ptr), std::move(piece)).first;
    try {
        reservation->map(reservation->offset_of(ptr), size, memory->file, memory->file_offset);
    } catch (...) {
        pieces_.erase(entered);
        throw;
    }
    ++memory->uses;
}

void VirtualMemory::unmap(State& state, Hold& hold, void* ptr, std::size_t size) {
    const auto found = pieces_.find(address_of(ptr));
    if (found == pieces_.end() || found->second.memory->size != size)
        refuse(pmhErrorInvalidValue, "the %zu bytes at %p are not what one MemMap put there", size, ptr);
    hold.make_room();
    Reservation& reservation = *found->second.reservation;
    reservation.unmap(reservation.offset_of(ptr), size);
    take_access(state, found, std::next(found), found->second.memory->device);
    auto memory = std::move(found->second.memory);
    pieces_.erase(found);
    let_go(state, hold, std::move(memory));
}

// ---- access ----

// Returns the end of the pieces of one reservation that together have so many bytes, without a gap.
VirtualMemory::Pieces::iterator VirtualMemory::end_of_pieces(Pieces::iterator first, std::size_t size) {
    auto piece = first;
    std::uintptr_t at = first->first;
    while (size != 0 && piece != pieces_.end() && piece->first == at &&
           piece->second.reservation == first->second.reservation && piece->second.memory->size <= size) {
        size -= piece->second.memory->size;
        at += piece->second.memory->size;
        ++piece;
    }
    if (size != 0)
        refuse(pmhErrorInvalidValue, "the range is not a row of whole mappings: %zu bytes at %p are not", size,
               reinterpret_cast<void*>(at));
    return piece;
}

void VirtualMemory::set_access(State& state, void* ptr, std::size_t size, int device, bool accessible) {
    (void)reservation_around(ptr, size);
    const auto first = pieces_.find(address_of(ptr));
    if (first == pieces_.end()) refuse(pmhErrorInvalidValue, "no mapping begins at %p", ptr);
    const auto last = end_of_pieces(first, size);
    if (accessible) return give_access(state, first, last, device);
    take_access(state, first, last, device);
}

std::shared_ptr<Allocation> VirtualMemory::make_record(Pieces::const_reference piece) {
    const Reservation& reservation = *piece.second.reservation;
    auto record = std::make_shared<Allocation>();
    record->kind = Kind::Virtual;
    record->base = reinterpret_cast<char*>(piece.first);
    record->alias = reservation.alias() + reservation.offset_of(record->base);
    record->size = piece.second.memory->size;
    record->device = piece.second.memory->device;
    record->mapping = piece.second.reservation;
    return record;
}

void VirtualMemory::give_access(State& state, Pieces::iterator first, Pieces::iterator last, int device) {
    std::vector<std::shared_ptr<Allocation>> records;
    try {
        for (auto piece = first; piece != last; ++piece) {
            if (piece->second.memory->device != device || piece->second.has_record()) continue;
            records.push_back(make_record(*piece));
            state.allocations.insert(records.back());
            note_new(records.back()->base, records.back()->size);
        }
    } catch (...) {
        for (const auto& record : records) state.allocations.erase(*record);
        throw;
    }
    for (auto piece = first; piece != last; ++piece) piece->second.access[static_cast<std::size_t>(device)] = true;
}

void VirtualMemory::take_access(State& state, Pieces::iterator first, Pieces::iterator last, int device) {
    for (auto piece = first; piece != last; ++piece) {
        if (piece->second.memory->device == device && piece->second.has_record()) {
            const auto record = state.allocations.starting_at(reinterpret_cast<void*>(piece->first));
            note_free(record->base, record->size);
            state.allocations.erase(*record);
        }
        piece->second.access[static_cast<std::size_t>(device)] = false;
    }
}

bool VirtualMemory::has_access(const void* ptr, int device) const {
    const Piece* const piece = piece_at(ptr);
    return piece != nullptr && piece->access[static_cast<std::size_t>(device)];
}

}  // namespace portamem::host
