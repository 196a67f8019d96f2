// SPDX-License-Identifier: MIT
// python/view_bindings.cpp: View in Python.
#include "array_interface.hpp"
#include "arrow.hpp"
#include "convert.hpp"
#include "dlpack_import.hpp"
#include "dlpack_methods.hpp"
#include "dlpack_table.hpp"
#include "event.hpp"
#include "fast/transfers.hpp"
#include "fast/view_object.hpp"
#include "fastcall.hpp"
#include "hold.hpp"
#include "host_bytes.hpp"
#include "transfer.hpp"
#include "view_parts.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Returns a NumPy array over `memory`, an object with the bytes from the View's first element to its last.
py::object numpy_array(const View& view, const py::object& memory, const py::object& dtype, const py::object& copy) {
    return py::module_::import("portamem.interop.numpy_arrays")
        .attr("typed")(memory, numpy_dtype(view.type()), to_tuple(view.shape()), to_tuple(view.strides()), dtype, copy);
}

py::object to_numpy(const View& view, const py::object& stream) {
    const py::object empty = py::module_::import("numpy").attr("empty");
    const Span source = Span::of(view.memory());
    const py::object array = view.is_contiguous() ? empty(to_tuple(view.shape()), numpy_dtype(view.type()))
                                                  : empty(view.memory().nbytes(), "uint8");
    const auto on = to_stream(stream);
    const HostBytes target = host_bytes(array, true, "the target");
    {
        const WithoutGil nogil;
        const auto done = copy(Span::host(target.ptr, target.nbytes, target.owner), source, on);
        if (done) done->synchronize();
    }
    return view.is_contiguous() ? array : numpy_array(view, array, py::none(), py::bool_(true));
}

// Returns the same bytes as elements of another type. The last axis gets longer or shorter.
View retyped(const View& view, const py::object& dtype) {
    const Buffer& memory = view.contiguous_memory("the view");
    const ElementType& type = to_element_type(dtype);
    View::Shape shape = view.shape();
    if (type.itemsize != view.type().itemsize) {
        const std::size_t row = shape.empty() ? 0 : shape.back() * view.type().itemsize;
        if (shape.empty() || row % type.itemsize != 0) {
            throw py::value_error("a view of " + view.type().name + text_of(shape) + " has no whole number of " +
                                  type.name + " along its last axis");
        }
        shape.back() = row / type.itemsize;
    }
    if (reinterpret_cast<std::uintptr_t>(memory.address()) % type.itemsize != 0) {
        throw py::value_error("the view begins at an address that is not a multiple of the " +
                              std::to_string(type.itemsize) + " bytes of " + type.name);
    }
    return View(view.buffer(), memory, type, shape, 0);
}

int view_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return get_py_buffer(self, view, flags, [self] { return view_of(self)->host_export(); });
}

PyObject* make_object(PyTypeObject*, PyObject* args, PyObject* keywords) {
    return answer_python([&] {
        static const char* names[] = {"buffer", "dtype", "shape", "offset", "strides", nullptr};
        static PyObject* const uint8 = PyUnicode_InternFromString("uint8");
        PyObject *buffer = nullptr, *dtype = uint8, *shape = Py_None, *offset = nullptr, *strides = nullptr;
        if (PyArg_ParseTupleAndKeywords(args, keywords, "O|OO$OO:View", const_cast<char**>(names), &buffer, &dtype,
                                        &shape, &offset, &strides) == 0) {
            throw py::error_already_set();
        }
        return to_python(make_view(buffer, dtype, shape, offset, strides)).release().ptr();
    });
}

// Calls a function of portamem.interop.tensors, which is looked up once.
PyObject* to_partner(py::object*& function, const char* name, PyObject* view) {
    return answer_python([&] {
        view_of(view)->memory();  // refuses a closed view before the partner is imported
        if (function == nullptr) {
            function = new py::object(py::module_::import("portamem.interop.tensors").attr(name));
        }
        PyObject* made = PyObject_CallOneArg(function->ptr(), view);
        if (made == nullptr) throw py::error_already_set();
        return made;
    });
}

PyObject* to_torch(PyObject* self, PyObject*) {
    static py::object* function = nullptr;
    return to_partner(function, "to_torch", self);
}

PyObject* to_cupy(PyObject* self, PyObject*) {
    static py::object* function = nullptr;
    return to_partner(function, "to_cupy", self);
}

PyObject* to_jax(PyObject* self, PyObject*) {
    static py::object* function = nullptr;
    return to_partner(function, "to_jax", self);
}

PyObject* to_numba(PyObject* self, PyObject*) {
    static py::object* function = nullptr;
    return to_partner(function, "to_numba", self);
}

PyObject* view_handle(PyObject* self, void*) {
    return answer_python([&] { return PyLong_FromVoidPtr(address_for_program(view_of(self)->memory())); });
}

PyObject* view_nbytes(PyObject* self, void*) { return PyLong_FromSize_t(view_of(self)->nbytes()); }

PyObject* view_shape(PyObject* self, void*) {
    return answer_python([&] { return to_tuple(view_of(self)->shape()).release().ptr(); });
}

PyObject* view_is_closed(PyObject* self, void*) { return PyBool_FromLong(view_of(self)->is_closed()); }

