// SPDX-License-Identifier: MIT
// python/async_resource.cpp: AsyncMemoryResource.
#include "access.hpp"
#include "convert.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using Pool = AsyncMemoryResource;

// Returns a release threshold. The maximum, "keep everything", is larger than any size.
std::uint64_t to_threshold(const py::object& nbytes) {
    if (py::isinstance<py::int_>(nbytes) && py::int_(Pool::kKeepAll).equal(nbytes)) return Pool::kKeepAll;
    return to_size(nbytes, "release_threshold");
}

std::shared_ptr<Pool> make_pool(const py::object& device, const py::object& release_threshold,
                                const py::object& max_size) {
    const int ordinal = to_device(device).ordinal();
    const std::uint64_t threshold = release_threshold.is_none() ? Pool::kKeepAll : to_threshold(release_threshold);
    const std::size_t most = to_size(max_size, "max_size");
    const WithoutGil nogil;
    return Pool::create(ordinal, threshold, most);
}

template <rt::MemPoolAttr Attr>
std::uint64_t bytes(const Pool& self) {
    const WithoutGil nogil;
    return self.get(Attr);
}

void set_attribute(const Pool& self, rt::MemPoolAttr attr, std::uint64_t value) {
    const WithoutGil nogil;
    self.set(attr, value);
}

template <rt::MemPoolAttr Attr, class Class>
void define_policy(Class& type, const char* name) {
    type.def_property(
        name, [](const Pool& self) { return bytes<Attr>(self) != 0; },
        [](const Pool& self, bool on) { set_attribute(self, Attr, on ? 1 : 0); });
}

}  // namespace

void register_async_resource(py::module_& m) {
    using rt::MemPoolAttr;
    py::class_<Pool, std::shared_ptr<Pool>, MemoryResource> type(m, "AsyncMemoryResource", py::is_final());
    type.def(py::init(&make_pool), py::arg("device") = py::none(), py::kw_only(),
             py::arg("release_threshold") = py::none(), py::arg("max_size") = 0)
        .def_static(
            "default_pool", [](const py::object& device) { return Pool::default_pool(to_device(device).ordinal()); },
            py::arg("device") = py::none())
        .def_static(
            "from_handle",
            [](const py::object& pool, const py::object& device, const py::object& owner) {
                auto* native = static_cast<rt::MemPool_t>(from_address(pool, "a pool handle"));
                if (native == nullptr) throw py::value_error("a pool handle cannot be 0: give the handle of a pool");
                return Pool::from_handle(native, to_device(device).ordinal(), hold(owner));
            },
            py::arg("pool"), py::arg("device"), py::kw_only(), py::arg("owner") = py::none())
        .def_property_readonly("pool_handle", [](const Pool& p) { return to_address(p.pool_handle()); })
        .def_property_readonly("owns_pool", &Pool::owns_pool)
        .def_property("release_threshold", &bytes<MemPoolAttr::ReleaseThreshold>,
                      [](const Pool& p, const py::object& nbytes) {
                          set_attribute(p, MemPoolAttr::ReleaseThreshold, to_threshold(nbytes));
                      })
        .def_property_readonly("used", &bytes<MemPoolAttr::UsedMemCurrent>)
        .def_property_readonly("used_high", &bytes<MemPoolAttr::UsedMemHigh>)
        .def_property_readonly("reserved", &bytes<MemPoolAttr::ReservedMemCurrent>)
        .def_property_readonly("reserved_high", &bytes<MemPoolAttr::ReservedMemHigh>)
        .def("reset_high", &Pool::reset_high, py::call_guard<WithoutGil>())
        .def(
            "trim",
            [](const Pool& p, const py::object& keep) {
                const std::size_t least = to_size(keep, "keep");
                const WithoutGil nogil;
                p.trim(least);
            },
            py::arg("keep") = 0)
        .def("access", &access_of<Pool>, py::arg("device"))
        .def("set_access", &set_access_of<Pool>, py::arg("device"), py::arg("access"));
    define_policy<MemPoolAttr::ReuseFollowEventDependencies>(type, "reuse_follow_event_dependencies");
    define_policy<MemPoolAttr::ReuseAllowOpportunistic>(type, "reuse_allow_opportunistic");
    define_policy<MemPoolAttr::ReuseAllowInternalDependencies>(type, "reuse_allow_internal_dependencies");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
