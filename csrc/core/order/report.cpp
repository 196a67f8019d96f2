// SPDX-License-Identifier: MIT
// core/order/report.cpp: findings in words.
#include <cstdio>

#include "checker.hpp"
#include "portamem/c_api.h"

namespace portamem::order {
namespace {

struct Words {
    const char* kind;
    const char* advice;
};

constexpr const char* let_it_wait =
    "record an event on the first stream after its use, and let the second stream wait for it before its own";

Words words_of(Fault fault) {
    switch (fault) {
        case Fault::ReadAfterWrite:
            return {"unordered read after write", let_it_wait};
        case Fault::WriteAfterWrite:
            return {"unordered write after write", let_it_wait};
        case Fault::WriteAfterRead:
            return {"unordered write after read", let_it_wait};
        case Fault::UseBeforeAllocation:
            return {"use before allocation is ordered",
                    "let the stream wait for an event recorded on the allocating stream after the allocation"};
        case Fault::FreeBeforeAllocation:
            return {"free before allocation is ordered",
                    "free on the allocating stream, or let the freeing stream wait for it"};
        case Fault::FreeInUse:
            return {"free while in use",
                    "declare the use (record_stream), let the freeing stream wait for the using one, or synchronize "
                    "with it before the free"};
        case Fault::UseAfterFree:
            return {"use after free", "free the memory behind its last use"};
    }
    return {"", ""};
}

std::string hexadecimal(std::uint64_t number) {
    char text[32];
    (void)std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

std::string text_of(const StreamName& stream) {
    const std::string of = " of device " + std::to_string(stream.device);
    if (stream.role == Role::Legacy) return "the legacy default stream" + of;
    if (stream.is_per_thread)
        return "a thread's own default stream (number " + std::to_string(stream.identity) + ")" + of;
    return "stream " + hexadecimal(stream.handle) + of;
}

void print(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

std::string to_text(const Report& report) {
    const auto use = [](const Report::Use& each) { return each.call + " at " + each.site + " on " + each.stream; };
    std::string text = std::string(report.kind) + ": " + std::to_string(report.finding.nbytes) + " bytes at " +
                       hexadecimal(report.finding.address) + "\n  first:  " + use(report.earlier) +
                       "\n  second: " + use(report.later) + "\n  help:   " + report.advice + "\n";
    if (report.finding.count > 1) text += "  seen:   " + std::to_string(report.finding.count) + " times\n";
    return text;
}

Report::Use Checker::use_of(const Access& access) const {
    Report::Use use;
    use.call = access.call;
    use.stream = "the host";
    const auto found = names_.find(access.stream);
    if (found == names_.end()) return use;
    use.stream = text_of(found->second);
    use.handle = found->second.handle;
    use.device = found->second.device;
    return use;
}

Report Checker::report(std::size_t index) const {
    const Finding& finding = findings_[index];
    const Words words = words_of(finding.fault);
    return {index, words.kind, words.advice, finding, use_of(finding.earlier), use_of(finding.later)};
}

void Checker::print_found() noexcept {
    if (!has_unprinted_.load(std::memory_order_relaxed)) return;
    try {
        std::vector<Report> reports;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            bool prints = false;
            for (const auto& [number, session] : sessions_) prints = prints || session.prints;
            if (prints)
                for (const std::size_t index : unprinted_) reports.push_back(report(index));
            printed_ += reports.size();
            unprinted_.clear();
            has_unprinted_.store(false, std::memory_order_relaxed);
        }
        for (Report& each : reports) {
            each.earlier.site = describe(each.finding.earlier.site);
            each.later.site = describe(each.finding.later.site);
            print("portamem: order check: " + to_text(each));
        }
    } catch (const std::exception&) {
        return;  // out of host memory: the findings are kept all the same
    }
}

void Checker::print_summary() noexcept {
    if (portamem_forked() != 0) return;
    try {
        print_found();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (printed_ == 0) return;
        std::uint64_t count = lost_;
        for (const Finding& finding : findings_) count += finding.count;
        print("portamem: order check: " + std::to_string(printed_) + " finding(s), seen " + std::to_string(count) +
              " time(s) in all\n");
    } catch (const std::exception&) {
        return;
    }
}

}  // namespace portamem::order
