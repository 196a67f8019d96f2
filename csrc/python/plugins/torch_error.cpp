// SPDX-License-Identifier: MIT
// python/plugins/torch_error.cpp: making an exception of a library that portamem is not compiled against.
//
// A PyTorch allocator signals no memory by an exception of PyTorch's class. Its headers are of one version, and the
// module has to serve all, so the class is looked up in the library that the process has: its constructor, and its
// table of virtual functions. A version whose constructor takes other arguments has another symbol, and is not touched.
#include "torch_error.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <typeinfo>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Has the layout of c10::SourceLocation.
struct SourceLocation {
    const char* function;
    const char* file;
    std::uint32_t line;
};

struct TorchOutOfMemory {
    using Construct = void (*)(void* self, SourceLocation where, std::string text);
    using Destroy = void (*)(void* self);

    Construct construct = nullptr;
    void* const* virtuals = nullptr;  // what an object points to: the complete destructor comes first
    std::type_info* type = nullptr;

    bool is_known() const noexcept { return construct != nullptr && virtuals != nullptr && type != nullptr; }
};

// Larger than the class is in any version so far (under 300 bytes).
constexpr std::size_t kRoom = 4096;

// Finds a symbol in the libraries of PyTorch that the process has. A class without a file of its own is in each library
// that uses it.
void* symbol_of_torch(const char* name) noexcept {
    for (const char* file : {"libc10.so", "libc10_cuda.so", "libc10_hip.so", "libtorch_cpu.so", "libtorch_python.so"}) {
        void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);  // it stays loaded: the handle is kept
        void* const found = library == nullptr ? nullptr : dlsym(library, name);
        if (found != nullptr) return found;
    }
    return nullptr;
}

TorchOutOfMemory look_up() noexcept {
    TorchOutOfMemory found;
    void* construct = symbol_of_torch(
        "_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
    if (construct == nullptr) {  // in versions in which the class inherits its constructor
        construct =
            symbol_of_torch("_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
    }
    found.construct = reinterpret_cast<TorchOutOfMemory::Construct>(construct);
    found.type = static_cast<std::type_info*>(symbol_of_torch("_ZTIN3c1016OutOfMemoryErrorE"));
    if (auto* const table = static_cast<void* const*>(symbol_of_torch("_ZTVN3c1016OutOfMemoryErrorE"))) {
        found.virtuals = table + 2;  // after the offset to the top and the type
    }
    return found;
}

}  // namespace

void throw_torch_out_of_memory(const std::string& text) {
    static const TorchOutOfMemory torch = look_up();
    if (!torch.is_known()) throw std::runtime_error(text);
    void* const error = abi::__cxa_allocate_exception(kRoom);
    torch.construct(error, {"allocate", "portamem", 0}, text);
    *static_cast<void* const**>(error) = torch.virtuals;
    abi::__cxa_throw(error, torch.type, reinterpret_cast<TorchOutOfMemory::Destroy>(torch.virtuals[0]));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
