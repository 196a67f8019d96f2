// SPDX-License-Identifier: MIT
// core/debug/debug.cpp: PORTAMEM_DEBUG=1: live blocks with their owners and call sites, and the damage found.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "../order/call.hpp"
#include "portamem/abi/debug_api.h"

namespace portamem::debug {

using Block = portamem_debug_block;
using order::SiteId;

namespace {

constexpr std::size_t kMostFreed = 4096;

struct Freed {
    std::size_t nbytes = 0;
    SiteId allocated = 0;
    SiteId freed = 0;
    std::uint64_t number = 0;  // tells entries of one address apart
};

// It is leaked, because memory is freed until the very end of the process.
struct Blocks {
    std::mutex mutex;  // a leaf
    std::unordered_map<const void*, Block> out;
    std::unordered_map<const void*, Freed> freed;  // the latest kMostFreed frees
    std::deque<std::pair<const void*, std::uint64_t>> order;
    std::uint64_t frees = 0;
    std::size_t corrupted = 0;
};

Blocks& blocks() {
    static auto* leaked = new Blocks;
    return *leaked;
}

thread_local int depth = 0;

const void* address_of(const Block& block) { return static_cast<const char*>(block.base) + block.front; }

std::string address_text(const void* ptr) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(ptr)));
    return text;
}

std::string site_text(SiteId site) { return order::describe(site); }

std::string block_text(const Block& block) {
    return std::to_string(block.nbytes) + " bytes at " + address_text(address_of(block)) + ", allocated at " +
           site_text(block.site);
}

void copy_text(const std::string& from, char* text, std::size_t size) { std::snprintf(text, size, "%s", from.c_str()); }

// Gets the range of a redzone's bytes that were overwritten. False where none were.
struct Damage {
    std::size_t first = 0;
    std::size_t last = 0;
};
bool find_damage(const unsigned char* zone, Damage* damage) {
    bool any = false;
    for (std::size_t i = 0; i < PORTAMEM_DEBUG_REDZONE; ++i) {
        if (zone[i] == PORTAMEM_DEBUG_REDZONE_BYTE) continue;
        if (!any) damage->first = i;
        damage->last = i;
        any = true;
    }
    return any;
}

std::string bytes_from_to(std::size_t first, std::size_t last) {
    return first == last ? "byte " + std::to_string(first)
                         : "bytes " + std::to_string(first) + " to " + std::to_string(last);
}

// Describes the damage; empty where the redzones are whole.
std::string damage_text(const Block& block, const unsigned char* before, const unsigned char* behind) {
    std::string text;
    Damage damage;
    if (find_damage(before, &damage)) {
        text = bytes_from_to(PORTAMEM_DEBUG_REDZONE - damage.last, PORTAMEM_DEBUG_REDZONE - damage.first) +
               " before its start";
    }
    if (find_damage(behind, &damage)) {
        text += (text.empty() ? "" : " and ") + bytes_from_to(damage.first + 1, damage.last + 1) + " behind its end";
    }
    if (text.empty()) return text;
    return "memory was written outside of an allocation: " + text + ", of " + block_text(block);
}

void print(const std::string& text) {
    const std::string line = "portamem: debug: " + text + "\n";
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

// Checks the blocks that are still out when the process ends, because no free has checked them.
void check_at_exit() {
    if (portamem_forked() != 0) return;
    Blocks& all = blocks();
    std::unordered_map<const void*, Block> out;
    {
        const std::lock_guard<std::mutex> lock(all.mutex);
        out.swap(all.out);
    }
    for (const auto& [ptr, block] : out) {
        std::array<unsigned char, PORTAMEM_DEBUG_REDZONE> before{};
        std::array<unsigned char, PORTAMEM_DEBUG_REDZONE> behind{};
        if (block.is_guarded == 0 || block.read == nullptr) continue;
        if (block.read(&block, block.front - before.size(), before.size(), before.data()) != 0) continue;
        if (block.read(&block, block.front + block.nbytes, behind.size(), behind.data()) != 0) continue;
        char text[2048];
        (void)portamem_debug_check(&block, before.data(), behind.data(), text, sizeof text);
    }
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.corrupted != 0) print(std::to_string(all.corrupted) + " allocation(s) with memory written outside of them");
}

void remember_freed(Blocks& all, const Block& block, SiteId site) {
    const std::uint64_t number = ++all.frees;
    all.freed[address_of(block)] = {block.nbytes, block.site, site, number};
    all.order.emplace_back(address_of(block), number);
    if (all.order.size() <= kMostFreed) return;
    const auto [oldest, its_number] = all.order.front();
    all.order.pop_front();
    const auto found = all.freed.find(oldest);
    if (found != all.freed.end() && found->second.number == its_number) all.freed.erase(found);
}

