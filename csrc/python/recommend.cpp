// SPDX-License-Identifier: MIT
// python/recommend.cpp: recommend, and its Recommendation.
#include "portamem/recommend.hpp"

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

constexpr Spelling<Purpose> kPurposes[] = {
    {"kernels", Purpose::Kernels},
    {"shared", Purpose::Shared},
    {"transfer", Purpose::Transfer},
    {"larger", Purpose::Larger},
};

// A Recommendation, and the device that it is for.
struct Recommended {
    Recommendation what;
    int device;
};

Recommended recommend_for(const py::object& purpose, const py::object& device) {
    const Purpose wanted = from_text("purpose", purpose, kPurposes);
    const int ordinal = to_device(device).ordinal();
    return {recommend(query_capabilities(ordinal), wanted), ordinal};
}

}  // namespace

void register_recommend(py::module_& m) {
    py::class_<Recommended>(m, "Recommendation", py::is_final())
        .def_property_readonly("kind", [](const Recommended& r) { return std::string(to_string(r.what.kind)); })
        .def_property_readonly("why", [](const Recommended& r) { return std::string(r.what.why); })
        .def_property_readonly("device", [](const Recommended& r) { return Device(r.device); })
        .def("resource", [](const Recommended& r) { return r.what.make(r.device); })
        .def("__repr__", [](const Recommended& r) {
            return "<" + public_module() + ".Recommendation " + to_string(r.what.kind) + ": " + r.what.why + ">";
        });
    m.def("recommend", &recommend_for, py::arg("purpose"), py::arg("device") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
