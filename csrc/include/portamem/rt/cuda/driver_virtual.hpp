// SPDX-License-Identifier: MIT
// portamem/rt/cuda/driver_virtual.hpp: the driver's calls for virtual memory, of which the CUDA runtime has none.
//
// HIP on the NVIDIA platform includes this file too: HIP's own headers would link libcuda there.
#pragma once

#include "portamem/rt/cuda/driver.hpp"

PORTAMEM_RT_OPEN

namespace driver {

/// Signatures are spelled out, as in EntryPoints. All are older than CUDA 12.
struct VirtualEntryPoints {
    CUresult (*get_allocation_granularity)(std::size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags);
    CUresult (*address_reserve)(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
    CUresult (*address_free)(CUdeviceptr, std::size_t);
    CUresult (*create)(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*, unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, std::size_t);
    CUresult (*set_access)(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);
    CUresult (*get_access)(unsigned long long*, const CUmemLocation*, CUdeviceptr);

    VirtualEntryPoints() {
        find(get_allocation_granularity, "cuMemGetAllocationGranularity");
        find(address_reserve, "cuMemAddressReserve");
        find(address_free, "cuMemAddressFree");
        find(create, "cuMemCreate");
        find(release, "cuMemRelease");
        find(map, "cuMemMap");
        find(unmap, "cuMemUnmap");
        find(set_access, "cuMemSetAccess");
        find(get_access, "cuMemGetAccess");
    }

    /// Whether there is a driver at all.
    bool found() const { return create != nullptr; }

  private:
    template <class Function>
    static void find(Function& function, const char* name) {
        function = entry_point<Function>(name, 12000);
    }
};

inline const VirtualEntryPoints& virtual_entry_points() {
    static const VirtualEntryPoints points;
    return points;
}

inline CUdeviceptr device_pointer(const void* ptr) { return reinterpret_cast<CUdeviceptr>(ptr); }

/// Memory on a device, made without a way to other processes: such a way may ask for larger units.
inline CUmemAllocationProp memory_on(int device) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

inline Error_t mem_get_allocation_granularity(std::size_t* granularity, int device, bool recommended) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    const CUmemAllocationProp prop = memory_on(device);
    const auto option = recommended ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED : CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    return answer(driver.get_allocation_granularity(granularity, &prop, option));
}

inline Error_t mem_address_reserve(void** ptr, std::size_t nbytes, std::size_t alignment, void* addr) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    CUdeviceptr address = 0;
    const CUresult result = driver.address_reserve(&address, nbytes, alignment, device_pointer(addr), 0);
    if (result == CUDA_SUCCESS) *ptr = reinterpret_cast<void*>(address);
    return answer(result);
}

inline Error_t mem_address_free(void* ptr, std::size_t nbytes) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    return answer(driver.address_free(device_pointer(ptr), nbytes));
}

inline Error_t mem_create(CUmemGenericAllocationHandle* handle, std::size_t nbytes, int device) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    const CUmemAllocationProp prop = memory_on(device);
    return answer(driver.create(handle, nbytes, &prop, 0));
}

inline Error_t mem_release(CUmemGenericAllocationHandle handle) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    return answer(driver.release(handle));
}

inline Error_t mem_map(void* ptr, std::size_t nbytes, std::size_t offset, CUmemGenericAllocationHandle handle) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    return answer(driver.map(device_pointer(ptr), nbytes, offset, handle, 0));
}

inline Error_t mem_unmap(void* ptr, std::size_t nbytes) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    return answer(driver.unmap(device_pointer(ptr), nbytes));
}

inline Error_t mem_set_access(void* ptr, std::size_t nbytes, int device, MemAccessFlags flags) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = static_cast<CUmemAccess_flags>(flags);
    return answer(driver.set_access(device_pointer(ptr), nbytes, &access, 1));
}

inline Error_t mem_get_access(MemAccessFlags* flags, int device, const void* ptr) {
    const VirtualEntryPoints& driver = virtual_entry_points();
    if (!driver.found()) return without_driver();
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    unsigned long long native = 0;
    const CUresult result = driver.get_access(&native, &location, device_pointer(ptr));
    if (result == CUDA_SUCCESS) *flags = static_cast<MemAccessFlags>(native);
    return answer(result);
}

}  // namespace driver

PORTAMEM_RT_CLOSE
