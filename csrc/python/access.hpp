// SPDX-License-Identifier: MIT
// python/access.hpp: what a device may do with the memory of a resource, in words.
#pragma once

#include <string>

#include "convert.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

inline constexpr Spelling<rt::MemAccessFlags> kAccess[] = {
    {"none", rt::MemAccessFlags::None},
    {"read", rt::MemAccessFlags::Read},
    {"read_write", rt::MemAccessFlags::ReadWrite},
};

template <class Resource>
std::string access_of(const Resource& self, const py::object& device) {
    const int ordinal = to_device(device).ordinal();
    auto access = rt::MemAccessFlags::None;
    {
        const WithoutGil nogil;
        access = self.access(ordinal);
    }
    return to_text(access, kAccess);
}

template <class Resource>
void set_access_of(Resource& self, const py::object& device, const py::object& access) {
    const int ordinal = to_device(device).ordinal();
    const auto flags = from_text("access", access, kAccess);
    const WithoutGil nogil;
    self.set_access(ordinal, flags);
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
