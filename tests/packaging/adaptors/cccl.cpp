// SPDX-License-Identifier: MIT
// tests/packaging/adaptors/cccl.cpp: resources as cuda::mr resources and over them. It runs on the CPU backend, whose
// own handles go through cuda::stream_ref, and compiles for CUDA.
#include <portamem/adaptors/cccl_memory_resource.hpp>
#include <portamem/portamem.hpp>

#include <cuda/memory_resource>

#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"

#if defined(PORTAMEM_HOST)
// A program for the CPU backend links no CUDA runtime, and CCCL's errors ask one function of it for their text.
extern "C" const char* cudaGetErrorString(cudaError_t) { return "an error"; }
#endif

namespace pm = portamem;
namespace mr = cuda::mr;
using Resource = std::shared_ptr<pm::MemoryResource>;
using OnDevice = pm::CcclMemoryResource<mr::device_accessible>;
using OnHost = pm::CcclMemoryResource<mr::host_accessible>;
using OnBoth = pm::CcclMemoryResource<mr::device_accessible, mr::host_accessible>;

static_assert(mr::resource<OnDevice> && mr::resource<OnHost> && mr::resource<OnBoth>);
static_assert(mr::synchronous_resource_with<OnBoth, mr::device_accessible, mr::host_accessible>);
static_assert(mr::resource_with<OnDevice, mr::device_accessible>);
static_assert(mr::resource_with<OnBoth, mr::host_accessible>);
static_assert(!mr::resource_with<OnDevice, mr::host_accessible>);
static_assert(!mr::resource_with<OnHost, mr::device_accessible>);
static_assert(std::is_nothrow_copy_constructible_v<OnDevice> && std::is_nothrow_move_assignable_v<OnDevice>);
static_assert(std::is_constructible_v<mr::any_resource<mr::device_accessible>, OnBoth>);
static_assert(std::is_constructible_v<mr::resource_ref<mr::device_accessible>, OnDevice&>);
static_assert(!std::is_constructible_v<mr::any_resource<mr::host_accessible>, OnDevice>);

