// SPDX-License-Identifier: MIT
// core/record/recorder.hpp: the recorder, which hears of allocations and frees, and keeps, counts and logs them.
#pragma once

#include <memory>
#include <string>

#include "live.hpp"
#include "log.hpp"
#include "portamem/abi/record_api.h"
#include "tallies.hpp"

/// Keeps, counts and logs allocations and frees. All functions are thread-safe. No lock is held between the begin and
/// the end of a call.
struct portamem_recorder {
  public:
    using Call = portamem_record_call;

    /// `log` is empty, or a path as portamem_recorder_open takes it. Throws std::runtime_error and
    /// std::invalid_argument.
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

    /// Ends the log and, where flags ask for it, reports the live allocations. Runs at the recorder's end, or the
    /// program's.
    void end() noexcept;
    /// Returns the live allocations as lines of text; empty where there are none.
    std::string report() const;

    portamem::record::Tallies& tallies() noexcept { return tallies_; }
    const portamem::record::LiveTable& live() const noexcept { return live_; }
    /// Makes this the process's recorder, whose calls may be inside one another, as a pool's are inside an adaptor's.
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

/// Whether a module of the process says that the memory was dropped, and only waits for its work.
bool is_leaving(const Live& live) noexcept;

/// Has a recorder ended when the program exits, if it is still open then.
void end_at_exit(portamem_recorder& recorder);
void forget_at_exit(portamem_recorder& recorder) noexcept;
/// Has a function run when the program exits, after all recorders have ended.
void print_at_exit(void (*print)());

}  // namespace portamem::record
