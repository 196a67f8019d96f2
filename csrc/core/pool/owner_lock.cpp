// SPDX-License-Identifier: MIT
// core/pool/owner_lock.cpp: asks the system to make every thread of the process pass a barrier.
#include "owner_lock.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace portamem::pool {

#if !PORTAMEM_THREAD_SANITIZER
const bool has_process_barrier = [] {
    const long known = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (known < 0 || (known & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return false;
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}();
#endif

void process_barrier() noexcept {
    if (has_process_barrier) (void)syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace portamem::pool
