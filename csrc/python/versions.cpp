// SPDX-License-Identifier: MIT
// python/versions.cpp: versions, and the runtime's first answer.
#include <link.h>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

int version_of(rt::Error_t (*ask)(int*), const char* call) {
    refuse_forked();
    int version = 0;
    // A missing driver gives version 0 here.
    const rt::Error_t answer = ask(&version);
    if (answer != rt::Error_t::Success && portamem::detail::means_no_device(answer)) return 0;
    check(answer, call);
    return version;
}

// Returns how many libraries this process has loaded so far: a number that the loader keeps.
unsigned long long loads() {
    unsigned long long adds = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* first, std::size_t, void* out) {
            *static_cast<unsigned long long*>(out) = first->dlpi_adds;
            return 1;
        },
        &adds);
    return adds;
}

}  // namespace

void register_versions(py::module_& m) {
    m.def("runtime_version", [] { return version_of(rt::RuntimeGetVersion, "RuntimeGetVersion"); });
    m.def("driver_version", [] { return version_of(rt::DriverGetVersion, "DriverGetVersion"); });
    m.def("compiled_version", [] { return rt::CompiledVersion(); });
    m.def(
        "version_text", [](int version) { return rt::VersionText(version); }, py::arg("version"));
    m.def("device_count", [] {
        const WithoutGil nogil;
        return device_count();
    });
    m.def("probe", [] {
        int count = 0;
        rt::Error_t answer = rt::Error_t::InitializationError;
        if (portamem_forked() == 0) {
            const WithoutGil nogil;
            answer = rt::GetDeviceCount(&count);
        }
        return py::make_tuple(count, static_cast<int>(answer), rt::GetErrorString(answer));
    });
    m.def("_is_forked", [] { return portamem_forked() != 0; });
    m.def("_loads", &loads, "How many libraries this process has ever loaded: grows with each.");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
