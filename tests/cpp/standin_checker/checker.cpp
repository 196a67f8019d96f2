// SPDX-License-Identifier: MIT
// tests/cpp/standin_checker/checker.cpp: a tool for NVTX_INJECTION64_PATH to name, that writes down what it is told of
// memory. A stand-in for compute-sanitizer where there is no device, and a strict one: what makes no sense ends the
// program.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#if __has_include(<nvtx3/nvToolsExtMem.h>)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

namespace {

std::string& log() {
    static std::string lines;
    return lines;
}

template <class... Values>
void note(const char* format, Values... values) {
    char line[128];
    std::snprintf(line, sizeof line, format, values...);
    log() += line;
}

std::uintptr_t number(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }

/// A record of another layout or kind than this one reads ends the program.
void need(bool right, const char* what) {
    if (right) return;
    std::fprintf(stderr, "standin_checker: %s\n", what);
    std::abort();
}

using Ranges = std::map<std::uintptr_t, std::size_t>;  // bytes by where they begin
Ranges heaps;
Ranges regions;
std::mutex mutex;

void need_in_heap(std::uintptr_t begin, std::size_t nbytes) {
    auto heap = heaps.upper_bound(begin);
    need(heap != heaps.begin(), "no heap there");
    --heap;
    need(begin + nbytes <= heap->first + heap->second, "not within a heap");
}

// None may overlap the one that begins there.
void need_apart(Ranges::iterator region) {
    const auto next = std::next(region);
    need(region->second > 0, "a region of no bytes");
    need(next == regions.end() || region->first + region->second <= next->first, "a region overlaps the next");
    if (region == regions.begin()) return;
    const auto before = std::prev(region);
    need(before->first + before->second <= region->first, "a region overlaps the one before");
}

template <class Record>
void need_record(const Record* record) {
    need(record->extCompatID == NVTX_EXT_COMPATID_MEM && record->structSize == sizeof(Record), "another record");
}

const nvtxMemVirtualRangeDesc_t& range(const void* ranges, std::size_t nbytes) {
    need(nbytes == sizeof(nvtxMemVirtualRangeDesc_t), "another range");
    return *static_cast<const nvtxMemVirtualRangeDesc_t*>(ranges);
}

nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t, const nvtxMemHeapDesc_t* heap) {
    need_record(heap);
    need(heap->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, "another usage");
    need(heap->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS, "another type");
    const auto& whole = range(heap->typeSpecificDesc, heap->typeSpecificDescSize);
    const std::lock_guard<std::mutex> lock(mutex);
    need(heaps.emplace(number(whole.ptr), whole.size).second, "a heap twice");
    note("heap %" PRIxPTR " %zu\n", number(whole.ptr), whole.size);
    return reinterpret_cast<nvtxMemHeapHandle_t>(const_cast<void*>(whole.ptr));
}

void heap_unregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = heaps.find(number(heap));
    need(found != heaps.end(), "no such heap");
    const auto region = regions.lower_bound(found->first);
    need(region == regions.end() || region->first >= found->first + found->second, "a heap with regions goes");
    heaps.erase(found);
    note("no heap %" PRIxPTR "\n", number(heap));
}

void regions_register(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
    need_record(batch);
    need(batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS && batch->regionCount == 1, "another type");
    const auto& region = range(batch->regionDescElements, batch->regionDescElementSize);
    const std::lock_guard<std::mutex> lock(mutex);
    need_in_heap(number(region.ptr), region.size);
    const auto [at, is_new] = regions.emplace(number(region.ptr), region.size);
    need(is_new, "a region twice");
    need_apart(at);
    note("region of %" PRIxPTR ": %" PRIxPTR " %zu\n", number(batch->heap), number(region.ptr), region.size);
}

void regions_resize(nvtxDomainHandle_t, const nvtxMemRegionsResizeBatch_t* batch) {
    need_record(batch);
    need(batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS && batch->regionDescCount == 1, "another type");
    const auto& region = range(batch->regionDescElements, batch->regionDescElementSize);
    const std::lock_guard<std::mutex> lock(mutex);
    need_in_heap(number(region.ptr), region.size);
    const auto at = regions.find(number(region.ptr));
    need(at != regions.end(), "no such region to resize");
    at->second = region.size;
    need_apart(at);
    note("resize %" PRIxPTR " %zu\n", number(region.ptr), region.size);
}

void regions_unregister(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
    need_record(batch);
    need(batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER && batch->refCount == 1, "another reference");
    need(batch->refElementSize == sizeof(nvtxMemRegionRef_t), "another reference");
    const std::lock_guard<std::mutex> lock(mutex);
    need(regions.erase(number(batch->refElements->pointer)) == 1, "no such region");
    note("unregister %" PRIxPTR "\n", number(batch->refElements->pointer));
}

template <class Function>
std::intptr_t slot(Function* function) {
    return reinterpret_cast<std::intptr_t>(function);
}

}  // namespace

extern "C" {

// The stand-in needs none of NVTX's other functions.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void*) { return 1; }

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    if (module->moduleId != NVTX_EXT_MODULEID_MEM || module->compatId != NVTX_EXT_COMPATID_MEM) return 0;
    std::intptr_t* const slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = slot(heap_register);
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = slot(heap_unregister);
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = slot(regions_register);
    slots[NVTX3EXT_CBID_nvtxMemRegionsResize] = slot(regions_resize);
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = slot(regions_unregister);
    return 1;
}

__attribute__((visibility("default"))) const char* standin_checker_log() { return log().c_str(); }
}
#endif
