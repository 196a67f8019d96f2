// SPDX-License-Identifier: MIT
// tests/packaging/hooks/hooks.cpp: the recipes of docs/porting/hooks.md, called as the libraries call them.
//
// Each recipe is a header that the test takes from the page. It includes the library's own headers, which are stand-ins
// here (tests/packaging/hooks/standins).
#include "any.hpp"
// hypre's recipe uses the functions of the first.
#include "amrex.hpp"
#include "hypre.hpp"
#include "kokkos.hpp"
#include "petsc.hpp"
#include "umpire.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "check.hpp"

namespace rt = pm::rt;

namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 50;
using Pool = std::shared_ptr<pm::PoolMemoryResource>;

/// Stands for a kernel of the library.
void write(void* ptr, int value, std::size_t nbytes, rt::Stream_t stream) {
    CHECK(rt::MemsetAsync(ptr, value, nbytes, stream) == rt::Error_t::Success);
}

bool holds(const void* ptr, int value, std::size_t nbytes, rt::Stream_t stream) {
    std::vector<unsigned char> bytes(nbytes);
    CHECK(rt::MemcpyAsync(bytes.data(), ptr, nbytes, rt::MemcpyKind::DeviceToHost, stream) == rt::Error_t::Success);
    CHECK(rt::StreamSynchronize(stream) == rt::Error_t::Success);
    return bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, nbytes - 1) == 0;
}

struct Block {
    void* ptr;
    int value;
    std::size_t nbytes;
};

