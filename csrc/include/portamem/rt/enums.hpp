// SPDX-License-Identifier: MIT
// portamem/rt/enums.hpp: portamem's own numbering of what the vendors enumerate.
//
// The same values on every backend and in Python. Each backend maps them to its vendor's, and a static_assert stands
// wherever the two are meant to be equal. CUDA's numbers are taken where CUDA and HIP agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portamem {
namespace rt {

/// A runtime's answer. The value is the native code: CUDA and HIP agree on every code named here, and a code that is
/// not named passes through unchanged.
enum class [[nodiscard]] Error_t : int{
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    InitializationError = 3,
    Deinitialized = 4,
    InvalidDevicePointer = 17,
    InvalidMemcpyDirection = 21,
    InsufficientDriver = 35,
    DevicesUnavailable = 46,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidContext = 201,
    UnsupportedLimit = 215,
    PeerAccessUnsupported = 217,
    InvalidHandle = 400,
    NotFound = 500,
    NotReady = 600,
    IllegalAddress = 700,
    PeerAccessAlreadyEnabled = 704,
    PeerAccessNotEnabled = 705,
    HostMemoryAlreadyRegistered = 712,
    HostMemoryNotRegistered = 713,
    LaunchFailure = 719,
    NotPermitted = 800,
    NotSupported = 801,
    StreamCaptureUnsupported = 900,
    StreamCaptureInvalidated = 901,
    StreamCaptureMerge = 902,
    StreamCaptureUnmatched = 903,
    StreamCaptureUnjoined = 904,
    StreamCaptureIsolation = 905,
    StreamCaptureImplicit = 906,
    CapturedEvent = 907,
    StreamCaptureWrongThread = 908,
    Unknown = 999,
};

/// What a pointer points to. HIP numbered these differently before 6.0; the backend maps.
enum class MemoryType : int { Unregistered = 0, Host = 1, Device = 2, Managed = 3 };

/// Direction of a copy. Default lets the runtime work it out from the pointers.
enum class MemcpyKind : int { HostToHost = 0, HostToDevice = 1, DeviceToHost = 2, DeviceToDevice = 3, Default = 4 };

/// Advice on managed memory. The coarse-grain pair is AMD's own: elsewhere it is Error_t::NotSupported.
enum class MemoryAdvise : int {
    SetReadMostly = 1,
    UnsetReadMostly = 2,
    SetPreferredLocation = 3,
    UnsetPreferredLocation = 4,
    SetAccessedBy = 5,
    UnsetAccessedBy = 6,
    SetCoarseGrain = 100,
    UnsetCoarseGrain = 101,
};

/// Attributes of a managed range. CoherencyMode is AMD's own: elsewhere it is Error_t::NotSupported.
enum class MemRangeAttribute : int {
    ReadMostly = 1,
    PreferredLocation = 2,
    AccessedBy = 3,
    LastPrefetchLocation = 4,
    CoherencyMode = 100,
};

/// Where managed memory may be touched: everywhere, on the host, or by one stream.
enum class MemAttach : unsigned { Global = 1, Host = 2, Single = 4 };

/// Device limits, in bytes.
enum class Limit : int { StackSize = 0, PrintfFifoSize = 1, MallocHeapSize = 2 };

/// Flags of HostMalloc, a bit set.
enum HostMallocFlags : unsigned {
    HostMallocDefault = 0,
    HostMallocPortable = 1,
    HostMallocMapped = 2,
    HostMallocWriteCombined = 4,
};

/// Flags of HostRegister, a bit set. ReadOnly collides with an AMD extension and is Error_t::NotSupported on HIP.
enum HostRegisterFlags : unsigned {
    HostRegisterDefault = 0,
    HostRegisterPortable = 1,
    HostRegisterMapped = 2,
    HostRegisterIoMemory = 4,
    HostRegisterReadOnly = 8,
};

/// Coherence of memory between host and device while a kernel runs.
/// For pinned memory Default means Coherent on every backend. For device memory Default is the vendor's ordinary
/// (coarse-grained) memory; the others are AMD's, and Error_t::NotSupported elsewhere.
enum class Coherence : int { Default = 0, Coherent = 1, NonCoherent = 2, FineGrained = 3, Uncached = 4 };

/// Stream and event creation flags, bit sets.
enum StreamFlags : unsigned { StreamDefault = 0, StreamNonBlocking = 1 };
enum EventFlags : unsigned { EventDefault = 0, EventBlockingSync = 1, EventDisableTiming = 2, EventInterprocess = 4 };

/// What a capture forbids to this thread or to others, and how a capture stands.
enum class StreamCaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };
enum class StreamCaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };

