// SPDX-License-Identifier: MIT
// python/plugins/library_hook.cpp: what a library's allocations and frees do.
#include "library_hook.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "../convert.hpp"
#include "../fastcall.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

// Runs a free for a library, which can take no exception. sys.unraisablehook is told of one.
template <class Function>
void or_tell(Function&& function) noexcept {
    try {
        function();
    } catch (...) {
        if (interpreter_is_going()) return;
        const WithGil gil;
        detail::stay_at_exit([] {
            (void)set_python_error();
            const auto where = py::reinterpret_steal<py::object>(PyUnicode_FromString("the free of another library"));
            PyErr_WriteUnraisable(where.ptr());
        });
    }
}

constexpr const char* kNotGiven = "a library frees memory that portamem has not given it";

bool is_captured(const Stream& stream) { return stream.capture_status() != rt::StreamCaptureStatus::None; }

}  // namespace

// The scopes of Python are read with the GIL. Making a default resource calls the runtime, and is done without.
std::shared_ptr<MemoryResource> LibraryHook::resource_for(int device) {
    if (serves(device)) return resource_;
    if (has_resource_scope(device)) return current_resource(device);
    return without_gil([device] { return default_resource(device); });
}

void* LibraryHook::allocate(std::size_t nbytes, int device, rt::Stream_t handle) {
    if (nbytes == 0) return nullptr;  // libraries do not free null
    if (__builtin_expect(serves(device) && !graphs_.is_open(), 1)) {
        if (const auto* stream = Stream::of_this_thread(handle, device)) {
            void* const ptr = resource_->allocate_cached(nbytes, *stream);
            if (__builtin_expect(ptr != nullptr, 1)) return ptr;
        }
    }
    const auto stream = Stream::from_handle(handle, device);
    void* ptr = nullptr;
    LibraryBlock block = take_anew(nbytes, stream, &ptr);
    if (ptr != nullptr && (block.resource != resource_ || block.stream != stream)) note(ptr, std::move(block));
    return ptr;
}

void* LibraryHook::allocate_noted(std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
    if (nbytes == 0) return nullptr;
    void* ptr = serves(stream->device()) ? resource_->allocate_cached(nbytes, stream) : nullptr;
    if (__builtin_expect(ptr != nullptr, 1)) {
        note(ptr, LibraryBlock{resource_, stream, {}, nbytes});
        return ptr;
    }
    LibraryBlock block = take_anew(nbytes, stream, &ptr);
    if (ptr != nullptr) note(ptr, std::move(block));
    return ptr;
}

void LibraryHook::note(void* ptr, LibraryBlock block) {
    try {
        blocks_.add(ptr, block);
    } catch (...) {
        without_gil([&] { block.resource->deallocate(ptr, block.nbytes, block.stream); });
        throw;
    }
}

// A captured stream gets memory that no work waits for, in the order of another stream. Its own order is that of the
// graph, which does not exist yet.
LibraryBlock LibraryHook::take_anew(std::size_t nbytes, const std::shared_ptr<Stream>& stream, void** ptr) {
    refuse_forked();
    give_back_held();
    const int device = stream->device();
    LibraryBlock block{resource_for(device), stream, {}, nbytes};
    without_gil([&] {
        const bool captured = is_captured(*stream);
        if (captured) block.stream = graphs_.stand_in(device, stream->handle());
        if (graphs_.is_open()) {
            if (auto pool = graphs_.pool_for(device, stream->handle(), block.resource))
                block.resource = std::move(pool);
        }
        std::optional<RelaxedCapture> beside;
        if (captured) beside.emplace(device);
        *ptr = block.resource->allocate(nbytes, block.stream);
        if (!captured || *ptr == nullptr) return;
        try {
            block.stream->settle();
        } catch (...) {
            block.resource->deallocate(*ptr, nbytes, block.stream);
            throw;
        }
    });
    return block;
}

void LibraryHook::deallocate(void* ptr, std::size_t nbytes, int device, rt::Stream_t handle) noexcept {
    if (ptr == nullptr || !runtime_usable()) return;  // at exit, and in a forked child, memory is left alone
    or_tell([&] {
        if (__builtin_expect(serves(device) && !blocks_.may_know(ptr), 1)) {
            const auto* stream = Stream::of_this_thread(handle, device);
            if (stream != nullptr && resource_->deallocate_cached(ptr, nbytes, *stream)) return;
        }
        auto noted = blocks_.take(ptr);
        if (!noted && serves(device)) {
            const auto stream = Stream::from_handle(handle, device);
            return without_gil([&] { resource_->deallocate(ptr, nbytes, stream); });
        }
        if (!noted || (noted->resource == nullptr && !serves(device))) throw std::invalid_argument(kNotGiven);
        if (noted->resource == nullptr) {
            noted->resource = resource_;
            noted->stream = Stream::from_handle(handle, device);
            noted->nbytes = nbytes;
        }
        give_back(ptr, std::move(*noted));
    });
}

