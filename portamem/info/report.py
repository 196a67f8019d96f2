# SPDX-License-Identifier: MIT
"""``portamem info`` as text: at most 25 lines, made to be pasted into a ticket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portamem._sizes import format_size

MOST_LINES = 25


def report(found: Mapping[str, Any]) -> str:
    """The lines. Devices and warnings give way where there are too many; ``--json`` has them all."""
    head = _head(found)
    states = [line for name, state in found["backends"].items() for line in _state(name, state)]
    tail = _tail(found)
    devices = [_device(name, each) for name, state in found["backends"].items() for each in state["devices"]]
    warnings = _at_most(8, [f"warning: {text}" for text in found["warnings"]])
    room = MOST_LINES - len(head) - len(states) - len(tail) - len(warnings)
    return "\n".join(head + states + _at_most(room, devices) + tail + warnings)


def _head(found: Mapping[str, Any]) -> list[str]:
    here = found["portamem"]
    built = f", built by {here['compiler']}" if here["compiler"] else ""
    return [f"portamem {here['version']} at {here['path']}{built}", f"Python {found['python']} on {found['platform']}"]


def _state(name: str, state: Mapping[str, Any]) -> list[str]:
    versions = {
        "built with": state["compiled_version"],
        "runtime": state["runtime_version"],
        "driver": state["driver_version"],
    }
    known = ", ".join(f"{what} {version}" for what, version in versions.items() if version)
    reason, count = state["reason"], len(state["devices"])
    words = f"{reason['code']}: {reason['text']}" if reason else f"ready, {count} device{'s' * (count != 1)}"
    lines = [f"{name:<5} {words}" + (f" ({known})" if known else "")]
    if reason:
        lines.append(f"      {reason['fix']}")
    elif copies := _copies(state["copies"]):
        lines.append(f"      {copies}")
    if state["libraries"]:
        lines.append(f"      loaded: {', '.join(state['libraries'])}")
    return lines


def _copies(copies: Mapping[str, Any] | None) -> str:
    """The carriers of large copies of ordinary host memory; empty where a warning tells of them."""
    if not copies or "error" in copies:
        return ""
    if not copies["threads"]:
        return "large copies by the runtime"
    threads = f"{copies['threads']} thread{'s' * (copies['threads'] != 1)}"
    return f"copies of {format_size(copies['from_bytes'])} and more by {threads}"


def _device(backend: str, device: Mapping[str, Any]) -> str:
    able = device["capabilities"]
    parts = [
        f"{backend}:{device['ordinal']} {device['name']}",
        device["arch"],
        device["uuid"],
        f"PCI {device['pci_bus_id'] or '-'}",
        f"NUMA {'-' if device['numa_node'] is None else device['numa_node']}",
        f"managed {able['managed_mode']}",
        f"pools {_answer(able['memory_pools'])}",
        *(f"{name} {_answer(able[field])}" for name, field in _ANSWERS.items()),
        *([] if able["xnack"] is None else [f"XNACK {_answer(able['xnack'])}"]),
        f"pinned {_pinned(able)}",
        f"virtual memory {_granularity(able)}",
        f"IPC {_ipc(able)}",
        f"device heap {able['malloc_heap_kind'] or '?'}",
        f"peers {' '.join(map(str, able['peers'])) or 'none'}",
        f"quirks {_quirks(device['quirks'])}",
    ]
    if device["probed"] is not None:
        tried = [f"{name.replace('_', ' ')} {_answer(known)}" for name, known in device["probed"].items()]
        parts.append(f"tried: {', '.join(tried)}")
    if "memory" in device:
        memory = device["memory"]
        parts.append(f"{format_size(memory['free'])} of {format_size(memory['total'])} free ({memory['source']})")
    return ", ".join(parts)


# Capabilities that are told by one word; the others are told with what belongs to them.
_ANSWERS = {
    "pageable": "pageable_memory_access",
    "host access": "direct_host_access",
    "integrated": "integrated",
}


def _answer(known: bool | None) -> str:
    return "?" if known is None else "yes" if known else "no"


def _pinned(able: Mapping[str, Any]) -> str:
    if able["pinned_coherent"] is None:
        return "?"
    default = "coherent" if able["pinned_coherent"] else "non-coherent"
    return default + (" (or not, if asked)" if able["pinned_coherent"] and able["pinned_non_coherent"] else "")


def _granularity(able: Mapping[str, Any]) -> str:
    sizes = able["virtual_memory_granularity"]
    if able["virtual_memory"] is False or sizes is None:
        return _answer(able["virtual_memory"])
    return " to ".join(dict.fromkeys(format_size(size) for size in sizes))


def _ipc(able: Mapping[str, Any]) -> str:
    """The ways to other processes that are known to be there: of plain memory, of events, of pools."""
    plain = {"memory": able["ipc_memory_handles"], "events": able["ipc_event_handles"]}
    ways = [name for name, known in plain.items() if known]
    ways += [f"pools by {name}" for name in able["pool_handle_types"] or ()]
    unknown = None in plain.values() or able["pool_handle_types"] is None
    return " + ".join(ways) or ("?" if unknown else "no")


def _quirks(quirks: Sequence[Mapping[str, Any]] | None) -> str:
    if quirks is None:
        return "?"
    return " ".join(quirk["name"] if quirk["is_active"] else f"{quirk['name']}(off)" for quirk in quirks) or "none"


def _tail(found: Mapping[str, Any]) -> list[str]:
    masks = [
        f"{name}: " + " then ".join(f"{mask['name']}={mask['value']}" for mask in each)
        for name, each in found["masks"].items()
        if each
    ]
    settings = [f"{name}={value}" for name, value in found["settings"].items()]
    memlock, numa, cgroup = (found["limits"][name] for name in ("memlock", "numa", "cgroup"))
    return [
        f"masks: {'; '.join(masks) or 'none'}",
        f"settings: {' '.join(settings) or 'none'}",
        f"memlock: {_size(memlock['soft'])} (at most {_size(memlock['hard'])}), "
        f"NUMA nodes: {numa['allowed'] or '?'} of {numa['online'] or '?'}, "
        f"cgroup: memory {_size(cgroup['memory'])}, CPUs {cgroup['cpus'] or 'unlimited'}",
    ]


def _size(nbytes: int | None) -> str:
    return "unlimited" if nbytes is None else format_size(nbytes)


def _at_most(count: int, lines: list[str]) -> list[str]:
    if len(lines) <= count:
        return lines
    return [*lines[: count - 1], f"... and {len(lines) - count + 1} more lines: portamem info --json"]
