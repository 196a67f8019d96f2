/* SPDX-License-Identifier: MIT
 * portamem/host/runtime_api.h: the CPU reference runtime, spelled as a vendor spells a runtime API.
 *
 * Each name is the vendors' name with the prefix pmh, and each code is the vendors' code. portamem/rt/api/ says once
 * what the calls promise; this header says only what is particular to this runtime. Every function is thread-safe.
 * Every call returns pmhErrorInitializationError in a child of fork(), and pmhErrorNotPermitted inside a host
 * function or a kernel that a stream runs. */
#ifndef PORTAMEM_HOST_RUNTIME_API_H
#define PORTAMEM_HOST_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#include "portamem/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In C++ the type can hold any int: a caller may ask for the name of a number that is none of these. */
#ifdef __cplusplus
enum pmhError_t : int {
#else
typedef enum pmhError_t {
#endif
    pmhSuccess = 0,
    pmhErrorInvalidValue = 1,
    pmhErrorOutOfMemory = 2,
    pmhErrorInitializationError = 3,
    pmhErrorInvalidMemcpyDirection = 21,
    pmhErrorNoDevice = 100,
    pmhErrorInvalidDevice = 101,
    pmhErrorUnsupportedLimit = 215,
    pmhErrorPeerAccessUnsupported = 217,
    pmhErrorInvalidHandle = 400,
    pmhErrorIllegalState = 401,
    pmhErrorNotReady = 600,
    pmhErrorPeerAccessAlreadyEnabled = 704,
    pmhErrorPeerAccessNotEnabled = 705,
    pmhErrorHostMemoryAlreadyRegistered = 712,
    pmhErrorHostMemoryNotRegistered = 713,
    pmhErrorNotPermitted = 800,
    pmhErrorNotSupported = 801,
    pmhErrorStreamCaptureUnsupported = 900,
    pmhErrorStreamCaptureInvalidated = 901,
    pmhErrorStreamCaptureMerge = 902,
    pmhErrorStreamCaptureUnmatched = 903,
    pmhErrorStreamCaptureUnjoined = 904,
    pmhErrorStreamCaptureIsolation = 905,
    pmhErrorStreamCaptureImplicit = 906,
    pmhErrorCapturedEvent = 907,
    pmhErrorStreamCaptureWrongThread = 908,
    pmhErrorUnknown = 999
#ifdef __cplusplus
};
#else
} pmhError_t;
#endif

typedef struct pmhStream_st* pmhStream_t;
typedef struct pmhEvent_st* pmhEvent_t;
typedef struct pmhMemPool_st* pmhMemPool_t;
typedef struct pmhGraph_st* pmhGraph_t;
typedef struct pmhMemory_st* pmhMemGenericAllocationHandle_t; /* of physical memory */
typedef void (*pmhHostFn_t)(void* user_data);

/* Represents one block of a launch. */
typedef struct pmhKernelBlock {
    unsigned index; /* of `count` blocks */
    unsigned count;
    unsigned threads; /* in each block */
    int device;
    const uint64_t* arguments;
} pmhKernelBlock;

typedef void (*pmhKernelFn_t)(const pmhKernelBlock* block);

/* Null too is the legacy default stream of the current device. */
#define pmhStreamLegacy ((pmhStream_t)0x1)
#define pmhStreamPerThread ((pmhStream_t)0x2)

