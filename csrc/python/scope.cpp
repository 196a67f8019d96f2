// SPDX-License-Identifier: MIT
// python/scope.cpp: the current and the default resource of a device, and the bytes that portamem holds.
//
// The scopes of using() live in a context variable, so that each task of asyncio has its own, and a thread that is
// given a context has its scopes. Each scope lies on its thread's stack in libportamem too (abi/scope_api.h).
#include <portamem/abi/scope_api.h>

#include "convert.hpp"
#include "fast/arrays.hpp"
#include "gil.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using portamem::detail::Shared;
using portamem::detail::shared_ops;
using portamem::detail::TableReference;

constexpr const char* kScopeName = "portamem.scope";

// Is the context variable of this module. Its value is a tuple of scopes, the innermost last; each scope is a pair of a
// device's ordinal and a capsule that holds one reference to a Shared.
PyObject* scopes_variable = nullptr;

py::tuple open_scopes() {
    PyObject* value = nullptr;
    if (PyContextVar_Get(scopes_variable, nullptr, &value) < 0) throw py::error_already_set();
    return value == nullptr ? py::tuple(0) : py::reinterpret_steal<py::tuple>(value);
}

void set_open_scopes(const py::tuple& scopes) {
    PyObject* const token = PyContextVar_Set(scopes_variable, scopes.ptr());
    if (token == nullptr) throw py::error_already_set();
    Py_DECREF(token);
}

Shared* shared_of(PyObject* scope) {
    return static_cast<Shared*>(PyCapsule_GetPointer(PyTuple_GET_ITEM(scope, 1), kScopeName));
}

// Finds the innermost scope of the calling task, for libportamem: see portamem_scope_source.
int innermost_scope(int device, portamem_resource* resource) {
    if (interpreter_is_going() || !holds_gil()) return -1;
    PyObject* value = nullptr;
    if (PyContextVar_Get(scopes_variable, nullptr, &value) < 0) {
        PyErr_Clear();
        return -1;
    }
    int answer = 0;
    for (Py_ssize_t i = value == nullptr ? 0 : PyTuple_GET_SIZE(value); i-- > 0 && answer == 0;) {
        PyObject* const scope = PyTuple_GET_ITEM(value, i);
        if (PyLong_AsLong(PyTuple_GET_ITEM(scope, 0)) != device) continue;
        *resource = {shared_ops(), shared_of(scope)};
        resource->ops->retain(resource->self);
        answer = 1;
    }
    Py_XDECREF(value);
    return answer;
}

// Opens a scope in the calling task's context, and returns what pop_scope takes.
py::object push_scope(const std::shared_ptr<MemoryResource>& resource) {
    refuse_forked();
    if (resource->is_closed()) throw std::invalid_argument("the memory resource is closed");
    const TableReference reference(resource);
    const portamem_resource handle = reference.handle();
    handle.ops->retain(handle.self);
    const auto release = [](PyObject* capsule) {
        const PendingErrorKept pending;  // the last reference to a resource may run code of the program
        void* const self = PyCapsule_GetPointer(capsule, kScopeName);
        // Where the last context that had the scope is gone without its end, this thread may still have it.
        const auto device = reinterpret_cast<std::intptr_t>(PyCapsule_GetContext(capsule));
        (void)portamem_scope_end(rt::BackendId, static_cast<int>(device), self);
        shared_ops()->release(self);
    };
    PyObject* const capsule = PyCapsule_New(handle.self, kScopeName, release);
    if (capsule == nullptr) {
        handle.ops->release(handle.self);
        throw py::error_already_set();
    }
    const auto held = py::reinterpret_steal<py::object>(capsule);
    if (PyCapsule_SetContext(capsule, reinterpret_cast<void*>(std::intptr_t{resource->device()})) != 0) {
        throw py::error_already_set();
    }
    const py::tuple scope = py::make_tuple(resource->device(), held);
    PyObject* const scopes = PySequence_Concat(open_scopes().ptr(), py::make_tuple(scope).ptr());
    if (scopes == nullptr) throw py::error_already_set();
    set_open_scopes(py::reinterpret_steal<py::tuple>(scopes));
    portamem_push_embedded_scope(rt::BackendId, resource->device(), handle);
    portamem_set_scope_source(rt::BackendId, &innermost_scope);
    return scope;
}

// Ends that scope, innermost or not, in the calling task's context.
void pop_scope(const py::tuple& scope) {
    if (scope.size() != 2 || PyCapsule_IsValid(py::object(scope[1]).ptr(), kScopeName) == 0) {
        throw py::type_error("a scope is what _push_resource returns");
    }
    const py::tuple before = open_scopes();
    py::list after;
    bool is_open = false;
    bool is_innermost = true;  // of its device
    for (const py::handle each : before) {
        if (each.is(scope)) {
            is_open = true;
            continue;
        }
        after.append(each);
        if (is_open && py::tuple(py::reinterpret_borrow<py::tuple>(each))[0].equal(scope[0])) is_innermost = false;
    }
    if (!is_open) {
        throw std::logic_error(
            "the scope of a resource is not open in this context: a scope ends in the task and on the thread that it "
            "began in");
    }
    set_open_scopes(py::tuple(after));
    const int ordinal = scope[0].cast<int>();
    if (portamem_scope_end(rt::BackendId, ordinal, shared_of(scope.ptr())) < 0) {
        throw std::logic_error(
            "the scope of a resource is not open on this thread: scopes end on the thread that they began on");
    }
    if (!is_innermost) {
        throw std::logic_error(
            "the scope of a resource has ended before one that began within it, which stays: the last one ends first; "
            "where generators take turns on a thread, name the resource in each call instead");
    }
}

}  // namespace

void register_scope(py::module_& m) {
    const std::string name = std::string("portamem.") + rt::BackendName + ".using";
    scopes_variable = PyContextVar_New(name.c_str(), nullptr);
    if (scopes_variable == nullptr) throw py::error_already_set();
    portamem::detail::serve_default();
    m.def(
        "current_resource",
        [](const py::object& device) {
            // The device is known to be there before a scope is looked for, which needs the GIL.
            const int ordinal = to_device(device).ordinal();
            if (has_resource_scope(ordinal)) return current_resource(ordinal);
            const WithoutGil nogil;
            return default_resource(ordinal);
        },
        py::arg("device") = py::none());
    m.def(
        "default_resource",
        [](const py::object& device) {
            const int ordinal = to_device(device).ordinal();
            const WithoutGil nogil;
            return default_resource(ordinal);
        },
        py::arg("device") = py::none());
    m.def(
        "set_default_resource",
        [](const py::object& device, const std::shared_ptr<MemoryResource>& resource) {
            const int ordinal = to_device(device).ordinal();
            {
                const WithoutGil nogil;
                set_default_resource(ordinal, resource);
            }
            forget_changed_defaults();
        },
        py::arg("device"), py::arg("resource"));
    m.def("_push_resource", &push_scope, py::arg("resource").none(false),
          "Opens a scope in the calling task's context; returns what _pop_resource takes.");
    m.def("_pop_resource", &pop_scope, py::arg("scope"));
    m.def(
        "held",
        [](const py::object& device) {
            const bool host = py::isinstance<py::str>(device) && to_text(device, "a device") == "host";
            return portamem_held(rt::BackendId, host ? rt::CpuDeviceId : to_device(device).ordinal());
        },
        py::arg("device") = py::none());
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
