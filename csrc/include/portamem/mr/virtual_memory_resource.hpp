// SPDX-License-Identifier: MIT
// portamem/mr/virtual_memory_resource.hpp: device memory that gets another size at its address, and can sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/mapped_range.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"
#include "portamem/mr/detail/sleeping_contents.hpp"

PORTAMEM_OPEN

/// Says what becomes of the contents of memory that sleeps.
enum class SleepContents {
    Keep,  ///< the host keeps a copy
    Drop,  ///< they are lost: after wake() the memory has undefined contents
};

/// Gives device memory that is mapped to reserved addresses, by MemAddressReserve, MemCreate and MemMap. A block takes
/// whole multiples of the granularity (2 MiB on most devices), and a call costs tens of microseconds, so use it for
/// large memory.
/// - GrowableBuffer grows and shrinks at its address. reallocate keeps the address while the block's addresses suffice.
/// - sleep() gives the memory of every block back to the device, and keeps the addresses; wake() maps new memory there.
/// - It is not stream-ordered: a free, and a resize to fewer bytes, wait for the work of their stream.
class VirtualMemoryResource : public RuntimeMemoryResource {
  public:
    /// Throws Error (NotSupported) on a device without virtual memory.
    /// - reserve: the fewest bytes of addresses that an allocation gets, so that reallocate can grow it in place. They
    ///   cost no memory of the device.
    explicit VirtualMemoryResource(int device, std::size_t reserve = 0)
        : RuntimeMemoryResource(traits_of(device)), granularity_(granularity_of(device)), reserve_(reserve) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<VirtualMemoryResource> create(int device, std::size_t reserve = 0) {
        return detail::shared<VirtualMemoryResource>(device, reserve);
    }

