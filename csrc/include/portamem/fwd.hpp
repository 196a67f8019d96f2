// SPDX-License-Identifier: MIT
// portamem/fwd.hpp: forward declarations of the types that a program names, for headers that hold or pass them.
#pragma once

#include "portamem/backend.hpp"

PORTAMEM_OPEN

// devices, streams, events
class Device;
class Stream;
class Event;
struct Capabilities;
struct PointerInfo;

// memory
class Buffer;
class PitchedBuffer;
class GrowableBuffer;
class Allocation;
class Export;
class HostRegistration;
struct Span;
class StridedSpan;

// resources
class MemoryResource;
class DeviceMemoryResource;
class PinnedMemoryResource;
class PrefaultedPinnedMemoryResource;
class ManagedMemoryResource;
class SystemMemoryResource;
class AsyncMemoryResource;
class VirtualMemoryResource;
class PoolMemoryResource;
class FixedSizeMemoryResource;
class MonotonicMemoryResource;
class CallbackMemoryResource;
struct PoolOptions;
struct PoolStats;

// adaptors
class ResourceAdaptor;
class StatisticsAdaptor;
class TrackingAdaptor;
class LoggingAdaptor;
class LimitingAdaptor;
class FailureCallbackAdaptor;
class FallbackAdaptor;
class PrefetchAdaptor;

// scopes
class ResourceScope;
class OrderCheck;
class Tag;

// errors
class Error;
class OutOfMemory;
class ExportError;

PORTAMEM_CLOSE