/* These constants are passed as int: a value outside the list is refused, not undefined. */
enum { pmhCpuDeviceId = -1, pmhInvalidDeviceId = -2 };
enum {
    pmhMemcpyHostToHost = 0,
    pmhMemcpyHostToDevice = 1,
    pmhMemcpyDeviceToHost = 2,
    pmhMemcpyDeviceToDevice = 3,
    pmhMemcpyDefault = 4
};
enum { pmhMemoryTypeUnregistered = 0, pmhMemoryTypeHost = 1, pmhMemoryTypeDevice = 2, pmhMemoryTypeManaged = 3 };
enum { pmhDeviceMallocDefault = 0, pmhDeviceMallocFinegrained = 1 };
enum { pmhHostMallocDefault = 0, pmhHostMallocPortable = 1, pmhHostMallocMapped = 2, pmhHostMallocWriteCombined = 4 };
enum {
    pmhHostRegisterDefault = 0,
    pmhHostRegisterPortable = 1,
    pmhHostRegisterMapped = 2,
    pmhHostRegisterIoMemory = 4,
    pmhHostRegisterReadOnly = 8
};
enum { pmhMemAttachGlobal = 1, pmhMemAttachHost = 2, pmhMemAttachSingle = 4 };
enum {
    pmhMemAdviseSetReadMostly = 1,
    pmhMemAdviseUnsetReadMostly = 2,
    pmhMemAdviseSetPreferredLocation = 3,
    pmhMemAdviseUnsetPreferredLocation = 4,
    pmhMemAdviseSetAccessedBy = 5,
    pmhMemAdviseUnsetAccessedBy = 6
};
enum {
    pmhMemRangeAttributeReadMostly = 1,
    pmhMemRangeAttributePreferredLocation = 2,
    pmhMemRangeAttributeAccessedBy = 3,
    pmhMemRangeAttributeLastPrefetchLocation = 4
};
enum { pmhLaunchDefault = 0, pmhLaunchUsesHeap = 1 };
enum { pmhLimitStackSize = 0, pmhLimitPrintfFifoSize = 1, pmhLimitMallocHeapSize = 2 };
enum { pmhStreamDefault = 0, pmhStreamNonBlocking = 1 };
enum { pmhEventDefault = 0, pmhEventBlockingSync = 1, pmhEventDisableTiming = 2, pmhEventInterprocess = 4 };
enum { pmhStreamCaptureModeGlobal = 0, pmhStreamCaptureModeThreadLocal = 1, pmhStreamCaptureModeRelaxed = 2 };
enum { pmhStreamCaptureStatusNone = 0, pmhStreamCaptureStatusActive = 1, pmhStreamCaptureStatusInvalidated = 2 };
enum {
    pmhMemPoolReuseFollowEventDependencies = 1,
    pmhMemPoolReuseAllowOpportunistic = 2,
    pmhMemPoolReuseAllowInternalDependencies = 3,
    pmhMemPoolAttrReleaseThreshold = 4,
    pmhMemPoolAttrReservedMemCurrent = 5,
    pmhMemPoolAttrReservedMemHigh = 6,
    pmhMemPoolAttrUsedMemCurrent = 7,
    pmhMemPoolAttrUsedMemHigh = 8
};
enum { pmhMemAccessFlagsProtNone = 0, pmhMemAccessFlagsProtRead = 1, pmhMemAccessFlagsProtReadWrite = 3 };
enum {
    pmhMemLocationTypeNone = 0,
    pmhMemLocationTypeDevice = 1,
    pmhMemLocationTypeHost = 2,
    pmhMemLocationTypeHostNuma = 3,
    pmhMemLocationTypeHostNumaCurrent = 4
};
enum {
    pmhDevAttrMultiProcessorCount = 0,
    pmhDevAttrWarpSize,
    pmhDevAttrComputeCapabilityMajor,
    pmhDevAttrComputeCapabilityMinor,
    pmhDevAttrL2CacheSize,
    pmhDevAttrTextureAlignment,
    pmhDevAttrAsyncEngineCount,
    pmhDevAttrIntegrated,
    pmhDevAttrCanMapHostMemory,
    pmhDevAttrUnifiedAddressing,
    pmhDevAttrManagedMemory,
    pmhDevAttrConcurrentManagedAccess,
    pmhDevAttrPageableMemoryAccess,
    pmhDevAttrPageableMemoryAccessUsesHostPageTables,
    pmhDevAttrDirectManagedMemAccessFromHost,
    pmhDevAttrMemoryPoolsSupported,
    pmhDevAttrHostRegisterSupported,
    pmhDevAttrCanUseHostPointerForRegisteredMem,
    pmhDevAttrStreamPrioritiesSupported,
    pmhDevAttrVirtualMemoryManagementSupported,
    pmhDevAttrDirectDeviceMemAccessFromHost,
    pmhDevAttrHostNumaId,
    pmhDevAttrMemoryPoolSupportedHandleTypes,
    pmhDevAttrHandleTypePosixFileDescriptorSupported,
    pmhDevAttrHandleTypeFabricSupported,
    pmhDevAttrIpcMemHandleSupported,
    pmhDevAttrIpcEventSupport,
    pmhDevAttrManagedMemoryMigrates,
    pmhDevAttrXnack,
    pmhDevAttrHostMallocCoherent,
    pmhDevAttrHostMallocNonCoherent,
    pmhDevAttrMallocHeapKind
};
enum { pmhPointerAttributeIsLegacyIpcCapable = 0 };
enum { pmhMemAllocationGranularityMinimum = 0, pmhMemAllocationGranularityRecommended = 1 };

