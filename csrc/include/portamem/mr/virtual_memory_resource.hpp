// SPDX-License-Identifier: MIT
// portamem/mr/virtual_memory_resource.hpp: device memory that gets another size at its address, and can sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/capture.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/device.hpp"
#include "portamem/mr/detail/mapped_range.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"
#include "portamem/mr/detail/sleeping_contents.hpp"

PORTAMEM_OPEN

/// Says what becomes of the contents of memory that sleeps.
enum class SleepContents {
    Keep,  ///< the host keeps a copy; of a pool's chunk, of what the pool has out
    Drop,  ///< they are lost: after wake() the memory has undefined contents
};

/// Gives device memory that is mapped to reserved addresses, by MemAddressReserve, MemCreate and MemMap. A block takes
/// whole multiples of the granularity, 2 MiB on most devices, and each piece that is mapped costs about 0.1 ms. So use
/// it for large memory.
/// - GrowableBuffer grows and shrinks at its address. reallocate keeps the address while the block's addresses suffice.
/// - sleep() gives the memory of every block back to the device, and keeps the addresses; wake() maps new memory there.
/// - set_access opens all its memory to another device, for copies between the two and for kernels there.
/// - It is not stream-ordered: a free, and a resize to fewer bytes, wait for the work of their stream.
class VirtualMemoryResource : public RuntimeMemoryResource {
  public:
    /// Throws Error (NotSupported) on a device without virtual memory.
    /// - reserve: the fewest bytes of addresses that an allocation gets, so that reallocate can grow it in place. They
    ///   cost no memory of the device.
    explicit VirtualMemoryResource(int device, std::size_t reserve = 0)
        : RuntimeMemoryResource(traits_of(device)), granularity_(traits().granularity), reserve_(reserve) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<VirtualMemoryResource> create(int device, std::size_t reserve = 0) {
        return detail::shared<VirtualMemoryResource>(device, reserve);
    }

