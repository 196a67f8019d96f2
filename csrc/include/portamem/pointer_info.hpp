// SPDX-License-Identifier: MIT
// portamem/pointer_info.hpp: how the runtime describes an address.
#pragma once

#include "portamem/capabilities.hpp"

PORTAMEM_OPEN

/// Holds the runtime's record of an address. The type belongs to this backend; its fields are the same on all three.
struct PointerInfo : rt::PointerAttributes {
    /// Says whether another process can open this memory by a legacy IPC handle (CUDA's and HIP's IpcGetMemHandle).
    Answer ipc_capable;
};

/// Returns the record of an address. A plain host address gives a record too (Unregistered), and is no error. Throws
/// Error if the runtime refuses.
inline PointerInfo pointer_info(const void* ptr) {
    refuse_forked();
    PointerInfo info;
    check(rt::PointerGetAttributes(&info, ptr), "PointerGetAttributes");
    if (info.type == rt::MemoryType::Unregistered) {
        info.ipc_capable = false;  // the runtime has no memory there to share
        return info;
    }
    int capable = 0;
    const rt::Error_t answer = rt::PointerGetAttribute(&capable, rt::PointerAttr::IsLegacyIpcCapable, ptr);
    if (answer == rt::Error_t::Success) info.ipc_capable = capable != 0;
    return info;
}

PORTAMEM_CLOSE
