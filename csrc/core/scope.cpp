// SPDX-License-Identifier: MIT
// core/scope.cpp: the scopes that say which memory resource of a device is current, on each thread.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "backends.hpp"
#include "portamem/abi/scope_api.h"

namespace {

using Key = std::pair<int, int>;  // backend, device

struct Scope {
    portamem_resource resource;
    bool is_embedded;  // of the embedding language
};
using Stack = std::vector<Scope>;  // the innermost last

// A scope that is still open when its thread ends keeps its reference: releasing it could call a runtime that is being
// torn down.
std::map<Key, Stack>& scopes() {
    static thread_local std::map<Key, Stack> stacks;
    return stacks;
}

Stack* stack_of(portamem_backend backend, int device) {
    const auto found = scopes().find({backend, device});
    return found == scopes().end() || found->second.empty() ? nullptr : &found->second;
}

std::atomic<portamem_scope_source> sources[portamem::kBackends];

void push(portamem_backend backend, int device, portamem_resource resource, bool is_embedded) {
    resource.ops->retain(resource.self);
    scopes()[{backend, device}].push_back({resource, is_embedded});
}

int retained(portamem_resource found, portamem_resource* resource) {
    found.ops->retain(found.self);
    *resource = found;
    return 0;
}

// Returns the innermost scope of this stack that counts where the language's innermost one is `mine`, or where it has
// none (null). Scopes of the language that others of its tasks have opened on this thread do not count.
const Scope* innermost(const Stack& stack, const void* mine) {
    const auto counts = [mine](const Scope& each) { return !each.is_embedded || each.resource.self == mine; };
    const auto found = std::find_if(stack.rbegin(), stack.rend(), counts);
    return found == stack.rend() ? nullptr : &*found;
}

}  // namespace

void portamem_scope_push(portamem_backend backend, int device, portamem_resource resource) {
    push(backend, device, resource, false);
}

void portamem_push_embedded_scope(portamem_backend backend, int device, portamem_resource resource) {
    push(backend, device, resource, true);
}

void portamem_set_scope_source(portamem_backend backend, portamem_scope_source source) {
    sources[backend].store(source, std::memory_order_release);
}

int portamem_scope_pop(portamem_backend backend, int device) {
    Stack* const stack = stack_of(backend, device);
    if (stack == nullptr) return -1;
    const portamem_resource resource = stack->back().resource;
    stack->pop_back();
    resource.ops->release(resource.self);
    return 0;
}

int portamem_scope_end(portamem_backend backend, int device, const void* self) {
    Stack* const stack = stack_of(backend, device);
    if (stack == nullptr) return -1;
    const auto last =
        std::find_if(stack->rbegin(), stack->rend(), [self](const Scope& each) { return each.resource.self == self; });
    if (last == stack->rend()) return -1;
    const bool was_on_top = last == stack->rbegin();
    const portamem_resource resource = last->resource;
    stack->erase(std::next(last).base());
    resource.ops->release(resource.self);
    return was_on_top ? 0 : 1;
}

int portamem_scope_current(portamem_backend backend, int device, portamem_resource* resource) {
    const Stack* const stack = stack_of(backend, device);
    const portamem_scope_source ask = sources[backend].load(std::memory_order_acquire);
    portamem_resource mine{};
    const int told = ask == nullptr ? -1 : ask(device, &mine);
    if (told < 0) return stack == nullptr ? -1 : retained(stack->back().resource, resource);
    const Scope* const found = stack == nullptr ? nullptr : innermost(*stack, mine.self);
    if (found == nullptr || found->resource.self == mine.self) {
        *resource = mine;  // it is retained
        return told == 1 ? 0 : -1;
    }
    if (told == 1) mine.ops->release(mine.self);
    return retained(found->resource, resource);
}