/// Allocates, uses and frees blocks of several sizes on one thread. Returns some that are still in use.
template <class Alloc, class Free>
std::vector<Block> use(int thread, Alloc alloc, Free free, rt::Stream_t stream) {
    std::vector<Block> blocks;
    for (int round = 0; round < 20; ++round) {
        for (const std::size_t nbytes : std::array<std::size_t, 4>{8, 1000, 70'000, 2'000'000}) {
            const int value = thread * 100 + round;
            void* const ptr = alloc(nbytes);
            CHECK(ptr != nullptr && reinterpret_cast<std::uintptr_t>(ptr) % pm::MemoryResource::kAlignment == 0);
            write(ptr, value, nbytes, stream);
            blocks.push_back({ptr, value, nbytes});
        }
        while (blocks.size() > 6) {
            CHECK(holds(blocks.front().ptr, blocks.front().value, blocks.front().nbytes, stream));
            free(blocks.front().ptr);
            blocks.erase(blocks.begin());
        }
    }
    CHECK(rt::StreamSynchronize(stream) == rt::Error_t::Success);
    return blocks;
}

/// Uses the hook on two threads at once. Each thread then frees what the other has left.
template <class Alloc, class Free>
void use_on_two_threads(Alloc alloc, Free free) {
    std::array<std::vector<Block>, 2> left;
    const auto on_both = [](auto call) {
        std::thread other([&call] { call(1); });
        call(0);
        other.join();
    };
    on_both([&](int thread) { left[static_cast<std::size_t>(thread)] = use(thread, alloc, free, rt::Stream_t{}); });
    on_both([&](int thread) {
        for (const Block& block : left[static_cast<std::size_t>(1 - thread)]) {
            CHECK(holds(block.ptr, block.value, block.nbytes, rt::Stream_t{}));
            free(block.ptr);
        }
    });
}

/// Frees memory of hooks after main, as static objects of libraries do.
struct AfterMain {
    ~AfterMain() {
        if (ptr == nullptr) return;
        library_free(ptr);
        arena->free(block);
        if (LibraryMemory::instance().pool->live_buffers() != 0 || pool->live_buffers() != 0) std::_Exit(3);
    }
    void* ptr = nullptr;
    amrex::Arena* arena = nullptr;
    void* block = nullptr;
    pm::PoolMemoryResource* pool = nullptr;
} after_main;

void any_hook() {
    const auto& pool = *LibraryMemory::instance().pool;
    use_on_two_threads(library_alloc, library_free);
    CHECK(pool.live_buffers() == 0);
    CHECK(library_alloc(kTooMuch) == nullptr);
    library_free(library_alloc(0));
    library_free(nullptr);

    void* const first = library_alloc(1000);
    library_free(first);
    void* const second = library_alloc(1000);
    CHECK(second == first);  // the pool has handed it out again at once
    library_free(second);
    after_main.ptr = library_alloc(1000);
}

void hypre() {
    use_portamem_in_hypre();
    const auto& pool = *LibraryMemory::instance().pool;
    const std::size_t before = pool.live_buffers();
    use_on_two_threads(hypre_standin::allocate, hypre_standin::free);
    CHECK(pool.live_buffers() == before);
    CHECK(refusal<std::runtime_error>([] { hypre_standin::allocate(kTooMuch); }) == "Out of memory");
}

/// Frees memory behind the work of a stream, on a thread of the runtime, as amrex::Gpu::Elixir does.
void free_by_elixir(amrex::Arena& arena, void* ptr, rt::Stream_t stream) {
    struct Waiting {
        amrex::Arena* arena;
        void* ptr;
    };
    auto* const waiting = new Waiting{&arena, ptr};
    const auto run = [](void* data) {
        auto* const mine = static_cast<Waiting*>(data);
        mine->arena->free(mine->ptr);
        delete mine;
    };
    CHECK(rt::LaunchHostFunc(stream, run, waiting) == rt::Error_t::Success);
}

void amrex_arena() {
    const Pool pool = make_device_pool(0);
    auto& arena = *new PortamemArena(pool);
    const auto alloc = [&](std::size_t nbytes) { return arena.alloc(nbytes); };
    const auto free = [&](void* ptr) { arena.free(ptr); };
    use_on_two_threads(alloc, free);
    CHECK(pool->live_buffers() == 0 && arena.isDevice() && !arena.isStreamOrderedArena());
    CHECK(contains(refusal<std::runtime_error>([&] { (void)arena.alloc(kTooMuch); }), "1024 TiB"));

    void* const nothing = arena.alloc(0);
    CHECK(nothing != nullptr);
    arena.free(nothing);
    arena.free(nullptr);
    CHECK(arena.freeUnused() > 0 && pool->reserved() == 0);

    // Memory of a Fab is used on the streams of an MFIter loop, and elixir() frees it behind one of them.
    const auto first = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    void* last = nullptr;
    for (int round = 0; round < 50; ++round) {
        for (const auto& stream : {first, second}) {
            last = arena.alloc(1000);
            write(last, round, 1000, stream->handle());
            free_by_elixir(arena, last, stream->handle());
        }
    }
    first->synchronize();
    second->synchronize();
    CHECK(pool->live_buffers() == 0);
    after_main.arena = &arena;
    after_main.pool = pool.get();
    after_main.block = arena.alloc(1000);
}

/// Takes memory on one stream that another stream has freed, with its work not yet begun.
void keeps_order(amrex::Arena& arena, rt::Stream_t first, rt::Stream_t second) {
    std::atomic<bool> may_begin{false};
    const auto wait = [](void* flag) {
        while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
    };
    amrex::Gpu::current_stream() = first;
    void* const freed = arena.alloc(5000);
    CHECK(rt::LaunchHostFunc(first, wait, &may_begin) == rt::Error_t::Success);
    write(freed, 1, 5000, first);
    arena.free(freed);

    amrex::Gpu::current_stream() = second;
    void* const taken = arena.alloc(5000);
    write(taken, 2, 5000, second);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a write that waits for nothing runs now
    may_begin = true;
    CHECK(rt::StreamSynchronize(first) == rt::Error_t::Success);
    CHECK(holds(taken, 2, 5000, second));
    arena.free(taken);
}

void amrex_async_arena() {
    const Pool pool = make_device_pool(0);
    PortamemAsyncArena arena(pool);
    CHECK(arena.isStreamOrderedArena());
    // AMReX makes its streams itself: portamem knows the handles only.
    std::array<rt::Stream_t, 2> streams{};
    for (auto& stream : streams) {
        CHECK(rt::StreamCreateWithPriority(&stream, rt::StreamNonBlocking, 0) == rt::Error_t::Success);
    }
    const auto alloc = [&](std::size_t nbytes) { return arena.alloc(nbytes); };
    const auto free = [&](void* ptr) { arena.free(ptr); };
    const auto work = [&](int thread) {
        amrex::Gpu::current_stream() = streams[static_cast<std::size_t>(thread)];
        for (const Block& block : use(thread, alloc, free, amrex::Gpu::gpuStream())) arena.free(block.ptr);
        // A temporary of one iteration is freed with its work under way, and the next takes its memory.
        for (int round = 0; round < 100; ++round) {
            void* const ptr = arena.alloc(5000);
            write(ptr, thread, 5000, amrex::Gpu::gpuStream());
            if (round % 10 == 0) CHECK(holds(ptr, thread, 5000, amrex::Gpu::gpuStream()));
            arena.free(ptr);
        }
        CHECK(rt::StreamSynchronize(amrex::Gpu::gpuStream()) == rt::Error_t::Success);
    };
    std::thread other([&] { work(1); });
    work(0);
    other.join();
    keeps_order(arena, streams[0], streams[1]);
    CHECK(pool->live_buffers() == 0);
    CHECK(contains(refusal<std::runtime_error>([&] { (void)arena.alloc(kTooMuch); }), "1024 TiB"));
    amrex::Gpu::current_stream() = {};
    for (auto& stream : streams) CHECK(rt::StreamDestroy(stream) == rt::Error_t::Success);
}

void umpire_strategy() {
    auto allocator = make_portamem_allocator(0);
    use_on_two_threads([&](std::size_t nbytes) { return allocator.allocate(nbytes); },
                       [&](void* ptr) { allocator.deallocate(ptr); });
    CHECK(allocator.getCurrentSize() == 0 && allocator.getActualSize() > 0);
    CHECK(allocator.getPlatform() == umpire::Platform::cuda);
    allocator.release();
    CHECK(allocator.getActualSize() == 0);
    CHECK(contains(refusal<umpire::out_of_memory_error>([&] { allocator.allocate(kTooMuch); }), "1024 TiB"));
    // It is freed after main, and before Umpire ends, which was made earlier.
    static const std::shared_ptr<void> late(allocator.allocate(1000), [](void* ptr) {
        umpire::ResourceManager::getInstance().getAllocator("PORTAMEM").deallocate(ptr);
    });
}

void kokkos_views() {
    using View = Kokkos::View<double**, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    const Pool pool = pm::PoolMemoryResource::create(pm::PinnedMemoryResource::create(0));
    const auto use_views = [&pool](double value) {
        const auto stream = pm::Stream::create(0);
        for (int round = 0; round < 50; ++round) {
            const PooledView<View> pooled(pool, stream, std::size_t{30}, std::size_t{40});
            const View view = pooled.view();
            CHECK(view.size() == 1200 && pooled.memory().nbytes() == 1200 * sizeof(double));
            for (std::size_t i = 0; i < 30; ++i) view(i, i) = value;
            for (std::size_t i = 0; i < 30; ++i) CHECK(view(i, i) == value);
        }
    };
    std::thread other([&] { use_views(1.0); });
    use_views(2.0);
    other.join();
    CHECK(pool->live_buffers() == 0);
    const auto stream = pm::Stream::create(0);
    CHECK(contains(refusal<std::runtime_error>([&] { PooledView<View>(pool, stream, kTooMuch, std::size_t{1}); }),
                   "8192 TiB"));
}

void petsc_vectors() {
    const Pool pool = make_device_pool(0);
    PetscDeviceContext context = nullptr;
    PetscDeviceContextGetCurrentContext(&context);
    const auto stream = pm::Stream::create(0);  // PETSc's root stream
    context->stream = stream->handle();
    for (int round = 0; round < 20; ++round) {
        std::optional<pm::Buffer> memory;
        Vec vec = nullptr;
        CHECK(create_pooled_vec(pool, 1000, memory, &vec) == PETSC_SUCCESS);
        CHECK(vec->size == 1000 && vec->array == memory->ptr());
        write(memory->ptr(), round, 8000, context->stream);
        if (round % 5 == 0) CHECK(holds(vec->array, round, 8000, context->stream));
        VecDestroy(&vec);
    }
    CHECK(pool->live_buffers() == 0);
    std::optional<pm::Buffer> memory;
    Vec vec = nullptr;
    pool->set_limit(1 << 20);
    CHECK(create_pooled_vec(pool, 1 << 30, memory, &vec) == PETSC_ERR_LIB && !memory && vec == nullptr);
    CHECK(contains(petsc_standin::latest_error, "8589934592 bytes"));
    context->stream = {};
}

void petsc_host_memory() {
    CHECK(use_portamem_in_petsc() == PETSC_SUCCESS);
    const auto& pool = *PetscMemory::instance().pool;
    const auto alloc = [](std::size_t nbytes) {
        void* ptr = nullptr;
        CHECK(petsc_standin::allocate(nbytes, PETSC_FALSE, &ptr) == PETSC_SUCCESS);
        if (ptr != nullptr) std::memset(ptr, 1, nbytes);  // the host reaches it
        return ptr;
    };
    const auto free = [](void* ptr) { CHECK(petsc_standin::free(ptr) == PETSC_SUCCESS); };
    use_on_two_threads(alloc, free);
    CHECK(alloc(0) == nullptr);

    void* ptr = nullptr;
    CHECK(petsc_standin::allocate(100, PETSC_TRUE, &ptr) == PETSC_SUCCESS);
    CHECK(static_cast<char*>(ptr)[0] == 0 && std::memcmp(ptr, static_cast<char*>(ptr) + 1, 99) == 0);
    std::memset(ptr, 7, 100);
    CHECK(petsc_standin::reallocate(5000, &ptr) == PETSC_SUCCESS && static_cast<char*>(ptr)[99] == 7);
    CHECK(petsc_standin::reallocate(10, &ptr) == PETSC_SUCCESS && static_cast<char*>(ptr)[9] == 7);
    void* const kept = ptr;
    CHECK(petsc_standin::reallocate(kTooMuch, &ptr) == PETSC_ERR_MEM && ptr == kept);
    CHECK(petsc_standin::reallocate(0, &ptr) == PETSC_SUCCESS && ptr == nullptr);
    CHECK(petsc_standin::reallocate(10, &ptr) == PETSC_SUCCESS && ptr != nullptr);
    free(ptr);
    CHECK(petsc_standin::free(ptr) == PETSC_ERR_MEMC);
    CHECK(petsc_standin::allocate(kTooMuch, PETSC_TRUE, &ptr) == PETSC_ERR_MEM && ptr == nullptr);
    CHECK(contains(petsc_standin::latest_error, "1024 TiB"));
    CHECK(pool.live_buffers() == 0);
}

}  // namespace

int main(int argc, char**) {
    if (argc > 1) {
        void* const ptr = library_alloc(1000);
        library_free(ptr);
        library_free(ptr);
        return 0;
    }
    any_hook();
    hypre();
    amrex_arena();
    amrex_async_arena();
    umpire_strategy();
    kokkos_views();
    petsc_vectors();
    petsc_host_memory();
    std::puts("right");
    return 0;
}
