// SPDX-License-Identifier: MIT
// host/config.cpp: reads PORTAMEM_HOST_*.
#include "config.hpp"

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

namespace portamem::host {
namespace {

constexpr int most_devices = 64;
constexpr unsigned longest_delay = 60'000'000;

std::optional<std::uint64_t> parse_number(const std::string& text, std::size_t* used = nullptr) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return std::nullopt;
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
    const auto length = static_cast<std::size_t>(end - text.c_str());
    if (errno != 0 || (used == nullptr && length != text.size())) return std::nullopt;
    if (used != nullptr) *used = length;
    return value;
}

std::optional<std::size_t> parse_size(const std::string& text) {
    std::size_t used = 0;
    const auto number = parse_number(text, &used);
    if (!number) return std::nullopt;
    while (used < text.size() && text[used] == ' ') ++used;
    const std::string unit = text.substr(used);
    unsigned shift = 0;
    if (unit == "KiB") {
        shift = 10;
    } else if (unit == "MiB") {
        shift = 20;
    } else if (unit == "GiB") {
        shift = 30;
    } else if (unit == "TiB") {
        shift = 40;
    } else if (!unit.empty() && unit != "B") {
        return std::nullopt;
    }
    if (*number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
    return static_cast<std::size_t>(*number << shift);
}

std::optional<Model> parse_model(const std::string& text) {
    if (text == "discrete") return Model::Discrete;
    if (text == "apu") return Model::Apu;
    if (text == "coherent") return Model::Coherent;
    return std::nullopt;
}

std::optional<bool> parse_switch(const std::string& text) {
    if (text == "0") return false;
    if (text == "1") return true;
    return std::nullopt;
}

template <class Integer>
std::optional<Integer> parse_up_to(const std::string& text, Integer most) {
    const auto number = parse_number(text);
    if (!number || *number > static_cast<std::uint64_t>(most)) return std::nullopt;
    return static_cast<Integer>(*number);
}

std::optional<FailRule> parse_fail(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
    if (second == std::string::npos) return std::nullopt;
    const auto nth = parse_up_to(text.substr(first + 1, second - first - 1), std::numeric_limits<unsigned>::max());
    const auto code = parse_up_to(text.substr(second + 1), 999);
    const std::string call = text.substr(0, first);
    if (call.empty() || !nth || *nth == 0 || !code || !is_failure_code(*code)) return std::nullopt;
    return FailRule{call == "*" ? "" : call, *nth, *code};
}

/// Reads one knob with `parse`, where it is set. Notes the first knob that cannot be read.
template <class Value, class Parse>
void read(Config& config, const char* name, const char* expected, Value& value, Parse&& parse) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return;
    if (auto parsed = parse(std::string(text))) {
        value = std::move(*parsed);
    } else if (config.error.empty()) {
        config.error = std::string(name) + "=" + text + " is not " + expected;
    }
}

}  // namespace

Config read_config() {
    Config config;
    read(config, "PORTAMEM_HOST_DEVICES", "a number from 0 to 64", config.devices,
         [](const std::string& text) { return parse_up_to(text, most_devices); });
    read(config, "PORTAMEM_HOST_CAPACITY", "a size such as 4GiB", config.capacity, parse_size);
    read(config, "PORTAMEM_HOST_MODEL", "discrete, apu or coherent", config.model, parse_model);
    read(config, "PORTAMEM_HOST_OPEN", "0 or 1", config.open, parse_switch);
    read(config, "PORTAMEM_HOST_GUARD", "0 or 1", config.guard, parse_switch);
    read(config, "PORTAMEM_HOST_COPY_DELAY", "a number of microseconds up to one minute", config.copy_delay,
         [](const std::string& text) { return parse_up_to(text, longest_delay); });
    read(config, "PORTAMEM_HOST_FAIL", "CALL:NTH:CODE such as Malloc:3:2", config.fail, parse_fail);
    bool check = false;  // the checker reads its own variable, which is not the machine's
    read(config, "PORTAMEM_CHECK", "0 or 1", check, parse_switch);
    return config;
}

}  // namespace portamem::host
