// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/own.hpp: portamem's pool over what it stands on, and the C++ library's allocators.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

#include "portamem/portamem.hpp"
#include "work.hpp"

namespace table {

namespace pm = portamem;

/// Counts what goes through it: the most that the pool above it had of the runtime's memory.
class Upstream final : public pm::ResourceAdaptor {
  public:
    explicit Upstream(std::shared_ptr<pm::MemoryResource> of) : ResourceAdaptor(std::move(of)) {}
    std::size_t peak() const { return static_cast<std::size_t>(peak_.load()); }

  protected:
    void counted(std::int64_t delta) noexcept override {
        const std::int64_t now = held_.fetch_add(delta) + delta;
        std::int64_t before = peak_.load();
        while (now > before && !peak_.compare_exchange_weak(before, now)) {
        }
    }

  private:
    std::atomic<std::int64_t> held_{0};
    std::atomic<std::int64_t> peak_{0};
};

/// Device memory that is addresses only: nobody can touch it, and it takes none of the machine's. No address is given out
/// twice, so that millions of requests need one reservation.
class AddressSpace final : public pm::CountedMemoryResource {
  public:
    explicit AddressSpace(int device)
        : CountedMemoryResource(traits(device)),
          begin_(mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (begin_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~AddressSpace() override { munmap(begin_, kReserved); }

  protected:
    void* take(std::size_t nbytes, const std::shared_ptr<pm::Stream>&, pm::AllocateOptions) override {
        if (nbytes == 0) return nullptr;
        const std::size_t rounded = (nbytes + kStep - 1) & ~(kStep - 1);
        const std::size_t offset = used_.fetch_add(rounded);
        if (offset > kReserved - kStep || rounded > kReserved - kStep - offset) throw std::bad_alloc();
        const auto first = (reinterpret_cast<std::uintptr_t>(begin_) + kStep - 1) & ~(kStep - 1);
        return reinterpret_cast<void*>(first + offset);
    }
    void give_back(void*, std::size_t, const std::shared_ptr<pm::Stream>&) override {}

  private:
    static constexpr std::size_t kStep = std::size_t{2} << 20;  // as drivers align what they give
    static constexpr std::size_t kReserved = std::size_t{4} << 40;

    static pm::MemoryTraits traits(int device) {
        pm::MemoryTraits found;
        found.device = device;
        return found;
    }

    void* begin_;
    std::atomic<std::size_t> used_{0};
};

constexpr const char* kOwnName = "portamem";

inline std::shared_ptr<pm::MemoryResource> pool_over(std::shared_ptr<pm::MemoryResource> upstream) {
    return pm::PoolMemoryResource::create(std::move(upstream));
}

/// portamem as a program uses it: by MemoryResource's own allocate, with a stream.
class Own {
  public:
    explicit Own(std::shared_ptr<pm::MemoryResource> upstream)
        : upstream_(std::make_shared<Upstream>(std::move(upstream))), pool_(pool_over(upstream_)) {
        for (int i = 0; i < kStreams; ++i) streams_.push_back(pm::Stream::create(0));
    }

    void* allocate(std::size_t nbytes, int stream) {
        return pool_->allocate(nbytes, streams_[static_cast<std::size_t>(stream)]);
    }
    void deallocate(void* ptr, std::size_t nbytes, int stream) {
        pool_->deallocate(ptr, nbytes, streams_[static_cast<std::size_t>(stream)]);
    }
    std::size_t peak_reserved() const { return upstream_->peak(); }

    const std::shared_ptr<pm::MemoryResource>& pool() const { return pool_; }
    const std::shared_ptr<pm::Stream>& stream(int number) const { return streams_[static_cast<std::size_t>(number)]; }

  private:
    std::shared_ptr<Upstream> upstream_;
    std::shared_ptr<pm::MemoryResource> pool_;
    std::vector<std::shared_ptr<pm::Stream>> streams_;
};

/// The C library's.
struct Malloc {
    void* allocate(std::size_t nbytes, int) {
        void* found = std::malloc(nbytes);
        if (found == nullptr) throw std::bad_alloc();
        keep(found);
        return found;
    }
    void deallocate(void* ptr, std::size_t, int) { std::free(ptr); }
    std::size_t peak_reserved() const { return 0; }

    /// The compiler may leave out a malloc whose memory is only freed: not when somebody might have looked at it.
    static void keep(void* ptr) { asm volatile("" : : "g"(ptr) : "memory"); }
};

/// The C++ library's pool for many threads.
class Synchronized {
  public:
    void* allocate(std::size_t nbytes, int) { return pool_.allocate(nbytes); }
    void deallocate(void* ptr, std::size_t nbytes, int) { pool_.deallocate(ptr, nbytes); }
    std::size_t peak_reserved() const { return 0; }

  private:
    std::pmr::synchronized_pool_resource pool_;
};

}  // namespace table
