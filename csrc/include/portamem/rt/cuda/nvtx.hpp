// SPDX-License-Identifier: MIT
// portamem/rt/cuda/nvtx.hpp: NVTX's memory extension, by which compute-sanitizer is told of heaps and regions.
//
// A header-only library, in the toolkit and in the wheel nvidia-nvtx; that of CUDA 12 has no memory extension. At its
// first call it looks for the tool that NVTX_INJECTION64_PATH names; where there is none, or one that takes no interest
// (a profiler), all of its functions do nothing and answer null. compute-sanitizer wants the runtime to be used before
// that first call, takes virtual addresses alone, and of heaps only cudaMalloc's allocations (its NVTX guide, 2025).
//
// HIP on the NVIDIA platform includes this file too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>
#endif

#include "portamem/backend.hpp"

PORTAMEM_RT_OPEN

namespace nvtx {

/// Whether a tool is named for NVTX to load.
inline bool announced() {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    return path != nullptr && *path != '\0';
}

#if defined(NVTX_MEM_CONTENTS_V1)

inline constexpr bool Present = true;

inline nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t created = nvtxDomainCreateA("portamem");
    return created;
}

// Every record begins with what it is, and is zero where nothing is said.
template <class Record>
Record record() {
    Record made{};
    made.extCompatID = NVTX_EXT_COMPATID_MEM;
    made.structSize = static_cast<std::uint16_t>(sizeof made);
    return made;
}

inline nvtxMemVirtualRangeDesc_t range(const void* ptr, std::size_t nbytes) {
    nvtxMemVirtualRangeDesc_t made{};
    made.size = nbytes;
    made.ptr = ptr;
    return made;
}

/// Null where no tool listens.
inline void* heap_register(const void* ptr, std::size_t nbytes) {
    const nvtxMemVirtualRangeDesc_t whole = range(ptr, nbytes);
    auto heap = record<nvtxMemHeapDesc_t>();
    heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    heap.typeSpecificDescSize = sizeof whole;
    heap.typeSpecificDesc = &whole;
    void* const handle = nvtxMemHeapRegister(domain(), &heap);
    // Without a tool it is null, and by the header's comments -1.
    return reinterpret_cast<std::intptr_t>(handle) == -1 ? nullptr : handle;
}

inline void heap_unregister(void* heap) { nvtxMemHeapUnregister(domain(), static_cast<nvtxMemHeapHandle_t>(heap)); }

inline void region_register(void* heap, const void* ptr, std::size_t nbytes) {
    const nvtxMemVirtualRangeDesc_t region = range(ptr, nbytes);
    auto batch = record<nvtxMemRegionsRegisterBatch_t>();
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = static_cast<nvtxMemHeapHandle_t>(heap);
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof region;
    batch.regionDescElements = &region;
    nvtxMemRegionsRegister(domain(), &batch);
}

inline void region_resize(const void* ptr, std::size_t nbytes) {
    const nvtxMemVirtualRangeDesc_t region = range(ptr, nbytes);
    auto batch = record<nvtxMemRegionsResizeBatch_t>();
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.regionDescCount = 1;
    batch.regionDescElementSize = sizeof region;
    batch.regionDescElements = &region;
    nvtxMemRegionsResize(domain(), &batch);
}

inline void region_unregister(const void* ptr) {
    nvtxMemRegionRef_t region{};
    region.pointer = ptr;
    auto batch = record<nvtxMemRegionsUnregisterBatch_t>();
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof region;
    batch.refElements = &region;
    nvtxMemRegionsUnregister(domain(), &batch);
}

#else  // a toolkit without the header

inline constexpr bool Present = false;

inline void* heap_register(const void*, std::size_t) { return nullptr; }
inline void heap_unregister(void*) {}
inline void region_register(void*, const void*, std::size_t) {}
inline void region_resize(const void*, std::size_t) {}
inline void region_unregister(const void*) {}

#endif

}  // namespace nvtx

PORTAMEM_RT_CLOSE
