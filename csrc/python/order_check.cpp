// SPDX-License-Identifier: MIT
// python/order_check.cpp: sessions of the order checker, and the call sites of a Python program.
#include <portamem/abi/debug_api.h>
#include <portamem/abi/order_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "call_site.hpp"

namespace portamem::python {

namespace {

constexpr std::size_t kSiteSize = 1024;

struct RememberedSite {
    char text[kSiteSize];  // empty: none
};

RememberedSite& remembered_site() {
    static thread_local RememberedSite site{};
    return site;
}

// Returns the folders of the package, each with a slash; an editable install has two. Frames in them are portamem's
// own. They are written once, while the module is loaded.
std::vector<std::string>& package_folders() {
    static auto* leaked = new std::vector<std::string>;
    return *leaked;
}

bool is_own_file(const char* file) {
    const std::vector<std::string>& all = package_folders();
    return std::any_of(all.begin(), all.end(),
                       [file](const std::string& own) { return std::strncmp(file, own.c_str(), own.size()) == 0; });
}

// Writes "file:line" of the innermost frame outside portamem, or of the innermost one where all are inside. It needs
// the GIL. Returns false where this thread runs no Python.
bool write_site(char* text, std::size_t size) {
    const PendingErrorKept pending;
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    bool written = false;
    while (frame != nullptr) {
        const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
        const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
        if (file == nullptr) {
            PyErr_Clear();
            file = "?";
        }
        const bool own = is_own_file(file);
        if (!own || !written) (void)std::snprintf(text, size, "%s:%d", file, PyFrame_GetLineNumber(frame));
        written = true;
        PyFrameObject* outer = own ? PyFrame_GetBack(frame) : nullptr;
        Py_DECREF(frame);
        frame = outer;
    }
    return written;
}

void want_sites() {
    portamem_order_set_site_provider(provide_site);
    detail::sites_wanted.store(true, std::memory_order_relaxed);
}

}  // namespace

int provide_site(char* text, std::size_t size) {
    if (interpreter_is_going()) return 0;
    if (holds_gil()) return write_site(text, size) ? 1 : 0;
    const RememberedSite& site = remembered_site();
    if (site.text[0] == '\0') return 0;
    (void)std::snprintf(text, size, "%s", site.text);
    return 1;
}

namespace detail {

void remember_site() noexcept {
    RememberedSite& site = remembered_site();
    if (!write_site(site.text, kSiteSize)) site.text[0] = '\0';
}

void forget_site() noexcept { remembered_site().text[0] = '\0'; }

}  // namespace detail

inline namespace PORTAMEM_BACKEND {

namespace {

py::tuple use_tuple(const portamem_order_use& use) {
    return py::make_tuple(use.call, use.site, use.stream, use.handle, use.device);
}

py::list order_findings(std::uint64_t session) {
    py::list findings;
    // The visitor is called with no lock held, so it may make Python objects. It may not throw through C.
    struct Into {
        py::list* list;
        std::exception_ptr failed;
    } into{&findings, nullptr};
    (void)portamem_order_visit(
        session,
        [](void* self, const portamem_order_finding* finding) {
            auto& to = *static_cast<Into*>(self);
            if (to.failed) return;
            try {
                to.list->append(py::make_tuple(finding->kind, finding->address, finding->nbytes,
                                               use_tuple(finding->first), use_tuple(finding->second), finding->advice,
                                               finding->count, finding->text));
            } catch (...) {
                to.failed = std::current_exception();
            }
        },
        &into);
    if (into.failed) std::rethrow_exception(into.failed);
    return findings;
}

}  // namespace

void register_order_check(py::module_& m) {
    for (const py::handle folder : py::module_::import("portamem").attr("__path__")) {
        package_folders().push_back(folder.cast<std::string>() + "/");
    }
    if (portamem_order_is_on(rt::BackendId) != 0 || portamem_debug_on() != 0) want_sites();
    m.def(
        "_order_begin",
        [] {
            refuse_forked();
            const std::uint64_t session = portamem_order_begin(rt::BackendId);
            if (session != 0) want_sites();
            return session;
        },
        "Opens a session of the order checker; 0 where this backend's calls are not followed.");
    m.def("_order_findings", &order_findings, py::arg("session"), "The findings of a session so far, as tuples.");
    m.def(
        "_order_end",
        [](std::uint64_t session) {
            (void)portamem_order_end(session);
            if (portamem_order_is_on(rt::BackendId) != 0 || portamem_debug_on() != 0) return;
            detail::sites_wanted.store(false, std::memory_order_relaxed);
        },
        py::arg("session"), "Closes a session.");
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
