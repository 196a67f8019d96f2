// SPDX-License-Identifier: MIT
// tests/packaging/adaptors/check.hpp: what the programs of this folder check with.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

/// Ends the program with the condition's text where it is false.
#define CHECK(...)                                                                 \
    do {                                                                           \
        if (!(__VA_ARGS__)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (false)

/// Returns the text of the exception that a call throws, or an empty one where it throws none.
template <class Thrown, class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (const Thrown& e) {
        return e.what();
    }
    return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
