// SPDX-License-Identifier: MIT
// knobs.cpp: the stand-in's host runtime reads STANDIN_CAPACITY, STANDIN_FAIL and so on where libportamem's, in the
// same process, reads PORTAMEM_HOST_CAPACITY, PORTAMEM_HOST_FAIL: they are two machines. STANDIN_DEVICES and the
// vendor's masks decide its number of devices.
#include <string>
#include <string_view>

#include "masks.hpp"

extern "C" {

char* __real_getenv(const char* name);
char* __wrap_getenv(const char* name);  // every getenv of this library is linked to this

char* __wrap_getenv(const char* name) {
    constexpr std::string_view theirs = "PORTAMEM_HOST_";
    const std::string_view asked = name;
    if (asked == "PORTAMEM_CHECK") return nullptr;  // portamem's own calls are checked, not what they are served by
    if (asked.substr(0, theirs.size()) != theirs) return __real_getenv(name);
    const std::string knob(asked.substr(theirs.size()));
    if (knob == "DEVICES") {
        static std::string& count = *new std::string(std::to_string(standin::visible_devices().size()));
        return count.data();
    }
    return __real_getenv(("STANDIN_" + knob).c_str());
}
}

const char* standin::environment(const char* name) { return __real_getenv(name); }
