// SPDX-License-Identifier: MIT
// attributes.cpp: attributes by the numbers of this version's header.
#include "attributes.hpp"

#include "../../csrc/host/state.hpp"

namespace standin {

Machine this_machine() {
    const auto& config = portamem::host::state().config;
    const bool xnack = config.pageable_is_device_accessible();
    const bool apu = config.model == portamem::host::Model::Apu;
    const char* arch = apu ? "gfx942:sramecc+:xnack+" : xnack ? "gfx90a:sramecc+:xnack+" : "gfx90a:sramecc+:xnack-";
    return {"portamem stand-in, no AMD GPU",
            arch,
            9,
            apu ? 4 : 0,
            64,
            apu ? 228 : 104,
            apu ? 4 << 20 : 8 << 20,
            256,
            apu ? 1 : 0,
            config.device_is_host_accessible() ? 1 : 0,
            xnack ? 1 : 0};
}

// False for attributes that the header of 5.2 calls "Cuda only": there the call answers InvalidValue.
bool attribute_of(hipDeviceAttribute_t attribute, int* value) {
    const Machine machine = this_machine();
    const auto is = [&](int answer) {
        *value = answer;
        return true;
    };
    switch (static_cast<int>(attribute)) {
        case hipDeviceAttributeMultiprocessorCount:
        case hipDeviceAttributePhysicalMultiProcessorCount:
            return is(machine.multi_processors);
        case hipDeviceAttributeWarpSize:
            return is(machine.warp_size);
        case hipDeviceAttributeComputeCapabilityMajor:
            return is(machine.major);
        case hipDeviceAttributeComputeCapabilityMinor:
            return is(machine.minor);
        case hipDeviceAttributeL2CacheSize:
            return is(machine.l2_cache);
        case hipDeviceAttributeTextureAlignment:
            return is(machine.texture_alignment);
        case hipDeviceAttributeIntegrated:
            return is(machine.integrated);
        case hipDeviceAttributeIsLargeBar:
            return is(machine.large_bar);
        case hipDeviceAttributePageableMemoryAccess:
            return is(machine.xnack);
        case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
        case hipDeviceAttributeDirectManagedMemAccessFromHost:
        case hipDeviceAttributePciBusId:
        case hipDeviceAttributeComputeMode:
        case hipDeviceAttributeImageSupport:
            return is(0);
        case hipDeviceAttributePciDomainID:
            return is(0xffff);
        case hipDeviceAttributeMemoryPoolsSupported:
            return is(has(Quirk::PoolsNotSupported) ? 0 : 1);
        case hipDeviceAttributeCanMapHostMemory:
        case hipDeviceAttributeManagedMemory:
        case hipDeviceAttributeConcurrentManagedAccess:
        case hipDeviceAttributeConcurrentKernels:
        case hipDeviceAttributeFineGrainSupport:
            return is(1);
#if HIP_VERSION_MAJOR >= 6
        case hipDeviceAttributeAsyncEngineCount:
            return is(2);
        case hipDeviceAttributeUnifiedAddressing:
        case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
        case hipDeviceAttributeHostRegisterSupported:
        case hipDeviceAttributeVirtualMemoryManagementSupported:
        case hipDeviceAttributeStreamPrioritiesSupported:
            return is(1);
        case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
            return is(hipMemHandleTypeNone);  // pools are not shared here
#endif
        default:
            return false;
    }
}

}  // namespace standin
