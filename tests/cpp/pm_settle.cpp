// SPDX-License-Identifier: MIT
// tests/cpp/pm_settle.cpp: each test starts with nothing left of the one before it.
//
// Memory that finished work kept goes back in the reaper's time. Plain memory goes back by a call that may wait for the
// whole device: under a gate of the next test, it and whoever calls the runtime meanwhile would wait for that gate.
#include "pm_support.hpp"

namespace {

class Settle : public doctest::IReporter {
  public:
    explicit Settle(const doctest::ContextOptions&) {}

    void test_case_end(const doctest::CurrentTestCaseStats&) override {
        (void)eventually([] { return portamem_forked() != 0 || portamem_held(rt::BackendId, 0) == 0; });
    }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_start(const doctest::TestCaseData&) override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}
};

DOCTEST_REGISTER_LISTENER("settle", 1, Settle);

}  // namespace
