// SPDX-License-Identifier: MIT
// portamem/pointer_info.hpp: what the runtime says of an address.
#pragma once

#include "portamem/status.hpp"

PORTAMEM_OPEN

/// A plain host address is an answer (Unregistered), not an error.
inline rt::PointerAttributes pointer_info(const void* ptr) {
    refuse_forked();
    rt::PointerAttributes attributes;
    check(rt::PointerGetAttributes(&attributes, ptr), "PointerGetAttributes");
    return attributes;
}

PORTAMEM_CLOSE