namespace {

cuda::stream_ref ref(const std::shared_ptr<pm::Stream>& stream) {
    return cuda::stream_ref(reinterpret_cast<cudaStream_t>(stream->handle()));
}

void type_erased(const Resource& resource) {
    const auto stream = pm::Stream::create(0);
    OnDevice adaptor(resource);
    void* const ptr = adaptor.allocate(ref(stream), 1000, 16);
    CHECK(ptr != nullptr);
    CHECK(resource->live_bytes() == 1000);
    CHECK(reinterpret_cast<std::uintptr_t>(ptr) % 256 == 0);
    adaptor.deallocate(ref(stream), ptr, 1000, 16);
    CHECK(resource->live_buffers() == 0);
    {
        mr::any_resource<mr::device_accessible> owning{adaptor};
        const mr::any_resource<mr::device_accessible> same = owning;
        CHECK(same == owning);
        void* const first = owning.allocate(ref(stream), 4096, 256);
        mr::resource_ref<mr::device_accessible> borrowed{owning};
        void* const second = borrowed.allocate(ref(stream), 4096, 256);
        CHECK(first != second);
        CHECK(resource->live_buffers() == 2);
        borrowed.deallocate(ref(stream), first, 4096, 256);
        owning.deallocate(ref(stream), second, 4096, 256);
        mr::synchronous_resource_ref<mr::device_accessible> at_once{adaptor};
        void* const third = at_once.allocate_sync(100, 8);
        CHECK(resource->live_bytes() == 100);
        at_once.deallocate_sync(third, 100, 8);
        void* const nothing = adaptor.allocate(ref(stream), 0, 8);
        adaptor.deallocate(ref(stream), nothing, 0, 8);
    }
    CHECK(resource->live_buffers() == 0);
}

void by_the_streams_order() {
    const auto pool = pm::PoolMemoryResource::create(pm::DeviceMemoryResource::create(0));
    const auto one = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    OnDevice adaptor(pool);
    void* const ptr = adaptor.allocate(ref(one), 1 << 20, 256);
    struct Held {
        std::atomic<bool> open{false};
    } held;
    one->launch_host_func(
        [](void* held) {
            while (!static_cast<Held*>(held)->open) std::this_thread::yield();
        },
        &held);
    adaptor.deallocate(ref(one), ptr, 1 << 20, 256);
    void* const again = adaptor.allocate(ref(one), 1 << 20, 256);
    // At once, on the stream that freed it, unless the host could look at what still runs.
    CHECK((again == ptr) != pool->is_host_accessible());
    adaptor.deallocate(ref(one), again, 1 << 20, 256);
    CHECK(pool->live_buffers() == 0);
    held.open = true;
    one->synchronize();
    // Known by the Stream of the handle, so that its close is heard.
    CHECK(pm::Stream::from_handle(one->handle(), 0)->stands_for(*one) ||
          pm::Stream::from_handle(one->handle(), 0) == one);
    void* const third = adaptor.allocate_sync(1 << 20, 256);
    adaptor.deallocate(ref(other), third, 1 << 20, 256);
    CHECK(pool->live_buffers() == 0);
}

int lost = 0;

void refusals() {
    CHECK(contains(refusal<std::invalid_argument>([] { OnDevice(nullptr); }), "not null"));
    const Resource device = pm::DeviceMemoryResource::create(0);
    const Resource pinned = pm::PinnedMemoryResource::create(0);
    if (!device->is_host_accessible()) {
        const std::string text = refusal<std::invalid_argument>([&] { OnBoth{device}; });
        CHECK(contains(text, "the host does not reach memory of kind device"));
        CHECK(contains(text, "cuda::mr::host_accessible"));
    }
    const Resource system = pm::SystemMemoryResource::create(0);
    if (!system->is_device_accessible()) {
        CHECK(contains(refusal<std::invalid_argument>([&] { OnDevice{system}; }), "memory of kind system"));
        OnHost(system).deallocate_sync(OnHost(system).allocate_sync(100, 8), 100, 8);
    }
    CHECK(OnDevice(device) == OnDevice(device));
    CHECK(OnDevice(device) != OnDevice(pinned));

    const auto stream = pm::Stream::create(0);
    OnDevice adaptor(pinned);
    CHECK(contains(refusal<std::invalid_argument>([&] { (void)adaptor.allocate(ref(stream), 8, 3); }), "power of two"));
    CHECK(!refusal<std::invalid_argument>([&] { (void)adaptor.allocate(ref(stream), 8, 4096); }).empty());
    CHECK(!refusal<pm::OutOfMemory>([&] { (void)adaptor.allocate(ref(stream), std::size_t{1} << 60, 8); }).empty());
    OnDevice over_pool(pm::PoolMemoryResource::create(device));
    void* const wide = over_pool.allocate(ref(stream), 8, 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 4096 == 0);
    over_pool.deallocate(ref(stream), wide, 8, 4096);

    // A wrong free throws nothing and loses nothing; an embedding language is told.
    void* const ptr = adaptor.allocate(ref(stream), 100, 8);
    pm::detail::embedder().lost_failure = [](const std::exception_ptr&) noexcept { ++lost; };
    adaptor.deallocate(ref(stream), ptr, 101, 8);
    adaptor.deallocate_sync(ptr, 101, 8);
    pm::detail::embedder().lost_failure = nullptr;
    CHECK(lost == 2);
    CHECK(pinned->live_buffers() == 1);
    adaptor.deallocate_sync(ptr, 100, 8);
    CHECK(pinned->live_buffers() == 0);
}

/// Is a cuda::mr resource of a program: it counts, and gives `room` bytes at most.
class Counting {
  public:
    explicit Counting(std::size_t room) : state_(std::make_shared<State>()) { state_->room = room; }

    void* allocate(cuda::stream_ref stream, std::size_t nbytes, std::size_t alignment) {
        state_->stream = stream.get();
        ++state_->by_stream;
        return allocate_sync(nbytes, alignment);
    }
    void deallocate(cuda::stream_ref stream, void* ptr, std::size_t nbytes, std::size_t alignment) noexcept {
        state_->stream = stream.get();
        ++state_->by_stream;
        deallocate_sync(ptr, nbytes, alignment);
    }
    void* allocate_sync(std::size_t nbytes, std::size_t alignment) {
        if (state_->error != cudaSuccess) throw cuda::cuda_error(state_->error, "as the test asked");
        if (nbytes > state_->room) throw std::bad_alloc();
        state_->room -= nbytes;
        return ::operator new(nbytes, std::align_val_t(alignment));
    }
    void deallocate_sync(void* ptr, std::size_t nbytes, std::size_t alignment) noexcept {
        state_->room += nbytes;
        ::operator delete(ptr, std::align_val_t(alignment));
    }
    bool operator==(const Counting& other) const noexcept { return state_ == other.state_; }
    bool operator!=(const Counting& other) const noexcept { return state_ != other.state_; }
    [[maybe_unused]] friend void get_property(const Counting&, mr::device_accessible) noexcept {}