/// Attributes of a memory pool. Reuse* are booleans, the others bytes. *High may only be reset, by setting it to 0;
/// *Current is read-only.
enum class MemPoolAttr : int {
    ReuseFollowEventDependencies = 1,
    ReuseAllowOpportunistic = 2,
    ReuseAllowInternalDependencies = 3,
    ReleaseThreshold = 4,
    ReservedMemCurrent = 5,
    ReservedMemHigh = 6,
    UsedMemCurrent = 7,
    UsedMemHigh = 8,
};

/// What a location may do with a pool's memory.
enum class MemAccessFlags : int { None = 0, Read = 1, ReadWrite = 3 };

/// Device attributes that portamem asks for. The vendors' numbers differ throughout; this order is portamem's own.
/// Every value is an int; booleans are 0 or 1. One that a vendor does not have is Error_t::NotSupported.
enum class DeviceAttr : int {
    MultiProcessorCount = 0,
    WarpSize,
    ComputeCapabilityMajor,
    ComputeCapabilityMinor,
    L2CacheSize,
    TextureAlignment,
    AsyncEngineCount,
    Integrated,
    CanMapHostMemory,
    UnifiedAddressing,
    ManagedMemory,
    ConcurrentManagedAccess,
    PageableMemoryAccess,
    PageableMemoryAccessUsesHostPageTables,
    DirectManagedMemAccessFromHost,
    MemoryPoolsSupported,
    HostRegisterSupported,
    CanUseHostPointerForRegisteredMem,
    StreamPrioritiesSupported,
    VirtualMemoryManagementSupported,
    /// The host may read and write plain device memory: an APU, or a card whose whole memory is behind its BAR.
    DirectDeviceMemAccessFromHost,
    HostNumaId,
    /// Handles by which pools go to other processes: a bit set of MemHandleType.
    MemoryPoolSupportedHandleTypes,
    /// Virtual memory can be made such that it goes to other processes by a file descriptor, or by a fabric handle.
    HandleTypePosixFileDescriptorSupported,
    HandleTypeFabricSupported,
    /// Plain device memory, and events, can be opened by other processes of this machine.
    IpcMemHandleSupported,
    IpcEventSupport,
    /// Pages of managed memory move to the device or host that touches them. Not where there is one memory only.
    ManagedMemoryMigrates,
    /// AMD: the device runs with retry of page faults. NotSupported where an architecture has no such mode.
    Xnack,
    /// HostMalloc with Coherence::Default is coherent with running kernels.
    HostMallocCoherent,
    /// HostMalloc with Coherence::NonCoherent gives memory of another kind than Default does.
    HostMallocNonCoherent,
    /// What Limit::MallocHeapSize means: a MallocHeapKind.
    MallocHeapKind,
};

/// How a piece of memory can be named to another process, a bit set.
enum MemHandleType : unsigned {
    MemHandleTypePosixFileDescriptor = 1,
    MemHandleTypeWin32 = 2,
    MemHandleTypeWin32Kmt = 4,
    MemHandleTypeFabric = 8,
};