    /// Returns the granularity in bytes: memory is mapped in multiples of it.
    std::size_t granularity() const noexcept { return granularity_; }
    /// Returns the fewest bytes of addresses that an allocation gets.
    std::size_t reserve() const noexcept { return reserve_; }
    /// Returns the bytes of device memory that all blocks have now. While the resource sleeps that is 0, and what the
    /// runtime did not take back.
    std::size_t mapped() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::size_t sum = 0;
        for (const auto& [ptr, block] : blocks_) sum += block.range->mapped();
        return sum;
    }

    /// Returns the bytes of host memory that keep the contents while the resource sleeps; 0 while it is awake.
    std::size_t kept() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return kept_.nbytes();
    }

    /// Allocates `nbytes` with `capacity` bytes of addresses, for GrowableBuffer. capacity 0: as many bytes as the
    /// device has memory. deallocate takes the block back, with the size that it has then. Throws as allocate does, and
    /// std::invalid_argument where nbytes is 0 or more than `capacity`.
    void* allocate_reserved(std::size_t nbytes, std::size_t capacity, const std::shared_ptr<Stream>& stream) {
        if (nbytes == 0)
            throw std::invalid_argument("a block without bytes has no address to grow at: ask for at least 1 byte");
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
        const auto found = blocks_.find(const_cast<void*>(ptr));
        return found == blocks_.end() ? 0 : found->second.range->reserved();
    }
    /// Returns the bytes of device memory that a block has now; 0 where the address is not out.
    std::size_t mapped_of(const void* ptr) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(const_cast<void*>(ptr));
        return found == blocks_.end() ? 0 : found->second.range->mapped();
    }

    /// Changes the size of a block at its address, for a program that allocated it without a buffer; a GrowableBuffer
    /// has a resize of its own. The bytes that both sizes have keep their contents. New bytes have undefined contents,
    /// and work on any stream may use them at once.
    /// - stream: for fewer bytes, the call waits for its work, because memory goes back to the device. Memory that the
    ///   runtime does not take back stays mapped: mapped_of tells.
    /// - Throws std::invalid_argument for an address that is not out, a size of 0 or past the block's capacity, and
    ///   while the resource sleeps; OutOfMemory, Error and std::bad_alloc. The block has its old size then.
    void resize(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        if (ptr == nullptr || nbytes == 0)
            throw std::invalid_argument("a block without bytes has no address to grow at: give it at least 1 byte");
        const std::size_t from = known_at(ptr);
        if (const std::size_t most = capacity_of(ptr); nbytes > most) refuse_capacity(nbytes, most);
        if (nbytes < from) wait_for(*stream);
        auto blank = detail::LiveBlocks::blank();
        const std::size_t mapped = mapped_of(ptr);
        with_room([&] { explained(nbytes > mapped ? nbytes - mapped : 0, [&] { map_again(ptr, nbytes); }); });
        note_resized(std::move(blank), ptr, from, nbytes);
        if (detail::is_recording()) record_resized(ptr, from, nbytes, *stream);
    }

    /// Gives the memory of every block back to the device. The addresses stay reserved, and portamem refuses each use
    /// of the blocks' bytes until wake(); giving blocks back is allowed. It waits for all work of the device first. A
    /// resource that sleeps already stays so. Under PORTAMEM_DEBUG contents are always kept, because redzones are among
    /// them.
    /// - The program sees to it that no work uses the blocks from here to wake(): neither by their addresses, nor by
    ///   operations of other threads during the call. Other threads may allocate of this
    ///   resource and give back; they wait meanwhile. A pool over it still hands out what it has at hand.
    /// - Throws Error where the device's work failed, std::bad_alloc where the host has no memory for the contents, and
    ///   std::invalid_argument within a capture or when closed: the resource is awake then. Where the runtime does not
    ///   take memory back, the call throws Error too, but the resource sleeps, and the device does not have that memory
    ///   free.
    void sleep(SleepContents contents = SleepContents::Keep) {
        refuse_unusable("sleep");
        Device(device()).synchronize();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_asleep_) return;
        const RelaxedCapture beside(device());
        detail::SleepingContents kept;
        if (contents == SleepContents::Keep || detail::debug_on) {
            for (const auto& [ptr, block] : blocks_)
                kept.add(ptr, block.nbytes, block.range->mapped(), detail::debug_on);
        }
        is_asleep_ = true;
        kept_ = std::move(kept);
        counted(-static_cast<std::int64_t>(nbytes_of_all()));
        std::exception_ptr refused;
        for (const auto& [ptr, block] : blocks_) refused = first_refusal(*block.range, 0, refused);
        if (refused) std::rethrow_exception(refused);
    }

    /// Gives every block memory again, at its address, with the contents that sleep() kept. A resource that is awake
    /// stays so. Throws OutOfMemory and Error, and std::invalid_argument within a capture or when closed. The resource
    /// then still sleeps, and still has the contents that it kept.
    void wake() {
        refuse_unusable("wake");
        detail::refuse_in_capture("waking memory");
        const auto asked = [this] {
            const std::lock_guard<std::mutex> lock(mutex_);
            return nbytes_of_all();
        };
        with_room([&] { explained(asked(), [&] { map_all(); }); });
    }

    /// Returns the access that a device has to the resource's memory. Throws std::invalid_argument for an ordinal
    /// without a device, and if the resource is closed.
    rt::MemAccessFlags access(int device) const {
        refuse_unusable("tell of access");
        const int ordinal = Device(device).ordinal();
        if (ordinal == this->device()) return rt::MemAccessFlags::ReadWrite;
        const std::lock_guard<std::mutex> lock(mutex_);
        return access_of(ordinal);
    }

    /// Sets the access that another device has to the memory that the resource has out, and to all that it maps later;
    /// the resource's own device always has it. A resource that sleeps remembers it. The program sees to it that no
    /// work uses memory to which it takes access away.
    /// - Throws std::invalid_argument where the device cannot reach the resource's device, for less than ReadWrite on
    ///   the resource's own device, for an ordinal without a device, and if the resource is closed. Throws Error if the
    ///   runtime refuses, and std::bad_alloc. The device has the access then that it had before, as far as the runtime
    ///   gives it back.
    void set_access(int device, rt::MemAccessFlags flags) {
        refuse_unusable("set access");
        const Device other(device);
        if (device == this->device()) return refuse_less(flags);
        const bool is_reached = flags == rt::MemAccessFlags::None || other.can_access_peer(Device(this->device()));
        if (!is_reached) refuse_unreached(device, this->device());
        const std::lock_guard<std::mutex> lock(mutex_);
        const detail::DeviceAccess before{device, access_of(device)};
        if (before.flags == flags) return;
        const RelaxedCapture beside(this->device());
        detail::LightVector<detail::DeviceAccess> others = others_;
        others.erase_if([&](const detail::DeviceAccess& each) { return each.device == device; });
        if (flags != rt::MemAccessFlags::None) others.push_back({device, flags});
        try_access(others);
        try {
            for (const auto& [ptr, block] : blocks_) block.range->set_access({device, flags});
        } catch (...) {
            for (const auto& [ptr, block] : blocks_) give_back_access(*block.range, before);
            throw;
        }
        others_.swap(others);
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        return nbytes == 0 ? nullptr : map_new(nbytes, std::max(nbytes, reserve_));
    }

    void call_deallocate(void* ptr, std::size_t, Stream&) override {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(ptr);
        if (found == blocks_.end()) return;
        found->second.range->free();
        kept_.drop(ptr);
        if (is_asleep_) counted(static_cast<std::int64_t>(found->second.nbytes));  // sleep() has counted it as back
        blocks_.erase(found);
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
        t.granularity = granularity_of(device);
        return t;
    }

    static void require_virtual_memory(int device) {
        if (detail::answer(rt::DeviceAttr::VirtualMemoryManagementSupported, Device(device).ordinal())) return;
        throw Error(rt::Error_t::NotSupported, "NotSupported", "MemAddressReserve",
                    "device " + std::to_string(device) +
                        " has no virtual memory (its virtual_memory capability is not true): use DeviceMemoryResource");
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

    [[noreturn]] static void refuse_unreached(int device, int memory) {
        throw std::invalid_argument("device " + std::to_string(device) + " cannot reach memory of device " +
                                    std::to_string(memory) +
                                    " (its peers capability does not have it): copy through host memory");
    }

    static void refuse_less(rt::MemAccessFlags flags) {
        if (flags == rt::MemAccessFlags::ReadWrite) return;
        throw std::invalid_argument("the resource's own device always reads and writes its memory: name another");
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
        detail::Owned range(new detail::MappedRange(device(), reserve, granularity_));
        range->map_to(nbytes, others_);
        void* const ptr = range->begin();
        blocks_[ptr] = Mapped{std::move(range), nbytes};
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
        const auto found = blocks_.find(ptr);
        if (found == blocks_.end()) detail::refuse_unknown_block();
        const RelaxedCapture beside(device());
        found->second.range->map_to(nbytes, others_);
        found->second.nbytes = nbytes;
        (void)first_refusal(*found->second.range, nbytes, nullptr);
    }

    void map_all() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!is_asleep_) return;
        const RelaxedCapture beside(device());
        try {
            for (const auto& [ptr, block] : blocks_) block.range->map_to(block.nbytes, others_);
            kept_.restore();
        } catch (...) {
            // Memory that the runtime does not take back stays mapped, and the next wake() uses it.
            for (const auto& [ptr, block] : blocks_) (void)first_refusal(*block.range, 0, nullptr);
            throw;
        }
        kept_ = detail::SleepingContents();
        is_asleep_ = false;
        counted(static_cast<std::int64_t>(nbytes_of_all()));
    }

    // Returns the access of another device. The caller holds the lock.
    rt::MemAccessFlags access_of(int device) const noexcept {
        for (const detail::DeviceAccess& each : others_) {
            if (each.device == device) return each.flags;
        }
        return rt::MemAccessFlags::None;
    }

    // Where no memory is mapped, asks the runtime with a piece of its own: a refusal then comes now, and not with the
    // next allocation. Where the device has no memory for that, the next allocation tells.
    void try_access(const detail::LightVector<detail::DeviceAccess>& others) const {
        for (const auto& [ptr, block] : blocks_) {
            if (block.range->mapped() != 0) return;
        }
        try {
            detail::MappedRange(device(), granularity_, granularity_).map_to(granularity_, others);
        } catch (const OutOfMemory&) {
        }
    }

    static void give_back_access(detail::MappedRange& range, const detail::DeviceAccess& before) noexcept {
        try {
            range.set_access(before);
        } catch (...) {
        }
    }

    // Returns the bytes that all blocks have, whether they sleep or not. The caller holds the lock.
    std::size_t nbytes_of_all() const noexcept {
        std::size_t sum = 0;
        for (const auto& [ptr, block] : blocks_) sum += block.nbytes;
        return sum;
    }

    // Gives back the memory behind the first `nbytes`. Returns `before`, or the refusal of this range if that is null.
    static std::exception_ptr first_refusal(detail::MappedRange& range, std::size_t nbytes,
                                            std::exception_ptr before) noexcept {
        try {
            range.unmap_to(nbytes);
        } catch (...) {
            return before ? before : std::current_exception();
        }
        return before;
    }

    void record_resized(void* ptr, std::size_t from, std::size_t to, const Stream& stream) {
        recorded(portamem_record_process(), stream, ptr, from, 0).deallocate([] {}, false);
        recorded(portamem_record_process(), stream, nullptr, to, kAlignment).allocate([ptr] { return ptr; });
    }

    // A block from its mapping to the end of its free. The base class knows the blocks that are out, a few fewer.
    struct Mapped {
        detail::Owned<detail::MappedRange> range;
        std::size_t nbytes = 0;
    };

    const std::size_t granularity_;
    const std::size_t reserve_;
    // Guards the fields below. It is held while the runtime maps, and while sleep() and wake() copy, which wait for the
    // device: a host function of the program must not wait for a thread that allocates here.
    mutable std::mutex mutex_;
    detail::NumberMap<void*, Mapped> blocks_;
    detail::LightVector<detail::DeviceAccess> others_;  // each other device that has access
    std::atomic<bool> is_asleep_{false};
    detail::SleepingContents kept_;
};

PORTAMEM_CLOSE