    void fail(cudaError_t error) const { state_->error = error; }
    std::size_t room() const { return state_->room; }
    int by_stream() const { return state_->by_stream; }
    cudaStream_t stream() const { return state_->stream; }

  private:
    struct State {
        std::size_t room = 0;
        int by_stream = 0;
        cudaStream_t stream{};
        cudaError_t error = cudaSuccess;
    };
    std::shared_ptr<State> state_;
};

void over_a_resource_of_the_program() {
    const Counting counting(1 << 20);
    const auto stream = pm::Stream::create(0);
    {
        const auto upstream = pm::resource_from_cccl(counting, pm::ResourceKind::Async, 0);
        CHECK(upstream->is_stream_ordered());
        void* ptr = upstream->allocate(1000, stream);
        CHECK(counting.stream() == ref(stream).get());
        CHECK(counting.room() == (1 << 20) - 1000);
        upstream->deallocate(ptr, 1000, stream);
        CHECK(counting.by_stream() == 2);
        CHECK(counting.room() == 1 << 20);
        CHECK(!refusal<pm::OutOfMemory>([&] { (void)upstream->allocate(2 << 20, stream); }).empty());
        counting.fail(cudaErrorMemoryAllocation);
        CHECK(!refusal<pm::OutOfMemory>([&] { (void)upstream->allocate(8, stream); }).empty());
        counting.fail(cudaErrorInvalidValue);
        CHECK(contains(refusal<cuda::cuda_error>([&] { (void)upstream->allocate(8, stream); }), "as the test asked"));
        counting.fail(cudaSuccess);
        CHECK(upstream->live_buffers() == 0);

        auto closed = pm::Stream::create(0);
        ptr = upstream->allocate(1000, closed);
        closed->close();
        upstream->deallocate(ptr, 1000, closed);
        CHECK(counting.room() == 1 << 20);
    }
    {
        const auto plain =
            pm::resource_from_cccl(mr::any_resource<mr::device_accessible>{counting}, pm::ResourceKind::Device, 0);
        const int before = counting.by_stream();
        plain->deallocate(plain->allocate(1000, stream), 1000, stream);
        CHECK(counting.by_stream() == before);
        CHECK(counting.room() == 1 << 20);
    }
    const std::string text =
        refusal<std::invalid_argument>([&] { (void)pm::resource_from_cccl(counting, pm::ResourceKind::Pinned, 0); });
    CHECK(contains(text, "not host_accessible"));
    CHECK(contains(text, "pinned"));

    // There and back: a resource as cuda::mr resource, below a pool of portamem.
    const Resource pinned = pm::PinnedMemoryResource::create(0);
    {
        const auto pool =
            pm::PoolMemoryResource::create(pm::resource_from_cccl(OnBoth(pinned), pm::ResourceKind::Pinned, 0));
        pm::Buffer buffer(pool, 1000, stream);
        CHECK(pinned->live_buffers() == 1);
        CHECK(pool->is_host_accessible());
    }
    CHECK(pinned->live_buffers() == 0);
}

}  // namespace

int main() {
    const Resource device = pm::DeviceMemoryResource::create(0);
    const Resource pool = pm::PoolMemoryResource::create(device);
    for (const Resource& resource :
         {device, pool, Resource(pm::PinnedMemoryResource::create(0)), Resource(pm::AsyncMemoryResource::create(0)),
          Resource(pm::StatisticsAdaptor::create(pool)), Resource(pm::ManagedMemoryResource::create(0))}) {
        type_erased(resource);
    }
    by_the_streams_order();
    refusals();
    over_a_resource_of_the_program();
    std::puts("right");
}