typedef struct pmhMemLocation {
    int type;
    int id;
} pmhMemLocation;

typedef struct pmhMemPoolProps {
    pmhMemLocation location;
    size_t maxSize;
} pmhMemPoolProps;

typedef struct pmhPointerAttributes {
    int type;
    int device;
    void* base;
    size_t size;
    void* devicePointer;
    void* hostPointer;
    unsigned flags;
} pmhPointerAttributes;

typedef struct pmhDeviceProp {
    char name[256];
    char archName[64];
    size_t totalGlobalMem;
    int major;
    int minor;
    int multiProcessorCount;
    int warpSize;
} pmhDeviceProp;

typedef struct pmhPos {
    size_t x, y, z;
} pmhPos;

typedef struct pmhExtent {
    size_t width, height, depth;
} pmhExtent;

typedef struct pmhPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
} pmhPitchedPtr;

typedef struct pmhMemcpy3DParms {
    pmhPitchedPtr srcPtr;
    pmhPos srcPos;
    pmhPitchedPtr dstPtr;
    pmhPos dstPos;
    pmhExtent extent;
    int kind;
} pmhMemcpy3DParms;

/* ---- versions and errors ---- */
PORTAMEM_EXPORT pmhError_t pmhRuntimeGetVersion(int* version);
PORTAMEM_EXPORT const char* pmhGetErrorString(pmhError_t error);
PORTAMEM_EXPORT pmhError_t pmhGetLastError(void);
PORTAMEM_EXPORT pmhError_t pmhPeekAtLastError(void);

/* Returns why this thread's latest failed call failed, as a sentence; "" where the code says all. GetLastError
 * leaves it. It is valid until the thread's next failure. */
PORTAMEM_EXPORT const char* pmhGetLastErrorDetail(void);

/* Returns that sentence where this thread's latest failure was `error`, and GetErrorString's otherwise. */
PORTAMEM_EXPORT const char* pmhGetErrorDetail(pmhError_t error);

