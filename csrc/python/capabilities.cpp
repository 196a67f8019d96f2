// SPDX-License-Identifier: MIT
// python/capabilities.cpp: Capabilities, ProbedCapabilities.
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<ManagedMode> kManagedModes[] = {
    {"none", ManagedMode::None},
    {"host_resident", ManagedMode::HostResident},
    {"migrating", ManagedMode::Migrating},
};

constexpr Spelling<rt::MallocHeapKind> kHeapKinds[] = {
    {"none", rt::MallocHeapKind::None},
    {"limit", rt::MallocHeapKind::Limit},
    {"initial", rt::MallocHeapKind::Initial},
};

constexpr Spelling<unsigned> kHandleTypes[] = {
    {"posix_fd", rt::MemHandleTypePosixFileDescriptor},
    {"win32", rt::MemHandleTypeWin32},
    {"win32_kmt", rt::MemHandleTypeWin32Kmt},
    {"fabric", rt::MemHandleTypeFabric},
};

// Returns True, False, or None for unknown.
py::object answer_to_python(Answer answer) {
    return answer.is_known() ? py::object(py::bool_(answer)) : py::object(py::none());
}

py::object handle_types_to_python(std::optional<unsigned> types) {
    if (!types) return py::none();
    py::list names;
    for (const auto& [text, bit] : kHandleTypes) {
        if ((*types & bit) != 0) names.append(py::str(text.data(), text.size()));
    }
    return py::tuple(names);
}

template <class Record>
struct Field {
    const char* name;
    py::object (*get)(const Record&);
};

template <auto Member, class Record>
py::object get_answer(const Record& record) {
    return answer_to_python(record.*Member);
}

// Defines every field as a property, and all of them as a dict and in the repr.
template <class Record, std::size_t N>
void define_record(py::class_<Record>& type, const Field<Record> (&fields)[N]) {
    for (const Field<Record>& field : fields) type.def_property_readonly(field.name, field.get);
    type.def("__repr__", [&fields](const py::object& self) {
        const auto& record = self.cast<const Record&>();
        std::string text = "<" + std::string(py::str(py::type::of(self).attr("__name__")));
        for (const Field<Record>& field : fields) {
            text += " " + std::string(field.name) + "=" + std::string(py::str(py::repr(field.get(record))));
        }
        return text + ">";
    });
    type.def("as_dict", [&fields](const Record& record) {
        py::dict all;
        for (const Field<Record>& field : fields) all[field.name] = field.get(record);
        return all;
    });
}

using C = Capabilities;
constexpr Field<C> kCapabilities[] = {
    {"memory_pools", &get_answer<&C::memory_pools, C>},
    {"pool_handle_types", [](const C& c) { return handle_types_to_python(c.pool_handle_types); }},
    {"managed_mode", [](const C& c) -> py::object { return py::str(to_text(c.managed_mode, kManagedModes)); }},
    {"concurrent_managed_access", &get_answer<&C::concurrent_managed_access, C>},
    {"pageable_memory_access", &get_answer<&C::pageable_memory_access, C>},
    {"uses_host_page_tables", &get_answer<&C::uses_host_page_tables, C>},
    {"direct_host_access", &get_answer<&C::direct_host_access, C>},
    {"integrated", &get_answer<&C::integrated, C>},
    {"xnack", &get_answer<&C::xnack, C>},
    {"pinned_coherent", &get_answer<&C::pinned_coherent, C>},
    {"pinned_non_coherent", &get_answer<&C::pinned_non_coherent, C>},
    {"host_register", &get_answer<&C::host_register, C>},
    {"registered_pointer_is_device_pointer", &get_answer<&C::registered_pointer_is_device_pointer, C>},
    {"stream_priorities", &get_answer<&C::stream_priorities, C>},
    {"virtual_memory", &get_answer<&C::virtual_memory, C>},
    {"virtual_memory_granularity",
     [](const C& c) -> py::object {
         if (!c.virtual_memory_minimum || !c.virtual_memory_recommended) return py::none();
         return py::make_tuple(*c.virtual_memory_minimum, *c.virtual_memory_recommended);
     }},
    {"virtual_memory_handle_types", [](const C& c) { return handle_types_to_python(c.virtual_memory_handle_types); }},
    {"ipc_memory_handles", &get_answer<&C::ipc_memory_handles, C>},
    {"ipc_event_handles", &get_answer<&C::ipc_event_handles, C>},
    {"malloc_heap_kind",
     [](const C& c) -> py::object {
         if (!c.malloc_heap_kind) return py::none();
         return py::str(to_text(*c.malloc_heap_kind, kHeapKinds));
     }},
    {"peers", [](const C& c) -> py::object { return py::tuple(py::cast(c.peers)); }},
    {"compute_capability",
     [](const C& c) -> py::object { return py::make_tuple(c.compute_capability_major, c.compute_capability_minor); }},
    {"multi_processor_count", [](const C& c) -> py::object { return py::int_(c.multi_processor_count); }},
    {"warp_size", [](const C& c) -> py::object { return py::int_(c.warp_size); }},
};

using P = ProbedCapabilities;
constexpr Field<P> kProbed[] = {
    {"pool_threshold_accepted", &get_answer<&P::pool_threshold_accepted, P>},
    {"pool_threshold_effective", &get_answer<&P::pool_threshold_effective, P>},
    {"stream_capture", &get_answer<&P::stream_capture, P>},
    {"host_register", &get_answer<&P::host_register, P>},
    {"registered_pointer_is_device_pointer", &get_answer<&P::registered_pointer_is_device_pointer, P>},
    {"malloc_heap_settable", &get_answer<&P::malloc_heap_settable, P>},
};

}  // namespace

void register_capabilities(py::module_& m) {
    py::class_<C> read(m, "Capabilities", py::is_final());
    define_record(read, kCapabilities);
    py::class_<P> probed(m, "ProbedCapabilities", py::is_final());
    define_record(probed, kProbed);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
