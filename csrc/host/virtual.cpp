// SPDX-License-Identifier: MIT
// host/virtual.cpp: virtual memory, of which there is none yet.
#include "entry.hpp"

using namespace portamem::host;

pmhError_t pmhMemGetAllocationGranularity(size_t* granularity, pmhMemLocation location, int option) {
    return enter("MemGetAllocationGranularity", [&](State& state, Hold&) {
        require(granularity != nullptr, "granularity is null");
        require(location.type == pmhMemLocationTypeDevice, "physical memory is of a device");
        require(option == pmhMemAllocationGranularityMinimum || option == pmhMemAllocationGranularityRecommended,
                "unknown granularity");
        (void)device_of(state, location.id);
        refuse(pmhErrorNotSupported, "the host runtime has no virtual memory");
    });
}