/// How a runtime limits the device heap: it has none (None), it bounds all that kernels may ever take (Limit), or it
/// sets the size that the heap begins with (Initial).
enum class MallocHeapKind : int { None = 0, Limit = 1, Initial = 2 };

/// What can be asked of a pointer beside its record. Every value is an int; booleans are 0 or 1.
enum class PointerAttr : int {
    /// The memory around it can be given to another process by its legacy handle.
    IsLegacyIpcCapable = 0,
};

/// The least unit of virtual memory that works, and the one that works best.
enum class MemAllocationGranularity : int { Minimum = 0, Recommended = 1 };

/// Where memory is, or should go. `id` is a device ordinal, or a NUMA node for HostNuma; otherwise it is ignored.
enum class LocationType : int { None = 0, Device = 1, Host = 2, HostNuma = 3, HostNumaCurrent = 4 };

struct Location {
    LocationType type = LocationType::Device;
    int id = 0;
};

inline constexpr int CpuDeviceId = -1;
inline constexpr int InvalidDeviceId = -2;

/// A pool's properties. `max_size` 0 means the device's memory; it is a hint where the vendor has no such field.
struct MemPoolProps {
    Location location;
    std::size_t max_size = 0;
};

/// What a pointer is, as one record.
struct PointerAttributes {
    MemoryType type = MemoryType::Unregistered;
    int device = InvalidDeviceId;    ///< owning device; CpuDeviceId for none, InvalidDeviceId for unregistered
    void* base = nullptr;            ///< start of the allocation; null where the runtime does not say
    std::size_t nbytes = 0;          ///< size of the allocation; 0 where the runtime does not say
    void* device_pointer = nullptr;  ///< the address for a kernel on the owning device; null if there is none
    void* host_pointer = nullptr;    ///< the address for the CPU; null if there is none
    unsigned flags = 0;              ///< flags given to HostMalloc or HostRegister; 0 where the runtime does not say
};

/// Properties of a device. Text is NUL-terminated UTF-8.
struct DeviceProperties {
    char name[256] = {};
    char arch[64] = {};  ///< what a compiler calls it: sm_90, gfx90a:sramecc+:xnack-, host
    std::size_t total_global_mem = 0;
    int compute_capability_major = 0;
    int compute_capability_minor = 0;
    int multi_processor_count = 0;
    int warp_size = 0;
};

/// Sizes and places of a 3-D copy. Widths, x and pitches are bytes; heights and y are rows; depths and z are slices.
struct Pos {
    std::size_t x = 0, y = 0, z = 0;
};
struct Extent {
    std::size_t width = 0, height = 0, depth = 0;
};
struct PitchedPtr {
    void* ptr = nullptr;
    std::size_t pitch = 0;  ///< bytes from one row to the next
    std::size_t xsize = 0;  ///< logical row width, bytes
    std::size_t ysize = 0;  ///< rows per slice
};
struct Memcpy3DParms {
    PitchedPtr src;
    Pos src_pos;
    PitchedPtr dst;
    Pos dst_pos;
    Extent extent;
    MemcpyKind kind = MemcpyKind::Default;
};

/// What DLPack calls memory of the host. Libraries of either vendor give page-locked memory the type of their own.
inline constexpr int DlpackCpu = 1;
inline constexpr int DlpackPageLocked[] = {3, 11};

/// What DLPack calls a backend's own memory. The ID is the device's ordinal with `device`, and 0 with other types.
struct DlpackDeviceTypes {
    int device = DlpackCpu;
    int pinned = DlpackCpu;
    int managed = DlpackCpu;
};

/// The numbers that DLPack has for streams without a handle; every number above 2 is a handle.
inline constexpr int DlpackNoStream = -2;
struct DlpackStreamNumbers {
    int legacy = DlpackNoStream;
    int per_thread = DlpackNoStream;
};

/// A function that a stream runs on the host. It may not call the runtime.
using HostFn_t = void (*)(void* user_data);

}  // namespace rt
}  // namespace portamem
