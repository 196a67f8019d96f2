// SPDX-License-Identifier: MIT
// marker.cpp: the one symbol that is not HIP's: it says that nothing here is an AMD GPU.
#include <string>

#include "standin.hpp"

namespace standin {
namespace {

std::string describe() {
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    const auto text = [](const char* value) { return "\"" + std::string(value) + "\""; };
    std::string quirks;
    for (int i = 0; i < static_cast<int>(Quirk::Count); ++i) {
        const auto quirk = static_cast<Quirk>(i);
        const QuirkRow& each = row(quirk);
        quirks += std::string(i == 0 ? "" : ", ") + "{\"name\": " + text(each.name) +
                  ", \"about\": " + text(each.about) + ", \"source\": " + text(each.source) +
                  ", \"by_default\": " + flag(each.by_default) + ", \"on\": " + flag(has(quirk)) + "}";
    }
    return "{\"simulated\": true, \"hip_version\": " + std::to_string(HIP_VERSION) + ", \"quirks\": [" + quirks + "]}";
}

}  // namespace
}  // namespace standin

/// This library's version and quirks, as JSON; the text lives as long as the process.
extern "C" __attribute__((visibility("default"))) const char* portamem_standin() {
    static const std::string& text = *new std::string(standin::describe());
    return text.c_str();
}