void LibraryHook::deallocate_noted(void* ptr) noexcept {
    if (ptr == nullptr || !runtime_usable()) return;
    or_tell([&] {
        auto block = blocks_.take(ptr);
        if (!block || block->resource == nullptr) throw std::invalid_argument(kNotGiven);
        if (block->users.empty() && block->resource->deallocate_cached(ptr, block->nbytes, block->stream)) return;
        give_back(ptr, std::move(*block));
    });
}

void LibraryHook::note_use(void* ptr, rt::Stream_t user) {
    if (ptr == nullptr || !runtime_usable()) return;
    blocks_.change(ptr, [user](LibraryBlock& block) {
        if (std::find(block.users.begin(), block.users.end(), user) == block.users.end()) block.users.push_back(user);
    });
}

// Captured work has not been queued: nothing can wait for it, and its stream can take no order from outside. A graph
// that lives may be replayed at any time.
bool LibraryHook::has_to_wait(const LibraryBlock& block) const {
    if (block.users.empty()) return false;
    if (graphs_.keeps(*block.resource) || is_captured(*block.stream)) return true;
    return std::any_of(block.users.begin(), block.users.end(), [&](rt::Stream_t user) {
        return is_captured(*stream_of_any_device(user, block.stream->device()));
    });
}

void LibraryHook::give_back(void* ptr, LibraryBlock block) {
    without_gil([&] {
        try {
            if (has_to_wait(block)) return hold(ptr, std::move(block));
            deallocate_behind_users(ptr, block);
        } catch (...) {
            blocks_.add(ptr, std::move(block));  // it is still out
            throw;
        }
    });
}

void LibraryHook::deallocate_behind_users(void* ptr, const LibraryBlock& block) {
    for (rt::Stream_t user : block.users) block.stream->wait(*stream_of_any_device(user, block.stream->device()));
    block.resource->deallocate(ptr, block.nbytes, block.stream);
}

void LibraryHook::hold(void* ptr, LibraryBlock&& block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.emplace_back(ptr, std::move(block));
    held_count_.store(held_.size(), std::memory_order_relaxed);
}

// A block that its resource refuses is held on: its library has freed it, and frees it no second time.
void LibraryHook::give_back_held() {
    if (held_count_.load(std::memory_order_relaxed) == 0) return;
    without_gil([this] {
        std::list<std::pair<void*, LibraryBlock>> held;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            held.swap(held_);
            held_count_.store(0, std::memory_order_relaxed);
        }
        held.remove_if([this](const auto& each) {
            bool is_back = false;
            or_tell([&] {
                if (has_to_wait(each.second)) return;
                deallocate_behind_users(each.first, each.second);
                is_back = true;
            });
            return is_back;
        });
        const std::lock_guard<std::mutex> lock(mutex_);
        held_.splice(held_.end(), held);
        held_count_.store(held_.size(), std::memory_order_relaxed);
    });
}

std::size_t LibraryHook::held() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
}

void LibraryHook::end_graph(int device, GraphMemory::Id id) {
    without_gil([&] { graphs_.release(device, id); });
    give_back_held();
}

void LibraryHook::trim() {
    without_gil([this] { graphs_.give_back_released(); });
    give_back_held();
    PoolMemoryResource* const pool = resource_ == nullptr ? nullptr : resource_->as_pool();
    if (pool != nullptr) without_gil([pool] { pool->trim(); });
}

void LibraryHook::set_share(double share, int device) {
    PoolMemoryResource* const pool = serves(device) ? resource_->as_pool() : nullptr;
    if (pool == nullptr) {
        throw std::invalid_argument("only a pool of device " + std::to_string(device) +
                                    " can be limited to a share of its memory: plug in a PoolMemoryResource");
    }
    if (!(share >= 0 && share <= 1)) throw std::invalid_argument("a share of the device's memory is from 0 to 1");
    const auto total = static_cast<double>(Device(device).memory_info().total);
    pool->set_limit(std::max<std::size_t>(1, static_cast<std::size_t>(share * total)));
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
