// SPDX-License-Identifier: MIT
// tests/cpp/pm_settle.cpp: each test starts with nothing left of the one before it.
//
// Memory that finished work kept goes back in the reaper's time. Plain memory goes back by a call that may wait for the
// whole device: under a gate of the next test, it and any other caller of the runtime would wait for that gate. Memory
// that does not go back is lost: the program says after which test, and fails.
#include <cstdlib>
#include <iostream>

#include "pm_support.hpp"

namespace {

constexpr std::chrono::seconds kNoProgress{5};  // the reaper looks every few milliseconds

std::uint64_t held() { return portamem_forked() != 0 ? 0 : portamem_held(rt::BackendId, 0); }

class Settle : public doctest::IReporter {
  public:
    explicit Settle(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& test) override { name_ = test.m_name; }
    void test_case_end(const doctest::CurrentTestCaseStats&) override {
        auto least = held();
        auto progress = std::chrono::steady_clock::now();
        while (least > lost_ && std::chrono::steady_clock::now() - progress < kNoProgress) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto now = held();
            if (now >= least) continue;
            least = now;
            progress = std::chrono::steady_clock::now();
        }
        if (least <= lost_) return;
        std::cerr << "after the test \"" << name_ << "\" " << least - lost_ << " bytes of device 0 stay out for good"
                  << std::endl;
        lost_ = least;
    }
    void test_run_end(const doctest::TestRunStats&) override {
        if (lost_ == 0) return;
        std::cerr << "memory was lost: " << lost_ << " bytes in all" << std::endl;
        std::_Exit(EXIT_FAILURE);
    }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

  private:
    const char* name_ = "";
    std::uint64_t lost_ = 0;  // so far: each loss is waited for once
};

DOCTEST_REGISTER_LISTENER("settle", 1, Settle);

}  // namespace
