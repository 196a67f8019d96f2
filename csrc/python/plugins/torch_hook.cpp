// SPDX-License-Identifier: MIT
// python/plugins/torch_hook.cpp: the C functions of a PyTorch allocator.
//
// PyTorch calls them from any thread, with the GIL and without. It frees in destructors, so no free may throw; an
// allocation may. The signatures are those of torch/csrc/cuda/CUDAPluggableAllocator.h; PyTorch for ROCm has the same.
#include "hook_functions.hpp"
#include "hook_slots.hpp"
#include "torch_error.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Allocates for PyTorch. A wait may have been ended by Ctrl-C: PyTorch takes that exception for an error of its own, so
// the program's handler runs again once PyTorch has returned to Python.
void* allocate_for_torch(LibraryHook& hook, std::size_t nbytes, int device, rt::Stream_t stream) {
    try {
        return hook.allocate(nbytes, device, stream);
    } catch (const OutOfMemory&) {
        throw;
    } catch (const std::exception&) {
        if (holds_gil()) keep_interrupt();
        throw;
    }
}

template <std::size_t slot>
struct OfTorch {
    using Slots = HookSlots<LibraryHook, OfTorch>;
    using Id = GraphMemory::Id;

    // PyTorch's caching allocator asks so for segments: null is its own error, after it has given back its cache.
    static void* allocate_or_null(std::size_t nbytes, int device, rt::Stream_t stream) {
        try {
            return allocate_for_torch(Slots::of(slot), nbytes, device, stream);
        } catch (const OutOfMemory&) {
            return nullptr;
        }
    }
    // PyTorch asks so for each tensor, and takes null for memory.
    static void* allocate_or_throw(std::size_t nbytes, int device, rt::Stream_t stream) {
        try {
            return allocate_for_torch(Slots::of(slot), nbytes, device, stream);
        } catch (const OutOfMemory& e) {
            throw_torch_out_of_memory(e.what());
        }
    }
    static void deallocate(void* ptr, std::size_t nbytes, int device, rt::Stream_t stream) noexcept {
        Slots::of(slot).deallocate(ptr, nbytes, device, stream);
    }
    static void record_stream(void* ptr, rt::Stream_t stream) { Slots::of(slot).note_use(ptr, stream); }
    static void empty_cache() { Slots::of(slot).trim(); }
    static void set_fraction(double share, int device) { Slots::of(slot).set_share(share, device); }
    static void begin_pool(int device, Id id, GraphMemory::Filter filter) {
        Slots::of(slot).graphs().begin(device, id, std::move(filter));
    }
    static void end_pool(int device, Id id) { Slots::of(slot).graphs().end(device, id); }
    static void release_pool(int device, Id id) { Slots::of(slot).end_graph(device, id); }

    static FunctionAddresses functions() {
        return {{"allocate_or_null", function_address(&allocate_or_null)},
                {"allocate_or_throw", function_address(&allocate_or_throw)},
                {"deallocate", function_address(&deallocate)},
                {"record_stream", function_address(&record_stream)},
                {"empty_cache", function_address(&empty_cache)},
                {"set_fraction", function_address(&set_fraction)},
                {"begin_pool", function_address(&begin_pool)},
                {"end_pool", function_address(&end_pool)},
                {"release_pool", function_address(&release_pool)}};
    }
};

}  // namespace

FunctionAddresses functions_for_torch(LibraryHook& hook) { return HookSlots<LibraryHook, OfTorch>::take(hook); }

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
