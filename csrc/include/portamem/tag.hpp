// SPDX-License-Identifier: MIT
// portamem/tag.hpp: tags that name the purpose of memory.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "portamem/abi/record_api.h"
#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Names what the calling thread allocates from now on, for snapshots and records of allocations. Within another tag it
/// becomes a part of that one: "solver/setup". pop_tag takes the returned number. Throws std::invalid_argument for an
/// empty name or one with a NUL character, and std::bad_alloc.
inline std::uint64_t push_tag(const std::string& name) {
    refuse_forked();
    if (name.empty()) throw std::invalid_argument("a tag has a name, and this one is empty");
    if (name.find('\0') != std::string::npos) throw std::invalid_argument("a tag has no NUL character in it");
    const std::uint64_t number = portamem_tag_push(name.c_str());
    if (number == 0) throw std::bad_alloc();
    return number;
}
/// Ends that tag. If tags that began within it are open, it ends this tag alone and throws std::logic_error. If the
/// thread has no such tag, it ends nothing and throws std::logic_error.
inline void pop_tag(std::uint64_t number) {
    const int answer = portamem_tag_pop(number);
    if (answer < 0) {
        throw std::logic_error("the tag is not open on this thread: tags end on the thread that they began on");
    }
    if (answer > 0) {
        throw std::logic_error(
            "the tag has ended before one that began within it, which stays: the last one ends first; where tasks or "
            "generators take turns on a thread, open and close tags with no turn between");
    }
}

/// Tags the allocations of this thread while the object lives. The thread that made the object destroys it.
class Tag {
  public:
    explicit Tag(const std::string& name) : number_(push_tag(name)) {}
    ~Tag() { (void)portamem_tag_pop(number_); }
    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;

  private:
    const std::uint64_t number_;
};

/// Returns the calling thread's tag; it is empty where none is open.
inline std::string current_tag() { return portamem_tag_current(); }

PORTAMEM_CLOSE
