// SPDX-License-Identifier: MIT
// python/plugins/tvm_ffi_hook.cpp: the C function by which tvm-ffi's kernel libraries allocate tensors.
#include "../dlpack_allocation.hpp"
#include "../dlpack_export.hpp"
#include "hook_functions.hpp"
#include "hook_slots.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using StreamOf = void* (*)(std::int32_t device_type, std::int32_t device_id);

struct TvmFfiHook {
    LibraryHook& hook;
    StreamOf stream_of;
};

template <std::size_t slot>
struct OfTvmFfi {
    static int allocate(dlpack::Tensor* prototype, dlpack::ManagedTensorVersioned** out, void* context,
                        dlpack::SetError* set_error) noexcept {
        const TvmFfiHook& own = HookSlots<TvmFfiHook, OfTvmFfi>::of(slot);
        return answer_allocation(out, context, set_error, [&] {
            void* const stream = own.stream_of(prototype->device.type, prototype->device.id);
            return allocate_managed(*prototype, own.hook.resource(), reinterpret_cast<rt::Stream_t>(stream));
        });
    }

    static FunctionAddresses functions() { return {{"allocate", function_address(&allocate)}}; }
};

}  // namespace

FunctionAddresses functions_for_tvm_ffi(LibraryHook& hook, std::uintptr_t stream_of) {
    auto* const made = new TvmFfiHook{hook, reinterpret_cast<StreamOf>(stream_of)};  // stays, as the hook does
    return HookSlots<TvmFfiHook, OfTvmFfi>::take(*made);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
