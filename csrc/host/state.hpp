// SPDX-License-Identifier: MIT
// host/state.hpp: everything the runtime knows, behind one lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "allocation.hpp"
#include "capture.hpp"
#include "config.hpp"
#include "event.hpp"
#include "heap.hpp"
#include "pool.hpp"
#include "stream.hpp"
#include "virtual_memory.hpp"

namespace portamem::host {

struct Device {
    int ordinal = 0;
    std::size_t capacity = 0;
    std::size_t reserved = 0;                      ///< bytes of plain and virtual memory and of pools' chunks
    std::array<std::size_t, 3> limits{};           ///< by pmhLimit*
    std::set<int> peers;                           ///< devices whose memory this one may address
    std::shared_ptr<Stream> legacy;                ///< also in `streams`
    std::vector<std::shared_ptr<Stream>> streams;  ///< also destroyed ones, until they are drained
    std::vector<std::shared_ptr<Pool>> pools;      ///< also destroyed ones, until they are empty
    std::shared_ptr<Pool> default_pool;
    std::shared_ptr<Pool> current_pool;
    std::shared_ptr<Heap> heap;  ///< the heap of kernels; null before the first kernel that uses it

    /// Takes bytes from the capacity. If it must, it gives idle memory of pools back to the device. False if that is
    /// not enough.
    bool reserve(State& state, Hold& hold, std::size_t bytes);
};

/// The state is made at first use and never destroyed, because threads are detached and the process may exit in the
/// middle of their work.
struct State {
    State();

    std::mutex mutex;  ///< guards all fields below that are not const; never held while user code or a copy runs
    const Config config;

    std::vector<std::unique_ptr<Device>> devices;  ///< the vector itself never changes
    AllocationMap allocations;
    VirtualMemory virtual_memory;
    ManagedRanges pageable{SIZE_MAX - SIZE_MAX % page_size};  ///< by address: memory that the runtime did not give
    std::size_t locked = 0;                                   ///< bytes of pinned and registered memory
    std::unordered_map<pmhStream_t, std::shared_ptr<Stream>> streams;
    /// The handles of destroyed streams. The next stream gets the latest, as with the vendors.
    std::vector<pmhStream_t> spare_handles;
    std::unordered_map<pmhEvent_t, std::unique_ptr<Event>> events;
    std::unordered_map<pmhMemPool_t, std::shared_ptr<Pool>> pools;
    std::unordered_map<pmhGraph_t, std::unique_ptr<Graph>> graphs;
    std::vector<std::shared_ptr<Capture>> captures;  ///< those that have not ended

    unsigned copy_delay = 0;
    FailRule fail;
    std::atomic<bool> fail_armed{false};

    void reset_knobs();

    /// Counts bytes as page-locked. Refuses more than can be page-locked.
    void lock_pages(std::size_t size);

    /// Gives idle memory back to a device after a synchronisation with its work.
    void synchronized(Hold& hold, int device);
};

State& state();

}  // namespace portamem::host
