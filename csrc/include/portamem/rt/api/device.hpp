// SPDX-License-Identifier: MIT
// portamem/rt/api/device.hpp: contracts of devices: count, current device, attributes, memory, limits, peers.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

PORTAMEM_RT_OPEN

/// Number of devices this process can see. *count is 0 after a failure too (CUDA leaves it untouched).
/// Errors: InsufficientDriver without a driver, NoDevice without a device; both vendors.
inline Error_t GetDeviceCount(int* count);

/// Makes a device this thread's current one. CUDA 12 and later create its context at once.
/// Errors: InvalidDevice for an ordinal out of range.
inline Error_t SetDevice(int device);

/// This thread's current device. Creates no context.
inline Error_t GetDevice(int* device);

/// Makes `device` current, and writes to *saved what PopDevice needs to undo that. It creates no context on any other
/// device. Where `device` is current already, it costs one call of the vendor's.
inline Error_t PushDevice(int device, DeviceState_t* saved);

/// Undoes PushDevice on the same thread: current device and context are as they were.
inline Error_t PopDevice(DeviceState_t saved);

/// One attribute. NotSupported where the vendor, the headers that the caller is compiled with, or the loaded library
/// has no such attribute: then nothing is known, which is not the same as 0. The vendors have no number for a few
/// attributes, which portamem itself works out:
///  - ManagedMemoryMigrates: ConcurrentManagedAccess on a device with memory of its own. AMD in addition moves pages on
///    a fault only with XNACK, which PageableMemoryAccess tells.
///  - Xnack: from the architecture's name (xnack+ or xnack-), AMD only.
///  - HostMallocCoherent, HostMallocNonCoherent: CUDA has coherent pinned memory only; AMD has both kinds, the coherent
///    one where the device has fine-grained memory.
///  - MallocHeapKind: Limit on CUDA and host; Initial on AMD, whose limit is the first slab of a heap that grows.
inline Error_t DeviceGetAttribute(int* value, DeviceAttr attr, int device);

/// Name, architecture and sizes. HIP 6 and later answer through the R0600 layout, older ones through the first.
inline Error_t GetDeviceProperties(DeviceProperties* properties, int device);

/// The 16 bytes that identify a device, or a MIG slice of one, across processes and orders.
inline Error_t DeviceGetUuid(unsigned char* uuid16, int device);

/// "domain:bus:device.function" in hexadecimal into a buffer of `length` bytes, NUL-terminated (13 bytes needed).
inline Error_t DeviceGetPCIBusId(char* pci_bus_id, int length, int device);

/// Free and total bytes on the current device, as the driver sees them: other processes and caches of pools count as
/// used. CUDA and HIP create the device's context. HIP leaves out what graphics use.
inline Error_t MemGetInfo(std::size_t* free, std::size_t* total);

/// Blocks until all work submitted to the current device has run. The driver's pools then give back what they hold
/// above their release threshold.
inline Error_t DeviceSynchronize();

/// A limit of the current device, bytes. MallocHeapSize is the heap that kernels' malloc takes from; on AMD it is the
/// initial slab only. Errors: UnsupportedLimit.
inline Error_t DeviceGetLimit(std::size_t* value, Limit limit);

/// Sets a limit of the current device, in bytes. CUDA and host: MallocHeapSize only before a kernel that uses the heap
/// has run, else InvalidValue. HIP before 5.3: NotSupported. Errors: UnsupportedLimit.
inline Error_t DeviceSetLimit(Limit limit, std::size_t value);

/// Whether kernels and copies of `device` can address memory of `peer` directly. 0 for a device and itself.
inline Error_t DeviceCanAccessPeer(int* can_access, int device, int peer);

/// Lets the current device address memory of `peer`. Errors: PeerAccessAlreadyEnabled, PeerAccessUnsupported,
/// InvalidDevice.
inline Error_t DeviceEnablePeerAccess(int peer);

/// Undoes DeviceEnablePeerAccess. Errors: PeerAccessNotEnabled.
inline Error_t DeviceDisablePeerAccess(int peer);

/// Lowest (numerically greatest) and highest stream priority of the current device; both 0 where there is one only.
inline Error_t DeviceGetStreamPriorityRange(int* least, int* greatest);

PORTAMEM_RT_CLOSE
