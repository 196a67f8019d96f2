// SPDX-License-Identifier: MIT
// tests/cpp/core_pool_settings.cpp: what the environment says to pools, and how many processes share a device.
#include <fcntl.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "../../csrc/core/pool_settings/device_sharers.hpp"
#include "../../csrc/core/pool_settings/settings.hpp"
#include "forked_child.hpp"
#include "host_child.hpp"
#include "portamem/abi/pool_settings.h"

using namespace host_tests;
using namespace portamem::pool_settings;

namespace {

constexpr std::uint64_t GiB = std::uint64_t{1} << 30;

std::optional<std::uint64_t> bytes_in(const char* text) {
    const auto limit = parse_limit(text);
    if (!limit || !std::holds_alternative<std::uint64_t>(*limit)) return std::nullopt;
    return std::get<std::uint64_t>(*limit);
}

std::optional<std::uint64_t> share_of(const char* text, std::uint64_t total, std::uint64_t sharers) {
    const auto limit = parse_limit(text);
    if (!limit || !std::holds_alternative<Percentage>(*limit)) return std::nullopt;
    return std::get<Percentage>(*limit).share(total, sharers);
}

/// A directory that is gone at the end.
struct Directory {
    std::string path = "/tmp/portamem-test-XXXXXX";
    Directory() { REQUIRE(mkdtemp(path.data()) != nullptr); }
    ~Directory() { std::filesystem::remove_all(path); }
};

/// A process that shares a device until it is killed.
class Sharer {
  public:
    Sharer(const std::string& directory, const std::string& uuid) {
        int ready[2];
        REQUIRE(pipe(ready) == 0);
        child_ = fork();
        REQUIRE(child_ != -1);
        if (child_ == 0) {
            (void)alarm(60);
            DeviceSharers sharers(directory);
            const char answer = sharers.count(uuid) > 0 ? 'y' : 'n';
            (void)!write(ready[1], &answer, 1);
            for (;;) (void)pause();
        }
        char answer = 'n';
        REQUIRE(read(ready[0], &answer, 1) == 1);
        CHECK(answer == 'y');
        (void)close(ready[0]);
        (void)close(ready[1]);
    }
    ~Sharer() { die(); }
    Sharer(const Sharer&) = delete;
    Sharer& operator=(const Sharer&) = delete;

    void die() {
        if (child_ == 0) return;
        (void)kill(child_, SIGKILL);
        (void)waitpid(child_, nullptr, 0);
        child_ = 0;
    }

