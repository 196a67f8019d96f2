// SPDX-License-Identifier: MIT
// quirks.hpp: where HIP on AMD differs from the contract or from itself, one switch each.
//
// STANDIN_QUIRKS=name,-name switches some on and others off. A quirk that it does not name is as the version of the
// headers is said to be. portamem_standin() gives the table, with sources.
#pragma once

#include <hip/hip_version.h>

namespace standin {

enum class Quirk {
    PlainHostPointerRefused,
    NullPointerRefused,
    FreeAsyncNullRefused,
    AsyncZeroRefused,
    ManagedZeroRefused,
    PinnedFlagsDropCoherence,
    FreeTakesPinned,
    FreeWaits,
    RegisterOverlapAllowed,
    PrefetchIgnoresForeign,
    PoolsNotSupported,
    PoolExhaustionUnseen,
    TinyPoolAllocation,
    ReleaseThresholdIgnored,
    FreeOnOtherStream,
    FailedAllocationKeepsMemory,
    IpcLosesOffset,
    SetAccessFailsOnTail,
    PitchedCopyDirection,
    Count
};

struct QuirkRow {
    const char* name;
    const char* about;
    const char* source;
    bool by_default;  ///< with the headers of this build
};

/// True where a quirk is on in this process. Reads the environment at the first call; aborts, in words, if it names a
/// quirk that does not exist.
bool has(Quirk quirk);

const QuirkRow& row(Quirk quirk);

}  // namespace standin
