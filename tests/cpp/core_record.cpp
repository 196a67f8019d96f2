// SPDX-License-Identifier: MIT
// tests/cpp/core_record.cpp: recorders of libportamem, told of calls that no program makes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "portamem/abi/record_api.h"

namespace {

/// A recorder, and calls on one resource and stream.
class Recorded {
  public:
    explicit Recorded(unsigned flags = 0, const char* log = nullptr) {
        char why[512] = "";
        recorder_ = portamem_recorder_open(flags, log, why, sizeof why);
        refusal = why;
    }
    ~Recorded() { close(); }
    Recorded(const Recorded&) = delete;
    Recorded& operator=(const Recorded&) = delete;

    void close() {
        portamem_recorder_close(recorder_);
        recorder_ = nullptr;
    }

    portamem_recorder* get() const { return recorder_; }

    static portamem_record_call call_of(std::uintptr_t address, std::size_t nbytes) {
        portamem_record_call call{};
        call.resource = {7, "12SomeResource", "device", PORTAMEM_BACKEND_HOST, 0};
        call.stream = 3;
        call.alignment = 256;
        call.nbytes = nbytes;
        call.ptr = reinterpret_cast<void*>(address);
        call.site = "program.py:12";
        return call;
    }

    void allocate(std::uintptr_t address, std::size_t nbytes, const char* refused = nullptr) {
        auto call = call_of(address, nbytes);
        portamem_record_begin(recorder_, &call);
        if (refused == nullptr) {
            portamem_record_allocated(recorder_, &call);
        } else {
            portamem_record_refused(recorder_, &call, refused);
        }
    }
    int free(std::uintptr_t address, std::size_t nbytes, const char* refused = nullptr) {
        auto call = call_of(address, nbytes);
        const int known = portamem_record_free_begin(recorder_, &call);
        portamem_record_freed(recorder_, &call, refused);
        return known;
    }

    portamem_record_counts counts(std::uint64_t scope = 0) const {
        portamem_record_counts found{};
        REQUIRE(portamem_recorder_counts(recorder_, scope, &found) == 0);
        return found;
    }

    std::vector<std::pair<std::uintptr_t, std::string>> live() const {
        std::vector<std::pair<std::uintptr_t, std::string>> found;
        const auto add = [](void* self, const portamem_record_live* live) {
            static_cast<decltype(found)*>(self)->emplace_back(reinterpret_cast<std::uintptr_t>(live->ptr), live->site);
        };
        REQUIRE(portamem_recorder_visit_live(recorder_, add, &found) == 0);
        return found;
    }

    std::string refusal;

