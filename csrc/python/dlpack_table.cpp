// SPDX-License-Identifier: MIT
// python/dlpack_table.cpp: DLPack's C exchange table of Views and Buffers.
#include "dlpack_table.hpp"

#include "callbacks.hpp"
#include "dlpack_allocation.hpp"
#include "dlpack_exchange.hpp"
#include "dlpack_export.hpp"
#include "dlpack_import.hpp"
#include "dlpack_methods.hpp"
#include "fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Runs a function of the table that may throw. It needs the GIL. Returns 0, or -1 with a Python exception set.
template <class Function>
int answer_table(Function&& function) noexcept {
    const PyObject* const answer = answer_python([&] {
        function();
        return Py_None;  // borrowed, and not used as an object
    });
    return answer == nullptr ? -1 : 0;
}

int from_object(void* object, dlpack::ManagedTensorVersioned** out) noexcept {
    *out = nullptr;
    return answer_table([&] {
        *out = with_view(static_cast<PyObject*>(object), [](const View& view) { return export_managed(view); });
    });
}

int lend_object(void* object, dlpack::Tensor* out) noexcept {
    return answer_table([&] {
        const py::handle given(static_cast<PyObject*>(object));
        *out = with_view(given, [&](const View& view) {
            return lend(view, buffer_of(given) == nullptr ? view.lent_extents() : lent_extents(given));
        });
    });
}

int to_object(dlpack::ManagedTensorVersioned* tensor, void** object) noexcept {
    *object = nullptr;
    return answer_table([&] { *object = from_managed(tensor).release().ptr(); });
}

int allocate(dlpack::Tensor* prototype, dlpack::ManagedTensorVersioned** out, void* context,
             dlpack::SetError* set_error) noexcept {
    return answer_allocation(out, context, set_error, [&] { return allocate_managed(*prototype); });
}

// portamem has no current stream: memory goes to the default one, which null names in every library.
int current_stream(std::int32_t, std::int32_t, void** stream) noexcept {
    *stream = nullptr;
    return 0;
}

const dlpack::ExchangeTable kTable = {dlpack::kVersion, nullptr,     allocate,      from_object,
                                      to_object,        lend_object, current_stream};

}  // namespace

void install_exchange_table(PyTypeObject* type) {
    auto* table = const_cast<dlpack::ExchangeTable*>(&kTable);
    const auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(table, dlpack::ExchangeTable::kName, nullptr));
    if (!capsule) throw py::error_already_set();
    py::setattr(reinterpret_cast<PyObject*>(type), dlpack::ExchangeTable::kAttribute, capsule);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
