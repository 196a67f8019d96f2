// SPDX-License-Identifier: MIT
// tests/cpp/pm_cached.cpp: memory that a resource keeps cached is taken and given back with no call and no waiting.
#include <algorithm>

#include "pm_support.hpp"
#include "portamem/detail/embedded_buffer.hpp"
#include "portamem/detail/sanitizers.hpp"

namespace {

using pm::detail::Embedded;

/// Keeps what came back, of one size, and gives that out again.
class KeepingResource final : public pm::MemoryResource {
  public:
    explicit KeepingResource(Resource upstream)
        : MemoryResource(ordered(upstream->traits()), true), upstream_(std::move(upstream)) {}
    ~KeepingResource() override { empty(); }

    std::size_t live_buffers() const noexcept override { return live_; }
    std::size_t live_bytes() const noexcept override { return live_ * kSize; }
    bool is_closed() const noexcept override { return closed_; }
    std::size_t blocks() const noexcept { return kept_.size(); }
    void empty() {
        for (void* ptr : kept_) upstream_->deallocate(ptr, kSize, pm::Stream::default_stream(device()));
        kept_.clear();
    }

    static constexpr std::size_t kSize = 4096;
    int calls = 0;      // of allocate and deallocate
    int at_hand = 0;    // of the others
    bool takes = true;  // at hand

  protected:
    void* do_allocate(std::size_t nbytes, const StreamPtr& stream, pm::AllocateOptions options) override {
        ++calls;
        void* ptr = upstream_->allocate(nbytes, stream, options);
        ++live_;
        return ptr;
    }
    void do_deallocate(void* ptr, std::size_t, const StreamPtr&) override {
        ++calls;
        kept_.push_back(ptr);
        --live_;
    }
    void* do_allocate_cached(std::size_t nbytes, const StreamPtr& stream, std::size_t) noexcept override {
        if (kept_.empty() || nbytes != kSize || stream->is_closed()) return nullptr;
        ++at_hand;
        ++live_;
        void* ptr = kept_.back();
        kept_.pop_back();
        return ptr;
    }
    bool do_deallocate_cached(void* ptr, std::size_t, const StreamPtr& stream) noexcept override {
        if (!takes || stream->is_closed()) return false;
        ++at_hand;
        --live_;
        kept_.push_back(ptr);
        return true;
    }
    bool try_close() override { return closed_ = live_ == 0; }

  private:
    static pm::MemoryTraits ordered(pm::MemoryTraits traits) {
        traits.stream_ordered = true;
        return traits;
    }

    Resource upstream_;
    std::vector<void*> kept_;
    std::size_t live_ = 0;
    bool closed_ = false;
};

std::shared_ptr<KeepingResource> keeping_resource() { return std::make_shared<KeepingResource>(device_resource()); }

/// References that count how often they were let go of, and how many buffers were live then.
struct Holder {
    std::shared_ptr<KeepingResource> resource = keeping_resource();
    StreamPtr stream = pm::Stream::create(0);
    int let_go = 0;
    std::size_t live_then = 99;

    Holder() { pm::Buffer(resource, KeepingResource::kSize, stream).close(); }
    pm::detail::EmbedderRefs refs() { return {&Holder::drop, this, nullptr}; }

  private:
    static void drop(const pm::detail::EmbedderRefs& refs) noexcept {
        auto& self = *static_cast<Holder*>(refs.resource);
        ++self.let_go;
        self.live_then = self.resource->live_buffers();
    }
};

}  // namespace

TEST_CASE("pm cached: a resource that keeps nothing has nothing at hand") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        CHECK_FALSE(resource->serves_cached());
        CHECK(resource->allocate_cached(4096, stream) == nullptr);
        pm::Buffer buffer(resource, 4096, stream);
        CHECK_FALSE(resource->deallocate_cached(buffer.ptr(), 4096, stream));
        CHECK(resource->live_buffers() == 1);
    }
}

TEST_CASE("pm cached: buffers go back at hand, by close and by their end") {
    if (no_device()) return;
    const auto resource = keeping_resource();
    const auto stream = pm::Stream::create(0);
    {
        pm::Buffer closed(resource, KeepingResource::kSize, stream);
        pm::Buffer dropped(resource, KeepingResource::kSize, stream);
        resource->calls = 0;
        closed.close();
        CHECK(resource->blocks() == 1);
        closed.close();
        CHECK(resource->blocks() == 1);
    }
    CHECK(resource->blocks() == 2);
    CHECK(resource->at_hand == 2);
    CHECK(resource->calls == 0);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm cached: what is refused at hand goes back by deallocate") {
    if (no_device()) return;
    const auto resource = keeping_resource();
    const auto stream = pm::Stream::create(0);
    pm::Buffer closed(resource, KeepingResource::kSize, stream);
    {
        pm::Buffer dropped(resource, KeepingResource::kSize, stream);
        resource->calls = 0;
        resource->takes = false;
    }
    CHECK(resource->calls == 1);
    closed.close();
    CHECK(resource->calls == 2);
    CHECK(resource->at_hand == 0);
    CHECK(resource->blocks() == 2);
}

