// SPDX-License-Identifier: MIT
// python/pool_resource.cpp: PoolMemoryResource.
#include <portamem/abi/pool_settings.h>

#include "callbacks.hpp"
#include "convert.hpp"
#include "hold.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using MemoryPool = PoolMemoryResource;

py::object pool_stats(const PoolStats& s) {
    return py::module_::import("portamem._pool")
        .attr("PoolStats")(s.used, s.reserved, s.peak, s.largest_free, s.free_blocks, s.fragmentation, s.hits, s.misses,
                           s.steals, s.releases);
}

// Returns the snapshot from C++'s JSON, so that there is one schema.
py::object pool_snapshot(const MemoryPool& pool) {
    std::string json;
    {
        const WithoutGil nogil;
        json = to_json(PoolSnapshot::of(pool));
    }
    return py::module_::import("portamem._pool").attr("PoolSnapshot")(py::module_::import("json").attr("loads")(json));
}

// Returns whether Python has just raised the exception, and clears it.
bool raised(PyObject* type) {
    if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(type) == 0) return false;
    PyErr_Clear();
    return true;
}

// Returns a share by __float__ or __index__; text has neither.
double to_share(const py::object& release) {
    double share = -1;
    if (!is_flag(release)) share = PyFloat_AsDouble(release.ptr());
    if (is_flag(release) || raised(PyExc_TypeError)) {
        throw py::type_error(
            std::string("release is a share of the peak, a number from 0 to 1, or a function of the stats, not ") +
            type_name(release));
    }
    if (!raised(PyExc_OverflowError) && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (!(share >= 0 && share <= 1)) throw py::value_error("release is a share of the peak, from 0 to 1");
    return share;
}

// Returns a share of the peak, or a function of the stats, held so that the last reference may go on any thread.
std::function<std::optional<std::size_t>(const PoolStats&)> to_release(const py::object& release) {
    if (release.is_none()) return nullptr;
    if (PyCallable_Check(release.ptr()) != 0) {
        return [held = hold(release)](const PoolStats& stats) -> std::optional<std::size_t> {
            if (interpreter_is_going()) return std::nullopt;
            const WithGil gil;
            try {
                const py::object keep = call(held_object(held), pool_stats(stats));
                if (keep.is_none()) return std::nullopt;
                return to_size(keep, "what a release policy answers");
            } catch (py::error_already_set& e) {
                e.discard_as_unraisable("the release policy of a pool");
            } catch (const std::exception& e) {
                PyErr_SetString(PyExc_ValueError, e.what());
                PyErr_WriteUnraisable(held_object(held).ptr());
            }
            return std::nullopt;
        };
    }
    return PoolOptions::keep_share_of_peak(to_share(release));
}

// Returns a size of a pool, where text such as "70%" is a share of the device's memory.
std::size_t to_pool_size(const py::object& value, const char* what, const MemoryTraits& memory) {
    if (!py::isinstance<py::str>(value)) return to_size(value, what);
    const std::string text = to_text(value, what);
    std::uint64_t share = 0;
    const int is_share = portamem_pool_parse_share(text.c_str(), 0, &share);
    if (is_share == 0) return to_size(value, what);
    if (is_share < 0) {
        throw py::value_error(std::string(what) + ": '" + text +
                              "' is not a share of a device's memory: give a percentage above 0% and up to 100%");
    }
    if (memory.is_host_memory) {
        throw py::value_error(std::string(what) + ": a percentage is of a device's memory; give host memory in bytes");
    }
    const WithoutGil nogil;
    (void)portamem_pool_parse_share(text.c_str(), Device(memory.device).memory_info().total, &share);
    return share;
}

// Returns a limit in bytes; 0 for None.
std::size_t to_limit(const py::object& limit, const MemoryTraits& memory) {
    if (limit.is_none()) return 0;
    const std::size_t nbytes = to_pool_size(limit, "limit", memory);
    if (nbytes == 0)
        throw py::value_error("a pool with a limit of 0 bytes could give nothing: give more, or None for no limit");
    return nbytes;
}

std::shared_ptr<MemoryPool> make_memory_pool(const py::object& over, const py::object& device, const py::object& limit,
                                             const py::object& release, const py::object& host_access,
                                             const py::object& shares_idle, const py::object& initial_size) {
    std::shared_ptr<MemoryResource> upstream = over.is_none() ? nullptr : to_upstream(over);
    PoolOptions options;
    options.host_access = to_flag(host_access, "host_access");
    options.shares_idle = to_flag(shares_idle, "shares_idle");
    options.release = to_release(release);
    if (upstream != nullptr && !device.is_none() && to_device(device).ordinal() != upstream->device()) {
        throw py::value_error("the upstream resource is of device " + std::to_string(upstream->device()) +
                              ": leave the device out, or name that one");
    }
    if (upstream == nullptr) upstream = std::make_shared<DeviceMemoryResource>(to_device(device).ordinal());
    options.limit = to_limit(limit, upstream->traits());
    if (!initial_size.is_none()) {
        options.initial_size = to_pool_size(initial_size, "initial_size", upstream->traits());
    }
    const WithoutGil nogil;
    return MemoryPool::create(std::move(upstream), std::move(options));
}

}  // namespace

void register_pool_resource(py::module_& m) {
    py::class_<MemoryPool, std::shared_ptr<MemoryPool>, MemoryResource>(m, "PoolMemoryResource", py::is_final())
        .def(py::init(&make_memory_pool), py::arg("upstream") = py::none(), py::kw_only(),
             py::arg("device") = py::none(), py::arg("limit") = py::none(), py::arg("release") = py::none(),
             py::arg("host_access") = true, py::arg("shares_idle") = true, py::arg("initial_size") = py::none())
        .def_property_readonly("upstream", &MemoryPool::upstream)
        .def_property(
            "limit",
            [](const MemoryPool& p) {
                return p.limit() == 0 ? py::object(py::none()) : py::object(py::int_(p.limit()));
            },
            [](MemoryPool& p, const py::object& limit) { p.set_limit(to_limit(limit, p.traits())); })
        .def_property_readonly("is_checked", &MemoryPool::is_checked)
        .def("stats",
             [](const MemoryPool& p) {
                 PoolStats stats;
                 {
                     const WithoutGil nogil;
                     stats = p.stats();
                 }
                 return pool_stats(stats);
             })
        .def("snapshot", &pool_snapshot)
        .def("reset_peak", &MemoryPool::reset_peak, py::call_guard<WithoutGil>())
        .def(
            "trim",
            [](MemoryPool& p, const py::object& keep, const py::object& stream) {
                const std::size_t most = to_size(keep, "keep");
                const auto on = to_stream(stream);
                const WithoutGil nogil;
                if (on) {
                    p.trim(most, on);
                } else {
                    p.trim(most);
                }
            },
            py::arg("keep") = 0, py::kw_only(), py::arg("stream") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