std::string refusal(const Block& block, const void* owner, std::size_t nbytes) {
    if (block.owner != owner) return "memory is freed at another resource than it came from: " + block_text(block);
    if (block.nbytes == nbytes) return {};
    return "memory is freed with a size of " + std::to_string(nbytes) + ", which is not its own: " + block_text(block);
}

}  // namespace

}  // namespace portamem::debug

int portamem_debug_on(void) {
    static const bool on = [] {
        const char* value = std::getenv("PORTAMEM_DEBUG");
        if (value == nullptr || *value == '\0' || std::strcmp(value, "0") == 0) return false;
        if (std::strcmp(value, "1") == 0) return true;
        // The variable is read while modules are loaded, where no caller could receive an error.
        (void)std::fprintf(stderr, "portamem: PORTAMEM_DEBUG is 1, or 0 for nothing, not '%s': there are no redzones\n",
                           value);
        return false;
    }();
    return on ? 1 : 0;
}

int portamem_debug_enter(void) { return portamem::debug::depth++ == 0 ? 1 : 0; }
void portamem_debug_leave(void) { --portamem::debug::depth; }

int portamem_debug_add(const portamem_debug_block* block) {
    using namespace portamem::debug;
    if (portamem_forked() != 0) return -1;
    try {
        // It is registered after the runtime's first use, so that the runtime still exists when it runs.
        static const int registered = std::atexit(check_at_exit);
        (void)registered;
        Block added = *block;
        added.site = portamem::order::here();
        Blocks& all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.freed.erase(address_of(added));
        all.out.insert_or_assign(address_of(added), added);
        return 0;
    } catch (...) {
        return -1;
    }
}

void portamem_debug_forget(const void* ptr) {
    using namespace portamem::debug;
    if (ptr == nullptr || portamem_forked() != 0) return;
    Blocks& all = blocks();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.freed.erase(ptr);
}

int portamem_debug_find(const void* owner, const void* ptr, portamem_debug_block* block) {
    using namespace portamem::debug;
    if (ptr == nullptr || portamem_forked() != 0) return 0;
    try {
        Blocks& all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        const auto found = all.out.find(const_cast<void*>(ptr));
        if (found == all.out.end() || found->second.owner != owner) return 0;
        *block = found->second;
        return 1;
    } catch (...) {
        return 0;
    }
}

int portamem_debug_take(const void* owner, void* ptr, std::size_t nbytes, portamem_debug_block* block, char* text,
                        std::size_t text_size) {
    using namespace portamem::debug;
    if (ptr == nullptr || portamem_forked() != 0) return 0;
    try {
        Freed before;
        {
            Blocks& all = blocks();
            const std::lock_guard<std::mutex> lock(all.mutex);
            const auto found = all.out.find(ptr);
            if (found != all.out.end()) {
                *block = found->second;
                if (block->owner == owner && block->nbytes == nbytes) {
                    all.out.erase(found);
                    return 1;
                }
            } else {
                const auto freed = all.freed.find(ptr);
                if (freed == all.freed.end()) return 0;
                before = freed->second;
            }
        }
        if (before.number == 0) {
            copy_text(refusal(*block, owner, nbytes), text, text_size);
        } else {
            copy_text("memory is freed twice: " + std::to_string(before.nbytes) + " bytes at " + address_text(ptr) +
                          ", allocated at " + site_text(before.allocated) + ", freed before at " +
                          site_text(before.freed),
                      text, text_size);
        }
        return -1;
    } catch (...) {
        return 0;
    }
}

void portamem_debug_put_back(const portamem_debug_block* block) {
    using namespace portamem::debug;
    try {
        Blocks& all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.out.insert_or_assign(address_of(*block), *block);
    } catch (...) {
        // Out of host memory: the block is now freed as one without redzones, which its resource refuses.
    }
}

void portamem_debug_freed(const portamem_debug_block* block) {
    using namespace portamem::debug;
    try {
        const SiteId site = portamem::order::here();
        Blocks& all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        // Another thread may have been given the address meanwhile.
        if (all.out.count(address_of(*block)) == 0) remember_freed(all, *block, site);
    } catch (...) {
        // Out of host memory: a second free of the block goes unnoticed.
    }
}

int portamem_debug_check(const portamem_debug_block* block, const unsigned char* before, const unsigned char* behind,
                         char* text, std::size_t text_size) {
    using namespace portamem::debug;
    try {
        const std::string found = damage_text(*block, before, behind);
        if (found.empty()) return 0;
        copy_text(found, text, text_size);
        print(found);
        Blocks& all = blocks();
        const std::lock_guard<std::mutex> lock(all.mutex);
        ++all.corrupted;
        return 1;
    } catch (...) {
        return 0;
    }
}
