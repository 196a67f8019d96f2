// SPDX-License-Identifier: MIT
// core/record/thread.hpp: who the calling thread is, and the tags that it is in.
#pragma once

#include <cstdint>
#include <string>

namespace portamem::record {

using ThreadNumber = std::uint32_t;  ///< from 1, never reused
using TagId = std::uint32_t;         ///< 0: none

/// Of the calling thread.
ThreadNumber this_thread();
/// The system's number of a thread that asked for its own here; the system may have given it to another since.
std::uint64_t system_number(ThreadNumber thread);

/// Opens a tag on the calling thread, as a part of the one that is open: its number, from 1, no other's.
std::uint64_t push_tag(const char* name);
/// Ends that one, and leaves the others as they are.
enum class TagEnd { Innermost, BeforeOthers, NotOpen };
TagEnd end_tag(std::uint64_t number) noexcept;
TagId current_tag() noexcept;
/// Lives as long as the program.
const std::string& tag_text(TagId tag);

/// Calls of resources that the thread is in, one below the other.
int& call_depth() noexcept;

}  // namespace portamem::record
