// SPDX-License-Identifier: MIT
// portamem/detail/of_device.hpp: objects that a process has once for each device.
#pragma once

#include <mutex>

#include "portamem/detail/number_map.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the process's objects of a class, each made from its device at first need, and leaked. It is thread-safe.
template <class Object>
class OfDevice {
  public:
    /// Returns the object of a device. `name` is the key of the class. Throws std::bad_alloc.
    static Object& get(const char* name, int device) {
        auto& all = process_object<OfDevice>(name);
        const std::lock_guard<std::mutex> lock(all.mutex_);
        Owned<Object>& object = all.objects_[device];
        if (!object) object = Owned(new Object(device));
        return *object;
    }

  private:
    std::mutex mutex_;
    NumberMap<int, Owned<Object>> objects_;
};

}  // namespace detail

PORTAMEM_CLOSE
