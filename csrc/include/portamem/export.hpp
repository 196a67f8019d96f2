// SPDX-License-Identifier: MIT
// portamem/export.hpp: a count on memory that keeps it from being closed.
#pragma once

#include <memory>
#include <utility>

#include "portamem/allocation.hpp"

PORTAMEM_OPEN

/// Forbids the close of an allocation while this object lives, and keeps the allocation alive. Views, and copies that
/// are being queued, hold one. The constructor throws std::invalid_argument if the allocation is closed, and
/// ExportError while another thread changes its size.
class Export {
  public:
    Export() = default;
    explicit Export(std::shared_ptr<Allocation> allocation) {
        allocation->begin_export();
        allocation_ = std::move(allocation);
    }
    ~Export() { reset(); }
    Export(Export&& other) noexcept : allocation_(std::move(other.allocation_)) {}
    Export& operator=(Export&& other) noexcept {
        reset();
        allocation_ = std::move(other.allocation_);
        return *this;
    }

    /// Ends the export, and lets go of the allocation. A second reset does nothing.
    void reset() noexcept {
        if (allocation_) allocation_->end_export();
        allocation_.reset();
    }
    explicit operator bool() const noexcept { return allocation_ != nullptr; }

  private:
    std::shared_ptr<Allocation> allocation_;
};

PORTAMEM_CLOSE
