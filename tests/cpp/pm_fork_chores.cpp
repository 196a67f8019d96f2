// SPDX-License-Identifier: MIT
// tests/cpp/pm_fork_chores.cpp: a fork beside the reaper's chores. A chore asks the runtime. A lock of the runtime's
// that it held at the fork would stay shut in the child.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "forked_child.hpp"
#include "pm_support.hpp"

TEST_CASE("pm fork chores: a fork waits for a chore that is being run") {
    enum : int { Waiting, Running, Done };
    const auto state = std::make_shared<std::atomic<int>>(Waiting);
    pm::Reaper::instance().add([state] {
        *state = Running;
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        *state = Done;
        return true;
    });
    while (*state == Waiting) std::this_thread::yield();
    CHECK(answer_of_forked_child([&] { return state->load(); }) == Done);
}

TEST_CASE("pm fork chores: a fork does not wait for ever for a chore that waits for it") {
    const auto begun = std::make_shared<std::promise<void>>();
    const auto over = std::make_shared<std::promise<void>>();
    pm::Reaper::instance().add([begun, over] {
        begun->set_value();
        over->get_future().wait();
        return true;
    });
    begun->get_future().wait();
    CHECK(answer_of_forked_child([] { return 7; }) == 7);
    over->set_value();
}

TEST_CASE("pm fork chores: a chore may fork") {
    const auto answer = std::make_shared<std::promise<int>>();
    pm::Reaper::instance().add([answer] {
        answer->set_value(answer_of_forked_child([] { return 7; }));
        return true;
    });
    CHECK(answer->get_future().get() == 7);
}
