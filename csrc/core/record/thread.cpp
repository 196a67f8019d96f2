// SPDX-License-Identifier: MIT
// core/record/thread.cpp: threads' numbers and tags.
#include "thread.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace portamem::record {
namespace {

// Tags and threads are never forgotten: counts name them for as long as the program runs.
struct KnownNames {
    std::mutex mutex;  ///< a leaf
    std::deque<std::string> tags{std::string()};
    std::unordered_map<std::string, TagId> ids;
    std::deque<std::uint64_t> threads;
};

KnownNames& known_names() {
    static auto* leaked = new KnownNames;
    return *leaked;
}

TagId intern(std::string text) {
    KnownNames& known = known_names();
    const std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.ids.find(text);
    if (found != known.ids.end()) return found->second;
    const auto id = static_cast<TagId>(known.tags.size());
    known.tags.push_back(text);
    known.ids.emplace(std::move(text), id);
    return id;
}

struct Tagged {
    TagId tag;
    std::uint64_t number;
    Tagged* outer;
};

// These fields have no destructor: other destructors of a thread that ends may still free memory.
struct ThreadState {
    ThreadNumber number;
    int depth;
    Tagged* tagged;
};

ThreadState& thread_state() noexcept {
    static thread_local ThreadState own{};
    return own;
}

}  // namespace

ThreadNumber this_thread() {
    ThreadState& own = thread_state();
    if (own.number == 0) {
        KnownNames& known = known_names();
        const std::lock_guard<std::mutex> lock(known.mutex);
        known.threads.push_back(static_cast<std::uint64_t>(syscall(SYS_gettid)));
        own.number = static_cast<ThreadNumber>(known.threads.size());
    }
    return own.number;
}

std::uint64_t system_number(ThreadNumber thread) {
    KnownNames& known = known_names();
    const std::lock_guard<std::mutex> lock(known.mutex);
    return thread == 0 || thread > known.threads.size() ? 0 : known.threads[thread - 1];
}

TagId current_tag() noexcept { return thread_state().tagged == nullptr ? 0 : thread_state().tagged->tag; }

const std::string& tag_text(TagId tag) {
    KnownNames& known = known_names();
    const std::lock_guard<std::mutex> lock(known.mutex);
    return known.tags[tag];
}

int& call_depth() noexcept { return thread_state().depth; }

std::uint64_t push_tag(const char* name) {
    ThreadState& own = thread_state();
    const std::string outer = own.tagged == nullptr ? std::string() : tag_text(own.tagged->tag) + "/";
    static std::atomic<std::uint64_t> latest{0};  // over all threads, so that no two tags share a number
    own.tagged = new Tagged{intern(outer + name), latest.fetch_add(1, std::memory_order_relaxed) + 1, own.tagged};
    return own.tagged->number;
}

TagEnd end_tag(std::uint64_t number) noexcept {
    ThreadState& own = thread_state();
    Tagged** place = &own.tagged;
    while (*place != nullptr && (*place)->number != number) place = &(*place)->outer;
    if (*place == nullptr) return TagEnd::NotOpen;
    const TagEnd how = place == &own.tagged ? TagEnd::Innermost : TagEnd::BeforeOthers;
    const std::unique_ptr<Tagged> ended(*place);
    *place = ended->outer;
    return how;
}

}  // namespace portamem::record
