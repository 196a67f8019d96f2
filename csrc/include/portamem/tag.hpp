// SPDX-License-Identifier: MIT
// portamem/tag.hpp: naming what memory is for.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "portamem/record_api.h"
#include "portamem/status.hpp"

PORTAMEM_OPEN

/// Names what the calling thread allocates from now on, for those who watch. Within another tag it is a part of that
/// one: "solver/setup". Pairs with pop_tag, which takes what this answers. Throws std::invalid_argument for no name.
inline std::uint64_t push_tag(const std::string& name) {
    refuse_forked();
    if (name.empty()) throw std::invalid_argument("a tag has a name");
    if (name.find('\0') != std::string::npos) throw std::invalid_argument("a tag has no NUL character in it");
    const std::uint64_t depth = portamem_tag_push(name.c_str());
    if (depth == 0) throw std::bad_alloc();
    return depth;
}
inline void pop_tag(std::uint64_t depth) {
    if (portamem_tag_pop(depth) == 0) return;
    throw std::logic_error("tags are closed on the thread that opened them, the last one first");
}

/// push_tag and pop_tag for a C++ scope.
class Tag {
  public:
    explicit Tag(const std::string& name) : depth_(push_tag(name)) {}
    ~Tag() { (void)portamem_tag_pop(depth_); }
    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;

  private:
    const std::uint64_t depth_;
};

/// The calling thread's; empty where none is open.
inline std::string current_tag() { return portamem_tag_current(); }

PORTAMEM_CLOSE
