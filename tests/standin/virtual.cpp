// SPDX-License-Identifier: MIT
// virtual.cpp: virtual memory.
#include "standin.hpp"

using namespace standin;

namespace {

constexpr std::size_t granule = 4096;  // up to 6.x one number for both (ROCm/clr hipamd/src/hip_vm.cpp)
constexpr std::size_t recommended = HIP_VERSION_MAJOR >= 7 ? std::size_t{2} << 20 : granule;

}  // namespace

hipError_t hipMemGetAllocationGranularity(std::size_t* granularity, const hipMemAllocationProp* prop,
                                          hipMemAllocationGranularity_flags option) {
    int value = 0;
    if (granularity == nullptr || prop == nullptr || prop->type != hipMemAllocationTypePinned ||
        prop->location.type != hipMemLocationTypeDevice)
        return answer(hipErrorInvalidValue);
    if (pmhDeviceGetAttribute(&value, pmhDevAttrWarpSize, prop->location.id) != pmhSuccess)
        return answer(hipErrorInvalidValue);
    *granularity = option == hipMemAllocationGranularityRecommended ? recommended : granule;
    return answer(hipSuccess);
}
