// SPDX-License-Identifier: MIT
// core/host_pages/pages.hpp: the parts of host_pages.h, to be tested piece by piece.
#pragma once

#include <cstddef>
#include <string>

namespace portamem::host_pages {

/// Whether host memory should be taken from that node: it has CPUs and memory. `nodes`: /sys/devices/system/node.
bool is_host_node(const std::string& nodes, int node);

/// Whether a list of the kernel's ("0-3,8") names that number.
bool names(const std::string& list, int number);

/// Bytes that the kernel calls available; SIZE_MAX where it does not say. `meminfo`: /proc/meminfo.
std::size_t available(const std::string& meminfo);

/// Bytes that the memory control groups of the process have left, at most: a kernel ends a process that takes more. SIZE_MAX
/// where there is no limit. `own_groups`: /proc/self/cgroup; `mount`: /sys/fs/cgroup. (The kernel's cgroup-v2.rst, and
/// cgroup-v1/memory.rst.)
std::size_t left_in_groups(const std::string& own_groups, const std::string& mount);

/// Bytes that they let the process have in all, whatever it has already.
std::size_t limit_of_groups(const std::string& own_groups, const std::string& mount);

/// Whether a kernel of that release copies pages which devices write to the child of a fork at once, so that the parent
/// keeps its own: since 5.12.
bool copies_pinned_pages_at_fork(const std::string& release);

/// Makes the pages of a range resident, with at most that many threads. There has to be memory for them: nobody is left
/// to be told that there is none.
void make_resident(char* begin, std::size_t nbytes, unsigned threads);

/// Threads for that many bytes: no more than this process has CPUs, and enough work for each.
unsigned threads_for(std::size_t nbytes);

}  // namespace portamem::host_pages
