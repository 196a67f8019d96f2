// SPDX-License-Identifier: MIT
// A pool over an upstream of addresses only: as much as a test wants, and nothing behind them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "core_pool_fakes.hpp"

namespace fakes {

inline constexpr std::size_t MiB = 1024 * KiB;

// Addresses, of which no two chunks have the same.
struct Addresses : FakeOwner {
    std::uintptr_t next = std::uintptr_t{1} << 44;
    std::size_t odd = 0;  // bytes by which a chunk begins off a multiple of 2 MiB, more for each
    std::map<void*, std::size_t> given;
};

inline Addresses& addresses_of(void* self) { return static_cast<Addresses&>(owner_of(self)); }

struct AddressPool {
    Addresses owner;
    portamem_pool* pool = nullptr;

    explicit AddressPool(std::size_t odd = 0, std::size_t granularity = 0) {
        owner.odd = odd;
        portamem_pool_ops ops = fake_ops();
        ops.allocate = [](void* self, std::size_t nbytes, void*, void** ptr) {
            const Spared mine;
            Addresses& all = addresses_of(self);
            const std::lock_guard<std::mutex> lock(all.mutex);
            *ptr = reinterpret_cast<void*>(all.next + all.odd * all.given.size());
            all.given[*ptr] = nbytes;
            all.next += (nbytes + all.odd * all.given.size() + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
            return static_cast<int>(PORTAMEM_POOL_OK);
        };
        ops.deallocate = [](void* self, void* ptr, std::size_t nbytes) {
            const Spared mine;
            Addresses& all = addresses_of(self);
            const std::lock_guard<std::mutex> lock(all.mutex);
            CHECK(all.given.at(ptr) == nbytes);
            all.given.erase(ptr);
            return static_cast<int>(PORTAMEM_POOL_OK);
        };
        portamem_pool_options options{};
        options.size = sizeof options;
        options.granularity = granularity;
        pool = portamem_pool_create(&ops, static_cast<FakeOwner*>(&owner), &options);
        REQUIRE(pool != nullptr);
    }
    ~AddressPool() {
        portamem_pool_destroy(pool);
        CHECK(owner.given.empty());
    }
    AddressPool(const AddressPool&) = delete;
    AddressPool& operator=(const AddressPool&) = delete;

    std::uintptr_t take(std::size_t nbytes, FakeStream& stream) const {
        return reinterpret_cast<std::uintptr_t>(portamem_pool_allocate(pool, nbytes, stream.identity, &stream));
    }
    int give(std::uintptr_t address, std::size_t nbytes, FakeStream& stream) const {
        return portamem_pool_deallocate(pool, reinterpret_cast<void*>(address), nbytes, stream.identity, &stream);
    }
};

}  // namespace fakes
