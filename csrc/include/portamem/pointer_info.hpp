// SPDX-License-Identifier: MIT
// portamem/pointer_info.hpp: what the runtime says of an address.
#pragma once

#include "portamem/status.hpp"

PORTAMEM_OPEN

/// The runtime's record of an address. A type of this backend: the record itself is the same on all three.
struct PointerInfo : rt::PointerAttributes {};

/// A plain host address is an answer (Unregistered), not an error.
inline PointerInfo pointer_info(const void* ptr) {
    refuse_forked();
    PointerInfo info;
    check(rt::PointerGetAttributes(&info, ptr), "PointerGetAttributes");
    return info;
}

PORTAMEM_CLOSE
