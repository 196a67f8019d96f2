// SPDX-License-Identifier: MIT
// core/record/log.cpp: the log's file.
#include "log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "text.hpp"

namespace portamem::record {
namespace {

constexpr std::size_t kHandOver = std::size_t{64} << 10;

std::string host_name() {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0) return "host";
    return name;
}

std::string in_words(int error) {
    char text[128] = "";
    return strerror_r(error, text, sizeof text);
}

const char* role_name(int role) {
    return role == PORTAMEM_STREAM_LEGACY ? "legacy" : role == PORTAMEM_STREAM_PER_THREAD ? "per_thread" : "own";
}

// Writes without stdio: a forked child would write its parent's buffered text again.
int write_all(int file, const std::string& text) noexcept {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t written = ::write(file, text.data() + done, text.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        done += static_cast<std::size_t>(written);
    }
    return 0;
}

// Opens a log. Only one process or adaptor at a time may write a file; a device such as /dev/null has no such limit.
int open_alone(const std::string& path) {
    // A pipe that nothing reads is refused: an open that may block would wait for a reader.
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file < 0 && errno == ENXIO) {
        throw std::runtime_error("the log " + path +
                                 " is a pipe that nothing reads: start its reader first, or name a file");
    }
    if (file < 0) throw std::runtime_error("the log " + path + " cannot be opened: " + in_words(errno));
    const int flags = fcntl(file, F_GETFL);
    if (flags >= 0) (void)fcntl(file, F_SETFL, flags & ~O_NONBLOCK);
    struct stat status {};
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return file;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)::close(file);
        throw std::runtime_error("the log " + path +
                                 " is being written already: give each process and each adaptor a file of its own "
                                 "(%r in a path is the rank, %h the host, %p the process)");
    }
    if (ftruncate(file, 0) != 0) {
        const int error = errno;
        (void)::close(file);
        throw std::runtime_error("the log " + path + " cannot be written: " + in_words(error));
    }
    return file;
}

}  // namespace

std::uint64_t steady_nanoseconds() noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

std::int64_t wall_nanoseconds() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

namespace {

// Returns whether the environment has a number of this name, and sets it.
bool read_number(const char* name, std::uint64_t& number) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value < '0' || *value > '9') return false;
    char* end = nullptr;
    number = std::strtoull(value, &end, 10);
    return *end == '\0';
}

}  // namespace

std::uint64_t rank() {
    std::uint64_t number = 0;
    // torchrun comes first, because it starts several ranks in one task of Slurm. Other programs set RANK too, so it
    // counts only beside a name that torchrun alone sets.
    if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr && read_number("RANK", number)) return number;
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
        if (read_number(name, number)) return number;
    }
    return 0;
}

std::string expand_path(const std::string& pattern) {
    std::string path;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%') {
            path += pattern[i];
            continue;
        }
        const char what = i + 1 < pattern.size() ? pattern[++i] : '\0';
        if (what == 'r') {
            path += std::to_string(rank());
        } else if (what == 'h') {
            path += host_name();
        } else if (what == 'p') {
            path += std::to_string(getpid());
        } else if (what == '%') {
            path += '%';
        } else {
            throw std::invalid_argument(
                "the path of a log knows %r (the rank), %h (the host), %p (the process) and %% "
                "(a percent sign), but " +
                pattern + " has a '%" + (what == '\0' ? std::string() : std::string(1, what)) + "'");
        }
    }
    if (path.empty()) throw std::invalid_argument("the path of a log is empty");
    return path;
}

Log::Log(const std::string& pattern) : path_(expand_path(pattern)), file_(open_alone(path_)) {
    began_ = steady_nanoseconds();
    JsonLine line(text_);
    line.add("format", "portamem-log").add("version", static_cast<std::uint64_t>(kVersion));
    line.add("portamem", portamem_version()).add("host", host_name()).add("pid", static_cast<std::uint64_t>(getpid()));
    line.add("rank", rank()).add_signed("time", wall_nanoseconds());
    line.end();
    const int error = write_all(file_, text_);
    text_.clear();
    if (error == 0) return;
    (void)::close(file_);
    throw std::runtime_error("the log " + path_ + " cannot be written: " + in_words(error));
}

