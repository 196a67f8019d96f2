// SPDX-License-Identifier: MIT
// portamem/pointer_info.hpp: what the runtime says of an address.
#pragma once

#include "portamem/capabilities.hpp"

PORTAMEM_OPEN

/// The runtime's record of an address. A type of this backend: the record itself is the same on all three.
struct PointerInfo : rt::PointerAttributes {
    /// Whether its memory goes to other processes by a legacy IPC handle (CUDA's and HIP's IpcGetMemHandle).
    Answer ipc_capable;
};

/// A plain host address is an answer (Unregistered), not an error.
inline PointerInfo pointer_info(const void* ptr) {
    refuse_forked();
    PointerInfo info;
    check(rt::PointerGetAttributes(&info, ptr), "PointerGetAttributes");
    if (info.type == rt::MemoryType::Unregistered) {
        info.ipc_capable = false;  // the runtime has nothing there to give
        return info;
    }
    int capable = 0;
    const rt::Error_t answer = rt::PointerGetAttribute(&capable, rt::PointerAttr::IsLegacyIpcCapable, ptr);
    if (answer == rt::Error_t::Success) info.ipc_capable = capable != 0;
    return info;
}

PORTAMEM_CLOSE
