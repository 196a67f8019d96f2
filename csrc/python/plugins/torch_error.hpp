// SPDX-License-Identifier: MIT
// python/plugins/torch_error.hpp: no memory, said as a library says it itself.
#pragma once

#include <string>

#include <portamem/backend.hpp>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Throws PyTorch's own exception for no memory, which reaches Python as torch.OutOfMemoryError. Where the PyTorch of
/// this process is not one that has it in the known form, it throws std::runtime_error with the same text, which
/// reaches Python as RuntimeError, the base class of the other.
[[noreturn]] void throw_torch_out_of_memory(const std::string& text);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
