// SPDX-License-Identifier: MIT
// portamem/order_check.hpp: finding uses of memory that no order covers, in tests and while hunting a fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "portamem/abi/order_api.h"
#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Describes one of the two uses of memory in a finding.
struct OrderUse {
    std::string call;          ///< the runtime call, such as MemcpyAsync
    std::string site;          ///< where it was made: symbol and offset, or module and offset where nothing has a name
    std::string stream;        ///< as text
    std::uint64_t handle = 0;  ///< of the stream; 0 for default streams and for the host
    int device = -1;           ///< of the stream; -1 for the host
};

/// Reports two uses of the same memory that no order covers.
struct OrderFinding {
    std::string kind;           ///< such as "unordered read after write" or "free while in use"
    std::string advice;         ///< what the program can do about it
    std::string text;           ///< all of it, as lines
    std::uint64_t address = 0;  ///< of the first bytes that both uses touched, when it was found first
    std::uint64_t nbytes = 0;
    std::uint64_t count = 0;  ///< how often the same two places did it
    OrderUse first;
    OrderUse second;
};

/// Follows the runtime calls of all threads while it lives, and finds uses of memory that no order covers. It judges by
/// the order that the program gives, not by when the work happened to run. It follows the host backend's calls only; on
/// other backends the constructor throws Error (NotSupported).
class OrderCheck {
  public:
    OrderCheck() : session_((refuse_forked(), portamem_order_begin(rt::BackendId))) {
        if (session_ != 0) return;
        throw Error(rt::Error_t::NotSupported, "NotSupported", "OrderCheck",
                    std::string("the order checker does not follow the ") + rt::BackendName +
                        " backend's calls yet: build the program for the host backend to check its order");
    }
    ~OrderCheck() { (void)portamem_order_end(session_); }
    OrderCheck(const OrderCheck&) = delete;
    OrderCheck& operator=(const OrderCheck&) = delete;

    /// Returns the findings since this object was made.
    std::vector<OrderFinding> findings() const {
        std::vector<OrderFinding> found;
        (void)portamem_order_visit(session_, &OrderCheck::add, &found);
        return found;
    }

  private:
    static OrderUse use_of(const portamem_order_use& use) {
        return {use.call, use.site, use.stream, use.handle, use.device};
    }
    static void add(void* self, const portamem_order_finding* finding) {
        static_cast<std::vector<OrderFinding>*>(self)->push_back({finding->kind, finding->advice, finding->text,
                                                                  finding->address, finding->nbytes, finding->count,
                                                                  use_of(finding->first), use_of(finding->second)});
    }

    const std::uint64_t session_;
};

PORTAMEM_CLOSE
