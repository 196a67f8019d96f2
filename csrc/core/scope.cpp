// SPDX-License-Identifier: MIT
// core/scope.cpp: the current memory resource of each device, per thread, and the default beneath it, per process.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "portamem/c_api.h"
#include "scope.hpp"

namespace {

using Key = std::pair<int, int>;  // backend, device

// A scope that is still open when its thread ends keeps its reference: releasing it could call a runtime that is being
// torn down.
std::map<Key, std::vector<portamem_resource>>& scopes() {
    static thread_local std::map<Key, std::vector<portamem_resource>> stacks;
    return stacks;
}

struct Defaults {
    std::mutex mutex;
    std::map<Key, portamem_resource> resources;
};

Defaults& defaults() {
    static auto* leaked = new Defaults;
    return *leaked;
}

}  // namespace

void portamem_scope_push(portamem_backend backend, int device, portamem_resource resource) {
    resource.ops->retain(resource.self);
    scopes()[{backend, device}].push_back(resource);
}

int portamem_scope_pop(portamem_backend backend, int device) {
    auto found = scopes().find({backend, device});
    if (found == scopes().end() || found->second.empty()) return -1;
    const portamem_resource resource = found->second.back();
    found->second.pop_back();
    resource.ops->release(resource.self);
    return 0;
}

int portamem_scope_end(portamem_backend backend, int device, const void* self) {
    auto found = scopes().find({backend, device});
    if (found == scopes().end()) return -1;
    std::vector<portamem_resource>& stack = found->second;
    const auto last =
        std::find_if(stack.rbegin(), stack.rend(), [self](const auto& each) { return each.self == self; });
    if (last == stack.rend()) return -1;
    const bool was_on_top = last == stack.rbegin();
    const portamem_resource resource = *last;
    stack.erase(std::next(last).base());
    resource.ops->release(resource.self);
    return was_on_top ? 0 : 1;
}

int portamem_scope_current(portamem_backend backend, int device, portamem_resource* resource) {
    auto found = scopes().find({backend, device});
    if (found == scopes().end() || found->second.empty()) return -1;
    *resource = found->second.back();
    resource->ops->retain(resource->self);
    return 0;
}

int portamem_offer_default_resource(portamem_backend backend, int device, portamem_resource resource) {
    // retain runs code of the provider: it is called outside the lock, and undone if another offer came first.
    resource.ops->retain(resource.self);
    bool stored = false;
    {
        std::lock_guard<std::mutex> lock(defaults().mutex);
        stored = defaults().resources.emplace(Key{backend, device}, resource).second;
    }
    if (!stored) resource.ops->release(resource.self);
    return stored ? 1 : 0;
}

int portamem_default_resource(portamem_backend backend, int device, portamem_resource* resource) {
    {
        std::lock_guard<std::mutex> lock(defaults().mutex);
        auto found = defaults().resources.find({backend, device});
        if (found == defaults().resources.end()) return -1;
        *resource = found->second;
    }
    // The default is never taken back, so that the reference it holds outlives this call.
    resource->ops->retain(resource->self);
    return 0;
}

std::uint64_t portamem::default_cached(portamem_backend backend, int device) {
    portamem_resource found{};
    if (portamem_forked() != 0) return 0;  // threads that the child does not have may hold its locks forever
    if (portamem_default_resource(backend, device, &found) != 0) return 0;
    const bool says = found.ops->size >= offsetof(portamem_resource_ops, trim) && found.ops->cached != nullptr;
    const std::uint64_t cached = says ? found.ops->cached(found.self) : 0;
    found.ops->release(found.self);
    return cached;
}
