// SPDX-License-Identifier: MIT
// portamem/mr/failure_callback_adaptor.hpp: a chance for the program to make room when there is no memory.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/knowing_adaptor.hpp"

PORTAMEM_OPEN

/// Asks the program whether to try again where the upstream has no memory. It tries as often as the program says so,
/// because only the program knows when to give up.
class FailureCallbackAdaptor : public KnowingAdaptor {
  public:
    /// Gets the bytes that were asked for, and returns whether to try again. It is called on the allocating thread with
    /// no lock held: it may free, trim and allocate. An exception of it reaches the caller.
    using Callback = std::function<bool(std::size_t nbytes)>;

    /// Throws std::invalid_argument where the upstream is null or closed, or the callback is empty.
    FailureCallbackAdaptor(std::shared_ptr<MemoryResource> upstream, Callback callback)
        : KnowingAdaptor(std::move(upstream)), callback_(std::move(callback)) {
        if (!callback_) throw std::invalid_argument("there is no function to call on failure");
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<FailureCallbackAdaptor> create(std::shared_ptr<MemoryResource> upstream, Callback callback) {
        return detail::shared<FailureCallbackAdaptor>(std::move(upstream), std::move(callback));
    }

  protected:
    /// Throws the upstream's own OutOfMemory where the callback returns false. Memory that was dropped before goes back
    /// first.
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        for (;;) {
            std::exception_ptr failure;
            try {
                return with_room([&] { return KnowingAdaptor::take(nbytes, stream, options); });
            } catch (const OutOfMemory&) {
                failure = std::current_exception();
            }
            if (!callback_(nbytes)) std::rethrow_exception(failure);
        }
    }

    bool makes_room_itself() const noexcept override { return true; }

  private:
    const Callback callback_;
};

PORTAMEM_CLOSE
