// SPDX-License-Identifier: MIT
// python/plugins/cupy_hook.cpp: the C functions of a CuPy allocator.
//
// CuPy calls them with the GIL, and names no stream: its own C function says which stream is current. Its free names
// only the address.
#include <algorithm>
#include <memory>
#include <vector>

#include "../convert.hpp"
#include "hook_functions.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Keeps what a CuPy allocator needs. It is never destroyed, and used with the GIL only.
class CupyHook {
  public:
    CupyHook(LibraryHook& hook, std::intptr_t (*current_stream)(), const py::object& current_owner,
             const py::object& out_of_memory)
        : hook(hook),
          current_stream_(current_stream),
          current_owner_(py::object(current_owner).release().ptr()),
          out_of_memory_(py::object(out_of_memory).release().ptr()) {}

    /// Returns CuPy's current stream. Arrays outlive the streams that they were made on, and CuPy destroys a stream
    /// with its last reference: so the Stream keeps CuPy's object, and this keeps the latest Streams.
    std::shared_ptr<Stream> stream(int device) {
        const std::intptr_t answer = current_stream_();
        if (answer == -1) throw py::error_already_set();
        const auto handle = reinterpret_cast<rt::Stream_t>(answer);
        if (const auto* known = answer <= 1 ? Stream::of_this_thread(handle, device) : nullptr) return *known;
        if (answer <= 2) return Stream::from_handle(handle, device);
        const auto is_it = [&](const auto& each) { return each->handle() == handle && each->device() == device; };
        const auto found = std::find_if(latest_.begin(), latest_.end(), is_it);
        if (found != latest_.end()) {
            std::rotate(latest_.begin(), found, found + 1);
            return latest_.front();
        }
        const auto owner = py::reinterpret_borrow<py::object>(current_owner_)();
        if (owner.is_none()) return Stream::from_handle(handle, device);  // the program's own
        auto made = wrap_stream(owner);
        latest_.insert(latest_.begin(), made);
        const auto dropped = latest_.size() > kMost ? std::move(latest_.back()) : nullptr;  // at the end of this call
        if (dropped) latest_.pop_back();
        return made;
    }

    /// Sets the Python error for the exception that is being handled. CuPy's programs catch CuPy's own class for no
    /// memory, so a MemoryError of portamem's becomes the class that is both.
    void set_error() const noexcept {
        (void)set_python_error();
        if (PyErr_ExceptionMatches(PyExc_MemoryError) == 0) return;
        py::error_already_set raised;
        const py::object error = raised.value();
        if (PyObject_SetAttrString(error.ptr(), "__class__", out_of_memory_) != 0) PyErr_Clear();
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    }

    LibraryHook& hook;

  private:
    static constexpr std::size_t kMost = 16;

    std::intptr_t (*const current_stream_)();
    PyObject* const current_owner_;
    PyObject* const out_of_memory_;
    std::vector<std::shared_ptr<Stream>> latest_;  // the latest first
};

// CuPy looks for a Python error where the answer is -1.
void* const kFailed = reinterpret_cast<void*>(std::intptr_t{-1});

void* allocate_for_cupy(void* hook, std::size_t nbytes, int device) noexcept {
    auto& own = *static_cast<CupyHook*>(hook);
    try {
        return own.hook.allocate_noted(nbytes, own.stream(device));
    } catch (...) {
        own.set_error();
        return kFailed;
    }
}

// It runs where an object goes, also while an exception is on its way.
void deallocate_for_cupy(void* hook, void* ptr, int /*device*/) noexcept {
    static_cast<CupyHook*>(hook)->hook.deallocate_noted(ptr);
}

}  // namespace

FunctionAddresses functions_for_cupy(LibraryHook& hook, std::uintptr_t current_stream, const py::object& current_owner,
                                     const py::object& out_of_memory) {
    auto* const made =
        new CupyHook(hook, reinterpret_cast<std::intptr_t (*)()>(current_stream), current_owner, out_of_memory);
    return {{"hook", reinterpret_cast<std::uintptr_t>(made)},
            {"allocate", function_address(&allocate_for_cupy)},
            {"deallocate", function_address(&deallocate_for_cupy)}};
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
