// SPDX-License-Identifier: MIT
// ipc.hpp: what freeing memory has to do with other processes.
#pragma once

namespace standin {

/// Forgets the file behind an allocation that has a handle. A process that has opened it keeps the memory.
void stop_sharing(const void* base);

}  // namespace standin
