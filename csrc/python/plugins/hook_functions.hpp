// SPDX-License-Identifier: MIT
// python/plugins/hook_functions.hpp: what libraries are told: the addresses of C functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "library_hook.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

using FunctionAddresses = std::map<std::string, std::uintptr_t>;

template <class Function>
std::uintptr_t function_address(Function* function) noexcept {
    return reinterpret_cast<std::uintptr_t>(function);
}

/// Each returns the functions of a hook, by name. The hook must live until the process ends: a library may call at any
/// later time. Throw std::invalid_argument where a process has plugged in as many resources as the library can take.
FunctionAddresses functions_for_torch(LibraryHook& hook);

/// stream_of: the address of a C function (device type, device, not void*) -> stream, which says on which stream
/// tvm-ffi's functions work.
FunctionAddresses functions_for_tvm_ffi(LibraryHook& hook, std::uintptr_t stream_of);

/// current_stream: the address of CuPy's C function () -> stream. current_owner: a function that returns CuPy's object
/// for that stream, or None where CuPy does not own the stream. out_of_memory: the class that a MemoryError of
/// portamem's becomes. These functions take the hook as their first argument.
FunctionAddresses functions_for_cupy(LibraryHook& hook, std::uintptr_t current_stream, const py::object& current_owner,
                                     const py::object& out_of_memory);

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