  private:
    portamem_recorder* recorder_ = nullptr;
};

class TemporaryFile {
  public:
    TemporaryFile() {
        const int file = mkstemp(path_);
        REQUIRE(file >= 0);
        ::close(file);
    }
    ~TemporaryFile() { std::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const char* path() const { return path_; }
    std::vector<std::string> lines() const {
        std::ifstream file(path_);
        std::vector<std::string> found;
        for (std::string line; std::getline(file, line);) found.push_back(line);
        return found;
    }

  private:
    char path_[32] = "/tmp/portamem-test-XXXXXX";
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("core record: current, peak and total") {
    Recorded recorded;
    recorded.allocate(0x1000, 100);
    recorded.allocate(0x2000, 50);
    CHECK(recorded.free(0x1000, 100) == PORTAMEM_FREE_KNOWN);
    recorded.allocate(0x3000, 20);
    recorded.allocate(0, 0);
    recorded.allocate(0, 1000, "no memory");
    const auto counts = recorded.counts();
    CHECK(counts.current_bytes == 70);
    CHECK(counts.current_count == 2);
    CHECK(counts.peak_bytes == 150);
    CHECK(counts.peak_count == 2);
    CHECK(counts.total_bytes == 170);
    CHECK(counts.total_count == 4);
    CHECK(counts.failed_count == 1);
    portamem_recorder_reset_peak(recorded.get());
    CHECK(recorded.counts().peak_bytes == 70);
}

TEST_CASE("core record: a free that was refused did not happen") {
    Recorded recorded(PORTAMEM_RECORD_SITES);
    recorded.allocate(0x1000, 100);
    CHECK(recorded.free(0x1000, 100, "the runtime says no") == PORTAMEM_FREE_KNOWN);
    CHECK(recorded.counts().current_bytes == 100);
    CHECK(recorded.free(0x1000, 99, "another size") == PORTAMEM_FREE_OTHER_SIZE);
    CHECK(recorded.free(0x1001, 100, "inside of a block") == PORTAMEM_FREE_UNKNOWN);
    CHECK(recorded.counts().current_bytes == 100);
    REQUIRE(recorded.live().size() == 1);
    CHECK(recorded.live()[0].second == "program.py:12");
    CHECK(recorded.free(0x1000, 100) == PORTAMEM_FREE_KNOWN);
    CHECK(recorded.free(0x1000, 100, "twice") == PORTAMEM_FREE_UNKNOWN);
    CHECK(recorded.live().empty());
    CHECK(recorded.counts().current_bytes == 0);
    CHECK(recorded.counts().current_count == 0);
}

TEST_CASE("core record: scopes count from nothing, and may overlap") {
    Recorded recorded;
    recorded.allocate(0x1000, 100);
    const auto first = portamem_recorder_scope_begin(recorded.get());
    recorded.allocate(0x2000, 10);
    const auto second = portamem_recorder_scope_begin(recorded.get());
    (void)recorded.free(0x1000, 100);
    recorded.allocate(0x3000, 5);
    CHECK(recorded.counts(first).current_bytes == -85);
    CHECK(recorded.counts(first).peak_bytes == 10);
    CHECK(recorded.counts(first).total_count == 2);
    CHECK(recorded.counts(second).current_bytes == -95);
    CHECK(recorded.counts(second).peak_bytes == 0);
    CHECK(portamem_recorder_scope_end(recorded.get(), first) == 0);
    portamem_record_counts counts{};
    CHECK(portamem_recorder_counts(recorded.get(), first, &counts) == -1);
    CHECK(portamem_recorder_scope_end(recorded.get(), first) == -1);
    recorded.allocate(0x4000, 7);
    CHECK(recorded.counts(second).total_bytes == 12);
    CHECK(portamem_recorder_scope_end(recorded.get(), second) == 0);
}

TEST_CASE("core record: tags are parts of tags, and of one thread") {
    CHECK(std::string(portamem_tag_current()).empty());
    const auto outer = portamem_tag_push("solver");
    const auto inner = portamem_tag_push("setup");
    CHECK(std::string(portamem_tag_current()) == "solver/setup");
    std::thread([outer] {
        CHECK(std::string(portamem_tag_current()).empty());
        const auto own = portamem_tag_push("mesh");
        CHECK(portamem_tag_pop(outer) == -1);
        CHECK(std::string(portamem_tag_current()) == "mesh");
        CHECK(portamem_tag_pop(own) == 0);
    }).join();
    CHECK(portamem_tag_pop(inner) == 0);
    CHECK(std::string(portamem_tag_current()) == "solver");
    CHECK(portamem_tag_pop(outer) == 0);
    CHECK(portamem_tag_pop(outer) == -1);
}

TEST_CASE("core record: a tag that ends before one within it leaves that one as it is") {
    const auto outer = portamem_tag_push("solver");
    const auto inner = portamem_tag_push("setup");
    CHECK(portamem_tag_pop(outer) == 1);
    CHECK(std::string(portamem_tag_current()) == "solver/setup");
    const auto third = portamem_tag_push("mesh");
    CHECK(portamem_tag_pop(outer) == -1);  // its number is no other's
    CHECK(portamem_tag_pop(inner) == 1);
    CHECK(portamem_tag_pop(third) == 0);
    CHECK(std::string(portamem_tag_current()).empty());
}

TEST_CASE("core record: memory counts for the tag that allocated it, whoever frees it") {
    Recorded recorded;
    const auto depth = portamem_tag_push("grid");
    recorded.allocate(0x1000, 100);
    CHECK(portamem_tag_pop(depth) == 0);
    recorded.allocate(0x2000, 1);
    std::thread([&] { (void)recorded.free(0x1000, 100); }).join();
    std::map<std::string, portamem_record_counts> tags;
    const auto add = [](void* self, const char* tag, std::uint64_t, const portamem_record_counts* counts) {
        (*static_cast<decltype(tags)*>(self))[tag] = *counts;
    };
    REQUIRE(portamem_recorder_visit_counts(recorded.get(), PORTAMEM_COUNTS_BY_TAG, add, &tags) == 0);
    REQUIRE(tags.size() == 2);
    CHECK(tags["grid"].current_bytes == 0);
    CHECK(tags["grid"].peak_bytes == 100);
    CHECK(tags[""].current_bytes == 1);
}

TEST_CASE("core record: a log has a header, what is named, a line for each call, and an end") {
    const TemporaryFile file;
    Recorded recorded(PORTAMEM_RECORD_SITES, file.path());
    REQUIRE(recorded.get() != nullptr);
    CHECK(std::string(portamem_recorder_path(recorded.get())) == file.path());
    recorded.allocate(0xabc00, 100);
    recorded.allocate(0, 9, "said \"no\"\n");
    (void)recorded.free(0xabc00, 100);
    CHECK(portamem_recorder_flush(recorded.get()) == 0);
    CHECK(file.lines().size() == 7);
    recorded.close();
    const auto lines = file.lines();
    REQUIRE(lines.size() == 8);
    CHECK(has(lines[0], R"({"format":"portamem-log","version":1,)"));
    CHECK(has(lines[1], R"("event":"resource","id":7,"class":"SomeResource","kind":"device","backend":"host")"));
    CHECK(has(lines[2], R"("event":"stream","id":3,"backend":"host","device":0,"role":"own")"));
    CHECK(has(lines[3], R"("text":"program.py:12")"));
    CHECK(has(lines[4], R"("event":"alloc","seq":1,)"));
    CHECK(has(lines[4], R"("size":100,"alignment":256,"address":"0xabc00")"));
    CHECK(has(lines[5], R"("error":"said \"no\"\u000a")"));
    CHECK(has(lines[6], R"("event":"free","seq":3,)"));
    CHECK(lines[7] == R"({"event":"end","events":3,"seq":3})");
}

TEST_CASE("core record: a log that cannot be written is refused in words") {
    CHECK(has(Recorded(0, "/nonexistent/run.jsonl").refusal, "/nonexistent/run.jsonl cannot be opened: No such file"));
    CHECK(has(Recorded(0, "run.%q.jsonl").refusal, "run.%q.jsonl has a '%q'"));
    CHECK(has(Recorded(0, "run.%").refusal, "has a '%'"));
    CHECK(has(Recorded(0, "/dev/full").refusal, "/dev/full cannot be written: No space left"));
    const TemporaryFile file;
    const Recorded first(0, file.path());
    CHECK(has(Recorded(0, file.path()).refusal, "is being written already"));
}

TEST_CASE("core record: threads count together") {
    Recorded recorded(PORTAMEM_RECORD_SITES);
    std::vector<std::thread> threads;
    for (std::uintptr_t i = 1; i <= 8; ++i) {
        threads.emplace_back([&recorded, i] {
            for (std::uintptr_t n = 0; n < 2000; ++n) {
                recorded.allocate(i << 32 | (n % 16 + 1) << 8, 64);
                if (recorded.free(i << 32 | (n % 16 + 1) << 8, 64) != PORTAMEM_FREE_KNOWN) std::abort();
            }
            recorded.allocate(i << 32, i);
        });
    }
    for (auto& thread : threads) thread.join();
    const auto counts = recorded.counts();
    CHECK(counts.total_count == 8 * 2001);
    CHECK(counts.current_count == 8);
    CHECK(counts.current_bytes == 36);
    CHECK(recorded.live().size() == 8);
}
