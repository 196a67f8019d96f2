// SPDX-License-Identifier: MIT
// core/pool/api.cpp: pools as C functions. README.md here has the picture, the words, the locks and the three paths.
#include "portamem/abi/pool_api.h"

#include <new>

#include "fast_path.hpp"
#include "pool.hpp"
#include "thread.hpp"

namespace portamem::pool {
namespace {

Pool& pool_of(portamem_pool* pool) noexcept { return *reinterpret_cast<Pool*>(pool); }

int refuse(portamem_pool_status status, std::string text) noexcept {
    auto& refusal = last_refusal();
    refusal.status = status;
    refusal.text = std::move(text);
    return status;
}

// Runs a function, and turns its exceptions into a status. It is kept out of the functions that are called most.
template <class Function>
__attribute__((noinline)) int answered_unrested(Function&& function) noexcept {
    try {
        function();
        return refuse(PORTAMEM_POOL_OK, {});
    } catch (Refused& refused) {
        return refuse(refused.status, std::move(refused.text));
    } catch (const std::bad_alloc&) {
        return refuse(PORTAMEM_POOL_HOST_MEMORY, {});
    } catch (const std::exception& e) {  // for example a lock that the system refuses
        try {
            return refuse(PORTAMEM_POOL_INVALID, e.what());
        } catch (...) {
            return refuse(PORTAMEM_POOL_HOST_MEMORY, {});
        }
    }
}

// Does the same for a function that runs callbacks.
template <class Function>
int answered(Pool& pool, Function&& function) noexcept {
    const int status = answered_unrested(function);
    Refusal refusal = std::move(last_refusal());  // rest() may run code of the program, and with it other calls
    pool.rest(status, true);
    last_refusal() = std::move(refusal);
    return status;
}

void* allocate_locked(Pool& pool, std::size_t nbytes, std::size_t alignment, std::uint64_t identity,
                      void* stream) noexcept {
    void* ptr = nullptr;
    (void)answered(pool, [&] { ptr = pool.allocate(nbytes, alignment, identity, stream); });
    return ptr;
}

__attribute__((noinline)) void* allocate_after_miss(Pool& pool, std::size_t nbytes, std::uint64_t identity,
                                                    void* stream) noexcept {
    Cache* cache = remembered_cache(&pool, identity);
    void* ptr = nullptr;
    if (cache == nullptr) {
        cache = find_cache(&pool, identity);
        ptr = allocate_from_cache(cache, nbytes);
    }
    if (ptr == nullptr && cache != nullptr) ptr = pool.allocate_with_heap(*cache, nbytes);
    if (ptr == nullptr && cache != nullptr && cache->deferred) ptr = pool.allocate_drained(*cache, nbytes, stream);
    return ptr != nullptr ? ptr : allocate_locked(pool, nbytes, kGrain, identity, stream);
}

__attribute__((noinline)) int deallocate_after_miss(Pool& pool, void* ptr, std::size_t nbytes, std::uint64_t identity,
                                                    void* stream) noexcept {
    Cache* cache = remembered_cache(&pool, identity);
    bool is_done = false;
    if (cache == nullptr) {
        cache = find_cache(&pool, identity);
        is_done = deallocate_into_cache(cache, pool, ptr, nbytes);
    }
    if (is_done || (cache != nullptr && pool.deallocate_with_heap(*cache, ptr, nbytes))) return PORTAMEM_POOL_OK;
    if (cache != nullptr) {
        const Pool::Served served = pool.deallocate_pending(*cache, ptr, nbytes, stream);
        if (served == Pool::Served::Yes) return PORTAMEM_POOL_OK;
        if (served == Pool::Served::Thrown) {
            return answered(pool, [] { throw Refused{PORTAMEM_POOL_THROWN, {}}; });
        }
    }
    return answered(pool, [&] { pool.deallocate(ptr, nbytes, identity, stream); });
}

inline portamem_pool* do_create(const portamem_pool_ops* ops, void* self, const portamem_pool_options* options) {
    try {
        auto pool = std::make_shared<Pool>(*ops, self, *options);
        enlist(pool);
        pool->keeps_itself = pool;
        return reinterpret_cast<portamem_pool*>(pool.get());
    } catch (...) {
        return nullptr;
    }
}

inline void do_destroy(portamem_pool* pool) {
    pool_of(pool).shut_down();
    const auto last = std::move(pool_of(pool).keeps_itself);
    pool_has_ended();
}

inline void* do_allocate(portamem_pool* pool, size_t nbytes, uint64_t identity, void* stream) {
    Pool& of = pool_of(pool);
    void* const ptr = allocate_from_cache(remembered_cache(&of, identity), nbytes);
    if (__builtin_expect(ptr != nullptr, 1)) return ptr;
    return allocate_after_miss(of, nbytes, identity, stream);
}

inline void* do_allocate_aligned(portamem_pool* pool, size_t nbytes, size_t alignment, uint64_t identity,
                                 void* stream) {
    return allocate_locked(pool_of(pool), nbytes, alignment, identity, stream);
}

inline int do_deallocate(portamem_pool* pool, void* ptr, size_t nbytes, uint64_t identity, void* stream) {
    Pool& of = pool_of(pool);
    if (__builtin_expect(deallocate_into_cache(remembered_cache(&of, identity), of, ptr, nbytes), 1))
        return PORTAMEM_POOL_OK;
    return deallocate_after_miss(of, ptr, nbytes, identity, stream);
}

inline void do_set_resource(portamem_pool* pool, const portamem_known_ops* ops, void* resource, uint64_t identity) {
    ChunkOwner& owner = pool_of(pool).chunk_owner();
    owner.backend = pool_of(pool).options().backend;
    owner.ops_when_shown = ops;
    owner.resource = resource;
    owner.identity = identity;
}

inline void do_show_resource(portamem_pool* pool) {
    ChunkOwner& owner = pool_of(pool).chunk_owner();
    owner.ops.store(owner.ops_when_shown, std::memory_order_release);
}

inline void do_forget_resource(portamem_pool* pool) {
    pool_of(pool).chunk_owner().ops.store(nullptr, std::memory_order_release);
    if (portamem_forked() == 0) ChunkMap::instance().wait_for_readers();
}

inline portamem_address do_find(portamem_pool* pool, const void* ptr) {
    Pool& of = pool_of(pool);
    const ChunkMap::Reading reading;
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    const ChunkMap::Span* const span = reading ? ChunkMap::find(address) : nullptr;
    return span == nullptr || span->owner != &of.chunk_owner() ? portamem_address{} : of.find(ptr, span->begin);
}

inline bool do_deallocate_at(portamem_pool* pool, void* ptr, uint64_t identity) {
    Pool& of = pool_of(pool);
    Cache* const cache = remembered_cache(&of, identity);
    if (__builtin_expect(cache != nullptr, 1)) return deallocate_at_into_cache(cache, of, ptr);
    return deallocate_at_into_cache(find_cache(&of, identity), of, ptr);
}

inline void do_stream_ended(portamem_pool* pool, uint64_t identity, void* event) {
    (void)answered(pool_of(pool), [&] { pool_of(pool).stream_ended(identity, event); });
}

inline int do_trim(portamem_pool* pool, size_t keep) {
    return answered(pool_of(pool), [&] { pool_of(pool).trim(keep); });
}

inline int do_trim_stream(portamem_pool* pool, uint64_t identity, void* stream, size_t keep) {
    return answered(pool_of(pool), [&] { pool_of(pool).trim_stream(identity, stream, keep); });
}

inline int do_release_due(portamem_pool* pool) {
    bool is_done = true;  // also after a failure, because another free asks again
    (void)answered(pool_of(pool), [&] { is_done = pool_of(pool).release_due(); });
    return is_done ? 1 : 0;
}

inline int do_close(portamem_pool* pool) {
    return answered(pool_of(pool), [&] {
        if (!pool_of(pool).close()) throw Refused{PORTAMEM_POOL_BUSY, {}};
    });
}

inline int do_is_closed(const portamem_pool* pool) { return reinterpret_cast<const Pool*>(pool)->is_closed() ? 1 : 0; }

inline int do_is_lending(const portamem_pool* pool) {
    return reinterpret_cast<const Pool*>(pool)->is_lending() ? 1 : 0;
}

inline void do_stats(portamem_pool* pool, portamem_pool_figures* figures) {
    (void)answered_unrested([&] { pool_of(pool).figures(*figures); });
}

inline void do_live(portamem_pool* pool, uint64_t* blocks, uint64_t* nbytes) {
    (void)answered_unrested([&] { pool_of(pool).live(*blocks, *nbytes); });
}

inline void do_reserved(portamem_pool* pool, uint64_t* reserved, uint64_t* peak) {
    (void)answered_unrested([&] { pool_of(pool).reserved(*reserved, *peak); });
}

inline uint64_t do_idle(portamem_backend backend, int device) {
    std::uint64_t idle = 0;
    if (portamem_forked() == 0) (void)answered_unrested([&] { idle = idle_bytes(backend, device); });
    return idle;
}

inline uint64_t do_lendable(portamem_backend backend, int device) {
    std::uint64_t nbytes = 0;
    if (portamem_forked() == 0) (void)answered_unrested([&] { nbytes = lendable_bytes(backend, device); });
    return nbytes;
}

inline uint64_t do_lend(portamem_backend backend, int device, size_t nbytes) {
    return portamem_forked() != 0 ? 0 : lend_idle(backend, device, nbytes);
}

inline void do_reset_peak(portamem_pool* pool) {
    (void)answered_unrested([&] { pool_of(pool).reset_peak(); });
}

inline int do_snapshot(portamem_pool* pool, portamem_pool_visitor visitor, void* self) {
    return answered_unrested([&] {
        for (const portamem_pool_piece& piece : pool_of(pool).snapshot()) visitor(self, &piece);
    });
}

inline int do_error(const char** text) {
    const auto& refusal = last_refusal();
    if (text != nullptr) *text = refusal.text.c_str();
    return refusal.status;
}

}  // namespace
}  // namespace portamem::pool

