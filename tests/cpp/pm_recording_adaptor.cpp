// SPDX-License-Identifier: MIT
// tests/cpp/pm_recording_adaptor.cpp: adaptors that watch what goes through them.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "pm_support.hpp"

namespace {

StreamPtr default_stream() { return pm::Stream::default_stream(0); }

std::string log_path(const char* name) {
    return "/tmp/portamem-" + std::string(name) + "-" + std::to_string(getpid()) + ".jsonl";
}

std::vector<std::string> read_lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
}

}  // namespace

TEST_CASE("pm statistics: counts, tags, threads and scopes over every resource") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& upstream : every_resource()) {
        const auto statistics = std::make_shared<pm::StatisticsAdaptor>(upstream);
        CHECK(statistics->upstream() == upstream);
        CHECK(statistics->kind() == upstream->kind());
        std::optional<pm::Buffer> kept;
        {
            const pm::Tag tag("grid");
            CHECK(pm::current_tag() == "grid");
            kept.emplace(statistics, 3000, stream);
        }
        const pm::StatisticsAdaptor::Scope scope(statistics);
        std::thread([&] {
            const pm::Buffer other(statistics, 5000, stream);
            put(other, 7);
            CHECK(get(other) == pattern(5000, 7));
        }).join();
        stream->synchronize();
        REQUIRE(eventually([&] { return statistics->live_buffers() == 1; }));
        const auto counts = statistics->counts();
        CHECK(counts.current_bytes == 3000);
        CHECK(counts.peak_bytes == 8000);
        CHECK(counts.total_bytes == 8000);
        CHECK(scope.counts().peak_bytes == 5000);
        CHECK(scope.counts().current_bytes == 0);
        CHECK(statistics->by_tag()["grid"].current_bytes == 3000);
        CHECK(statistics->by_tag()[""].total_bytes == 5000);
        CHECK(statistics->by_thread().size() == 2);
        kept.reset();
        stream->synchronize();
        REQUIRE(eventually([&] { return statistics->live_buffers() == 0; }));
        CHECK(statistics->counts().current_bytes == 0);
        statistics->close();
        CHECK_FALSE(upstream->is_closed());
    }
}

TEST_CASE("pm statistics: what is given back has to be what was given") {
    if (no_device()) return;
    const auto statistics = std::make_shared<pm::StatisticsAdaptor>(device_resource());
    void* const first = statistics->allocate(1000, default_stream());
    void* const second = statistics->allocate(2000, default_stream());
    const auto refused = [&](void* ptr, std::size_t nbytes) {
        return refusal<std::invalid_argument>([&] { statistics->deallocate(ptr, nbytes, default_stream()); });
    };
    CHECK(contains(refused(static_cast<char*>(first) + 256, 744), "this address is not out"));
    CHECK(contains(refused(first, 999), "the block has 1000 bytes, not 999"));
    statistics->deallocate(first, 1000, default_stream());
    CHECK(contains(refused(first, 1000), "this address is not out"));
    CHECK(statistics->counts().current_bytes == 2000);
    CHECK(statistics->live_bytes() == 2000);
    statistics->deallocate(second, 2000, default_stream());
    statistics->close();
}

TEST_CASE("pm statistics: refusals count as such") {
    if (no_device()) return;
    const auto statistics = std::make_shared<pm::StatisticsAdaptor>(device_resource());
    CHECK_THROWS_AS((void)statistics->allocate(std::size_t{1} << 50, default_stream()), pm::OutOfMemory);
    CHECK(statistics->counts().failed_count == 1);
    CHECK(statistics->counts().total_count == 0);
}

