// SPDX-License-Identifier: MIT
// tests/cpp/pm_status.cpp: a runtime's refusal as an exception.
#include <type_traits>

#include "pm_support.hpp"

TEST_CASE("pm status: an error carries code, name, call and a text of all three") {
    try {
        pm::check(Error_t::InvalidValue, "Malloc");
        FAIL("no exception");
    } catch (const pm::Error& e) {
        CHECK(e.code() == Error_t::InvalidValue);
        CHECK(e.name() == "InvalidValue");
        CHECK(std::string(e.call()) == "Malloc");
        CHECK(contains(e.what(), std::string(rt::BackendName) + " Malloc: InvalidValue (1): "));
    }
}

TEST_CASE("pm status: success passes, not ready is an answer") {
    pm::check(Success, "Malloc");
    CHECK(pm::check_ready(Success, "StreamQuery"));
    CHECK_FALSE(pm::check_ready(Error_t::NotReady, "StreamQuery"));
    CHECK_THROWS_AS(pm::check_ready(Error_t::IllegalAddress, "StreamQuery"), pm::Error);
}

TEST_CASE("pm status: out of memory is an error of its own class") {
    static_assert(std::is_base_of_v<pm::Error, pm::OutOfMemory>);
    static_assert(!std::is_base_of_v<pm::Error, pm::ExportError>);
    CHECK_THROWS_AS(pm::check(Error_t::OutOfMemory, "Malloc"), pm::OutOfMemory);
}

TEST_CASE("pm status: a code that nobody named keeps its number") {
    try {
        pm::check(Error_t{4711}, "Malloc");
        FAIL("no exception");
    } catch (const pm::Error& e) {
        CHECK(static_cast<int>(e.code()) == 4711);
        CHECK(e.name() == "Error_4711");
    }
}

TEST_CASE("pm status: a bad ordinal is no missing device where there are devices") {
    const bool none = pm::device_count() == 0;
    for (const Error_t code : {Error_t::InvalidDevice, Error_t::InitializationError}) {
        try {
            pm::check(code, "SetDevice");
            FAIL("no exception");
        } catch (const pm::Error& e) {
            CHECK(e.code() == code);
            CHECK((e.name() == "NoDevice") == none);
        }
    }
    const std::string text = refusal<pm::Error>([] { pm::check(Error_t::NoDevice, "SetDevice"); });
    CHECK(contains(text, "NoDevice"));
    CHECK(contains(text, "portamem info"));
}

TEST_CASE("pm status: without a device everything says so") {
    if (pm::device_count() > 0) return;
    const auto name_of = [](auto&& call) -> std::string {
        try {
            call();
        } catch (const pm::Error& e) {
            return e.name();
        }
        return "no exception";
    };
    CHECK(name_of([] { (void)pm::current_device(); }) == "NoDevice");
    CHECK(name_of([] { (void)pm::Device(0); }) == "NoDevice");
    CHECK(name_of([] { (void)pm::Stream::create(0); }) == "NoDevice");
    CHECK(name_of([] { (void)pm::Event::create(0); }) == "NoDevice");
    CHECK(name_of([] { (void)device_resource(); }) == "NoDevice");
    CHECK(name_of([] { (void)pinned_resource(); }) == "NoDevice");
    CHECK(name_of([] { (void)pm::AsyncMemoryResource::create(0); }) == "NoDevice");
    CHECK(name_of([] { (void)pm::current_resource(0); }) == "NoDevice");
}
