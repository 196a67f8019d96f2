// SPDX-License-Identifier: MIT
// core/order/checker.hpp: the order checker: what work comes before what, and which uses of memory no order covers.
//
// A runtime tells it, in the order in which calls take effect, which operation a stream was given, what waits for what,
// and which addresses an operation reads, writes, begins or ends. From this alone follows what is ordered: nothing here
// depends on how fast the work runs.
//
// The host is one actor. What one thread has waited for, another may rely on: how threads of the program hand things to
// each other (queues, locks, joins) is not seen here, and to doubt it would report correct programs.
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

/// How a stream stands to its device's legacy default stream.
enum class Role { Legacy, Blocking, Free };

struct StreamName {
    std::uint64_t identity = 0;
    std::uint64_t handle = 0;
    int device = 0;
    Role role = Role::Free;
    bool is_per_thread = false;
};

/// Rows of memory: `rows` of `width` bytes, `pitch` bytes apart, in each of `slices`, `slice` bytes apart.
struct Shape {
    const void* ptr = nullptr;
    std::size_t width = 0;
    std::size_t rows = 1;
    std::size_t pitch = 0;
    std::size_t slices = 1;
    std::size_t slice = 0;
};

enum class Kind { Read, Write, Prefetch };

/// What two uses of memory do to each other.
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
    std::uintptr_t address = 0;  ///< of the first bytes that both touched, at the first time
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

/// The sentences that a finding is printed as.
std::string to_text(const Report& report);

/// One per process, never destroyed. Thread-safe; its lock is a leaf.
class Checker {
  public:
    static constexpr std::size_t most_rows = std::size_t{1} << 16;  ///< of one operation that are looked at
    static constexpr std::size_t most_findings = 1000;              ///< kept; further ones are counted

    static Checker& instance();

    /// Checking is on while a session is open. A session that prints tells every finding on stderr.
    std::uint64_t begin(bool prints);
    /// Findings of a session's time. False for one that is not open.
    bool visit(std::uint64_t session, const std::function<void(const Report&)>& visitor);
    bool end(std::uint64_t session);

    // ---- order ----

    /// The stream was given an operation.
    void operation(const StreamName& stream, Actor& actor);
    /// What the legacy default stream's rule puts before the stream's next operation comes before it from here on.
    void catch_up(const StreamName& stream, Actor& actor);
    Mark mark(const StreamName& stream, Actor& actor);
    /// What a host that waits for the stream has waited for. The legacy default stream is done when the blocking ones
    /// are; for the others the rule is about their operations only.
    Mark mark_for_host(const StreamName& stream, Actor& actor);
    /// All work of a device so far; of every device for -1.
    Mark mark_of_device(int device);
    /// The stream's work from here on comes after a mark.
    void wait(const StreamName& stream, Actor& actor, const Mark& mark);
    /// The host has seen a mark reached.
    void host_waited(const Mark& mark);
    /// What comes before a mark that was reached uses a range no more: whoever uses that next comes after it.
    void settle(Range range, const Mark& mark);

    // ---- memory; the accesses are those of the stream's latest operation ----

    /// Memory whose life begins with the stream's operation; without a stream, with the host's call.
    void begin_life(Range range, const StreamName* stream, Actor* actor);
    /// Memory whose life ends with the stream's operation; without a stream, with the host's call.
    void end_life(Range range, const StreamName* stream, Actor* actor);
    /// Memory whose life ends safely, after a wait for everything.
    void end_life_waited(Range range);
    void access(Kind kind, const Shape& shape, const StreamName& stream, Actor& actor);
    /// A stream was asked to use memory that is in no allocation. True if it was freed, which is then reported.
    bool stray(const void* ptr, std::size_t nbytes, const StreamName& stream, Actor& actor);
    /// The range belongs to somebody else by now.
    void forget(Range range);

    /// Prints what printing sessions have not printed yet. With no lock of a runtime held.
    void print_found() noexcept;
    /// At the process's end: how many findings there were, if any.
    void print_summary() noexcept;

  private:
    struct Domain {  ///< a device
        Clock all;
        Clock blocking;
        Mark legacy;
    };
    struct Session {
        bool prints = false;
        std::vector<std::uint64_t> counts;  ///< of each finding when the session began
    };
    class Present;  ///< one operation as it looks at memory

    void renew(Actor& actor) const;
    /// What is known of a stream goes to what is known of its device. `has_seen_more`: than at the last time.
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
    Clock host_;  ///< what the host has waited for
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