portamem_pool* portamem_pool_create(const portamem_pool_ops* ops, void* self, const portamem_pool_options* options) {
    return portamem::pool::do_create(ops, self, options);
}
void portamem_pool_destroy(portamem_pool* pool) { portamem::pool::do_destroy(pool); }
void portamem_pool_abandon(portamem_pool* pool) { portamem::pool::pool_of(pool).abandon(); }
void* portamem_pool_allocate_cached(portamem_pool* pool, size_t nbytes, uint64_t identity) {
    return portamem::pool::allocate_cached(portamem::pool::pool_of(pool), nbytes, identity);
}
int portamem_pool_deallocate_cached(portamem_pool* pool, void* ptr, size_t nbytes, uint64_t identity) {
    return portamem::pool::deallocate_cached(portamem::pool::pool_of(pool), ptr, nbytes, identity) ? 1 : 0;
}
void* portamem_pool_allocate(portamem_pool* pool, size_t nbytes, uint64_t identity, void* stream) {
    return portamem::pool::do_allocate(pool, nbytes, identity, stream);
}
void* portamem_pool_allocate_aligned(portamem_pool* pool, size_t nbytes, size_t alignment, uint64_t identity,
                                     void* stream) {
    return portamem::pool::do_allocate_aligned(pool, nbytes, alignment, identity, stream);
}
int portamem_pool_deallocate(portamem_pool* pool, void* ptr, size_t nbytes, uint64_t identity, void* stream) {
    return portamem::pool::do_deallocate(pool, ptr, nbytes, identity, stream);
}
int portamem_pool_deallocate_at(portamem_pool* pool, void* ptr, uint64_t identity) {
    return portamem::pool::do_deallocate_at(pool, ptr, identity) ? 1 : 0;
}
int portamem_pool_resize(portamem_pool* pool, void* ptr, size_t from, size_t to, uint64_t identity) {
    return portamem::pool::pool_of(pool).resize(ptr, from, to, identity) ? 1 : 0;
}
size_t portamem_pool_size_of(portamem_pool* pool, const void* ptr) {
    return portamem::pool::pool_of(pool).asked_at(ptr);
}
int portamem_pool_find(portamem_pool* pool, const void* ptr, portamem_address* found) {
    *found = portamem::pool::do_find(pool, ptr);
    return found->state;
}
void portamem_pool_set_resource(portamem_pool* pool, const portamem_known_ops* ops, void* resource, uint64_t identity) {
    portamem::pool::do_set_resource(pool, ops, resource, identity);
}
void portamem_pool_show_resource(portamem_pool* pool) { portamem::pool::do_show_resource(pool); }
void portamem_pool_forget_resource(portamem_pool* pool) { portamem::pool::do_forget_resource(pool); }
void portamem_pool_cover(portamem_pool* pool) {
    portamem::pool::pool_of(pool).chunk_owner().is_covered.store(true, std::memory_order_relaxed);
}
void portamem_pool_set_limit(portamem_pool* pool, size_t limit) { portamem::pool::pool_of(pool).set_limit(limit); }
size_t portamem_pool_get_limit(const portamem_pool* pool) {
    return reinterpret_cast<const portamem::pool::Pool*>(pool)->limit();
}
void portamem_pool_stream_ended(portamem_pool* pool, uint64_t identity, void* event) {
    portamem::pool::do_stream_ended(pool, identity, event);
}
int portamem_pool_trim(portamem_pool* pool, size_t keep) { return portamem::pool::do_trim(pool, keep); }
int portamem_pool_trim_stream(portamem_pool* pool, uint64_t identity, void* stream, size_t keep) {
    return portamem::pool::do_trim_stream(pool, identity, stream, keep);
}
int portamem_pool_release_due(portamem_pool* pool) { return portamem::pool::do_release_due(pool); }
void portamem_pool_call_off_due(portamem_pool* pool) { portamem::pool::pool_of(pool).call_off_due(); }
int portamem_pool_close(portamem_pool* pool) { return portamem::pool::do_close(pool); }
int portamem_pool_is_closed(const portamem_pool* pool) { return portamem::pool::do_is_closed(pool); }
int portamem_pool_is_lending(const portamem_pool* pool) { return portamem::pool::do_is_lending(pool); }
void portamem_pool_stats(portamem_pool* pool, portamem_pool_figures* figures) {
    portamem::pool::do_stats(pool, figures);
}
void portamem_pool_live(portamem_pool* pool, uint64_t* blocks, uint64_t* nbytes) {
    portamem::pool::do_live(pool, blocks, nbytes);
}
void portamem_pool_reserved(portamem_pool* pool, uint64_t* reserved, uint64_t* peak) {
    portamem::pool::do_reserved(pool, reserved, peak);
}
uint64_t portamem_pools_idle(portamem_backend backend, int device) { return portamem::pool::do_idle(backend, device); }
uint64_t portamem_pools_lendable(portamem_backend backend, int device) {
    return portamem::pool::do_lendable(backend, device);
}
uint64_t portamem_pools_lend(portamem_backend backend, int device, size_t nbytes) {
    return portamem::pool::do_lend(backend, device, nbytes);
}
void portamem_pool_reset_peak(portamem_pool* pool) { portamem::pool::do_reset_peak(pool); }
int portamem_pool_snapshot(portamem_pool* pool, portamem_pool_visitor visitor, void* self) {
    return portamem::pool::do_snapshot(pool, visitor, self);
}
int portamem_pool_error(const char** text) { return portamem::pool::do_error(text); }