  private:
    pid_t child_ = 0;
};

std::string refusal_of(DeviceSharers& sharers, const std::string& uuid) {
    try {
        (void)sharers.count(uuid);
    } catch (const std::runtime_error& e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("pool settings: sizes are read as everywhere") {
    CHECK(bytes_in("8GiB") == 8 * GiB);
    CHECK(bytes_in(" 8 gib ") == 8 * GiB);
    CHECK(bytes_in("1.5 GiB") == 3 * GiB / 2);
    CHECK(bytes_in("2 GB") == 2'000'000'000);
    CHECK(bytes_in("4096") == 4096);
    CHECK(bytes_in("512B") == 512);
    CHECK(bytes_in("7 EiB") == 7 * (GiB << 30));
    for (const char* text :
         {"",     " ",       "0",     "0GiB",  "-1",      "GiB", "8 GiBs",  "8G",   "8iB",
          "8XiB", "1,5 GiB", "1.GiB", ".5GiB", "8 GiB 2", "0.5", "0.3 kiB", "8EiB", "99999999999999999999",
          "1e9",  "inf"}) {
        CAPTURE(std::string(text));
        CHECK_FALSE(parse_limit(text).has_value());
    }
}

TEST_CASE("pool settings: a percentage is exact, and divided among those who share") {
    CHECK(share_of("70%", 1000, 1) == 700);
    CHECK(share_of("70 %", 1000, 7) == 100);
    CHECK(share_of("100%", 80 * GiB, 3) == 80 * GiB / 3);
    CHECK(share_of("12.5%", 80 * GiB, 1) == 10 * GiB);
    CHECK(share_of("0.1%", 1000, 1) == 1);
    CHECK(share_of("100%", UINT64_MAX, 1) == UINT64_MAX);
    for (const char* text : {"0%", "0.0%", "101%", "100.1%", "-5%", "%", "70%%", "70 % of it", "70pct"}) {
        CAPTURE(std::string(text));
        CHECK_FALSE(parse_limit(text).has_value());
    }
}

TEST_CASE("pool settings: unset and empty say nothing, and the first that cannot be read is named") {
    CHECK_FALSE(read(nullptr, nullptr).passthrough);
    CHECK_FALSE(read("", "").limit.has_value());
    CHECK(read("", "").error.empty());
    CHECK(read("off", nullptr).passthrough);
    CHECK_FALSE(read("on", nullptr).passthrough);
    for (const char* text : {"0", "1", "OFF", "of", "off ", "no"}) {
        const std::string error = read(text, "8GiB").error;
        CHECK(error == "PORTAMEM_POOL=" + std::string(text) + " is neither on nor off");
    }
    const std::string error = read("off", "some").error;
    CHECK(error.find("PORTAMEM_POOL_LIMIT=some") == 0);
    CHECK(error.find("8GiB") != std::string::npos);
    CHECK(error.find("70%") != std::string::npos);
}

TEST_CASE("device sharers: live processes are counted, and dead ones are not, however they ended") {
    const Directory directory;
    DeviceSharers here(directory.path);
    CHECK(here.count("aaaa-1") == 1);
    CHECK(here.count("aaaa-1") == 1);
    {
        Sharer first(directory.path, "aaaa-1");
        CHECK(here.count("aaaa-1") == 2);
        Sharer second(directory.path, "aaaa-1");
        const Sharer third(directory.path, "aaaa-1");
        const Sharer elsewhere(directory.path, "bbbb-2");
        CHECK(here.count("aaaa-1") == 4);
        CHECK(here.count("bbbb-2") == 2);
        second.die();
        CHECK(here.count("aaaa-1") == 3);
        first.die();
        CHECK(here.count("aaaa-1") == 2);
    }
    CHECK(here.count("aaaa-1") == 1);
}

TEST_CASE("device sharers: many at once") {
    const Directory directory;
    DeviceSharers here(directory.path);
    std::vector<std::unique_ptr<Sharer>> others;
    for (std::size_t i = 1; i <= 24; ++i) {
        others.push_back(std::make_unique<Sharer>(directory.path, "cccc"));
        CHECK(here.count("cccc") == i + 1);
    }
}

TEST_CASE("device sharers: a forked child that asks nothing is nobody") {
    const Directory directory;
    DeviceSharers here(directory.path);
    CHECK(here.count("dddd") == 1);
    const pid_t idle = fork();
    REQUIRE(idle != -1);
    if (idle == 0) {
        (void)alarm(60);
        for (;;) (void)pause();
    }
    {
        const Sharer other(directory.path, "dddd");
        CHECK(here.count("dddd") == 2);
    }
    (void)kill(idle, SIGKILL);
    REQUIRE(waitpid(idle, nullptr, 0) == idle);
    CHECK(here.count("dddd") == 1);
}

TEST_CASE("device sharers: a file that was removed is made again, and all meet there") {
    const Directory directory;
    DeviceSharers here(directory.path);
    const Sharer old(directory.path, "eeee");
    CHECK(here.count("eeee") == 2);
    std::filesystem::remove_all(directory.path);
    CHECK(here.count("eeee") == 1);  // until the other one asks again
    const Sharer later(directory.path, "eeee");
    CHECK(here.count("eeee") == 2);
}

TEST_CASE("device sharers: a directory that others may use, or that is a link, is refused") {
    const Directory directory;
    DeviceSharers open_to_all(directory.path);
    REQUIRE(chmod(directory.path.c_str(), 0755) == 0);
    CHECK(refusal_of(open_to_all, "ffff").find("others than this user") != std::string::npos);
    REQUIRE(chmod(directory.path.c_str(), 0700) == 0);
    CHECK(open_to_all.count("ffff") == 1);
    const std::string link = directory.path + "/link";
    REQUIRE(symlink(directory.path.c_str(), link.c_str()) == 0);
    DeviceSharers by_link(link);
    CHECK(refusal_of(by_link, "ffff").find(link) == 0);
    DeviceSharers nowhere("/nonexistent/portamem");
    CHECK(refusal_of(nowhere, "ffff").find("/nonexistent") == 0);
    DeviceSharers here(directory.path);
    REQUIRE(symlink("/dev/null", (directory.path + "/0000").c_str()) == 0);
    CHECK(refusal_of(here, "0000").find("0000") != std::string::npos);
    for (const char* name : {"", "../x", "a/b", "a b"}) CHECK(refusal_of(here, name).find("uuid") != std::string::npos);
}

TEST_CASE("host child: pool settings as expected" * doctest::skip()) {
    const char* uuid = std::getenv("UUID");
    const std::string expected = std::getenv("EXPECTED");
    const int passthrough = portamem_pool_passthrough();
    const std::string limit = std::to_string(portamem_pool_limit(uuid, 1000));
    CHECK(std::to_string(passthrough) + " " + limit == expected);
    if (passthrough < 0) CHECK(std::string(portamem_pool_settings_error()).find(std::getenv("ERROR")) == 0);
}

TEST_CASE("pool settings: the process asks its environment, once") {
    const std::string uuid = "test-" + std::to_string(getpid());
    const auto answers = [&](const std::string& expected, Environment environment) {
        environment["UUID"] = uuid;
        environment["EXPECTED"] = expected;
        CAPTURE(expected);
        CHECK(succeeded(run_child("pool settings as expected", environment)));
    };
    const std::string unlimited = std::to_string(PORTAMEM_POOL_UNLIMITED);
    answers("0 " + unlimited, {{"PORTAMEM_POOL", ""}, {"PORTAMEM_POOL_LIMIT", ""}});
    answers("1 " + unlimited, {{"PORTAMEM_POOL", "off"}, {"PORTAMEM_POOL_LIMIT", ""}});
    answers("0 2048", {{"PORTAMEM_POOL", "on"}, {"PORTAMEM_POOL_LIMIT", "2KiB"}});
    answers("0 700", {{"PORTAMEM_POOL", ""}, {"PORTAMEM_POOL_LIMIT", "70%"}});
    answers("0 1", {{"PORTAMEM_POOL", ""}, {"PORTAMEM_POOL_LIMIT", "0.001%"}});
    answers("-1 0", {{"PORTAMEM_POOL", "never"}, {"PORTAMEM_POOL_LIMIT", "70%"}, {"ERROR", "PORTAMEM_POOL=never"}});
    answers("-1 0", {{"PORTAMEM_POOL", ""}, {"PORTAMEM_POOL_LIMIT", "7O%"}, {"ERROR", "PORTAMEM_POOL_LIMIT=7O%"}});
    {
        const Sharer other(DeviceSharers::default_directory(), uuid);
        answers("0 350", {{"PORTAMEM_POOL", ""}, {"PORTAMEM_POOL_LIMIT", "70%"}});
    }
    std::filesystem::remove(DeviceSharers::default_directory() + "/" + uuid);
}

TEST_CASE("pool settings: a forked child is refused") {
    const int answer = answer_of_forked_child([] {
        const bool refused = portamem_pool_limit("test", 1000) == 0 &&
                             std::string(portamem_pool_settings_error()).find("fork") != std::string::npos;
        return refused ? 0 : 1;
    });
    CHECK(answer == 0);
}
