// SPDX-License-Identifier: MIT
// core/order/api.cpp: the checker as C functions, and the session of PORTAMEM_CHECK.
#include "portamem/abi/order_api.h"

#include <cstdlib>
#include <cstring>

#include "checker.hpp"

namespace portamem::order {
namespace {

portamem_order_use use_of(const Report::Use& use) {
    return {use.call.c_str(), use.site.c_str(), use.stream.c_str(), use.handle, use.device};
}

}  // namespace

bool start_if_asked() noexcept {
    static const bool asked = [] {
        const char* value = std::getenv("PORTAMEM_CHECK");
        if (value == nullptr || std::strcmp(value, "1") != 0) return false;
        try {
            (void)Checker::instance().begin(true);
        } catch (const std::exception&) {
            return false;
        }
        (void)std::atexit([] { Checker::instance().print_summary(); });
        return true;
    }();
    return asked;
}

}  // namespace portamem::order

using portamem::order::Call;
using portamem::order::Checker;
using portamem::order::Report;

namespace {

bool is_followed(portamem_backend backend) { return backend == PORTAMEM_BACKEND_HOST; }

}  // namespace

uint64_t portamem_order_begin(portamem_backend backend) {
    if (portamem_forked() != 0 || !is_followed(backend)) return 0;
    try {
        return Checker::instance().begin(false);
    } catch (const std::exception&) {
        return 0;
    }
}

int portamem_order_visit(uint64_t session, portamem_order_visitor visitor, void* self) {
    if (portamem_forked() != 0) return -1;  // a thread that the child does not have may hold the lock forever
    try {
        const bool open = Checker::instance().visit(session, [&](const Report& report) {
            const std::string text = to_text(report);
            const portamem_order_finding finding{sizeof finding,
                                                 report.kind,
                                                 report.advice,
                                                 text.c_str(),
                                                 report.finding.address,
                                                 report.finding.nbytes,
                                                 report.finding.count,
                                                 portamem::order::use_of(report.earlier),
                                                 portamem::order::use_of(report.later)};
            visitor(self, &finding);
        });
        return open ? 0 : -1;
    } catch (const std::exception&) {
        return -1;
    }
}

int portamem_order_end(uint64_t session) { return portamem_forked() == 0 && Checker::instance().end(session) ? 0 : -1; }

int portamem_order_is_on(portamem_backend backend) {
    (void)portamem::order::start_if_asked();
    return is_followed(backend) && portamem::order::is_on() ? 1 : 0;
}

void portamem_order_set_site_provider(portamem_order_site_provider provider) {
    portamem::order::set_site_provider(provider);
}

void portamem_order_own_queries_begin(void) { Call::own_queries(1); }
void portamem_order_own_queries_end(void) { Call::own_queries(-1); }
void portamem_order_own_queries_about(const portamem_order_range* ranges, size_t count) {
    Call::own_queries_about({ranges, count});
}
