// SPDX-License-Identifier: MIT
// portamem/portamem.hpp: the umbrella. One memory API for NVIDIA GPUs, AMD GPUs and the CPU.
#pragma once

// ground floor: the vendors' primitives, one spelling
#include "portamem/rt/rt.hpp"

// first floor: errors, devices, streams, events, addresses
#include "portamem/capabilities.hpp"
#include "portamem/capture.hpp"
#include "portamem/device.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/event.hpp"
#include "portamem/kept.hpp"
#include "portamem/pointer_info.hpp"
#include "portamem/probe.hpp"
#include "portamem/quirks.hpp"
#include "portamem/status.hpp"
#include "portamem/stream.hpp"

// second floor: memory resources, buffers, and what is done with them
#include "portamem/allocation.hpp"
#include "portamem/buffer.hpp"
#include "portamem/copy.hpp"
#include "portamem/current_resource.hpp"
#include "portamem/fill.hpp"
#include "portamem/host_registration.hpp"
#include "portamem/managed.hpp"
#include "portamem/mr/allocating_streams.hpp"
#include "portamem/mr/async_memory_resource.hpp"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/device_memory_resource.hpp"
#include "portamem/mr/managed_memory_resource.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/mr/pinned_memory_resource.hpp"
#include "portamem/mr/pool_annotations.hpp"
#include "portamem/mr/prefaulted_pinned_memory_resource.hpp"
#include "portamem/mr/prepared_chunk.hpp"
#include "portamem/mr/recycled_pools.hpp"
#include "portamem/mr/resource_adaptor.hpp"
#include "portamem/mr/runtime_memory_resource.hpp"
#include "portamem/mr/system_memory_resource.hpp"
#include "portamem/order_check.hpp"
#include "portamem/span.hpp"
