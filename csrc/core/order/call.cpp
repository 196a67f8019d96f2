// SPDX-License-Identifier: MIT
// core/order/call.cpp: call sites: found at the call, named only when a finding needs them.
#include "call.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "checker.hpp"

namespace portamem::order {

namespace detail {

std::atomic<bool> active{false};

}  // namespace detail

namespace {

constexpr std::size_t native_frames = 16;
constexpr std::size_t few_frames = 8;  // walking the stack is most of the cost of noting an allocation
constexpr int most_unnamed = 6;
constexpr std::size_t most_sites = std::size_t{1} << 16;

using Frames = std::array<std::uintptr_t, native_frames>;

struct Site {
    std::string text;  ///< the provider's text; empty for a native site
    Frames frames{};

    bool operator==(const Site& other) const { return frames == other.frames && text == other.text; }
};

struct SiteHash {
    std::size_t operator()(const Site& site) const noexcept {
        std::size_t hash = std::hash<std::string>()(site.text);
        for (const std::uintptr_t frame : site.frames) hash = hash * 0x9e3779b97f4a7c15ULL + frame;
        return hash ^ hash >> 32;
    }
};

// The table is never destroyed: a program has a limited number of call sites, and a call under way may still name one.
struct Sites {
    std::mutex mutex;  ///< a leaf: nothing is called while it is held
    std::unordered_map<Site, SiteId, SiteHash> ids;
    std::vector<const Site*> all;  ///< by number less 1
};

Sites& sites() {
    static auto* leaked = new Sites;
    return *leaked;
}

std::atomic<SiteProvider> provider{nullptr};

struct CallState {
    const char* name = "";
    SiteId site = 0;
    int own_queries = 0;
    Call::About asked_about;
};

CallState& call_state() {
    static thread_local CallState state;
    return state;
}

struct TextRange {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

// Returns where this library's own code lies. Its frames count for no call site.
const TextRange& own_text() {
    static const TextRange found = [] {
        TextRange range;
        (void)dl_iterate_phdr(
            [](dl_phdr_info* info, std::size_t, void* out) {
                const auto self = reinterpret_cast<std::uintptr_t>(&own_text);
                for (int i = 0; i < info->dlpi_phnum; ++i) {
                    const auto& header = info->dlpi_phdr[i];
                    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
                    if (header.p_type != PT_LOAD || self < begin || self - begin >= header.p_memsz) continue;
                    *static_cast<TextRange*>(out) = {begin, begin + header.p_memsz};
                    return 1;
                }
                return 0;
            },
            &range);
        return range;
    }();
    return found;
}

struct Walk {
    std::size_t most;
    Frames frames{};
    std::size_t count = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    // The address that a call returns to may belong to the next line or function. The byte before it does not.
    const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(context)) - 1;
    const TextRange& own = own_text();
    if (address >= own.begin && address < own.end) return _URC_NO_REASON;
    walk.frames[walk.count++] = address;
    return walk.count < walk.most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

Site site_of(const char* text, std::size_t most_frames) {
    Site site;
    if (text != nullptr) {
        site.text = text;
    } else {
        Walk walk{most_frames};
        (void)_Unwind_Backtrace(note_frame, &walk);
        site.frames = walk.frames;
    }
    return site;
}

Site present_site() {
    char text[1024];
    const SiteProvider ask = provider.load(std::memory_order_acquire);
    return site_of(ask != nullptr && ask(text, sizeof text) != 0 ? text : nullptr, native_frames);
}

SiteId number_of(Site site) {
    Sites& known = sites();
    const std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.ids.find(site);
    if (found != known.ids.end()) return found->second;
    if (known.all.size() == most_sites) return 0;
    const auto id = static_cast<SiteId>(known.all.size() + 1);
    known.all.push_back(&known.ids.emplace(std::move(site), id).first->first);
    return id;
}

std::string offset_text(std::uintptr_t offset) {
    char text[32];
    (void)std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
    return text;
}

struct Frame {
    std::string text;
    std::string symbol;
};

Frame frame_at(std::uintptr_t address) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) return {};
    const std::string path = info.dli_fname;
    const std::string module = path.substr(path.rfind('/') + 1);
    if (info.dli_sname == nullptr)
        return {module + offset_text(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)), {}};
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                       std::free);
    const std::string symbol = plain ? plain.get() : info.dli_sname;
    const auto offset = address - reinterpret_cast<std::uintptr_t>(info.dli_saddr);
    return {symbol + offset_text(offset) + " (" + module + ")", symbol};
}

// Returns the first function that is not portamem's own. Where no frame has a name, returns the innermost addresses,
// for addr2line.
std::string native_text(const Frames& addresses) {
    std::string unnamed;
    int count = 0;
    for (const std::uintptr_t address : addresses) {
        if (address == 0) break;
        const Frame frame = frame_at(address);
        if (!frame.symbol.empty() && frame.symbol.find("portamem::") == std::string::npos) {
            return unnamed.empty() ? frame.text : unnamed + " < " + frame.text;
        }
        if (!frame.symbol.empty() || frame.text.empty() || count == most_unnamed) continue;
        unnamed += (unnamed.empty() ? "" : " < ") + frame.text;
        ++count;
    }
    return unnamed.empty() ? "an unknown place" : unnamed;
}

}  // namespace

void Call::begin(const char* name) noexcept {
    noted_ = true;
    CallState& state = call_state();
    state.name = name;
    state.site = here();
}

void Call::end() noexcept {
    CallState& state = call_state();
    state.name = "";
    state.site = 0;
    Checker::instance().print_found();
}

SiteId Call::site() noexcept { return call_state().site; }
const char* Call::name() noexcept { return call_state().name; }
bool Call::is_own_query() noexcept { return call_state().own_queries != 0; }
void Call::own_queries(int change) noexcept {
    call_state().own_queries += change;
    call_state().asked_about = {};
}
void Call::own_queries_about(const About& about) noexcept { call_state().asked_about = about; }
Call::About Call::asked_about() noexcept { return call_state().asked_about; }

void set_site_provider(SiteProvider asked) noexcept { provider.store(asked, std::memory_order_release); }

SiteId here() noexcept {
    try {
        return number_of(present_site());
    } catch (...) {
        return 0;  // out of host memory: the call itself goes on
    }
}

SiteId number_site(const char* text) { return number_of(site_of(text, few_frames)); }

std::string describe(SiteId id) {
    Site site;
    {
        Sites& known = sites();
        const std::lock_guard<std::mutex> lock(known.mutex);
        if (id == 0 || id > known.all.size()) return "an unknown place";
        site = *known.all[id - 1];
    }
    return site.text.empty() ? native_text(site.frames) : site.text;
}

}  // namespace portamem::order