Log::~Log() {
    end();
    (void)::close(file_);
}

// A line that fails for want of host memory is left out, and the numbers of the end line show that.
template <class Function>
void Log::locked(Function&& function) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    const std::size_t before = text_.size();
    try {
        function();
        if (text_.size() >= kHandOver) (void)hand_over();
    } catch (const std::exception&) {
        text_.resize(before);
    }
}

void Log::define(const portamem_record_resource& resource) {
    if (resources_.count(resource.identity) != 0) return;
    JsonLine line(text_);
    line.add("event", "resource").add("id", resource.identity).add("class", class_name(resource.type));
    line.add("kind", resource.kind).add("backend", backend_name(resource.backend));
    line.add_signed("device", resource.device).end();
    resources_.insert(resource.identity);
}

void Log::define_stream(const portamem_record_call& call) {
    if (streams_.count(call.stream) != 0) return;
    JsonLine line(text_);
    line.add("event", "stream").add("id", call.stream).add("backend", backend_name(call.resource.backend));
    line.add_signed("device", call.stream_device).add("role", role_name(call.stream_role)).end();
    streams_.insert(call.stream);
}

void Log::define_site(order::SiteId site) {
    if (site == 0 || sites_.count(site) != 0) return;
    JsonLine line(text_);
    line.add("event", "site").add("id", static_cast<std::uint64_t>(site)).add("text", order::describe(site)).end();
    sites_.insert(site);
}

void Log::write(const Line& what, const portamem_record_call& call) noexcept {
    const std::uint64_t now = steady_nanoseconds();
    locked([&] {
        define(call.resource);
        define_stream(call);
        define_site(what.site);
        JsonLine line(text_);
        line.add("event", what.event).add("seq", what.sequence).add("t", what.started - began_);
        line.add("ns", now - what.started).add("thread", static_cast<std::uint64_t>(what.thread));
        line.add("depth", static_cast<std::uint64_t>(what.depth)).add("resource", call.resource.identity);
        line.add("stream", call.stream).add("size", static_cast<std::uint64_t>(call.nbytes));
        if (what.is_allocation) line.add("alignment", static_cast<std::uint64_t>(call.alignment));
        if (!what.is_allocation || what.error == nullptr) {
            line.add_address("address", reinterpret_cast<std::uintptr_t>(call.ptr));
        }
        if (what.tag != 0) line.add("tag", tag_text(what.tag));
        if (what.site != 0) line.add("site", static_cast<std::uint64_t>(what.site));
        if (what.error != nullptr) line.add("error", what.error);
        line.end();
        ++written_;
    });
}

void Log::write_closed(std::uint64_t started, ThreadNumber thread, const portamem_record_resource& resource) noexcept {
    const std::uint64_t sequence = next();
    locked([&] {
        define(resource);
        JsonLine line(text_);
        line.add("event", "close").add("seq", sequence).add("t", started - began_);
        line.add("thread", static_cast<std::uint64_t>(thread)).add("resource", resource.identity).end();
        ++written_;
    });
}

// A full disk ends the log, not the program.
int Log::hand_over() noexcept {
    if (failed_ == 0) {
        failed_ = write_all(file_, text_);
        if (failed_ != 0) {
            (void)std::fprintf(stderr, "portamem: the log %s ends here, incomplete: %s\n", path_.c_str(),
                               strerror(failed_));
        }
    }
    text_.clear();
    return failed_;
}

int Log::flush() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return hand_over();
}

void Log::end() noexcept {
    locked([&] {
        ended_ = true;
        JsonLine line(text_);
        line.add("event", "end").add("events", written_).add("seq", sequence_.load()).end();
        (void)hand_over();
    });
}

}  // namespace portamem::record
