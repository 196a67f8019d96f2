// SPDX-License-Identifier: MIT
// core/record/thread.hpp: the calling thread's number, and the tags that it is in.
#pragma once

#include <cstdint>
#include <string>

namespace portamem::record {

using ThreadNumber = std::uint32_t;  ///< from 1, never reused
using TagId = std::uint32_t;         ///< 0: none

/// Returns the number of the calling thread.
ThreadNumber this_thread();
/// Returns the system's number of a thread that called this_thread(). The system may have reused it since.
std::uint64_t system_number(ThreadNumber thread);

/// Opens a tag on the calling thread, inside of the tag that is open. Returns its number, from 1 and unique.
std::uint64_t push_tag(const char* name);
/// Ends the tag of that number, and leaves the thread's other tags as they are.
enum class TagEnd { Innermost, BeforeOthers, NotOpen };
TagEnd end_tag(std::uint64_t number) noexcept;
TagId current_tag() noexcept;
/// Returns the text of a tag, which lives as long as the program.
const std::string& tag_text(TagId tag);

/// The number of resource calls that the thread is in, one inside of the other.
int& call_depth() noexcept;

}  // namespace portamem::record
