// SPDX-License-Identifier: MIT
// core/record/text.hpp: lines of JSON, put together without a library: one is written at every call on a resource.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "portamem/c_api.h"

namespace portamem::record {

/// Adds one JSON object, and the end of the line, to a text.
class JsonLine {
  public:
    explicit JsonLine(std::string& text) : text_(text) { text_ += '{'; }
    JsonLine(const JsonLine&) = delete;
    JsonLine& operator=(const JsonLine&) = delete;
    ~JsonLine() = default;

    JsonLine& add(const char* key, std::uint64_t number) { return name(key).digits(number, 10); }
    JsonLine& add_signed(const char* key, std::int64_t number) { return name(key).digits(number, 10); }
    JsonLine& add_address(const char* key, std::uintptr_t address) {
        name(key);
        text_ += "\"0x";
        digits(static_cast<std::uint64_t>(address), 16);
        text_ += '"';
        return *this;
    }
    JsonLine& add(const char* key, std::string_view text) {
        name(key);
        text_ += '"';
        for (const char each : text) add_character(each);
        text_ += '"';
        return *this;
    }
    void end() { text_ += "}\n"; }

  private:
    JsonLine& name(const char* key) {
        if (!first_) text_ += ',';
        first_ = false;
        text_ += '"';
        text_ += key;
        text_ += "\":";
        return *this;
    }

    template <class Number>
    JsonLine& digits(Number number, int base) {
        char digits[24];
        text_.append(digits, std::to_chars(digits, digits + sizeof digits, number, base).ptr);
        return *this;
    }

    void add_character(char each) {
        static constexpr const char* kHex = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(each);
        if (byte < 0x20) {
            text_ += "\\u00";
            text_ += kHex[byte >> 4];
            text_ += kHex[byte & 15];
            return;
        }
        if (each == '"' || each == '\\') text_ += '\\';
        text_ += each;
    }

    std::string& text_;
    bool first_ = true;
};

const char* backend_name(portamem_backend backend) noexcept;

/// Returns the name of a class without its namespaces, from a type's name as typeid gives it.
std::string class_name(const char* type);

/// Returns a size as text such as "1.5 MiB".
std::string size_text(double nbytes);

}  // namespace portamem::record