/* ---- devices ---- */
PORTAMEM_EXPORT pmhError_t pmhGetDeviceCount(int* count);
PORTAMEM_EXPORT pmhError_t pmhSetDevice(int device);
PORTAMEM_EXPORT pmhError_t pmhGetDevice(int* device);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetAttribute(int* value, int attribute, int device);
PORTAMEM_EXPORT pmhError_t pmhGetDeviceProperties(pmhDeviceProp* properties, int device);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetUuid(unsigned char* uuid16, int device);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetPCIBusId(char* pciBusId, int length, int device);
PORTAMEM_EXPORT pmhError_t pmhMemGetInfo(size_t* free, size_t* total);
PORTAMEM_EXPORT pmhError_t pmhDeviceSynchronize(void);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetLimit(size_t* value, int limit);
PORTAMEM_EXPORT pmhError_t pmhDeviceSetLimit(int limit, size_t value);
PORTAMEM_EXPORT pmhError_t pmhDeviceCanAccessPeer(int* canAccess, int device, int peer);
PORTAMEM_EXPORT pmhError_t pmhDeviceEnablePeerAccess(int peer, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhDeviceDisablePeerAccess(int peer);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetStreamPriorityRange(int* least, int* greatest);

/* ---- device, pinned and registered memory ---- */

/* The free functions never wait: memory that queued work holds stays mapped until that work has run. Unregister
 * waits for every stream, because the memory is the caller's and may vanish after it. */
PORTAMEM_EXPORT pmhError_t pmhMalloc(void** ptr, size_t size);
PORTAMEM_EXPORT pmhError_t pmhFree(void* ptr);
PORTAMEM_EXPORT pmhError_t pmhMallocPitch(void** ptr, size_t* pitch, size_t width, size_t height);
PORTAMEM_EXPORT pmhError_t pmhExtMallocWithFlags(void** ptr, size_t size, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhHostMalloc(void** ptr, size_t size, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhHostFree(void* ptr);
PORTAMEM_EXPORT pmhError_t pmhHostRegister(void* ptr, size_t size, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhHostUnregister(void* ptr);
PORTAMEM_EXPORT pmhError_t pmhHostGetDevicePointer(void** devicePtr, void* hostPtr, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhHostGetFlags(unsigned* flags, void* hostPtr);
PORTAMEM_EXPORT pmhError_t pmhPointerGetAttributes(pmhPointerAttributes* attributes, const void* ptr);
PORTAMEM_EXPORT pmhError_t pmhPointerGetAttribute(int* value, int attribute, const void* ptr);

/* ---- managed memory; where pages are is not simulated, what was asked for them is remembered ---- */
PORTAMEM_EXPORT pmhError_t pmhMallocManaged(void** ptr, size_t size, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhMemPrefetchAsync(const void* ptr, size_t size, pmhMemLocation location, unsigned flags,
                                               pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemAdvise(const void* ptr, size_t size, int advice, pmhMemLocation location);
PORTAMEM_EXPORT pmhError_t pmhMemRangeGetAttribute(void* data, size_t dataSize, int attribute, const void* ptr,
                                                   size_t size);
PORTAMEM_EXPORT pmhError_t pmhStreamAttachMemAsync(pmhStream_t stream, void* ptr, size_t size, unsigned flags);

/* ---- stream-ordered memory and pools ---- */
PORTAMEM_EXPORT pmhError_t pmhMallocAsync(void** ptr, size_t size, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhFreeAsync(void* ptr, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMallocFromPoolAsync(void** ptr, size_t size, pmhMemPool_t pool, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemPoolCreate(pmhMemPool_t* pool, const pmhMemPoolProps* props);
PORTAMEM_EXPORT pmhError_t pmhMemPoolDestroy(pmhMemPool_t pool);
PORTAMEM_EXPORT pmhError_t pmhMemPoolTrimTo(pmhMemPool_t pool, size_t minBytesToKeep);
PORTAMEM_EXPORT pmhError_t pmhMemPoolSetAttribute(pmhMemPool_t pool, int attribute, uint64_t value);
PORTAMEM_EXPORT pmhError_t pmhMemPoolGetAttribute(pmhMemPool_t pool, int attribute, uint64_t* value);
PORTAMEM_EXPORT pmhError_t pmhMemPoolSetAccess(pmhMemPool_t pool, pmhMemLocation location, int flags);
PORTAMEM_EXPORT pmhError_t pmhMemPoolGetAccess(int* flags, pmhMemPool_t pool, pmhMemLocation location);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetDefaultMemPool(pmhMemPool_t* pool, int device);
PORTAMEM_EXPORT pmhError_t pmhDeviceGetMemPool(pmhMemPool_t* pool, int device);
PORTAMEM_EXPORT pmhError_t pmhDeviceSetMemPool(int device, pmhMemPool_t pool);

/* ---- virtual memory; the least granularity is 64 KiB, and 2 MiB is recommended ---- */
PORTAMEM_EXPORT pmhError_t pmhMemGetAllocationGranularity(size_t* granularity, pmhMemLocation location, int option);
/* A hint is not followed. */
PORTAMEM_EXPORT pmhError_t pmhMemAddressReserve(void** ptr, size_t size, size_t alignment, void* addr);
PORTAMEM_EXPORT pmhError_t pmhMemAddressFree(void* ptr, size_t size);
PORTAMEM_EXPORT pmhError_t pmhMemCreate(pmhMemGenericAllocationHandle_t* handle, size_t size, pmhMemLocation location);
PORTAMEM_EXPORT pmhError_t pmhMemRelease(pmhMemGenericAllocationHandle_t handle);
PORTAMEM_EXPORT pmhError_t pmhMemMap(void* ptr, size_t size, size_t offset, pmhMemGenericAllocationHandle_t handle);
PORTAMEM_EXPORT pmhError_t pmhMemUnmap(void* ptr, size_t size);
/* flags: none or read and write. A range is refused where any byte of it is not mapped. */
PORTAMEM_EXPORT pmhError_t pmhMemSetAccess(void* ptr, size_t size, pmhMemLocation location, int flags);
PORTAMEM_EXPORT pmhError_t pmhMemGetAccess(int* flags, pmhMemLocation location, void* ptr);

/* ---- copies and fills ---- */

/* A copy from or to pageable memory, Async or not, returns when it is done, which is the strictest behaviour of the
 * vendors. A copy between two host ranges does too. */
PORTAMEM_EXPORT pmhError_t pmhMemcpy(void* dst, const void* src, size_t size, int kind);
PORTAMEM_EXPORT pmhError_t pmhMemcpyAsync(void* dst, const void* src, size_t size, int kind, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemcpy2D(void* dst, size_t dstPitch, const void* src, size_t srcPitch, size_t width,
                                       size_t height, int kind);
PORTAMEM_EXPORT pmhError_t pmhMemcpy2DAsync(void* dst, size_t dstPitch, const void* src, size_t srcPitch, size_t width,
                                            size_t height, int kind, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemcpy3D(const pmhMemcpy3DParms* parms);
PORTAMEM_EXPORT pmhError_t pmhMemcpy3DAsync(const pmhMemcpy3DParms* parms, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t size);
PORTAMEM_EXPORT pmhError_t pmhMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t size,
                                              pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemset(void* ptr, int value, size_t size);
PORTAMEM_EXPORT pmhError_t pmhMemsetAsync(void* ptr, int value, size_t size, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhMemset2D(void* ptr, size_t pitch, int value, size_t width, size_t height);
PORTAMEM_EXPORT pmhError_t pmhMemset2DAsync(void* ptr, size_t pitch, int value, size_t width, size_t height,
                                            pmhStream_t stream);

/* ---- streams and events; a handle that was never made, or was destroyed and is no later stream's, is
 * pmhErrorInvalidHandle ---- */
PORTAMEM_EXPORT pmhError_t pmhStreamCreateWithPriority(pmhStream_t* stream, unsigned flags, int priority);
PORTAMEM_EXPORT pmhError_t pmhStreamDestroy(pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhStreamQuery(pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhStreamSynchronize(pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhStreamWaitEvent(pmhStream_t stream, pmhEvent_t event, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhLaunchHostFunc(pmhStream_t stream, pmhHostFn_t fn, void* userData);
PORTAMEM_EXPORT pmhError_t pmhStreamGetFlags(pmhStream_t stream, unsigned* flags);
PORTAMEM_EXPORT pmhError_t pmhStreamGetPriority(pmhStream_t stream, int* priority);
PORTAMEM_EXPORT pmhError_t pmhStreamGetDevice(pmhStream_t stream, int* device);
/* Gives the number of a created stream, which no other stream ever has. */
PORTAMEM_EXPORT pmhError_t pmhStreamGetId(pmhStream_t stream, uint64_t* id);
PORTAMEM_EXPORT pmhError_t pmhEventCreateWithFlags(pmhEvent_t* event, unsigned flags);
PORTAMEM_EXPORT pmhError_t pmhEventDestroy(pmhEvent_t event);
PORTAMEM_EXPORT pmhError_t pmhEventRecord(pmhEvent_t event, pmhStream_t stream);
PORTAMEM_EXPORT pmhError_t pmhEventQuery(pmhEvent_t event);
PORTAMEM_EXPORT pmhError_t pmhEventSynchronize(pmhEvent_t event);
PORTAMEM_EXPORT pmhError_t pmhEventElapsedTime(float* milliseconds, pmhEvent_t start, pmhEvent_t end);

/* ---- kernels: functions that run as work of a stream ----
 * A kernel is called once for each block, one after the other. The threads of a block are the function's own loops, and
 * a barrier is the end of one. It may call the pmhKernel functions and nothing else of this header. */

/* Launches a kernel. `count` words of arguments are copied. Memory that one of them points to stays mapped until the
 * kernel has run. Returns pmhErrorInvalidHandle where the stream is not of the current device.
 *
 * pmhLaunchUsesHeap: the kernel uses the heap of its device. The first such launch takes at least
 * pmhLimitMallocHeapSize bytes out of the device's memory, and returns pmhErrorOutOfMemory where they cannot be had.
 * From then on the heap neither grows nor goes, and setting that limit returns pmhErrorInvalidValue. */
PORTAMEM_EXPORT pmhError_t pmhLaunchKernel(pmhKernelFn_t function, unsigned blocks, unsigned threads,
                                           const uint64_t* arguments, size_t count, unsigned flags, pmhStream_t stream);

/* Returns where a kernel finds `size` bytes of a device address, which no code may dereference, not even a kernel.
 * Returns null where the bytes are not within one allocation that the device reaches, and outside kernels. */
PORTAMEM_EXPORT void* pmhKernelAddress(const void* ptr, size_t size);

/* These are the heap of the device, for kernels alone. Every other call returns pmhErrorInvalidValue for its
 * addresses, and PointerGetAttributes does not know them.
 * - The allocating functions return device addresses aligned to 16 bytes, or to `align`, a power of two. They return
 *   null where there is no room, and in a kernel that was not launched to use the heap. Memory stays until any
 *   kernel frees it.
 * - Freeing null is allowed. An address that is not allocated is left alone, where a GPU may do anything. */
PORTAMEM_EXPORT void* pmhKernelMalloc(size_t size);
PORTAMEM_EXPORT void* pmhKernelMallocAligned(size_t align, size_t size);
PORTAMEM_EXPORT void pmhKernelFree(void* ptr);

/* ---- capture; a graph records how many operations it holds and cannot be run ---- */
PORTAMEM_EXPORT pmhError_t pmhStreamBeginCapture(pmhStream_t stream, int mode);
PORTAMEM_EXPORT pmhError_t pmhStreamEndCapture(pmhStream_t stream, pmhGraph_t* graph);
PORTAMEM_EXPORT pmhError_t pmhStreamIsCapturing(pmhStream_t stream, int* status);
PORTAMEM_EXPORT pmhError_t pmhThreadExchangeStreamCaptureMode(int* mode);
PORTAMEM_EXPORT pmhError_t pmhGraphGetNodeCount(pmhGraph_t graph, size_t* count);
PORTAMEM_EXPORT pmhError_t pmhGraphDestroy(pmhGraph_t graph);

/* ---- knobs: what the environment sets at first use, changed while the process runs ----
 *   PORTAMEM_HOST_DEVICES=2           number of devices; 0 is a machine without one
 *   PORTAMEM_HOST_CAPACITY=4GiB       bytes of each device; B, KiB, MiB, GiB, TiB or a plain number
 *   PORTAMEM_HOST_MODEL=discrete      discrete | apu | coherent: a card, an MI300A-like or a GH200-like node
 *   PORTAMEM_HOST_OPEN=0              1: the CPU may read and write device memory, as on an APU
 *   PORTAMEM_HOST_GUARD=0             1: a CPU access to device memory faults; no effect where the CPU may
 *   PORTAMEM_HOST_COPY_DELAY=0        microseconds that each copy and fill takes longer
 *   PORTAMEM_HOST_FAIL=               CALL:NTH:CODE, such as Malloc:3:2: the third Malloc answers 2; * is any call
 * A value that cannot be read makes every call answer pmhErrorInitializationError, with a sentence in the detail. */

/* Sets the bytes of a device; memory allocated beyond a smaller capacity stays. */
PORTAMEM_EXPORT pmhError_t pmhKnobSetCapacity(int device, size_t bytes);
PORTAMEM_EXPORT pmhError_t pmhKnobSetCopyDelay(unsigned microseconds);

/* Makes the nth call from now of `call` ("Malloc"; null for any) fail with `code` and do nothing. One such rule
 * stands at a time; nth 0 removes it. */
PORTAMEM_EXPORT pmhError_t pmhKnobFailCall(const char* call, unsigned nth, int code);

/* Puts capacity, delay and failing call back to the values of the environment. */
PORTAMEM_EXPORT pmhError_t pmhKnobReset(void);

#ifdef __cplusplus
}
#endif

#endif
