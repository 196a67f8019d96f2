// SPDX-License-Identifier: MIT
// portamem/rt/api/error.hpp: contracts of versions, error codes and the last-error slot.
#pragma once

#include <string>

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Version of the runtime library that answers (CUDA: 1000 * major + 10 * minor; HIP: 10^7 * major + 10^5 * minor +
/// patch; host: 1000 * major + 10 * minor + patch of portamem itself). Needs no device. HIP on the NVIDIA platform: the
/// runtime is CUDA's, and so is the number.
inline Error_t RuntimeGetVersion(int* version);

/// Version that the installed driver supports, numbered as RuntimeGetVersion; 0 where there is no driver. HIP on AMD
/// and host: the same as RuntimeGetVersion.
inline Error_t DriverGetVersion(int* version);

/// Version of the headers this code was compiled with, numbered as RuntimeGetVersion; for HIP it is HIP's own number on
/// the NVIDIA platform too.
constexpr int CompiledVersion();

/// A version of this backend as text: "13.0", "5.2.21153", "0.1.0".
inline std::string VersionText(int version);

/// portamem's own spelling of a code, the same on every backend: "OutOfMemory", "InvalidValue". A code that portamem
/// does not name is "Error_<number>". Never null; static storage or thread-local, valid until the next call.
inline const char* GetErrorName(Error_t error);

/// The vendor's sentence for a code. Never null. Where this thread's latest failure had that code, the host runtime's
/// sentence tells why that call failed.
inline const char* GetErrorString(Error_t error);

/// Returns the vendor's last-error slot of this thread and resets it. rt functions leave it clean, so anything but
/// Success comes from code outside portamem. HIP before 7.0: any successful call resets it as well.
inline Error_t GetLastError();

/// Returns the same slot, and does not reset it.
inline Error_t PeekAtLastError();

PORTAMEM_RT_CLOSE