PyObject* view_readonly(PyObject* self, void*) {
    return answer_python([&] { return PyBool_FromLong(view_of(self)->is_read_only()); });
}

// Answers NumPy where the buffer protocol refused: with an array of ml_dtypes, which that protocol cannot name.
py::object to_array(const View& view, const py::object& dtype, const py::object& copy) {
    require_host_access(view.memory(), "NumPy");
    refuse_after_signal();
    return numpy_array(view, to_python(view.bytes()), dtype, copy);
}

}  // namespace

void register_view(py::module_& m) {
    static PyMethodDef methods[] = {
        copy_to_method(),
        copy_from_method(),
        dlpack_method(),
        dlpack_device_method(),
        dlpack_devices_method(),
        {"to_torch", to_torch, METH_NOARGS, nullptr},
        {"to_cupy", to_cupy, METH_NOARGS, nullptr},
        {"to_jax", to_jax, METH_NOARGS, nullptr},
        {"to_numba", to_numba, METH_NOARGS, nullptr},
        {nullptr, nullptr, 0, nullptr},
    };
    static PyGetSetDef attributes[] = {
        {"handle", view_handle, nullptr, nullptr, nullptr},
        {"nbytes", view_nbytes, nullptr, nullptr, nullptr},
        {"shape", view_shape, nullptr, nullptr, nullptr},
        {"is_closed", view_is_closed, nullptr, nullptr, nullptr},
        {"readonly", view_readonly, nullptr, nullptr, nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    PyTypeObject* made = make_view_type(methods, attributes, view_getbuffer, make_object);
    m.add_object("View", reinterpret_cast<PyObject*>(made));
    install_exchange_table(made);
    PlainClass<View> type(made);
    type.def_property_readonly("buffer", [](const View& v) { return v.memory(), v.buffer(); })
        .def_property_readonly("dtype", [](const View& v) { return numpy_dtype(v.type()); })
        .def_property_readonly("typestr", [](const View& v) { return v.type().typestr; })
        .def_property_readonly("itemsize", [](const View& v) { return v.type().itemsize; })
        .def_property_readonly("strides", [](const View& v) { return to_tuple(v.strides()); })
        .def_property_readonly("ndim", [](const View& v) { return v.shape().size(); })
        .def_property_readonly("size", &View::size)
        .def_property_readonly("backend", [](const View&) { return rt::BackendName; })
        .def_property_readonly("device_id", [](const View& v) { return v.memory().traits().device_id(); })
        .def_property_readonly("is_host_accessible", [](const View& v) { return v.memory().traits().host_accessible; })
        .def_property_readonly("is_device_accessible",
                               [](const View& v) { return v.memory().traits().device_accessible; })
        .def_property_readonly("is_contiguous", &View::is_contiguous)
        .def_property_readonly("T", [](const View& v) { return transposed(v, py::args()); })
        .def("transpose", &transposed)
        .def("reshape", &reshaped)
        .def("ravel", [](const View& v) { return v.reshaped({v.size()}); })
        .def("view", &retyped, py::arg("dtype") = "uint8")
        .def("to_numpy", &to_numpy, py::kw_only(), py::arg("stream") = py::none())
        .def_static("from_dlpack", &from_dlpack, py::arg("obj"), py::kw_only(), py::arg("stream") = py::none())
        .def("close", &View::close)
        .def_property_readonly("__array_interface__", &host_interface)
        .def_property_readonly("__cuda_array_interface__", &device_interface)
        .def("__arrow_c_array__", &export_arrow, py::arg("requested_schema") = py::none())
        .def("__arrow_c_device_array__", &export_arrow_device, py::arg("requested_schema") = py::none())
        .def("__len__",
             [](const View& v) {
                 if (v.shape().empty()) throw py::type_error("a view without dimensions has no length");
                 return v.shape().front();
             })
        .def("__iter__",
             [](const py::object& self) {
                 if (view_of(self)->shape().empty()) {
                     throw py::type_error("a view without dimensions has no parts to go through");
                 }
                 auto parts = py::reinterpret_steal<py::object>(PySeqIter_New(self.ptr()));
                 if (!parts) throw py::error_already_set();
                 return parts;
             })
        .def("__bool__", [](const View& v) { return !v.is_closed(); })
        .def("__getitem__", &part_of, py::arg("key"), py::pos_only())
        .def("__enter__", [](const py::object& self) { return self; })
        .def(
            "__exit__", [](View& v, const py::object&, const py::object&, const py::object&) { v.close(); },
            py::arg("exc_type"), py::arg("exc"), py::arg("tb"), py::pos_only())
        .def("_repr_html_",
             [](const py::object& self) { return py::module_::import("portamem._html").attr("view")(self); })
        .def("__repr__", [](const View& v) {
            return "<portamem." + std::string(rt::BackendName) + ".View " + v.type().name + text_of(v.shape()) +
                   (v.is_closed() ? " closed>" : ">");
        });
    m.def("from_dlpack", &from_dlpack, py::arg("obj"), py::kw_only(), py::arg("stream") = py::none());
    type.def("__array__", &to_array, py::arg("dtype") = py::none(), py::arg("copy") = py::none());
    define_fill(type, [](View& v) { return Span::of(v.contiguous_memory("the view")); });
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
