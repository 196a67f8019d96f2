// SPDX-License-Identifier: MIT
// python/buffer_object.cpp: the Python objects of Buffer, PitchedBuffer and GrowableBuffer.
#include "buffer_object.hpp"

#include <structmember.h>

#include <array>
#include <cstddef>
#include <string>

#include "hold.hpp"
#include "host_export.hpp"
#include "portamem/detail/embedded_buffer.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using portamem::detail::Embedded;
using portamem::detail::EmbedderRefs;

// Represents the part that all objects have. `memory` is the value behind it, whatever its class.
struct Head {
    PyObject ob_base;
    PyObject* weak_references;
    Buffer* memory;
    std::int64_t extents[2];  // for DLPack, written at each question
};

template <class T>
struct BufferObject {
    Head head;
    T value;
};

// These are kept for good: a module's types live as long as the process.
PyTypeObject* buffer_type = nullptr;
PyTypeObject* pitched_buffer_type = nullptr;
PyTypeObject* growable_buffer_type = nullptr;

Head* head_of(PyObject* self) { return reinterpret_cast<Head*>(self); }

// Holds Buffer objects that were dropped, each with a blank Allocation, and without a reference. It needs the GIL.
struct Spare {
    static constexpr std::size_t kMost = 64;
    std::array<PyObject*, kMost> objects{};
    std::size_t count = 0;
};
Spare spare;

// Lets go of the two objects, which may run the program's code.
void drop(const EmbedderRefs& refs) {
    Py_DECREF(static_cast<PyObject*>(refs.stream));
    Py_DECREF(static_cast<PyObject*>(refs.resource));
}

bool close_unshared(Buffer& buffer, EmbedderRefs& refs, bool is_dropped) {
    std::shared_ptr<Allocation> memory = Embedded::detach_unique(buffer);
    if (!memory) return false;
    bool is_closed = false;
    try {
        if (is_dropped) {
            const WithoutGil nogil(portamem::detail::Hearing::AtOnce);
            is_closed = Embedded::drop_unshared(*memory, refs);
        } else {
            const WithoutGil nogil;
            is_closed = Embedded::close_unshared(*memory, refs);
        }
    } catch (...) {
        Embedded::reattach(buffer, std::move(memory));
        throw;
    }
    Embedded::reattach(buffer, std::move(memory));
    return is_closed;
}

// Closes a dropped buffer. The Buffer's destructor handles a buffer that cannot be closed now.
bool close_dropped(Buffer& buffer, EmbedderRefs& refs) noexcept {
    if (Embedded::close_cached(buffer, refs)) return refs.let_go != nullptr;
    try {
        return close_unshared(buffer, refs, true);
    } catch (...) {
        return false;
    }
}

bool keep(PyObject* self) noexcept {
    if (spare.count == Spare::kMost) return false;
    spare.objects[spare.count++] = self;
    return true;
}

// Keeps an object whose last reference has gone.
bool keep_spare(PyObject* self, Buffer& buffer) {
    if (spare.count == Spare::kMost || portamem::python::detail::follows_sites()) return false;
    if (buffer.is_closed()) return Embedded::is_blank(buffer) && keep(self);
    if (!runtime_usable()) return false;
    EmbedderRefs refs;
    if (!close_dropped(buffer, refs)) return false;
    const bool kept = keep(self);
    drop(refs);
    return kept;
}

void add_spare() {
    PyObject* self = buffer_type->tp_alloc(buffer_type, 0);
    if (self == nullptr) throw py::error_already_set();
    auto* object = reinterpret_cast<BufferObject<Buffer>*>(self);
    object->head.memory = ::new (static_cast<void*>(&object->value)) Buffer(Embedded::blank());
    Py_DECREF(self);
}

void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    if (Buffer* memory = head_of(self)->memory) memory->~Buffer();
    type->tp_free(self);
    Py_DECREF(type);
}

void dealloc(PyObject* self) {
    const PendingErrorKept pending;
    Head* head = head_of(self);
    if (head->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    if (Py_TYPE(self) == buffer_type && head->memory != nullptr && keep_spare(self, *head->memory)) return;
    destroy(self);
}

// Returns a blank object, which is no longer spare; null where there is none.
PyObject* take_spare() {
    if (spare.count == 0) add_spare();
    return spare.count == 0 ? nullptr : spare.objects[--spare.count];
}

// Gives the object a reference again. Its Buffer holds the memory, and the refs hold the resource and the stream.
PyObject* revive(PyObject* self, const EmbedderRefs& refs) {
    Py_INCREF(static_cast<PyObject*>(refs.resource));
    Py_INCREF(static_cast<PyObject*>(refs.stream));
    _Py_NewReference(self);  // its type still counts it
    return self;
}

template <class T>
py::object make(PyTypeObject* type, T&& buffer) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) throw py::error_already_set();
    auto* object = reinterpret_cast<BufferObject<std::decay_t<T>>*>(self);
    object->head.memory = ::new (static_cast<void*>(&object->value)) std::decay_t<T>(std::forward<T>(buffer));
    return py::reinterpret_steal<py::object>(self);
}

PyTypeObject* make_type(PyType_Spec* spec, PyTypeObject* base) {
    auto* bases = reinterpret_cast<PyObject*>(base);
    PyObject* type = PyType_FromSpecWithBases(spec, bases);
    if (type == nullptr) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(type);
}

PyObject* refuse_to_make(PyTypeObject* type, PyObject*, PyObject*) {
    const py::object name = py::handle(reinterpret_cast<PyObject*>(type)).attr("__name__");
    PyErr_Format(
        PyExc_TypeError,
        "%U objects are made by a resource (allocate, allocate_pitched, allocate_growable) and by Buffer.from_handle",
        name.ptr());
    return nullptr;
}

