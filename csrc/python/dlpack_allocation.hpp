// SPDX-License-Identifier: MIT
// python/dlpack_allocation.hpp: how a function that allocates tensors for others answers.
#pragma once

#include "dlpack_exchange.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Answers a library that asks for a new tensor, by DLPack's rules: 0, or -1 after set_error was called with the kind
/// of the exception and its text. The library may call with the GIL or without.
template <class Allocate>
int answer_allocation(dlpack::ManagedTensorVersioned** out, void* context, dlpack::SetError* set_error,
                      Allocate&& allocate) noexcept {
    try {
        *out = allocate();
        return 0;
    } catch (const OutOfMemory& e) {
        set_error(context, "MemoryError", e.what());
    } catch (const std::bad_alloc& e) {
        set_error(context, "MemoryError", e.what());
    } catch (const ExportError& e) {
        set_error(context, "BufferError", e.what());
    } catch (const std::invalid_argument& e) {
        set_error(context, "ValueError", e.what());
    } catch (const std::exception& e) {
        if (holds_gil()) keep_interrupt();
        set_error(context, "RuntimeError", e.what());
    }
    *out = nullptr;
    return -1;
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
