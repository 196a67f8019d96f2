// SPDX-License-Identifier: MIT
// core/pool_settings/device_sharers.cpp: processes counted by their record locks.
#include "device_sharers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>

namespace portamem::pool_settings {
namespace {

[[noreturn]] void refuse(const std::string& what, const char* why) { throw std::runtime_error(what + ": " + why); }

// Closes a file at the end of a scope, unless release() took it out.
class OpenFile {
  public:
    explicit OpenFile(int fd) : fd_(fd) {}
    ~OpenFile() {
        if (fd_ >= 0) (void)close(fd_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

// Finds a lock that another process holds within [begin, end). Locks of this process do not count.
bool locked_by_others(int file, off_t begin, off_t end, struct flock& found) {
    found = {};
    found.l_type = F_WRLCK;
    found.l_whence = SEEK_SET;
    found.l_start = begin;
    found.l_len = end - begin;
    if (fcntl(file, F_GETLK, &found) != 0) refuse("asking for locks", std::strerror(errno));
    return found.l_type != F_UNLCK;
}

// Counts the locks of other processes. The kernel names any one lock in a range, so that each answer leaves two smaller
// ranges to ask about.
std::size_t count_others(int file, off_t begin, off_t end) {
    struct flock found {};
    if (begin >= end || !locked_by_others(file, begin, end, found)) return 0;
    // A length of 0 reaches to the end of the file.
    const off_t behind = found.l_len > 0 ? found.l_start + found.l_len : end;
    return 1 + count_others(file, begin, found.l_start) + count_others(file, behind, end);
}

constexpr off_t end_of_range = std::numeric_limits<off_t>::max();

// Locks any free byte. Process ids would not do, because processes of several pid namespaces may meet here.
void lock_a_byte(int file) {
    std::random_device random;
    for (int attempt = 0; attempt < 100; ++attempt) {
        struct flock mine {};
        mine.l_type = F_WRLCK;
        mine.l_whence = SEEK_SET;
        mine.l_start = static_cast<off_t>((std::uint64_t{random()} << 30 ^ random()) & 0x3fffffffffffffff);
        mine.l_len = 1;
        if (fcntl(file, F_SETLK, &mine) == 0) return;
        if (errno != EAGAIN && errno != EACCES) break;
    }
    refuse("locking a byte", std::strerror(errno));
}

// Opens the directory, which only this user may write: another user could otherwise hold locks, or put a link in a
// file's place.
int open_directory(const std::string& path) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) refuse(path, std::strerror(errno));
    OpenFile directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (directory.get() < 0) refuse(path, std::strerror(errno));
    struct stat status {};
    if (fstat(directory.get(), &status) != 0) refuse(path, std::strerror(errno));
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) refuse(path, "others than this user have access");
    return directory.release();
}

// Whether the file is still the one that other processes find. It may have been removed with all of a user's shared
// memory.
bool is_current(int file, const std::string& path) {
    struct stat open_one {};
    struct stat found {};
    return fstat(file, &open_one) == 0 && stat(path.c_str(), &found) == 0 && open_one.st_ino == found.st_ino &&
           open_one.st_dev == found.st_dev;
}

bool is_plain(const std::string& uuid) {
    const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
    return !uuid.empty() && uuid.size() <= 64 && std::all_of(uuid.begin(), uuid.end(), plain);
}

}  // namespace

std::string DeviceSharers::default_directory() { return "/dev/shm/portamem-" + std::to_string(geteuid()); }

std::size_t DeviceSharers::count(const std::string& uuid) {
    if (!is_plain(uuid)) throw std::runtime_error("'" + uuid + "' is not a device's uuid");
    const std::string path = directory_ + "/" + uuid;
    const std::lock_guard<std::mutex> lock(mutex_);
    auto known = files_.find(uuid);
    // The file is opened once and kept, because closing any descriptor of it ends all locks of the process on it.
    if (known != files_.end() && !is_current(known->second, path)) {
        (void)close(known->second);
        files_.erase(known);
        known = files_.end();
    }
    if (known == files_.end()) {
        const OpenFile directory(open_directory(directory_));
        OpenFile file(openat(directory.get(), uuid.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (file.get() < 0) refuse(path, std::strerror(errno));
        lock_a_byte(file.get());
        known = files_.emplace(uuid, file.get()).first;
        (void)file.release();
    }
    return 1 + count_others(known->second, 0, end_of_range);
}

}  // namespace portamem::pool_settings
