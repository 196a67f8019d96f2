// SPDX-License-Identifier: MIT
// core/pool_settings/api.cpp: the settings of pools as C functions.
#include "portamem/abi/pool_settings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "device_sharers.hpp"
#include "settings.hpp"

namespace {

using portamem::pool_settings::DeviceSharers;
using portamem::pool_settings::Percentage;
using portamem::pool_settings::Settings;

const Settings& settings() {
    static const auto* leaked =
        new Settings(portamem::pool_settings::read(std::getenv("PORTAMEM_POOL"), std::getenv("PORTAMEM_POOL_LIMIT")));
    return *leaked;
}

DeviceSharers& sharers() {
    static auto* leaked = new DeviceSharers(DeviceSharers::default_directory());
    return *leaked;
}

// The storage is fixed, because a thread may ask while its own objects are destroyed. It is small, because the
// library's thread storage is static and other libraries need room there too.
thread_local char last_error[192];

void set_error(const std::string& text) noexcept {
    const std::size_t length = text.copy(last_error, sizeof last_error - 1);
    last_error[length] = '\0';
}

// The bytes that pools have claimed, by device.
struct Claims {
    std::mutex mutex;
    std::map<std::string, std::uint64_t, std::less<>> of;
};

Claims& claims() {
    static auto* leaked = new Claims;
    return *leaked;
}

// The alignment of blocks, and of the bytes reserved for them.
constexpr std::uint64_t grain = 256;

uint64_t limit_of(const char* uuid, uint64_t total_bytes) {
    if (!settings().error.empty()) {
        set_error(settings().error);
        return 0;
    }
    const auto& limit = settings().limit;
    if (!limit) return PORTAMEM_POOL_UNLIMITED;
    if (const auto* bytes = std::get_if<std::uint64_t>(&*limit)) return *bytes;
    if (uuid == nullptr) return 1;
    const std::uint64_t share = std::get<Percentage>(*limit).share(total_bytes, sharers().count(uuid));
    return std::max(share, std::uint64_t{1});  // 0 would mean that there is no answer
}

}  // namespace

int portamem_pool_passthrough(void) {
    try {
        if (settings().error.empty()) return settings().passthrough ? 1 : 0;
        set_error(settings().error);
    } catch (const std::exception& e) {
        set_error(e.what());
    }
    return -1;
}

uint64_t portamem_pool_limit(const char* uuid, uint64_t total_bytes) {
    if (portamem_forked() != 0) {  // a thread that the child does not have may hold the lock forever
        set_error("this process is the child of a fork, in which device runtimes do not work");
        return 0;
    }
    try {
        return limit_of(uuid, total_bytes);
    } catch (const std::exception& e) {
        set_error("PORTAMEM_POOL_LIMIT is a percentage, and the processes that share the device cannot be counted: " +
                  std::string(e.what()) + "; give a size such as 8GiB");
        return 0;
    }
}

int portamem_pool_limit_is_share(void) {
    try {
        const auto& limit = settings().limit;
        return settings().error.empty() && limit && std::holds_alternative<Percentage>(*limit) ? 1 : 0;
    } catch (const std::exception& e) {
        set_error(e.what());
        return 0;
    }
}

int portamem_pool_claim(const char* uuid, uint64_t total_bytes, uint64_t least, uint64_t* nbytes) {
    const std::uint64_t limit = portamem_pool_limit(uuid, total_bytes);
    if (limit == 0) return -1;
    try {
        const std::lock_guard<std::mutex> lock(claims().mutex);
        std::uint64_t& claimed = claims().of[uuid];
        const std::uint64_t left = limit > claimed ? limit - claimed : 0;
        if (left < least) return 0;
        *nbytes = std::min(*nbytes, std::max(left / grain * grain, least));
        claimed += *nbytes;
        return 1;
    } catch (const std::exception& e) {
        set_error(e.what());
        return -1;
    }
}

void portamem_pool_unclaim(const char* uuid, uint64_t nbytes) {
    if (portamem_forked() != 0) return;
    const std::lock_guard<std::mutex> lock(claims().mutex);
    const auto found = claims().of.find(std::string_view(uuid));
    if (found != claims().of.end()) found->second -= std::min(found->second, nbytes);
}

uint64_t portamem_pool_claimed(const char* uuid) {
    if (portamem_forked() != 0) return 0;
    const std::lock_guard<std::mutex> lock(claims().mutex);
    const auto found = claims().of.find(std::string_view(uuid));
    return found == claims().of.end() ? 0 : found->second;
}

int portamem_pool_parse_share(const char* text, uint64_t total, uint64_t* share) {
    try {
        const std::string given = text;
        if (given.find('%') == std::string::npos) return 0;
        const auto limit = portamem::pool_settings::parse_limit(given);
        if (!limit || !std::holds_alternative<Percentage>(*limit)) return -1;
        *share = std::get<Percentage>(*limit).share(total, 1);
        return 1;
    } catch (const std::exception& e) {
        set_error(e.what());
        return -1;
    }
}

const char* portamem_pool_settings_error(void) { return last_error; }
