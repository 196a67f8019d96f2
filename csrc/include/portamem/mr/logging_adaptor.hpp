// SPDX-License-Identifier: MIT
// portamem/mr/logging_adaptor.hpp: a line of JSON for every call.
#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/recording_adaptor.hpp"

PORTAMEM_OPEN

/// Writes the calls that go through it to a file, which it overwrites.
/// - The file has one JSON object a line, between a header that names the format and an end line that says how many
///   there are. close(), the destructor or the exit of the process writes the end line. `portamem replay` runs such a
///   log again.
/// - The disk gets the text in pieces of 64 KiB, and at flush().
class LoggingAdaptor : public RecordingAdaptor {
  public:
    /// path: %r in it stands for the rank of a launched process, %h for the host's name, %p for the process, %% for a
    /// percent sign. Throws std::invalid_argument where the file cannot be written, or another adaptor or process
    /// writes it.
    LoggingAdaptor(std::shared_ptr<MemoryResource> upstream, const std::string& path)
        : RecordingAdaptor(std::move(upstream), PORTAMEM_RECORD_SITES, named(path)) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<LoggingAdaptor> create(std::shared_ptr<MemoryResource> upstream, const std::string& path) {
        return detail::shared<LoggingAdaptor>(std::move(upstream), path);
    }

    std::string path() const { return portamem_recorder_path(recorder()); }

    /// Hands the text of all calls so far to the system. Throws std::runtime_error where the system refuses it.
    void flush() {
        refuse_forked();
        const int error = portamem_recorder_flush(recorder());
        if (error != 0) throw std::runtime_error("the log " + path() + " is incomplete: " + std::strerror(error));
    }

  protected:
    void at_close() override {
        RecordingAdaptor::at_close();
        portamem_recorder_end(recorder());
    }

  private:
    static const std::string& named(const std::string& path) {
        if (path.empty()) throw std::invalid_argument("the path of a log is empty");
        if (path.find('\0') != std::string::npos) {
            throw std::invalid_argument("the path of a log has no NUL character in it");
        }
        return path;
    }
};

PORTAMEM_CLOSE
