// SPDX-License-Identifier: MIT
// python/recording_adaptors.cpp: resources that record what goes through them, and tags.
#include "call_site.hpp"
#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using Statistics = StatisticsAdaptor;

py::object record_module() { return py::module_::import("portamem._record"); }

py::object counts_object(const MemoryCounts& counts) {
    return record_module().attr("MemoryCounts")(counts.current_bytes, counts.current_count, counts.peak_bytes,
                                                counts.peak_count, counts.total_bytes, counts.total_count,
                                                counts.failed_count);
}

template <class Map>
py::dict counts_by(const Map& map) {
    py::dict found;
    for (const auto& [key, counts] : map) found[py::cast(key)] = counts_object(counts);
    return found;
}

py::list outstanding_list(const TrackingAdaptor& self) {
    const py::object type = record_module().attr("OutstandingAllocation");
    py::list found;
    for (const OutstandingAllocation& each : self.outstanding()) {
        const std::chrono::duration<double> time = each.time.time_since_epoch();
        found.append(type(to_address(each.ptr), each.nbytes, each.stream, each.stream_device, time.count(), each.thread,
                          each.tag, each.site));
    }
    return found;
}

// Throws ValueError for text that no path can have, such as half a pair of surrogates.
std::string to_path(const py::object& path) {
    try {
        return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
    } catch (const py::error_already_set& refused) {
        if (!refused.matches(PyExc_UnicodeEncodeError)) throw;
        throw py::value_error("no file has the name " +
                              py::str(py::module_::import("builtins").attr("ascii")(path)).cast<std::string>() +
                              ": give the path of a log");
    }
}
}  // namespace

void register_recording_adaptors(py::module_& m) {
    portamem_record_prepare();
    portamem::detail::embedder().call_site.store(provide_site, std::memory_order_release);

    py::class_<Statistics, std::shared_ptr<Statistics>, ResourceAdaptor>(m, "StatisticsAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream) { return std::make_shared<Statistics>(to_upstream(upstream)); }),
             py::arg("upstream"))
        .def_property_readonly("counts", [](const Statistics& s) { return counts_object(s.counts()); })
        .def_property_readonly("by_tag", [](const Statistics& s) { return counts_by(s.by_tag()); })
        .def_property_readonly("by_thread", [](const Statistics& s) { return counts_by(s.by_thread()); })
        .def("reset_peak", &Statistics::reset_peak)
        .def("scope", [](const py::object& self) { return record_module().attr("StatisticsScope")(self); })
        .def("_begin_scope", &Statistics::begin_scope)
        .def("_end_scope", &Statistics::end_scope, py::arg("scope"))
        .def(
            "_scope_counts", [](const Statistics& s, std::uint64_t scope) { return counts_object(s.counts_of(scope)); },
            py::arg("scope"));

    py::class_<TrackingAdaptor, std::shared_ptr<TrackingAdaptor>, ResourceAdaptor>(m, "TrackingAdaptor", py::is_final())
        .def(py::init(
                 [](const py::object& upstream) { return std::make_shared<TrackingAdaptor>(to_upstream(upstream)); }),
             py::arg("upstream"))
        .def("outstanding", &outstanding_list);

    py::class_<LoggingAdaptor, std::shared_ptr<LoggingAdaptor>, ResourceAdaptor>(m, "LoggingAdaptor", py::is_final())
        .def(py::init([](const py::object& upstream, const py::object& path) {
                 const std::shared_ptr<MemoryResource> over = to_upstream(upstream);
                 const std::string to = to_path(path);
                 const WithoutGil nogil;
                 return std::make_shared<LoggingAdaptor>(over, to);
             }),
             py::arg("upstream"), py::arg("path"))
        .def_property_readonly(
            "path",
            [](const LoggingAdaptor& r) { return py::module_::import("os").attr("fsdecode")(py::bytes(r.path())); })
        .def("flush", &LoggingAdaptor::flush, py::call_guard<WithoutGil>());

    m.def(
        "_push_tag", [](const py::object& name) { return push_tag(to_text(name, "a tag")); }, py::arg("name"),
        "Opens a tag on this thread; answers what _pop_tag takes.");
    m.def("_pop_tag", &pop_tag, py::arg("number"));
    m.def("current_tag", &current_tag);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