template <class Function>
void* slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

// The type keeps the pointer to its name.
PyTypeObject* make_derived_type(const char* name, std::size_t size, char* doc) {
    PyType_Slot slots[] = {{Py_tp_dealloc, slot(dealloc)}, {Py_tp_doc, doc}, {0, nullptr}};
    PyType_Spec spec = {name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT, slots};
    return make_type(&spec, buffer_type);
}

}  // namespace

Buffer* buffer_of(const py::handle& object) noexcept {
    return PyObject_TypeCheck(object.ptr(), buffer_type) ? head_of(object.ptr())->memory : nullptr;
}

PitchedBuffer* pitched_buffer_of(const py::handle& object) noexcept {
    if (!PyObject_TypeCheck(object.ptr(), pitched_buffer_type)) return nullptr;
    return static_cast<PitchedBuffer*>(head_of(object.ptr())->memory);
}

GrowableBuffer* growable_buffer_of(const py::handle& object) noexcept {
    if (!PyObject_TypeCheck(object.ptr(), growable_buffer_type)) return nullptr;
    return static_cast<GrowableBuffer*>(head_of(object.ptr())->memory);
}

py::object to_python(Buffer&& buffer) { return make(buffer_type, std::move(buffer)); }
py::object to_python(PitchedBuffer&& buffer) { return make(pitched_buffer_type, std::move(buffer)); }
py::object to_python(GrowableBuffer&& buffer) { return make(growable_buffer_type, std::move(buffer)); }

PyObject* cached_buffer(PyObject* resource_object, MemoryResource& resource, std::size_t nbytes,
                        PyObject* stream_object, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
    if (!resource.serves_cached() || portamem::python::detail::follows_sites()) return nullptr;
    PyObject* self = take_spare();
    if (self == nullptr) return nullptr;
    const EmbedderRefs refs{drop_embedder_refs, resource_object, stream_object};
    if (Embedded::reopen(*head_of(self)->memory, resource, nbytes, stream, alignment, refs)) return revive(self, refs);
    ++spare.count;  // the object is still there
    return nullptr;
}

PyObject* unshared_buffer(PyObject* resource_object, MemoryResource& resource, std::size_t nbytes,
                          PyObject* stream_object, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
    if (portamem::python::detail::follows_sites()) return nullptr;
    PyObject* self = take_spare();
    if (self == nullptr) return nullptr;
    const EmbedderRefs refs{drop_embedder_refs, resource_object, stream_object};
    void* ptr = nullptr;
    try {
        const WithoutGil nogil;
        ptr = resource.allocate(nbytes, stream, alignment);
    } catch (...) {
        if (!keep(self)) destroy(self);
        throw;
    }
    Embedded::reopen(*head_of(self)->memory, resource, ptr, nbytes, stream, refs);
    return revive(self, refs);
}

bool close_cached(Buffer& buffer) noexcept {
    EmbedderRefs refs;
    if (portamem::python::detail::follows_sites() || !Embedded::close_cached(buffer, refs)) return false;
    if (refs.let_go == nullptr) {
        buffer.abandon();
    } else {
        drop(refs);
    }
    return true;
}

bool close_unshared(Buffer& buffer) {
    EmbedderRefs refs;
    if (portamem::python::detail::follows_sites() || !close_unshared(buffer, refs, false)) return false;
    drop(refs);
    return true;
}

void settle_unlocked(const Buffer& buffer) {
    if (!buffer.is_unsettled()) return;
    const auto memory = buffer.allocation();  // another thread may close the buffer meanwhile
    const WithoutGil nogil;
    memory->settle();
}

void* address_for_program(const Buffer& buffer) {
    settle_unlocked(buffer);
    return buffer.ptr();
}

std::int64_t* lent_extents(const py::handle& object) noexcept {
    Head* head = head_of(object.ptr());
    head->extents[0] = static_cast<std::int64_t>(head->memory->nbytes());
    head->extents[1] = 1;
    return head->extents;
}

PyTypeObject* make_buffer_type(PyMethodDef* methods, PyGetSetDef* attributes, getbufferproc get) {
    static PyMemberDef members[] = {
        {"__weaklistoffset__", T_PYSSIZET, offsetof(Head, weak_references), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static char doc[] = "Untyped memory, its resource and stream.";
    PyType_Slot slots[] = {
        {Py_tp_new, slot(refuse_to_make)},
        {Py_tp_dealloc, slot(dealloc)},
        {Py_tp_methods, methods},
        {Py_tp_getset, attributes},
        {Py_tp_members, members},
        {Py_tp_doc, doc},
        {Py_bf_getbuffer, slot(get)},
        {Py_bf_releasebuffer, slot(release_py_buffer)},
        {0, nullptr},
    };
    static const std::string name = public_module() + ".Buffer";
    PyType_Spec spec = {name.c_str(), sizeof(BufferObject<Buffer>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return buffer_type = make_type(&spec, nullptr);
}

PyTypeObject* make_pitched_buffer_type() {
    static char doc[] = "Rows of `width` bytes, `pitch` bytes apart.";
    static const std::string name = public_module() + ".PitchedBuffer";
    return pitched_buffer_type = make_derived_type(name.c_str(), sizeof(BufferObject<PitchedBuffer>), doc);
}

PyTypeObject* make_growable_buffer_type() {
    static char doc[] = "Untyped memory that grows and shrinks at its address.";
    static const std::string name = public_module() + ".GrowableBuffer";
    return growable_buffer_type = make_derived_type(name.c_str(), sizeof(BufferObject<GrowableBuffer>), doc);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