TEST_CASE("pm tracking: what is out, and who allocated it") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto tracking = std::make_shared<pm::TrackingAdaptor>(device_resource());
    const auto before = std::chrono::system_clock::now();
    void* const first = tracking->allocate(1000, stream);
    const pm::Tag tag("halo");
    void* const second = tracking->allocate(2000, default_stream());
    auto out = tracking->outstanding();
    REQUIRE(out.size() == 2);
    CHECK(out[0].ptr == first);
    CHECK(out[0].nbytes == 1000);
    CHECK(out[0].stream == stream->identity());
    CHECK(out[0].time >= before - std::chrono::microseconds(1));
    CHECK(out[0].tag.empty());
    CHECK_FALSE(out[0].site.empty());
    CHECK(out[1].ptr == second);
    CHECK(out[1].tag == "halo");
    CHECK(out[0].thread == out[1].thread);
    CHECK(contains(refusal<pm::ExportError>([&] { tracking->close(); }), "out are 1000 bytes of " + out[0].site));
    tracking->deallocate(first, 1000, stream);
    CHECK(tracking->outstanding().size() == 1);
    tracking->deallocate(second, 2000, stream);
    CHECK(tracking->outstanding().empty());
    tracking->close();
}

TEST_CASE("pm logging: a line for each call, uses on other streams and the close among them") {
    if (no_device()) return;
    const std::string path = log_path("logging");
    const auto stream = pm::Stream::create(0);
    const auto logging = std::make_shared<pm::LoggingAdaptor>(device_resource(), path);
    CHECK(logging->path() == path);
    {
        pm::Buffer buffer(logging, 4096, default_stream());
        buffer.record_stream(stream);
        CHECK_THROWS_AS((void)logging->allocate(std::size_t{1} << 50, stream), pm::OutOfMemory);
    }
    logging->flush();
    CHECK_FALSE(contains(read_lines(path).back(), "\"end\""));
    logging->close();
    std::string events;
    for (const std::string& line : read_lines(path)) {
        for (const char* event : {"alloc", "record", "free", "close", "end"}) {
            if (contains(line, "\"event\":\"" + std::string(event) + "\"")) events += std::string(event) + " ";
        }
        if (contains(line, "\"event\":\"record\"")) {
            CHECK(contains(line, "\"stream\":" + std::to_string(stream->identity()) + ","));
        }
    }
    CHECK(events == "alloc record alloc free close end ");
    std::remove(path.c_str());
}

TEST_CASE("pm logging: a path that cannot be written is refused before anything is made") {
    if (no_device()) return;
    const auto upstream = device_resource();
    const auto refused = [&](const char* path) {
        return refusal<std::invalid_argument>([&] { pm::LoggingAdaptor(upstream, path); });
    };
    CHECK(contains(refused("/nonexistent/a.jsonl"), "cannot be opened"));
    CHECK(contains(refused("%x"), "has a '%x'"));
    CHECK(contains(refused(""), "empty"));
    CHECK(upstream.use_count() == 1);
}

TEST_CASE("pm watching: adaptors over adaptors see the same, from many threads") {
    if (no_device()) return;
    const std::string path = log_path("threads");
    const auto logging = std::make_shared<pm::LoggingAdaptor>(device_resource(), path);
    const auto tracking = std::make_shared<pm::TrackingAdaptor>(logging);
    const auto statistics = std::make_shared<pm::StatisticsAdaptor>(tracking);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < 50; ++n) {
                pm::Buffer first(statistics, 1024);
                pm::Buffer second(statistics, 2048);
                second.close();  // a buffer that is only dropped may be counted a moment longer
                first.close();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    REQUIRE(eventually([&] { return statistics->live_buffers() == 0; }));
    CHECK(statistics->counts().total_count == 400);
    CHECK(statistics->counts().peak_bytes <= 4 * 3072);
    CHECK(statistics->by_thread().size() == 4);
    CHECK(tracking->outstanding().empty());
    for (const Resource& each : {Resource(statistics), Resource(tracking), Resource(logging)}) each->close();
    CHECK(contains(read_lines(path).back(), R"("event":"end","events":801,)"));
    std::remove(path.c_str());
}
