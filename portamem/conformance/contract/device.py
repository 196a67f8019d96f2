# SPDX-License-Identifier: MIT
"""Devices, limits, capabilities, quirks."""

from __future__ import annotations

from portamem.conformance.contract.alloc import TINY_FROM_POOLS
from portamem.conformance.contract.clause import Clause, Shortfall
from portamem.conformance.contract.pinned import SAME_ADDRESS_UNTOLD

CLAUSES = (
    Clause(
        "DEVICE-01",
        "Devices count from 0 to device_count() - 1, and devices() lists them. Any other ordinal is refused with "
        "ValueError that says how many there are, and what is no ordinal with TypeError.",
    ),
    Clause(
        "DEVICE-02",
        "A device is a value: devices of one ordinal are equal, hash alike and index, and name their backend.",
    ),
    Clause(
        "DEVICE-03",
        "Device() is the calling thread's current device, and set_current changes it for that thread alone.",
    ),
    Clause(
        "DEVICE-04",
        "A device's uuid is its own: written as usual, no other device's, and the same in another process.",
    ),
    Clause(
        "DEVICE-05",
        "pci_bus_id is written as domain:bus:device.function, and numa_node is what the kernel says of that address, "
        "or None.",
    ),
    Clause(
        "DEVICE-06",
        "Name, architecture, compute capability, number of multiprocessors and warp size are the device's.",
    ),
    Clause(
        "DEVICE-07",
        "memory_info tells the runtime's free and total bytes as they are when it is asked, and exactly the bytes that "
        "portamem's buffers have out: held() is the same number, of the host as well.",
    ),
    Clause(
        "DEVICE-08",
        "Limits are told by name, as the device has them. A name that is none is refused with ValueError that lists "
        "them, a size that is none with ValueError or TypeError.",
    ),
    Clause(
        "DEVICE-09",
        "A limit that was set is in force: the named device, whichever is current, has at least that until it is set "
        "again. HEAP-09 is about a heap that comes near the device's memory.",
        shortfalls=(
            Shortfall(
                "amd",
                "HIP 5.2 sets no limit",
                "capability",
                "hip_runtime_api.h of HIP 5.2: has no hipDeviceSetLimit; ROCm/hipamd#70",
            ),
        ),
    ),
    Clause(
        "DEVICE-10",
        "A capability is True, False, or None where the runtime does not say. All of them are in as_dict and in the "
        "repr, and those with words have only the words that the documentation lists.",
    ),
    Clause(
        "DEVICE-11",
        "A capability is true exactly if the device says so: none is derived from a version or a name.",
    ),
    Clause(
        "DEVICE-12",
        "Capabilities do not contradict each other, nor what the device's other properties say.",
    ),
    Clause(
        "DEVICE-13",
        "Capabilities and quirks can be read beside a stream capture, which stays valid.",
    ),
    Clause(
        "DEVICE-14",
        "What probe() found of a pool's threshold, of capture and of registration is what then happens.",
        shortfalls=(
            Shortfall(
                "amd",
                "a pool may accept a release threshold and ignore it",
                "allowed",
                "ROCm/rocm-systems#11690",
            ),
        ),
    ),
    Clause(
        "DEVICE-15",
        "A probe leaves no trace: memory held, pools, limits and the current device are as before, and it finds the "
        "same again, on any thread.",
    ),
    Clause(
        "DEVICE-16",
        "The first probe is refused with ValueError while a stream is captured, and the capture stays valid.",
    ),
    Clause(
        "DEVICE-17",
        "A probe waits for no work of the program, where the runtime says what it can register.",
        shortfalls=(SAME_ADDRESS_UNTOLD,),
    ),
    Clause(
        "DEVICE-18",
        "Every quirk of a device is told whole: its name, what portamem does, whether that is on, what it is about, "
        "and the public thread that reported it.",
    ),
    Clause(
        "DEVICE-19",
        "set_quirk switches a policy on, off, and back to what the table says, for every device, and returns how it "
        "was switched before; what is no quirk, cannot be switched or is no switch is refused with ValueError or "
        "TypeError.",
    ),
    Clause(
        "DEVICE-20",
        "PORTAMEM_QUIRKS switches quirks from the start. One that cannot be read is an error in words at the first "
        "use, never the default in silence.",
    ),
    Clause(
        "DEVICE-21",
        "Under the policy free_on_allocating_stream a buffer that is freed on another stream goes back on its own, "
        "behind the work on both; a pool made before the switch is as it was.",
    ),
    Clause(
        "DEVICE-22",
        "Under the policy at_least_eight_bytes the smallest requests take eight bytes of the pool, and are as large as "
        "asked.",
        shortfalls=(TINY_FROM_POOLS,),
    ),
    Clause(
        "DEVICE-23",
        "No call changes the current device: not one on another device's memory, streams or events.",
    ),
    Clause(
        "DEVICE-24",
        "Memory and streams are on the device that was named, whichever is current.",
    ),
    Clause(
        "DEVICE-25",
        "Access between devices is what can_access_peer says: itself never; enabling twice and disabling what is not "
        "enabled are refused with PeerAccessAlreadyEnabled and PeerAccessNotEnabled.",
    ),
    Clause(
        "DEVICE-26",
        "What belongs to another device, or to another backend, is refused with ValueError or TypeError that names "
        "both, before it can do harm.",
    ),
    Clause(
        "DEVICE-27",
        "Versions are told as numbers and as text, those of the runtime, of the driver and of the headers; probe() "
        "tells the number of devices and that all is well.",
    ),
    Clause(
        "DEVICE-28",
        "A pointer is told to be fit for a legacy IPC handle only if it is plain device memory, and then exactly if "
        "the device has such handles.",
        shortfalls=(
            Shortfall(
                "both",
                "CUDA refuses handles for memory of pools; AMD's runtimes mostly do not say",
                "allowed",
                "openucx/ucx#7110; ofiwg/libfabric#10162",
            ),
        ),
    ),
    Clause(
        "DEVICE-29",
        "Under the policy explicit_copy_kind rows and boxes are copied as without it: between a device and the host, "
        "both ways, and within each, wherever they lie in their allocations.",
        "every resource of the runtime",
        shortfalls=(
            Shortfall(
                "amd",
                "AMD's runtimes of 5.6 to 6.0 refuse some 2-D copies that are to find out their direction",
                "bridged",
                "ROCm/clr#40; oneapi-src/unified-runtime#2268",
            ),
        ),
    ),
)
