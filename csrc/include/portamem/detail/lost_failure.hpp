// SPDX-License-Identifier: MIT
// portamem/detail/lost_failure.hpp: failures of functions that may throw nothing.
#pragma once

#include <exception>

#include "portamem/detail/embedder.hpp"

PORTAMEM_OPEN
namespace detail {

/// Runs a function for a caller that may throw nothing. An embedding language is told of the exception.
template <class Function>
void or_tell(Function&& function) noexcept {
    try {
        function();
    } catch (...) {
        if (const auto tell = embedder().lost_failure.load()) tell(std::current_exception());
    }
}

}  // namespace detail
PORTAMEM_CLOSE
