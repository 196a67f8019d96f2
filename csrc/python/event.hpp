// SPDX-License-Identifier: MIT
// python/event.hpp: an event that Python can close.
#pragma once

#include "bindings.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Represents an Event that Python can close. close() lets go of this object's share only; the handle goes with its
/// last holder.
struct ClosableEvent {
    std::shared_ptr<Event> event;

    const std::shared_ptr<Event>& open() const {
        if (!event) throw std::invalid_argument("the event is closed");
        return event;
    }
};

/// Returns an Event for Python, or None for null, as the calls that take a stream do.
inline py::object to_python(std::shared_ptr<Event> event) {
    if (!event) return py::none();
    return py::cast(ClosableEvent{std::move(event)});
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