TEST_CASE("pm cached: memory that another stream used, and memory of a closed stream, waits as ever") {
    if (no_device()) return;
    const auto resource = keeping_resource();
    const auto stream = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    pm::Buffer used(resource, KeepingResource::kSize, stream);
    used.record_stream(other);
    pm::Buffer left(resource, KeepingResource::kSize, stream);
    resource->calls = 0;
    {
        const Gate gate(other);
        used.close();
        CHECK(resource->calls == 1);
        CHECK(resource->at_hand == 0);
        CHECK_FALSE(stream->query());  // it waits for the other
    }
    stream->close();
    left.close();
    CHECK(resource->calls == 2);
    CHECK(resource->at_hand == 0);
    other->synchronize();
}

TEST_CASE("pm cached: a blank buffer is opened, closed and opened again") {
    if (no_device()) return;
    Holder holder;
    pm::Buffer buffer = Embedded::blank();
    CHECK(buffer.is_closed());
    CHECK_THROWS_AS(buffer.ptr(), std::invalid_argument);
    holder.resource->calls = 0;
    for (unsigned round = 1; round <= 3; ++round) {
        REQUIRE(Embedded::reopen(buffer, *holder.resource, KeepingResource::kSize, holder.stream, 256, holder.refs()));
        CHECK_FALSE(buffer.is_closed());
        CHECK_FALSE(Embedded::is_blank(buffer));
        CHECK(buffer.nbytes() == KeepingResource::kSize);
        CHECK(buffer.resource() == holder.resource);
        CHECK(buffer.stream() == holder.stream);
        CHECK(buffer.traits().stream_ordered);
        CHECK(holder.resource->live_buffers() == 1);
        put(buffer, round);
        CHECK(get(buffer) == pattern(KeepingResource::kSize, round));
#if PORTAMEM_THREAD_SANITIZER  // it knows no fences, so that no holder counts as the only one
        buffer = Embedded::blank();
        CHECK(holder.let_go == round);
#else
        pm::detail::EmbedderRefs refs;
        REQUIRE(Embedded::close_cached(buffer, refs));
        CHECK(refs.resource == &holder);
        CHECK(Embedded::is_blank(buffer));
        CHECK(buffer.is_closed());
        CHECK_THROWS_AS(buffer.ptr(), std::invalid_argument);
        CHECK_FALSE(Embedded::close_cached(buffer, refs));
        CHECK(holder.let_go == 0);
#endif
        CHECK(holder.resource->live_buffers() == 0);
    }
    CHECK(holder.resource->calls == 0);
}

TEST_CASE("pm cached: where nothing is at hand a blank buffer stays blank") {
    if (no_device()) return;
    Holder holder;
    pm::Buffer buffer = Embedded::blank();
    CHECK_FALSE(Embedded::reopen(buffer, *holder.resource, 17, holder.stream, 256, holder.refs()));
    holder.resource->empty();
    CHECK_FALSE(Embedded::reopen(buffer, *holder.resource, KeepingResource::kSize, holder.stream, 256, holder.refs()));
    CHECK(buffer.is_closed());
    CHECK(buffer.nbytes() == 0);
    CHECK(holder.let_go == 0);
    CHECK(holder.resource->live_buffers() == 0);
}

TEST_CASE("pm cached: memory that others hold is not closed at hand, and its references go last") {
    if (no_device()) return;
    Holder holder;
    pm::Buffer buffer = Embedded::blank();
    REQUIRE(Embedded::reopen(buffer, *holder.resource, KeepingResource::kSize, holder.stream, 256, holder.refs()));
    put(buffer, 5);
    {
        pm::Buffer part = buffer.sub(1024, 1024);
        pm::detail::EmbedderRefs refs;
        CHECK_FALSE(Embedded::close_cached(buffer, refs));
        CHECK_FALSE(Embedded::close_cached(part, refs));
        CHECK_THROWS_AS(buffer.close(), pm::ExportError);
        buffer.abandon();
        CHECK(holder.let_go == 0);
        CHECK(holder.resource->live_buffers() == 1);
        const auto all = pattern(KeepingResource::kSize, 5);
        CHECK(get(part) == decltype(all)(all.begin() + 1024, all.begin() + 2048));
    }
    CHECK(holder.resource->live_buffers() == 0);
    CHECK(holder.let_go == 1);
    CHECK(holder.live_then == 0);
}

TEST_CASE("pm cached: memory that cannot go back at once outlives its references") {
    if (no_device()) return;
    Holder holder;
    const auto other = pm::Stream::create(0);
    pm::Buffer buffer = Embedded::blank();
    REQUIRE(Embedded::reopen(buffer, *holder.resource, KeepingResource::kSize, holder.stream, 256, holder.refs()));
    buffer.record_stream(other);
    other->begin_capture(pm::rt::StreamCaptureMode::Relaxed);
    buffer.abandon();  // which may not mark the captured stream
    CHECK(holder.let_go == 1);
    CHECK(holder.resource->live_buffers() == 1);
    other->end_capture();
    CHECK(eventually([&] {
        pm::Reaper::instance().run_once();
        return holder.resource->live_buffers() == 0;
    }));
}
