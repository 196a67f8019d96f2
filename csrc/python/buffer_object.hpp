// SPDX-License-Identifier: MIT
// python/buffer_object.hpp: the Python objects of Buffer, PitchedBuffer and GrowableBuffer.
//
// Buffers come and go with every allocation, so theirs is a plain type with the Buffer inside the object. An object of
// pybind11's takes three blocks of memory and an entry in a table besides. This header has the type, the conversions by
// which pybind11 takes and gives such objects in functions of its own, and the means to define methods by those.
//
// A pool gives memory in less time than C++ takes to count a reference to it and to its stream, so making an object or
// dropping the GIL costs too much. Where a resource has memory at hand, neither is done: dropped objects are kept with
// their Allocation, and the new one holds the Python objects of resource and stream. The same objects serve resources
// that have to be asked, in little more than their own time.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Returns the memory of an object of these classes; null for any other.
Buffer* buffer_of(const py::handle& object) noexcept;

/// Returns the rows of a PitchedBuffer object; null for any other.
PitchedBuffer* pitched_buffer_of(const py::handle& object) noexcept;

/// Returns the memory of a GrowableBuffer object; null for any other.
GrowableBuffer* growable_buffer_of(const py::handle& object) noexcept;

/// Return a new object that owns the memory. They need the GIL.
py::object to_python(Buffer&& buffer);
py::object to_python(PitchedBuffer&& buffer);
py::object to_python(GrowableBuffer&& buffer);

/// Returns a new Buffer object of memory that the resource has at hand, with the GIL kept: Resource::allocate_cached.
/// It keeps both objects alive; `stream` is in the second. Returns null where there is none at hand.
PyObject* cached_buffer(PyObject* resource_object, MemoryResource& resource, std::size_t nbytes,
                        PyObject* stream_object, const std::shared_ptr<Stream>& stream, std::size_t alignment);

/// Does the same with memory that the resource has to be asked for, outside of the GIL. Throws as its allocate does.
/// Returns null where no object can be used again; the caller uses to_python then.
PyObject* unshared_buffer(PyObject* resource_object, MemoryResource& resource, std::size_t nbytes,
                          PyObject* stream_object, const std::shared_ptr<Stream>& stream, std::size_t alignment);

/// Closes the Buffer of an object in the same way; returns false, and does nothing, where that cannot be.
bool close_cached(Buffer& buffer) noexcept;
/// Throws as Buffer::close does.
bool close_unshared(Buffer& buffer);

/// Does the wait that was put off until the program gets the address (Buffer::settle), while other Python threads run.
void settle_unlocked(const Buffer& buffer);

/// Returns the address for the program, after that wait.
void* address_for_program(const Buffer& buffer);

/// Returns the bytes of a Buffer object as DLPack has a shape and a stride: two numbers, which stay with the object.
std::int64_t* lent_extents(const py::handle& object) noexcept;

/// Make the types, the first one first. methods and attributes: what Python finds without pybind11; each ends with a
/// null name. get: the buffer protocol, of which release_py_buffer is the other half.
PyTypeObject* make_buffer_type(PyMethodDef* methods, PyGetSetDef* attributes, getbufferproc get);
PyTypeObject* make_pitched_buffer_type();
PyTypeObject* make_growable_buffer_type();

/// Defines methods and attributes of a plain type by functions that pybind11 wraps, as py::class_ does for its own.
template <class T>
class PlainClass {
  public:
    using type = T;

    explicit PlainClass(PyTypeObject* of)
        : type_(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(of))) {}

    template <class Function, class... Extra>
    PlainClass& def(const char* name, Function&& function, const Extra&... extra) {
        type_.attr(name) = method(name, std::forward<Function>(function), extra...);
        return *this;
    }
    template <class Function, class... Extra>
    PlainClass& def_static(const char* name, Function&& function, const Extra&... extra) {
        const py::cpp_function wrapped(std::forward<Function>(function), py::name(name), py::scope(type_), extra...);
        type_.attr(name) = py::staticmethod(wrapped);
        return *this;
    }
    template <class Function>
    PlainClass& def_property_readonly(const char* name, Function&& get, const char* doc = nullptr) {
        const auto property = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyProperty_Type));
        const py::object text = doc == nullptr ? py::object(py::none()) : py::str(doc);
        type_.attr(name) = property(method(name, std::forward<Function>(get)), py::none(), py::none(), text);
        return *this;
    }

  private:
    template <class Function, class... Extra>
    py::cpp_function method(const char* name, Function&& function, const Extra&... extra) {
        return py::cpp_function(std::forward<Function>(function), py::name(name), py::is_method(type_), extra...);
    }

    py::object type_;
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python

namespace pybind11::detail {

// Converts by reference from Python, and by value to it.
template <class T, T* (*Find)(const handle&) noexcept>
class plain_caster {
  public:
    bool load(handle source, bool) {
        value_ = Find(source);
        return value_ != nullptr;
    }
    static handle cast(T&& value, return_value_policy, handle) {
        return portamem::python::to_python(std::move(value)).release();
    }
    operator T*() { return value_; }
    operator T&() { return *value_; }
    template <class U>
    using cast_op_type = pybind11::detail::cast_op_type<U>;

  private:
    T* value_ = nullptr;
};

template <>
class type_caster<portamem::Buffer> : public plain_caster<portamem::Buffer, portamem::python::buffer_of> {
  public:
    static constexpr auto name = const_name("Buffer");
};

template <>
class type_caster<portamem::PitchedBuffer>
    : public plain_caster<portamem::PitchedBuffer, portamem::python::pitched_buffer_of> {
  public:
    static constexpr auto name = const_name("PitchedBuffer");
};

template <>
class type_caster<portamem::GrowableBuffer>
    : public plain_caster<portamem::GrowableBuffer, portamem::python::growable_buffer_of> {
  public:
    static constexpr auto name = const_name("GrowableBuffer");
};

}  // namespace pybind11::detail
