// SPDX-License-Identifier: MIT
// quirks.cpp: the table, and the switches.
#include "quirks.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace standin {
namespace {

constexpr std::size_t count = static_cast<std::size_t>(Quirk::Count);

constexpr bool before(int major) { return HIP_VERSION_MAJOR < major; }

// The rows are in the order of the enumeration. The last column is what is said of this version; where nothing is said
// of it, off.
constexpr std::array<QuirkRow, count> rows = {{
    {"plain_host_pointer_refused", "PointerGetAttributes of memory that HIP does not know is InvalidValue",
     "ROCm/clr commit d78aef7f6 (6.0, ABI break); ROCm/HIP#3057", before(6)},
    {"null_pointer_refused", "PointerGetAttributes of null is InvalidValue",
     "ROCm documentation, HIP 7.0 changes, hipPointerGetAttributes", before(7)},
    {"free_async_null_refused", "FreeAsync of null is InvalidValue",
     "ROCm/clr hipamd/src/hip_mempool.cpp, hipFreeAsync; ROCm documentation, HIP 7.0 changes", before(7)},
    {"async_zero_refused", "MallocAsync of 0 bytes is InvalidValue",
     "ROCm 5.6 release notes, hipMallocAsync; alpaka-group/alpaka#2197", HIP_VERSION < 50600000},
    {"managed_zero_refused", "MallocManaged of 0 bytes is InvalidValue",
     "ROCm/clr hipamd/src/hip_hmm.cpp, hipMallocManaged", true},
    {"pinned_flags_drop_coherence", "pinned memory that is portable or write-combined is not coherent unless asked for",
     "ROCm/clr hipamd/src/hip_memory.cpp, ihipHostMalloc; kokkos/kokkos#5152", true},
    {"free_takes_pinned", "Free takes memory of HostMalloc, and HostFree takes memory of Malloc",
     "ROCm/clr hipamd/src/hip_memory.cpp, hipFree and hipHostFree (both ihipFree)", true},
    {"free_waits", "Free waits for the device's work first",
     "ROCm/clr hipamd/src/hip_memory.cpp, ihipFree; ROCm documentation, HIP 7.0 changes", before(7)},
    {"register_overlap_allowed", "HostRegister of memory that is registered succeeds and changes nothing",
     "ROCm/clr hipamd/src/hip_memory.cpp, ihipHostRegister; ROCm/rocm-systems#7498", true},
    {"prefetch_ignores_foreign",
     "MemPrefetchAsync succeeds for device memory and, to the host, for any; to a device, unknown memory is "
     "NotSupported",
     "ROCm/clr hipamd/src/hip_hmm.cpp, ihipMemPrefetchAsync", true},
    {"pools_not_supported", "the device has no memory pools: the attribute is 0 and every call about them NotSupported",
     "ROCm documentation, HIP environment variables, HIP_MEM_POOL_SUPPORT (off by default for long)", false},
    {"pool_exhaustion_unseen", "MallocFromPoolAsync answers Success with a null pointer where there is no memory",
     "ROCm/clr commit 04b696abee92, hipamd/src/hip_mempool.cpp, hipMallocFromPoolAsync; JuliaGPU/AMDGPU.jl#901", false},
    {"tiny_pool_allocation", "stream-ordered allocations of less than 8 bytes fail", "ROCm/HIP#3370 (5.7)",
     HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR == 7},
    {"release_threshold_ignored", "a pool takes a release threshold, reads it back and does not follow it",
     "ROCm/rocm-systems#11690, ROCm/clr#287 (7.2)", false},
    {"free_on_other_stream",
     "memory freed on another stream than its own is handed out before that stream's work is done",
     "ROCm/rocm-systems#10943, OpenNMT/CTranslate2#2090 (7.2)", false},
    {"failed_allocation_keeps_memory", "a MallocAsync that fails keeps what memory there was",
     "ROCm/rocm-systems#11642, #11643 (7.2)", false},
    {"ipc_loses_offset", "a memory handle opens at the start of the allocation, whatever pointer it was made of",
     "kvcache-ai/Mooncake#3546 (6.4 and 7.2), ROCm/mori#416", HIP_VERSION >= 60400000},
    {"set_access_fails_on_tail", "MemSetAccess on a mapped part that does not start the reservation is InvalidValue",
     "ROCm/rocm-systems#2516, #6977 (7.2)", false},
    {"pitched_copy_direction",
     "a 2-D or 3-D copy of kind Default is InvalidValue where pinned or managed memory takes part that begins as far "
     "behind its allocation's beginning as the copy is long",
     "ROCm/clr#40; oneapi-src/unified-runtime#2268 (5.6 to 6.0; of 3-D by inference)",
     HIP_VERSION >= 50600000 && HIP_VERSION < 60100000},
}};

struct Switches {
    std::array<bool, count> on{};

    Switches() {
        for (std::size_t i = 0; i < count; ++i) on[i] = rows[i].by_default;
        const char* text = std::getenv("STANDIN_QUIRKS");
        for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
            const std::string_view item = rest.substr(0, rest.find(','));
            rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
            if (!item.empty()) set(item[0] == '-' ? item.substr(1) : item, item[0] != '-');
        }
    }

    void set(std::string_view name, bool value) {
        for (std::size_t i = 0; i < count; ++i) {
            if (name != rows[i].name) continue;
            on[i] = value;
            return;
        }
        // A test over a quirk that does not exist would show nothing.
        std::string all;
        for (const QuirkRow& each : rows) all += std::string(all.empty() ? "" : ", ") + each.name;
        (void)std::fprintf(stderr, "stand-in: STANDIN_QUIRKS names '%s'; there are: %s\n", std::string(name).c_str(),
                           all.c_str());
        std::abort();
    }
};

}  // namespace

bool has(Quirk quirk) {
    static const Switches switches;
    return switches.on[static_cast<std::size_t>(quirk)];
}

const QuirkRow& row(Quirk quirk) { return rows[static_cast<std::size_t>(quirk)]; }

}  // namespace standin
