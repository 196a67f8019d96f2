// SPDX-License-Identifier: MIT
// core/pool_settings/settings.cpp: reads PORTAMEM_POOL and PORTAMEM_POOL_LIMIT.
#include "settings.hpp"

#include <cctype>
#include <cstddef>
#include <cstring>

namespace portamem::pool_settings {
namespace {

using Wide = unsigned __int128;

constexpr std::size_t most_digits = 19;  // 64 bits hold any number of so many digits
constexpr std::uint64_t most_bytes = INT64_MAX;

// A decimal number without a sign: `digits`, read as if there were no point, over `scale`, a power of ten.
struct Decimal {
    std::uint64_t digits = 0;
    std::uint64_t scale = 1;
    std::string unit;  // the text behind the number
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Decimal> parse_decimal(const std::string& text) {
    Decimal number;
    std::size_t at = 0;
    std::size_t digits = 0;
    const auto take_digits = [&](bool behind_the_point) {
        const std::size_t first = at;
        for (; at < text.size() && is_digit(text[at]); ++at, ++digits) {
            if (digits == most_digits) return false;
            number.digits = number.digits * 10 + static_cast<std::uint64_t>(text[at] - '0');
            if (behind_the_point) number.scale *= 10;
        }
        return at > first;
    };
    const auto skip_blanks = [&] {
        while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    };
    skip_blanks();
    if (!take_digits(false)) return std::nullopt;
    if (at < text.size() && text[at] == '.') {
        ++at;
        if (!take_digits(true)) return std::nullopt;
    }
    if (at < text.size() && is_digit(text[at])) return std::nullopt;  // there are too many digits
    skip_blanks();
    number.unit = text.substr(at);
    while (!number.unit.empty() && std::isspace(static_cast<unsigned char>(number.unit.back())) != 0) {
        number.unit.pop_back();
    }
    return number;
}

// Returns the bytes of a unit, in any case: kB is 1000 bytes, KiB 1024; 0 for an unknown unit.
std::uint64_t bytes_of(const std::string& unit) {
    static constexpr char prefixes[] = "KMGTPE";
    std::string upper;
    for (const char c : unit) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (upper.empty() || upper == "B") return 1;
    const char* prefix = std::strchr(prefixes, upper[0]);
    const bool binary = upper.size() == 3 && upper[1] == 'I';
    if (prefix == nullptr || upper.back() != 'B' || (upper.size() != 2 && !binary)) return 0;
    std::uint64_t bytes = 1;
    for (const char* each = prefixes; each <= prefix; ++each) bytes *= binary ? 1024 : 1000;
    return bytes;
}

}  // namespace

std::uint64_t Percentage::share(std::uint64_t total, std::uint64_t sharers) const {
    return static_cast<std::uint64_t>(Wide{total} * of_hundreds / (Wide{100} * scale) / sharers);
}

std::optional<bool> parse_passthrough(const std::string& text) {
    if (text == "on") return false;
    if (text == "off") return true;
    return std::nullopt;
}

std::optional<Limit> parse_limit(const std::string& text) {
    const auto number = parse_decimal(text);
    if (!number || number->digits == 0) return std::nullopt;
    if (number->unit == "%") {
        if (number->digits > Wide{100} * number->scale) return std::nullopt;
        return Percentage{number->digits, number->scale};
    }
    const Wide product = Wide{number->digits} * bytes_of(number->unit);
    const Wide bytes = product / number->scale;
    if (product % number->scale != 0 || bytes == 0 || bytes > most_bytes) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
}

Settings read(const char* pool, const char* limit) {
    Settings settings;
    if (pool != nullptr && *pool != '\0') {
        const auto off = parse_passthrough(pool);
        settings.passthrough = off.value_or(false);
        if (!off) settings.error = std::string("PORTAMEM_POOL=") + pool + " is neither on nor off";
    }
    if (limit != nullptr && *limit != '\0') {
        settings.limit = parse_limit(limit);
        if (!settings.limit && settings.error.empty()) {
            settings.error = std::string("PORTAMEM_POOL_LIMIT=") + limit +
                             " is neither a size such as 8GiB nor a percentage of the device's memory, above 0% and "
                             "up to 100%, such as 70%";
        }
    }
    return settings;
}

}  // namespace portamem::pool_settings
