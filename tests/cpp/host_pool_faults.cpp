// SPDX-License-Identifier: MIT
// Pools over a runtime whose n-th call fails: only the host runtime can be made to.
#include "pm_support.hpp"
#include "portamem/host/runtime_api.h"

namespace {

constexpr int kFails = 999;

// An upstream that refuses now and then, with words of its own.
class Refusing : public pm::ResourceAdaptor {
  public:
    explicit Refusing(std::shared_ptr<pm::MemoryResource> upstream) : pm::ResourceAdaptor(std::move(upstream)) {}
    bool refuses_back = false;
    std::size_t most = SIZE_MAX;

  protected:
    void* take(std::size_t nbytes, const StreamPtr& stream, pm::AllocateOptions options) override {
        if (live_bytes() + nbytes > most) {
            const pm::OutOfMemory why(rt::Error_t::OutOfMemory, "OutOfMemory", "allocate", "");
            throw pm::OutOfMemory(why, "there is no more up here", {});
        }
        return pm::ResourceAdaptor::take(nbytes, stream, options);
    }
    void give_back(void* ptr, std::size_t nbytes, const StreamPtr& stream) override {
        if (refuses_back) throw std::runtime_error("not taken back");
        pm::ResourceAdaptor::give_back(ptr, nbytes, stream);
    }
};

}  // namespace

TEST_CASE("host pool faults: memory on a foreign handle that is gone by now goes back all the same") {
    // Only here is the runtime sure to notice that a handle is none any more.
    for (const Resource& resource : {Resource(pm::PoolMemoryResource::create(device_resource())),
                                     Resource(pm::PoolMemoryResource::create(pinned_resource())),
                                     Resource(pm::AsyncMemoryResource::create(0)), device_resource()}) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto own = pm::Stream::create(0);
        const auto other = pm::Stream::create(0);
        const auto raw = pm::Stream::from_handle(own->handle(), 0);
        pm::Buffer first(resource, 1000, raw);
        pm::Buffer second(resource, 1000, raw);
        {
            pm::Buffer third(resource, 1000, raw);
            pm::fill(pm::Span::of(third), 1, raw);
            own->close();
        }
        CHECK(eventually([&] { return resource->live_buffers() == 2; }));  // the fill has let go of it as well
        first.close(other);
        CHECK(resource->live_buffers() == 1);
        second.close();
        CHECK(resource->live_buffers() == 0);
        resource->close();
    }
}

TEST_CASE("host pool faults: what was swallowed on the way is not what a call is refused for, nor kept") {
    const auto upstream = std::make_shared<Refusing>(device_resource());
    const auto pool = pm::PoolMemoryResource::create(upstream);
    const auto stream = pm::Stream::create(0);
    void* ptr = pool->allocate(3 * MiB, stream);
    pool->deallocate(ptr, 3 * MiB, stream);
    upstream->most = 4 * MiB;
    upstream->refuses_back = true;  // when it is asked to, for want of memory
    const std::string text = refusal<pm::OutOfMemory>([&] { (void)pool->allocate(6 * MiB, stream); });
    CHECK(contains(text, "no more up here"));
    CHECK(pm::detail::pool_failure() == nullptr);
    upstream->refuses_back = false;
    CHECK(contains(refusal<std::invalid_argument>([&] { pool->deallocate(ptr, 3 * MiB, stream); }), "freed before"));

    // A mark that fails when a thread's own stream is flushed: the free has happened all the same.
    std::thread([&] {
        const auto own = pm::Stream::per_thread(0);
        upstream->most = SIZE_MAX;
        void* large = pool->allocate(70 * MiB, own);
        (void)pmhKnobFailCall("EventRecord", 1, kFails);
        pool->deallocate(large, 70 * MiB, own);
        (void)pmhKnobReset();
        CHECK(pm::detail::pool_failure() == nullptr);
    }).join();
    pool->close();
    CHECK(upstream->live_buffers() == 0);
}

TEST_CASE("host pool faults: any n-th call fails, for pools and what is built like them") {
    for (const bool pinned : {false, true}) {
        std::size_t failed = 0;
        for (unsigned n = 1; n < 400; ++n) {
            CAPTURE(pinned);
            CAPTURE(n);
            const auto upstream = pinned ? pinned_resource() : device_resource();
            const auto pool = pm::PoolMemoryResource::create(upstream, pm::PoolOptions{16 * MiB, nullptr});
            const auto one = pm::Stream::create(0);
            const auto other = pm::Stream::create(0);
            std::vector<std::pair<void*, std::size_t>> out;
            bool has_failed = false;
            const auto attempt = [&](auto&& function) {
                try {
                    function();
                } catch (const std::exception&) {
                    has_failed = true;
                }
                CHECK(pm::detail::pool_failure() == nullptr);
            };
            (void)pmhKnobFailCall(nullptr, n, kFails);
            for (int round = 0; round < 2; ++round) {
                for (const std::size_t nbytes : {std::size_t{300}, 40000 * std::size_t{1}, 3 * MiB, 5 * MiB}) {
                    attempt([&] {
                        void* ptr = pool->allocate(nbytes, one);
                        out.emplace_back(ptr, nbytes);
                    });
                }
                attempt([&] { out.emplace_back(pool->allocate(MiB, other), MiB); });
                for (auto at = out.begin(); at != out.end();) {
                    bool is_back = false;
                    attempt([&] {
                        pool->deallocate(at->first, at->second, other);
                        is_back = true;
                    });
                    at = is_back ? out.erase(at) : at + 1;
                }
                attempt([&] { pool->trim(round == 0 ? 2 * MiB : 0); });
            }
            (void)pmhKnobReset();
            for (const auto& left : out) pool->deallocate(left.first, left.second, other);
            CHECK(pool->live_buffers() == 0);
            CHECK(pool->live_bytes() == 0);
            void* again = pool->allocate(2 * MiB, one);
            CHECK(again != nullptr);
            pool->deallocate(again, 2 * MiB, one);
            pool->close();
            CHECK(upstream->live_buffers() == 0);
            if (!has_failed && n > 200) break;
            failed += has_failed ? 1 : 0;
        }
        CHECK(failed > 20);
    }
}
