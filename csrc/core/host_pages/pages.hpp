// SPDX-License-Identifier: MIT
// core/host_pages/pages.hpp: the parts of host_pages.h, to be tested piece by piece.
#pragma once

#include <cstddef>
#include <string>

namespace portamem::host_pages {

/// Whether host memory should be taken from a node: it has CPUs and memory. `nodes` is /sys/devices/system/node.
bool is_host_node(const std::string& nodes, int node);

/// Whether a list of the kernel ("0-3,8") names a number.
bool names(const std::string& list, int number);

/// Returns the bytes that the kernel calls available; SIZE_MAX where it does not say. `meminfo` is /proc/meminfo.
std::size_t available(const std::string& meminfo);

/// Returns the bytes that the process's memory control groups have left; SIZE_MAX without a limit. The kernel ends a
/// process that takes more (cgroup-v2.rst and cgroup-v1/memory.rst of the kernel). `own_groups` is /proc/self/cgroup,
/// `mount` is /sys/fs/cgroup.
std::size_t left_in_groups(const std::string& own_groups, const std::string& mount);

/// Returns the bytes that those groups allow the process in all, whatever it has already.
std::size_t limit_of_groups(const std::string& own_groups, const std::string& mount);

/// Whether a kernel of this release copies pages that devices write to the child of a fork at once, so that the parent
/// keeps its own. Kernels do so since 5.12.
bool copies_pinned_pages_at_fork(const std::string& release);

/// Makes the pages of a range resident, with at most `threads` threads. There has to be memory for the pages, because
/// this function cannot report that there is none.
void make_resident(char* begin, std::size_t nbytes, unsigned threads);

/// Returns the threads for so many bytes: no more than the process has CPUs, and enough work for each.
unsigned threads_for(std::size_t nbytes);

}  // namespace portamem::host_pages
