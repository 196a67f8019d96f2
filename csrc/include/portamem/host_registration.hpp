// SPDX-License-Identifier: MIT
// portamem/host_registration.hpp: foreign host memory, page-locked for a while.
#pragma once

#include <memory>
#include <new>

#include "portamem/buffer.hpp"
#include "portamem/detail/embedder.hpp"
#include "portamem/detail/shared.hpp"

PORTAMEM_OPEN

/// Page-locks memory that `owner` keeps alive, by HostRegister. close() waits for all work declared on it, and then
/// unregisters it. The destructor does not wait: portamem unregisters the memory later, behind that work.
class HostRegistration {
  public:
    /// Registers the memory. flags: rt::HostRegisterFlags. Throws Error, for example HostMemoryAlreadyRegistered, and
    /// std::invalid_argument for null or 0 bytes and for a device that does not exist.
    HostRegistration(void* ptr, std::size_t nbytes, int device, unsigned flags, std::shared_ptr<void> owner)
        : buffer_(make(ptr, nbytes, device, flags, std::move(owner))),
          device_(device),
          read_only_((flags & rt::HostRegisterReadOnly) != 0) {}

    /// Returns the memory as a buffer, which copies take.
    const Buffer& buffer() const noexcept { return buffer_; }

    /// Returns the address by which kernels of the device reach the memory; it may differ from the host's. Throws
    /// std::invalid_argument once closed, and Error if the runtime refuses.
    void* device_ptr() const {
        refuse_forked();
        const DeviceGuard guard(device_);
        void* ptr = nullptr;
        check(rt::HostGetDevicePointer(&ptr, buffer_.ptr()), "HostGetDevicePointer");
        return ptr;
    }

    /// Returns whether it was registered for reading only, so that devices may not write it.
    bool is_read_only() const noexcept { return read_only_; }

    bool is_closed() const noexcept { return buffer_.is_closed(); }

    /// Waits for all work declared on the memory, and then unregisters it. A second close does nothing. Throws
    /// ExportError while views of it live; the memory stays registered then.
    void close() {
        if (const auto memory = buffer_.shared()) memory->close_and_wait();
    }

  private:
    // The destructor undoes the registration: the last reference may be a stream's, behind the last copy.
    struct Registered {
        void* ptr;
        int device;
        std::shared_ptr<void> owner;

        Registered(void* where, std::size_t nbytes, int on, unsigned flags, std::shared_ptr<void> whose)
            : ptr(where), device(on), owner(std::move(whose)) {
            const RelaxedCapture beside(device);
            for (;;) {
                const std::uint64_t seen = detail::Leaving::gone();
                const rt::Error_t answer = rt::HostRegister(ptr, nbytes, flags);
                // An earlier registration that was dropped may still be on its way out.
                if (answer == rt::Error_t::HostMemoryAlreadyRegistered && is_given_up_since(seen, nbytes)) continue;
                check(answer, "HostRegister");
                return;
            }
        }
        ~Registered() {
            if (!runtime_usable()) return;
            detail::unlocked([this] {
                if (!unregister(ptr, device)) unregister_later();
            });
        }
        Registered(const Registered&) = delete;
        Registered& operator=(const Registered&) = delete;

      private:
        bool is_given_up_since(std::uint64_t seen, std::size_t nbytes) const noexcept {
            const auto first = reinterpret_cast<std::uintptr_t>(ptr);
            return detail::Leaving::instance().wait_for_one(seen, [&](const detail::Leaver& leaver) {
                const auto theirs = reinterpret_cast<std::uintptr_t>(leaver.ptr);
                return first < theirs + leaver.nbytes && theirs < first + nbytes;
            });
        }

        static bool unregister(void* ptr, int device) noexcept {
            try {
                const RelaxedCapture beside(device);
                const rt::Error_t answer = rt::HostUnregister(ptr);
                return answer == rt::Error_t::Success || answer == rt::Error_t::HostMemoryNotRegistered;
            } catch (...) {
                return false;
            }
        }

        // The owner must not get the memory back while it is registered, or a later registration of the same addresses
        // would be refused.
        void unregister_later() noexcept {
            try {
                Reaper::instance().add([where = ptr, on = device, kept = owner] { return unregister(where, on); });
            } catch (...) {
                (void)new (std::nothrow) std::shared_ptr<void>(owner);  // kept for ever then
            }
        }
    };

    static Buffer make(void* ptr, std::size_t nbytes, int device, unsigned flags, std::shared_ptr<void> owner) {
        refuse_forked();
        if (ptr == nullptr || nbytes == 0)
            throw std::invalid_argument("there are no bytes to register: give memory of at least 1 byte");
        MemoryTraits traits;
        traits.kind = ResourceKind::Registered;
        traits.device = Device(device).ordinal();
        traits.is_host_memory = true;
        traits.host_accessible = true;
        traits.read_only = (flags & rt::HostRegisterReadOnly) != 0;
        traits.device_accessible = detail::attribute(rt::DeviceAttr::CanMapHostMemory, device) != 0;
        auto registered = detail::shared<Registered>(ptr, nbytes, device, flags, std::move(owner));
        return Buffer::from_handle(ptr, nbytes, Stream::default_stream(device), traits, std::move(registered));
    }

    Buffer buffer_;
    int device_;
    bool read_only_;
};

PORTAMEM_CLOSE
