// SPDX-License-Identifier: MIT
// python/event.hpp: an event that Python can close.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// The handle itself goes with its last user; close() only lets this object's share go.
struct ClosableEvent {
    std::shared_ptr<Event> event;

    const std::shared_ptr<Event>& open() const {
        if (!event) throw std::invalid_argument("the event is closed");
        return event;
    }
};

/// An Event for Python, or None for null: what the calls that take a stream answer.
inline py::object to_python(std::shared_ptr<Event> event) {
    if (!event) return py::none();
    return py::cast(ClosableEvent{std::move(event)});
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
