// SPDX-License-Identifier: MIT
// tests/packaging/registry/foreign.cpp: an extension module that is not portamem's and uses its registry.
//
// Compiled twice, as two modules: one links libportamem, the other knows only the header and takes the functions from
// the capsule, which is what a package does that must also load without portamem.
#include <Python.h>

#include <cstddef>

#include "portamem/c_api.h"

namespace {

const portamem_api* api = nullptr;

const portamem_api* find_api() {
#if defined(LINKS_LIBPORTAMEM)
    return portamem_get_api();
#else
    PyObject* module = PyImport_ImportModule("portamem.host");
    PyObject* capsule = module ? PyObject_GetAttrString(module, "_c_api") : nullptr;
    void* table = capsule ? PyCapsule_GetPointer(capsule, PORTAMEM_CAPSULE_NAME) : nullptr;
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    return static_cast<const portamem_api*>(table);
#endif
}

// A resource that only has an identity: the address of its `self`.
void keep(void*) {}
const portamem_resource_ops kOps = {
    sizeof(portamem_resource_ops), nullptr, nullptr, nullptr, nullptr, nullptr, keep, keep, nullptr, nullptr};
char kSelf;

PyObject* abi_version(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(api->abi_version); }

PyObject* account(PyObject*, PyObject* args) {
    long long bytes = 0;
    if (!PyArg_ParseTuple(args, "L", &bytes)) return nullptr;
    api->account(PORTAMEM_BACKEND_HOST, 0, bytes);
    Py_RETURN_NONE;
}

PyObject* held(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(api->held(PORTAMEM_BACKEND_HOST, 0)); }

PyObject* new_identity(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(api->new_identity()); }

PyObject* own_resource(PyObject*, PyObject*) { return PyLong_FromVoidPtr(&kSelf); }

PyObject* push(PyObject*, PyObject*) {
    api->scope_push(PORTAMEM_BACKEND_HOST, 0, portamem_resource{&kOps, &kSelf});
    Py_RETURN_NONE;
}

PyObject* pop(PyObject*, PyObject*) { return PyLong_FromLong(api->scope_pop(PORTAMEM_BACKEND_HOST, 0)); }

PyObject* end(PyObject*, PyObject*) {
    const bool reaches = api->size > offsetof(portamem_api, scope_end);
    return PyLong_FromLong(reaches ? api->scope_end(PORTAMEM_BACKEND_HOST, 0, &kSelf) : -2);
}

PyObject* current(PyObject*, PyObject*) {
    portamem_resource resource{};
    if (api->scope_current(PORTAMEM_BACKEND_HOST, 0, &resource) != 0) Py_RETURN_NONE;
    resource.ops->release(resource.self);
    return PyLong_FromVoidPtr(resource.self);
}

PyMethodDef methods[] = {{"abi_version", abi_version, METH_NOARGS, nullptr},
                         {"account", account, METH_VARARGS, nullptr},
                         {"held", held, METH_NOARGS, nullptr},
                         {"new_identity", new_identity, METH_NOARGS, nullptr},
                         {"own_resource", own_resource, METH_NOARGS, nullptr},
                         {"push", push, METH_NOARGS, nullptr},
                         {"pop", pop, METH_NOARGS, nullptr},
                         {"end", end, METH_NOARGS, nullptr},
                         {"current", current, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, MODULE_NAME, nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC MODULE_INIT() {
    api = find_api();
    return api ? PyModule_Create(&definition) : nullptr;
}
