// SPDX-License-Identifier: MIT
// python/dlpack_exchange.hpp: tensors of producers that offer DLPack's C exchange table, taken without a Python call.
#pragma once

#include "dlpack.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

/// Takes the kind of an exception and its text.
using SetError = void(void* context, const char* kind, const char* message);

/// Has the layout of DLPackExchangeAPI of version 1.3. A function answers 0, or another number with a Python exception
/// set. The functions do not synchronize; `current_stream` says on which stream the producer works.
struct ExchangeTable {
    Version version;
    const ExchangeTable* previous;  ///< the producer's table of an older major version, or null
    int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* context, SetError* set_error);
    int (*from_object)(void* object, ManagedTensorVersioned** out);
    int (*to_object)(ManagedTensorVersioned* tensor, void** object);
    int (*lend)(void* object, Tensor* out);  ///< may be null
    int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);

    static constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
    static constexpr const char* kName = "dlpack_exchange_api";
};
static_assert(offsetof(ExchangeTable, allocate) == 16 && sizeof(ExchangeTable) == 56);

/// Returns the table of the object's own class, of a version that portamem knows. Returns null where it has none, and
/// where the object is one that only its __dlpack__ would refuse: PyTorch's table gives away tensors that require
/// gradients, and conjugate views. Throws ExportError for a negative view. It needs the GIL.
const ExchangeTable* table_for(const py::object& object);

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
