// SPDX-License-Identifier: MIT
// host/config.hpp: the pretended machine, as the environment describes it.
#pragma once

#include <cstddef>
#include <string>

namespace portamem::host {

enum class Model { Discrete, Apu, Coherent };

/// The call that is to fail. An empty `call` means any call, and `nth` 0 means none.
struct FailRule {
    std::string call;
    unsigned nth = 0;
    int code = 0;
};

struct Config {
    int devices = 2;
    std::size_t capacity = std::size_t{4} << 30;
    Model model = Model::Discrete;
    bool open = false;
    bool guard = false;
    unsigned copy_delay = 0;  ///< microseconds
    FailRule fail;
    std::string error;  ///< the reason why a value could not be read; the runtime then refuses every call

    /// Whether the CPU may read and write device memory.
    bool device_is_host_accessible() const { return open || model == Model::Apu; }
    /// Whether devices may read and write memory of malloc.
    bool pageable_is_device_accessible() const { return model != Model::Discrete; }
    /// Whether the user's addresses of device memory fault on a CPU access.
    bool guarded() const { return guard && !device_is_host_accessible(); }
};

Config read_config();

/// Whether a code is one of a failure: a failing call can carry any such code.
inline bool is_failure_code(int code) { return code > 0 && code <= 999; }

}  // namespace portamem::host
