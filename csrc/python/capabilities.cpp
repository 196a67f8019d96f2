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
    const char* doc;
};

template <auto Member, class Record>
py::object get_answer(const Record& record) {
    return answer_to_python(record.*Member);
}

// Defines every field as a property, and all of them as a dict and in the repr.
template <class Record, std::size_t N>
void define_record(py::class_<Record>& type, const Field<Record> (&fields)[N]) {
    for (const Field<Record>& field : fields) type.def_property_readonly(field.name, field.get, field.doc);
    type.def("__repr__", [&fields](const py::object& self) {
        const auto& record = self.cast<const Record&>();
        std::string text = "<" + std::string(py::str(py::type::of(self).attr("__name__")));
        for (const Field<Record>& field : fields) {
            text += " " + std::string(field.name) + "=" + std::string(py::str(py::repr(field.get(record))));
        }
        return text + ">";
    });
    type.def(
        "as_dict",
        [&fields](const Record& record) {
            py::dict all;
            for (const Field<Record>& field : fields) all[field.name] = field.get(record);
            return all;
        },
        "Every field by name.");
}

using C = Capabilities;
constexpr Field<C> kCapabilities[] = {
    {"memory_pools", &get_answer<&C::memory_pools, C>, "Stream-ordered memory from pools."},
    {"pool_handle_types", [](const C& c) { return handle_types_to_python(c.pool_handle_types); },
     "Handles by which a pool can go to other processes: \"posix_fd\", \"win32\", \"win32_kmt\", \"fabric\"."},
    {"managed_mode", [](const C& c) -> py::object { return py::str(to_text(c.managed_mode, kManagedModes)); },
     "\"none\", \"host_resident\" (it stays in one place) or \"migrating\" (pages move to who touches them)."},
    {"concurrent_managed_access", &get_answer<&C::concurrent_managed_access, C>,
     "Host and device may touch managed memory at the same time."},
    {"pageable_memory_access", &get_answer<&C::pageable_memory_access, C>,
     "The device reads and writes memory of malloc. AMD: XNACK is in effect."},
    {"uses_host_page_tables", &get_answer<&C::uses_host_page_tables, C>,
     "It does so through the host's own page tables."},
    {"direct_host_access", &get_answer<&C::direct_host_access, C>,
     "The host reads and writes plain device memory. CUDA does not say; AMD: a large BAR, or an APU."},
    {"integrated", &get_answer<&C::integrated, C>, "Host and device share one memory."},
    {"xnack", &get_answer<&C::xnack, C>, "AMD: page faults are retried. None where there is no such mode."},
    {"pinned_coherent", &get_answer<&C::pinned_coherent, C>,
     "Pinned memory is coherent with running kernels unless coherence=\"non_coherent\" is asked for."},
    {"pinned_non_coherent", &get_answer<&C::pinned_non_coherent, C>,
     "There is a non-coherent kind of pinned memory: AMD's. Elsewhere asking for it changes nothing."},
    {"host_register", &get_answer<&C::host_register, C>, "Host memory of others can be page-locked."},
    {"registered_pointer_is_device_pointer", &get_answer<&C::registered_pointer_is_device_pointer, C>,
     "Kernels reach registered memory by the host's address."},
    {"stream_priorities", &get_answer<&C::stream_priorities, C>, "Streams can have priorities."},
    {"virtual_memory", &get_answer<&C::virtual_memory, C>,
     "Addresses can be reserved, and memory be mapped to them later."},
    {"virtual_memory_granularity",
     [](const C& c) -> py::object {
         if (!c.virtual_memory_minimum || !c.virtual_memory_recommended) return py::none();
         return py::make_tuple(*c.virtual_memory_minimum, *c.virtual_memory_recommended);
     },
     "(minimum, recommended) bytes of which mapped pieces are multiples."},
    {"virtual_memory_handle_types", [](const C& c) { return handle_types_to_python(c.virtual_memory_handle_types); },
     "Handles by which mapped memory can go to other processes, those that the runtime tells of."},
    {"ipc_memory_handles", &get_answer<&C::ipc_memory_handles, C>,
     "Plain device memory can go to other processes by a handle; which memory, pointer_info().ipc_capable says."},
    {"ipc_event_handles", &get_answer<&C::ipc_event_handles, C>, "Events can go to other processes by a handle."},
    {"malloc_heap_kind",
     [](const C& c) -> py::object {
         if (!c.malloc_heap_kind) return py::none();
         return py::str(to_text(*c.malloc_heap_kind, kHeapKinds));
     },
     "What malloc_heap_size means: \"limit\" (CUDA: all that kernels' malloc can give), \"initial\" (AMD: what the "
     "heap "
     "begins with; it grows) or \"none\"."},
    {"peers", [](const C& c) -> py::object { return py::tuple(py::cast(c.peers)); },
     "Ordinals of the devices whose memory this one can address."},
    {"compute_capability",
     [](const C& c) -> py::object { return py::make_tuple(c.compute_capability_major, c.compute_capability_minor); },
     "(major, minor)."},
    {"multi_processor_count", [](const C& c) -> py::object { return py::int_(c.multi_processor_count); }, ""},
    {"warp_size", [](const C& c) -> py::object { return py::int_(c.warp_size); }, ""},
};

using P = ProbedCapabilities;
constexpr Field<P> kProbed[] = {
    {"pool_threshold_accepted", &get_answer<&P::pool_threshold_accepted, P>,
     "A pool's release threshold reads back as it was set."},
    {"pool_threshold_effective", &get_answer<&P::pool_threshold_effective, P>,
     "It is obeyed: at a synchronize the pool keeps its memory, or gives it back."},
    {"stream_capture", &get_answer<&P::stream_capture, P>, "Work on a stream can be captured."},
    {"host_register", &get_answer<&P::host_register, P>,
     "Host memory can be page-locked: as the runtime says, or as tried where it does not."},
    {"registered_pointer_is_device_pointer", &get_answer<&P::registered_pointer_is_device_pointer, P>,
     "Kernels reach registered memory by the host's address."},
    {"malloc_heap_settable", &get_answer<&P::malloc_heap_settable, P>,
     "malloc_heap_size could be set. Not tried where it is \"initial\"."},
};

}  // namespace

void register_capabilities(py::module_& m) {
    py::class_<C> read(m, "Capabilities", py::is_final(),
                       "What a device can do, each asked of the device. None: the runtime does not say.");
    define_record(read, kCapabilities);
    py::class_<P> probed(m, "ProbedCapabilities", py::is_final(),
                         "What a device can do, found by trying. None: it could not be tried.");
    define_record(probed, kProbed);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
