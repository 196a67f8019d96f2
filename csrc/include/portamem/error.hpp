// SPDX-License-Identifier: MIT
// portamem/error.hpp: a runtime's refusal as a C++ exception, and when a runtime may be called at all.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "portamem/abi/process_api.h"
#include "portamem/rt/rt.hpp"

PORTAMEM_OPEN

/// Reports what a runtime refused. Misuse that is found before a runtime call is std::invalid_argument or ExportError
/// instead.
class Error : public std::runtime_error {
  public:
    Error(rt::Error_t code, std::string name, const char* call, const std::string& text)
        : std::runtime_error(text), code_(code), name_(std::move(name)), call_(call) {}

    /// Returns the native code, unchanged.
    rt::Error_t code() const noexcept { return code_; }
    /// Returns portamem's own spelling, the same on every backend. It is "NoDevice" or "Forked" also where the native
    /// code says something else.
    const std::string& name() const noexcept { return name_; }
    /// Returns the rt function that was refused; where portamem refused, another word for the operation.
    const char* call() const noexcept { return call_; }

  private:
    rt::Error_t code_;
    std::string name_;
    const char* call_;
};

/// Says where the memory is when none is left: in bytes, as far as known. Where a pool's limit or a LimitingAdaptor
/// refuses, `used` is what that resource has out, and `free` is what the adaptor's limit leaves; a pool says none.
struct MemoryFigures {
    std::optional<std::size_t> asked;
    std::optional<std::size_t> free;    ///< of the device
    std::optional<std::size_t> used;    ///< held by portamem's buffers on the device; what pools keep does not count
    std::optional<std::size_t> cached;  ///< in the resource, free to be trimmed
    std::optional<std::size_t> largest_free;    ///< the largest block of `cached`
    std::optional<std::size_t> used_by_others;  ///< contexts, caches and other users of the device
};

/// Reports that there is no memory. The text says how many bytes were asked for and where the rest is.
class OutOfMemory : public Error {
  public:
    using Error::Error;
    OutOfMemory(const OutOfMemory& refused, const std::string& text, const MemoryFigures& figures)
        : Error(refused.code(), refused.name(), refused.call(), text), figures_(figures) {}

    const MemoryFigures& figures() const noexcept { return figures_; }

  private:
    MemoryFigures figures_;
};

/// Reports that something is still in use: a buffer with exports or with a resize under way, a resource with buffers
/// out or with a call under way, or the default resource that portamem made. Nothing was closed.
class ExportError : public std::logic_error {
    using std::logic_error::logic_error;
};

namespace detail {

inline bool means_no_device(rt::Error_t code) {
    if (code == rt::Error_t::InsufficientDriver || code == rt::Error_t::NoDevice) return true;
    if (code != rt::Error_t::InvalidDevice && code != rt::Error_t::InitializationError) return false;
    // These two codes have other meanings too: they mean a missing device only where there is none.
    int count = 0;
    (void)rt::GetDeviceCount(&count);
    return count == 0;
}

[[noreturn]] inline void raise(rt::Error_t code, const char* call, const std::string& context = {}) {
    std::string name = rt::GetErrorName(code);
    std::string why = rt::GetErrorString(code);
    if (portamem_forked() != 0) {
        name = "Forked";
        why = "this process is the child of a fork, in which device runtimes do not work; start it with spawn or exec";
    } else if (means_no_device(code)) {
        name = "NoDevice";
        why += "; no usable device (see `portamem info`)";
    } else if (code == rt::Error_t::DevicesUnavailable) {
        why += "; another process may hold the device for itself (its compute mode): wait for it, or have the mode set";
    }
    std::string text = std::string(rt::BackendName) + " " + call + ": " + name + " (" +
                       std::to_string(static_cast<int>(code)) + "): " + why;
    if (!context.empty()) text += "; " + context;
    if (code == rt::Error_t::OutOfMemory) throw OutOfMemory(code, name, call, text);
    throw Error(code, name, call, text);
}

// Is set once the process has begun to exit. The handler is registered after the runtime's first use, so it runs before
// the runtime takes itself down. From then on memory is leaked rather than freed.
inline std::atomic<bool>& exiting_flag() {
    static std::atomic<bool> exiting{false};
    return exiting;
}

inline void watch_exit() {
    static const int registered = std::atexit([] { exiting_flag() = true; });
    (void)registered;
}

}  // namespace detail

/// Throws Error, or OutOfMemory, unless the answer is Success.
inline void check(rt::Error_t answer, const char* call) {
    if (answer != rt::Error_t::Success) detail::raise(answer, call);
}

/// Returns true for Success and false for NotReady; throws otherwise.
inline bool check_ready(rt::Error_t answer, const char* call) {
    if (answer == rt::Error_t::NotReady) return false;
    check(answer, call);
    return true;
}

namespace detail {

// Is checked before anything else is asked of the library, because that interface is private to its version.
inline bool is_library_of_headers() {
    const char* const refused = portamem_check_headers(PORTAMEM_VERSION_MAJOR, PORTAMEM_VERSION_MINOR);
    if (refused == nullptr) return true;
    throw Error(rt::Error_t::NotSupported, "OtherVersion", "libportamem", refused);
}

}  // namespace detail

/// Throws Error in a forked child, and where the library has another version than these headers. Public operations call
/// it before they take a lock; a few leave it to the runtime, which refuses a forked child itself.
inline void refuse_forked() {
    static const bool checked = detail::is_library_of_headers();
    (void)checked;
    if (portamem_forked() != 0) detail::raise(rt::Error_t::InitializationError, "fork");
}

/// Returns whether destructors may still call the runtime. Where they may not, they leak.
inline bool runtime_usable() noexcept { return !detail::exiting_flag() && portamem_forked() == 0; }

PORTAMEM_CLOSE
