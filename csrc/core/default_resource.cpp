// SPDX-License-Identifier: MIT
// core/default_resource.cpp: the default memory resource of each device, one per process.
#include "default_resource.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "backends.hpp"
#include "portamem/abi/scope_api.h"

namespace {

using Key = std::pair<int, int>;  // backend, device
using Resources = std::map<Key, portamem_resource>;

struct Defaults {
    std::mutex mutex;
    Resources offered;  // is never taken back: other resources of the process ask it for idle memory
    Resources set;
};

Defaults& defaults() {
    static auto* leaked = new Defaults;
    return *leaked;
}

std::atomic<std::uint64_t> changes{0};

std::atomic<portamem_default_maker> makers[portamem::kBackends];

// The lock is held until the reference is counted, because set releases the one that the registry holds.
int retained(const Resources& resources, const Key& key, portamem_resource* resource) {
    const auto found = resources.find(key);
    if (found == resources.end()) return -1;
    *resource = found->second;
    resource->ops->retain(resource->self);
    return 0;
}

struct Setting {
    std::string text;
    portamem_default_kind kind = PORTAMEM_DEFAULT_POOL;
};

Setting read_setting() {
    const char* const text = std::getenv("PORTAMEM_DEFAULT");
    if (text == nullptr || *text == '\0') return {};
    const std::string word = text;
    if (word == "pool") return {word, PORTAMEM_DEFAULT_POOL};
    if (word == "driver") return {word, PORTAMEM_DEFAULT_DRIVER};
    if (word == "plain") return {word, PORTAMEM_DEFAULT_PLAIN};
    if (word == "managed") return {word, PORTAMEM_DEFAULT_MANAGED};
    return {word, PORTAMEM_DEFAULT_UNREADABLE};
}

}  // namespace

int portamem_offer_default_resource(portamem_backend backend, int device, portamem_resource resource) {
    // retain is undone if another offer came first.
    resource.ops->retain(resource.self);
    bool stored = false;
    {
        std::lock_guard<std::mutex> lock(defaults().mutex);
        stored = defaults().offered.emplace(Key{backend, device}, resource).second;
    }
    if (!stored) resource.ops->release(resource.self);
    return stored ? 1 : 0;
}

int portamem_offered_default_resource(portamem_backend backend, int device, portamem_resource* resource) {
    std::lock_guard<std::mutex> lock(defaults().mutex);
    return retained(defaults().offered, {backend, device}, resource);
}

int portamem_default_resource(portamem_backend backend, int device, portamem_resource* resource) {
    std::lock_guard<std::mutex> lock(defaults().mutex);
    const Key key{backend, device};
    return retained(defaults().set, key, resource) == 0 ? 0 : retained(defaults().offered, key, resource);
}

void portamem_set_default_resource(portamem_backend backend, int device, portamem_resource resource) {
    if (resource.ops != nullptr) resource.ops->retain(resource.self);
    portamem_resource before{};
    {
        std::lock_guard<std::mutex> lock(defaults().mutex);
        const auto [place, is_new] = defaults().set.emplace(Key{backend, device}, resource);
        if (!is_new) before = std::exchange(place->second, resource);
        if (resource.ops == nullptr) defaults().set.erase(place);
        changes.fetch_add(1, std::memory_order_release);
    }
    // The last reference may run code of the program, which may ask for the default.
    if (before.ops != nullptr) before.ops->release(before.self);
}

std::uint64_t portamem_default_changes(void) { return changes.load(std::memory_order_acquire); }

void portamem_set_default_maker(portamem_backend backend, portamem_default_maker maker) {
    portamem_default_maker none = nullptr;
    (void)makers[backend].compare_exchange_strong(none, maker);
}

int portamem_current_resource(portamem_backend backend, int device, portamem_resource* resource) {
    if (portamem_scope_current(backend, device, resource) == 0) return 0;
    if (portamem_default_resource(backend, device, resource) == 0) return 0;
    const portamem_default_maker make = makers[backend].load();
    if (make == nullptr) return -1;
    if (const int refused = make(device)) return refused;
    return portamem_default_resource(backend, device, resource);
}

portamem_default_kind portamem_default_setting(const char** text) {
    static const auto* leaked = new Setting(read_setting());
    *text = leaked->text.c_str();
    return leaked->kind;
}

std::uint64_t portamem::offered_default_cached(portamem_backend backend, int device) {
    portamem_resource found{};
    if (portamem_forked() != 0) return 0;  // threads that the child does not have may hold its locks forever
    if (portamem_offered_default_resource(backend, device, &found) != 0) return 0;
    const bool says = found.ops->size >= offsetof(portamem_resource_ops, trim) && found.ops->cached != nullptr;
    const std::uint64_t cached = says ? found.ops->cached(found.self) : 0;
    found.ops->release(found.self);
    return cached;
}
