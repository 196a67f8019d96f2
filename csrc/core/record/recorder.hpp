// SPDX-License-Identifier: MIT
// core/record/recorder.hpp: what is told of allocations and frees, and keeps, counts and logs them.
#pragma once

#include <memory>
#include <string>

#include "live.hpp"
#include "log.hpp"
#include "portamem/abi/record_api.h"
#include "tallies.hpp"

/// All functions are thread-safe. No lock is held between the begin and the end of a call.
struct portamem_recorder {
  public:
    using Call = portamem_record_call;

    /// log: empty, or a path as portamem_recorder_open takes it. Throws std::runtime_error and std::invalid_argument.
    portamem_recorder(unsigned flags, const std::string& log);
    ~portamem_recorder();
    portamem_recorder(const portamem_recorder&) = delete;
    portamem_recorder& operator=(const portamem_recorder&) = delete;

    void begin(Call& call) const noexcept;
    void allocated(Call& call);
    void refused(Call& call, const char* why);
    int free_begin(Call& call);
    void freed(Call& call, const char* why);
    void used(Call& call);
    void closed(const portamem_record_resource& resource);

    /// Ends the log, and reports what is live where that was asked for: at the recorder's end, or the program's.
    void end() noexcept;
    /// What is out, as lines of text; empty where nothing is.
    std::string report() const;

    portamem::record::Tallies& tallies() noexcept { return tallies_; }
    const portamem::record::LiveTable& live() const noexcept { return live_; }
    /// Of the process: calls may be in one another, as a pool's are in an adaptor's.
    void nest() noexcept { nests_ = true; }

    portamem::record::Log* log() const noexcept { return log_.get(); }

  private:
    void leave() const noexcept;
    portamem::order::SiteId site_of(const Call& call) const;
    void write(const char* event, Call& call, portamem::order::SiteId site, bool is_allocation, const char* error);

    const unsigned flags_;
    std::unique_ptr<portamem::record::Log> log_;
    portamem::record::LiveTable live_;
    portamem::record::Tallies tallies_;
    bool nests_ = false;
    std::atomic<bool> ended_{false};
};

namespace portamem::record {

/// Whether one of the process's modules says that the memory was dropped, and only waits for its work.
bool is_leaving(const Live& live) noexcept;

/// Every recorder that is open when the program exits is ended then.
void end_at_exit(portamem_recorder& recorder);
void forget_at_exit(portamem_recorder& recorder) noexcept;
/// Runs a function when the program exits, after all recorders were ended.
void print_at_exit(void (*print)());

}  // namespace portamem::record
