// SPDX-License-Identifier: MIT
// portamem/detail/shared.hpp: shared objects, of which each type costs little to compile.
#pragma once

#include <memory>
#include <utility>

#include "portamem/backend.hpp"

PORTAMEM_OPEN
namespace detail {

/// Makes a shared object as std::make_shared does, with one more allocation. std::make_shared takes twice as long to
/// compile for each type, so the headers use it only for objects that are made often.
template <class T, class... Arguments>
std::shared_ptr<T> shared(Arguments&&... arguments) {
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace detail
PORTAMEM_CLOSE