    /// Returns the bytes of which memory is mapped in multiples.
    std::size_t granularity() const noexcept { return granularity_; }
    /// Returns the fewest bytes of addresses that an allocation gets.
    std::size_t reserve() const noexcept { return reserve_; }
    /// Returns the bytes of device memory that all blocks have now: 0 while the resource sleeps.
    std::size_t mapped() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::size_t sum = 0;
        for (const auto& [ptr, range] : ranges_) sum += range->mapped();
        return sum;
    }

    /// Allocates `nbytes` with `capacity` bytes of addresses, for GrowableBuffer. deallocate takes the block back, with
    /// the size that it has then. capacity 0: as many as the device has memory. Throws as allocate does;
    /// std::invalid_argument where nbytes is 0 or more than `capacity`.
    void* allocate_reserved(std::size_t nbytes, std::size_t capacity, const std::shared_ptr<Stream>& stream) {
        if (nbytes == 0) throw std::invalid_argument("a block without bytes has no address to grow at");
        if (capacity == 0) capacity = std::max(nbytes, device_bytes());
        if (nbytes > capacity) refuse_capacity(nbytes, capacity);
        const auto take = [&] {
            return with_room([&] {
                       return allocated(nbytes, *stream, [&] { return Block{map_new(nbytes, capacity), nbytes}; });
                   })
                .ptr;
        };
        if (!detail::is_recording()) return take();
        return recorded(portamem_record_process(), *stream, nullptr, nbytes, kAlignment).allocate(take);
    }

    /// Returns the bytes of addresses that a block has; 0 where the address is not out.
    std::size_t capacity_of(const void* ptr) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const detail::MappedRange* const range = range_at(ptr);
        return range == nullptr ? 0 : range->reserved();
    }
    /// Returns the bytes of device memory that a block has now.
    std::size_t mapped_of(const void* ptr) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const detail::MappedRange* const range = range_at(ptr);
        return range == nullptr ? 0 : range->mapped();
    }

    /// Gives a block that is out another size at its address. The contents stay, as many as both sizes have; the bytes
    /// that are new have undefined contents, and work on any stream may use them at once.
    /// - stream: for fewer bytes, the call waits for its work, because memory goes back to the device. What the runtime
    ///   does not take back stays mapped: mapped_of tells.
    /// - Throws std::invalid_argument for an address that is not out, a size of 0 or past the block's capacity, and
    ///   while the resource sleeps; OutOfMemory and Error. The block has its old size then.
    void resize(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        const std::size_t from = known_at(ptr);
        if (nbytes == 0) throw std::invalid_argument("a block without bytes has no address: close the buffer");
        if (const std::size_t most = capacity_of(ptr); nbytes > most) refuse_capacity(nbytes, most);
        if (nbytes < from) wait_for(*stream);
        const std::size_t mapped = mapped_of(ptr);
        with_room([&] { explained(nbytes > mapped ? nbytes - mapped : 0, [&] { map_again(ptr, nbytes); }); });
        note_resized(ptr, from, nbytes);
        if (detail::is_recording()) record_resized(ptr, from, nbytes, *stream);
    }

    /// Gives the memory of every block back to the device. The addresses stay reserved, and portamem refuses each use
    /// of the blocks until wake(). It waits for all work of the device first. A resource that sleeps already stays so.
    /// - The program must not use the addresses itself meanwhile, and sees to it that no other thread uses the blocks
    ///   during the call.
    /// - Throws Error where the device's work failed, and std::bad_alloc where the host has no memory for the contents:
    ///   the resource is awake then. Where the runtime does not take memory back, the call throws Error too, but the
    ///   resource sleeps, and that memory is not free.
    void sleep(SleepContents contents = SleepContents::Keep) {
        refuse_unusable("sleep");
        Device(device()).synchronize();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_asleep_) return;
        const DeviceGuard guard(device());
        const RelaxedCaptureMode mode;
        detail::SleepingContents kept;
        if (contents == SleepContents::Keep) {
            for (const auto& [ptr, range] : ranges_) kept.add(ptr, known_at(ptr));
        }
        is_asleep_ = true;
        kept_ = std::move(kept);
        std::exception_ptr refused;
        for (const auto& [ptr, range] : ranges_) refused = unmapped(*range, 0, refused);
        if (refused) std::rethrow_exception(refused);
    }

    /// Gives every block memory again, at its address, with the contents that sleep() kept. A resource that is awake
    /// stays so. Throws OutOfMemory and Error; the resource sleeps on then, and has all that it kept.
    void wake() {
        refuse_unusable("wake");
        const auto all = [this] {
            const std::lock_guard<std::mutex> lock(mutex_);
            std::size_t sum = 0;
            for (const auto& [ptr, range] : ranges_) sum += known_at(ptr);
            return sum;
        };
        with_room([&] { explained(all(), [&] { map_all(); }); });
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        return nbytes == 0 ? nullptr : map_new(nbytes, std::max(nbytes, reserve_));
    }

    void call_deallocate(void* ptr, std::size_t, Stream&) override {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = ranges_.find(ptr);
        if (found == ranges_.end()) return;
        found->second->free();
        kept_.drop(ptr);
        ranges_.erase(found);
    }

    void refuse_unknown(void*) const override { detail::refuse_unknown_block(); }

    // A caller that cannot have the size at this address takes other memory, which says why there is none.
    bool do_resize_in_place(void* ptr, std::size_t, std::size_t to,
                            const std::shared_ptr<Stream>& stream) noexcept override {
        try {
            if (to == 0 || to > capacity_of(ptr)) return false;
            resize(ptr, to, stream);
            return true;
        } catch (...) {
            return false;
        }
    }

    bool sleeps() const noexcept override { return is_asleep_.load(std::memory_order_acquire); }

  private:
    static MemoryTraits traits_of(int device) {
        require_virtual_memory(device);
        MemoryTraits t;
        t.kind = ResourceKind::Virtual;
        t.device = device;
        t.may_sleep = true;
        return t;
    }

    static void require_virtual_memory(int device) {
        if (detail::answer(rt::DeviceAttr::VirtualMemoryManagementSupported, Device(device).ordinal())) return;
        throw Error(rt::Error_t::NotSupported, "NotSupported", "MemAddressReserve",
                    "device " + std::to_string(device) +
                        " has no virtual memory (its virtual_memory capability is false): use DeviceMemoryResource");
    }

    static std::size_t granularity_of(int device) {
        std::size_t nbytes = 0;
        check(rt::MemGetAllocationGranularity(&nbytes, {rt::LocationType::Device, device},
                                              rt::MemAllocationGranularity::Recommended),
              "MemGetAllocationGranularity");
        return nbytes;
    }

    [[noreturn]] static void refuse_capacity(std::size_t nbytes, std::size_t capacity) {
        throw std::invalid_argument(std::to_string(nbytes) + " bytes are more than the " + std::to_string(capacity) +
                                    " that addresses are reserved for: ask for a larger capacity");
    }

    void refuse_unusable(const char* what) const {
        refuse_forked();
        if (is_closed()) throw std::invalid_argument(std::string("the memory resource is closed: it cannot ") + what);
    }

    void refuse_sleep() const {
        if (is_asleep_) throw std::invalid_argument("the memory resource sleeps: wake() it first");
    }

    std::size_t known_at(const void* ptr) const {
        if (const auto nbytes = do_size_of(ptr)) return *nbytes;
        detail::refuse_unknown_block();
    }

    std::size_t device_bytes() const {
        const RelaxedCapture beside(device());
        std::size_t free = 0;
        std::size_t total = 0;
        check(rt::MemGetInfo(&free, &total), "MemGetInfo");
        return total;
    }

    void* map_new(std::size_t nbytes, std::size_t capacity) {
        const std::size_t reserve = granules(capacity);
        const std::lock_guard<std::mutex> lock(mutex_);
        refuse_sleep();
        auto range = std::make_unique<detail::MappedRange>(device(), reserve, granularity_);
        range->map_to(nbytes);
        void* const ptr = range->begin();
        ranges_.emplace(ptr, std::move(range));
        return ptr;
    }

    // More bytes than addresses can count stay as they are: the runtime refuses them.
    std::size_t granules(std::size_t nbytes) const noexcept {
        const std::size_t rest = nbytes % granularity_;
        const std::size_t more = rest == 0 ? 0 : granularity_ - rest;
        return nbytes + more < nbytes ? nbytes - rest : nbytes + more;
    }

    void map_again(void* ptr, std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        refuse_sleep();
        detail::MappedRange* const range = range_at(ptr);
        if (range == nullptr) detail::refuse_unknown_block();
        range->map_to(nbytes);
        (void)unmapped(*range, nbytes, nullptr);
    }

    // The caller holds the lock.
    detail::MappedRange* range_at(const void* ptr) const {
        const auto found = ranges_.find(const_cast<void*>(ptr));
        return found == ranges_.end() ? nullptr : found->second.get();
    }

    void map_all() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!is_asleep_) return;
        const DeviceGuard guard(device());
        const RelaxedCaptureMode mode;
        try {
            for (const auto& [ptr, range] : ranges_) range->map_to(known_at(ptr));
            kept_.restore();
        } catch (...) {
            // Memory that the runtime does not take back stays mapped, and the next wake() uses it.
            for (const auto& [ptr, range] : ranges_) (void)unmapped(*range, 0, nullptr);
            throw;
        }
        kept_ = detail::SleepingContents();
        is_asleep_ = false;
    }

    // Gives back the memory behind the first `nbytes`. Returns `before`, or the refusal of this range if that is null.
    static std::exception_ptr unmapped(detail::MappedRange& range, std::size_t nbytes,
                                       std::exception_ptr before) noexcept {
        try {
            range.unmap_to(nbytes);
        } catch (const Error&) {
            return before ? before : std::current_exception();
        }
        return before;
    }

    void record_resized(void* ptr, std::size_t from, std::size_t to, const Stream& stream) {
        recorded(portamem_record_process(), stream, ptr, from, 0).deallocate([] {}, false);
        recorded(portamem_record_process(), stream, nullptr, to, kAlignment).allocate([ptr] { return ptr; });
    }

    const std::size_t granularity_;
    const std::size_t reserve_;
    mutable std::mutex mutex_;  // guards the fields below; held while the runtime maps
    std::unordered_map<void*, std::unique_ptr<detail::MappedRange>> ranges_;
    std::atomic<bool> is_asleep_{false};
    detail::SleepingContents kept_;
};

PORTAMEM_CLOSE
