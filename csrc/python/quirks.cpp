// SPDX-License-Identifier: MIT
// python/quirks.cpp: Quirk, set_quirk.
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<QuirkPolicy> kPolicies[] = {
    {"free_on_allocating_stream", QuirkPolicy::FreeOnAllocatingStream},
    {"at_least_eight_bytes", QuirkPolicy::AtLeastEightBytes},
    {"explicit_copy_kind", QuirkPolicy::ExplicitCopyKind},
    {"bridged", QuirkPolicy::Bridged},
    {"report", QuirkPolicy::Report},
};

py::dict quirk_as_dict(const DeviceQuirk& q) {
    py::dict all;
    all["name"] = q.quirk->name;
    all["policy"] = to_text(q.quirk->policy, kPolicies);
    all["is_active"] = q.active;
    all["about"] = q.quirk->about;
    all["thread"] = q.quirk->thread;
    return all;
}

}  // namespace

void register_quirks(py::module_& m) {
    py::class_<DeviceQuirk>(m, "Quirk", py::is_final())
        .def_property_readonly("name", [](const DeviceQuirk& q) { return q.quirk->name; })
        .def_property_readonly("policy", [](const DeviceQuirk& q) { return to_text(q.quirk->policy, kPolicies); })
        .def_readonly("is_active", &DeviceQuirk::active)
        .def_property_readonly("about", [](const DeviceQuirk& q) { return q.quirk->about; })
        .def_property_readonly("thread", [](const DeviceQuirk& q) { return q.quirk->thread; })
        .def("as_dict", &quirk_as_dict)
        .def("__repr__", [](const DeviceQuirk& q) {
            return "<Quirk " + std::string(q.quirk->name) + (q.active ? "" : ", off") + ">";
        });
    m.def(
        "set_quirk",
        [](const std::string& name, const py::object& on) {
            if (!on.is_none() && !py::isinstance<py::bool_>(on)) throw py::type_error("on is True, False or None");
            return set_quirk(name, on.is_none() ? std::nullopt : std::optional(on.cast<bool>()));
        },
        py::arg("name"), py::arg("on"));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
