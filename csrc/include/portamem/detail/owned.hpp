// SPDX-License-Identifier: MIT
// portamem/detail/owned.hpp: an object that has one owner, of which each type costs little to compile.
#pragma once

#include <cstddef>
#include <utility>

#include "portamem/backend.hpp"

PORTAMEM_OPEN
namespace detail {

/// Owns an object, or nothing. It has the members of std::unique_ptr that portamem uses. A std::unique_ptr costs
/// more than ten milliseconds of compile time for each type.
template <class T>
class Owned {
  public:
    Owned(std::nullptr_t = nullptr) noexcept {}
    explicit Owned(T* object) noexcept : object_(object) {}
    Owned(Owned&& other) noexcept : object_(other.release()) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Owned() { delete object_; }

    T* get() const noexcept { return object_; }
    T* release() noexcept { return std::exchange(object_, nullptr); }
    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    bool operator==(std::nullptr_t) const noexcept { return object_ == nullptr; }
    bool operator!=(std::nullptr_t) const noexcept { return object_ != nullptr; }

  private:
    T* object_ = nullptr;
};

}  // namespace detail
PORTAMEM_CLOSE
