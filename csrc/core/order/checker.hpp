// SPDX-License-Identifier: MIT
// core/order/checker.hpp: the order checker: which work comes before which, and which uses of memory no order covers.
//
// A runtime tells the checker, in the order in which calls take effect, which operation a stream was given, which work
// waits for which, and which addresses an operation reads, writes, begins or ends. The order follows from this alone:
// the speed of the work plays no part.
//
// The host is one actor: a thread may rely on a wait of another thread. The checker does not see how the program's
// threads hand things to each other (queues, locks, joins), and would report correct programs if it doubted that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.hpp"
#include "shadow.hpp"

namespace portamem::order {

/// A stream's relation to its device's legacy default stream.
enum class Role { Legacy, Blocking, Free };

struct StreamName {
    std::uint64_t identity = 0;
    std::uint64_t handle = 0;
    int device = 0;
    Role role = Role::Free;
    bool is_per_thread = false;
};

/// Rows of memory: `rows` of `width` bytes, `pitch` bytes apart, in each of `slices`, which are `slice` bytes apart.
struct Shape {
    const void* ptr = nullptr;
    std::size_t width = 0;
    std::size_t rows = 1;
    std::size_t pitch = 0;
    std::size_t slices = 1;
    std::size_t slice = 0;
};

enum class Kind { Read, Write, Prefetch };

/// The fault between two uses of memory.
enum class Fault {
    ReadAfterWrite,
    WriteAfterWrite,
    WriteAfterRead,
    UseBeforeAllocation,
    FreeBeforeAllocation,
    FreeInUse,
    UseAfterFree
};

struct Finding {
    Fault fault = Fault::ReadAfterWrite;
    Access earlier;
    Access later;
    std::uintptr_t address = 0;  ///< the first bytes that both touched when the fault was first found
    std::size_t nbytes = 0;
    std::uint64_t count = 1;
};

/// A finding in words.
struct Report {
    std::uint64_t index = 0;
    const char* kind = "";
    const char* advice = "";
    Finding finding;
    struct Use {
        std::string call;
        std::string site;
        std::string stream;
        std::uint64_t handle = 0;
        int device = -1;
    } earlier, later;
};

/// Returns the sentences in which a finding is printed.
std::string to_text(const Report& report);

/// The checker of the process: there is one, never destroyed. It is thread-safe, and its lock is a leaf.
class Checker {
  public:
    static constexpr std::size_t most_rows = std::size_t{1} << 16;  ///< rows of one operation that are looked at
    static constexpr std::size_t most_findings = 1000;  ///< findings that are kept; further ones are counted

    static Checker& instance();

    /// Opens a session. Checking is on while one is open. A session with `prints` prints every finding to stderr.
    std::uint64_t begin(bool prints);
    /// Visits the findings since the session began. False for a session that is not open.
    bool visit(std::uint64_t session, const std::function<void(const Report&)>& visitor);
    bool end(std::uint64_t session);

    // ---- order ----

    /// Notes that the stream was given an operation.
    void operation(const StreamName& stream, Actor& actor);
    /// Orders all that the legacy default stream's rule puts before the stream's next operation before it, from here
    /// on.
    void catch_up(const StreamName& stream, Actor& actor);
    Mark mark(const StreamName& stream, Actor& actor);
    /// Returns the mark that a host which waits for the stream has seen reached. The legacy default stream is done when
    /// the blocking streams are; for the blocking streams the rule covers only their operations.
    Mark mark_for_host(const StreamName& stream, Actor& actor);
    /// Returns a mark behind all work of a device so far; -1 means every device.
    Mark mark_of_device(int device);
    /// Makes the stream's work from here on come after a mark.
    void wait(const StreamName& stream, Actor& actor, const Mark& mark);
    /// Notes that the host has seen a mark reached.
    void host_waited(const Mark& mark);
    /// Ends the uses of a range that come before a mark that was reached: the next use of the range comes after them.
    void settle(Range range, const Mark& mark);

    // ---- memory; the accesses are those of the stream's latest operation ----

    /// Begins the life of memory with the stream's operation or, without a stream, with the host's call.
    void begin_life(Range range, const StreamName* stream, Actor* actor);
    /// Ends the life of memory with the stream's operation or, without a stream, with the host's call.
    void end_life(Range range, const StreamName* stream, Actor* actor);
    /// Ends the life of memory after a wait for everything, which is safe.
    void end_life_waited(Range range);
    void access(Kind kind, const Shape& shape, const StreamName& stream, Actor& actor);
    /// Looks at memory in no allocation that a stream was asked to use. True if it was freed, which is then reported.
    bool stray(const void* ptr, std::size_t nbytes, const StreamName& stream, Actor& actor);
    /// Forgets that a range was freed, because it belongs to another owner by now.
    void forget(Range range);

    /// Prints findings that printing sessions have not printed yet. The caller holds no lock of a runtime.
    void print_found() noexcept;
    /// Prints the number of findings, if any, at the end of the process.
    void print_summary() noexcept;

  private:
    struct Domain {  ///< one per device
        Clock all;
        Clock blocking;
        Mark legacy;
    };
    struct Session {
        bool prints = false;
        std::vector<std::uint64_t> counts;  ///< the count of each finding when the session began
    };
    class Present;  ///< one operation with its view of memory

    void renew(Actor& actor) const;
    /// Adds a stream's knowledge to its device's. `has_seen_more`: the stream has seen more since the last time.
    void publish(const StreamName& stream, const Actor& actor, bool has_seen_more);
    bool join(Actor& actor, const Clock& clock, std::uint64_t stream, Epoch epoch) const;
    void step(const StreamName& stream, Actor& actor);
    void follow(const StreamName& stream, Actor& actor);
    void add(Fault fault, const Access& earlier, const Access& later, Range part, std::vector<std::size_t>& told);
    Report report(std::size_t index) const;
    Report::Use use_of(const Access& access) const;
    void reset();

    std::mutex mutex_;
    std::uint64_t generation_ = 0;
    std::map<std::uint64_t, Session> sessions_;
    std::uint64_t last_session_ = 0;

    std::map<int, Domain> domains_;
    Clock host_;  ///< work that the host has waited for
    std::unordered_map<std::uint64_t, StreamName> names_;
    Shadow shadow_;

    std::vector<Finding> findings_;
    std::map<std::vector<std::uint64_t>, std::size_t> known_;  ///< finding by fault, sites and calls
    std::uint64_t lost_ = 0;                                   ///< findings beyond most_findings
    std::vector<std::size_t> unprinted_;
    std::atomic<bool> has_unprinted_{false};
    std::uint64_t printed_ = 0;
};

}  // namespace portamem::order
