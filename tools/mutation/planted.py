# SPDX-License-Identifier: MIT
"""Defects that people thought of: the classic faults of memory libraries, each as a small change of the sources.

Each names clauses of which at least one has to fail with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_HEADERS = "csrc/include/portamem/"


@dataclass(frozen=True)
class Change:
    """One text for another, in a file. The old one is there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Defect:
    """A fault, and the clauses that were named for it."""

    name: str
    changes: tuple[Change, ...]
    clauses: tuple[str, ...]
    hangs: bool = False
    """Other clauses would only wait with it until they are given up: they are not run."""

    def contents(self, root: Path) -> dict[str, bytes]:
        """The files that it changes, changed. ValueError where an old text is gone, or there twice."""
        found: dict[str, str] = {}
        for change in self.changes:
            text = found.get(change.file) or (root / change.file).read_text(encoding="utf-8")
            if (count := text.count(change.old)) != 1:
                raise ValueError(f"{self.name}: the old text is in {change.file} {count} times: {change.old!r}")
            found[change.file] = text.replace(change.old, change.new)
        return {file: text.encode() for file, text in found.items()}


def _one(name: str, file: str, old: str, new: str, *clauses: str) -> Defect:
    return Defect(name, (Change(file, old, new),), clauses)


DEFECTS = (
    _one(
        "a free is ignored",
        _HEADERS + "mr/device_memory_resource.hpp",
        'check(rt::Free(ptr), "Free");',
        "(void)ptr;",
        "ALLOC-13",
        "POINTER-04",
    ),
    _one(
        "a double free is accepted",
        "csrc/host/memory.cpp",
        'refuse_free(state, ptr, "memory of Malloc");',
        "return;",
        "FREE-05",
    ),
    _one(
        "memory without stream order is freed under the work that uses it",
        _HEADERS + "mr/detail/runtime_memory_resource.hpp",
        "if (!is_stream_ordered() && !detail::Settled::covers(ptr)) wait_for(*stream);",
        "(void)wait_for;",
        "FREE-09",
        "ORDER-16",
    ),
    _one(
        "a wait for an event is ignored",
        "csrc/host/event_api.cpp",
        "if (event.point.stream.get() != &stream && !event.point.reached())",
        "if (false)",
        "ORDER-04",
    ),
    _one(
        "an event is done as soon as it is asked",
        "csrc/host/event_api.cpp",
        "if (event.point.stream != nullptr && !event.point.reached()) return pmhErrorNotReady;",
        "",
        "EVENT-13",
        "ORDER-01",
    ),
    _one(
        "record_stream is ignored",
        _HEADERS + "detail/allocation_users.hpp",
        "    if (stream == *stream_) return note_use_here(number);\n    {",
        "    if (stream != nullptr) return note_use_here(number);\n    {",
        "ORDER-14",
        "FREE-10",
    ),
    _one(
        "a pool reuses memory before the event behind its free",
        "csrc/host/pool.cpp",
        "if (freed.stream == nullptr || freed.stream.get() == &stream) return *candidate;",
        "if (freed.ticket + 1 != 0) return *candidate;",
        "ORDER-14",
        "POOL-09",
    ),
    _one("trim is ignored", "csrc/host/pool_api.cpp", "pool->trim(state, hold, keep);", "(void)keep;", "POOL-04"),
    _one(
        "the release threshold is ignored",
        "csrc/host/pool.cpp",
        "trim(state, hold, threshold);",
        "trim(state, hold, 0);",
        "POOL-03",
        "HOST-29",
    ),
    _one(
        "a pool's counter of used bytes goes stale",
        "csrc/host/pool.cpp",
        "    used_ -= block->asked;\n",
        "",
        "POOL-06",
    ),
    _one(
        "a resource's counter of live bytes goes stale",
        _HEADERS + "mr/counted_memory_resource.hpp",
        "count(-static_cast<std::int64_t>(nbytes));",
        "",
        "ALLOC-07",
    ),
    _one(
        "a high-water mark is never reset",
        "csrc/host/pool.hpp",
        "void reset_used_high() { used_high_ = used_; }",
        "void reset_used_high() {}",
        "POOL-07",
    ),
    _one(
        "the wrong device is recorded",
        "csrc/host/memory.cpp",
        "record->device = this_thread().device;",
        "record->device = 0;",
        "DEVICE-24",
        "POINTER-01",
    ),
    _one(
        "the caller's current device is not put back",
        _HEADERS + "device_guard.hpp",
        "if (is_needed_) (void)rt::PopDevice(saved_);",
        "(void)saved_;",
        "DEVICE-23",
    ),
    _one(
        "alignment is lost",
        "csrc/host/pool.hpp",
        "granule = 512;",
        "granule = 8;",
        "ALLOC-04",
    ),
    _one(
        "a copy is one byte short",
        "csrc/host/copy.cpp",
        "std::memmove(dst.row(y, z), src.row(y, z), box.width);",
        "std::memmove(dst.row(y, z), src.row(y, z), box.width - 1);",
        "COPY-01",
        "COPY-04",
    ),
    _one(
        "a copy of rows ignores the source's pitch",
        "csrc/host/copy_api.cpp",
        "        copy(state, hold, call, form, dst, src, box, kind, stream);\n    });\n}\n\npmhError_t copy_3d",
        "        copy(state, hold, call, form, dst, {src.ptr, dst.pitch, 0}, box, kind, stream);\n"
        "    });\n}\n\npmhError_t copy_3d",
        "COPY-14",
    ),
    _one(
        "a copy of a box ignores the rows between slices",
        "csrc/host/copy_api.cpp",
        "const std::size_t slice = times(volume.pitch, volume.ysize);",
        "const std::size_t slice = times(volume.pitch, box.height);",
        "COPY-22",
    ),
    _one(
        "a fill writes the wrong value",
        "csrc/host/copy.cpp",
        "std::memset(dst.row(y, z), value, box.width);",
        "std::memset(dst.row(y, z), value & 0x7f, box.width);",
        "COPY-12",
    ),
    _one(
        "a copy lets go of its ends before it has run",
        _HEADERS + "span.hpp",
        "if (references[0] || references[1]) on->keep(done, std::move(references));",
        "",
        "COPY-09",
        "ORDER-12",
    ),
    Defect(
        "an export is not counted",
        (
            Change(
                _HEADERS + "allocation.hpp",
                "compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)",
                "compare_exchange_weak(count, count, std::memory_order_acq_rel)",
            ),
            Change(
                _HEADERS + "allocation.hpp",
                "void end_export() noexcept { exports_.fetch_sub(1, std::memory_order_acq_rel); }",
                "void end_export() noexcept {}",
            ),
        ),
        ("OWN-03",),
    ),
    _one(
        "a resource closes over live buffers",
        _HEADERS + "mr/counted_memory_resource.hpp",
        "if (live_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) {",
        "none = live_.load();\n        if (live_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) {",
        "OWN-05",
    ),
    _one(
        "a DLPack export to the CPU does not wait",
        "csrc/python/dlpack_export.cpp",
        "        allocation.synchronize_users();\n    }\n}\n",
        "    }\n}\n",
        "OWN-23",
    ),
    _one(
        "the location of a prefetch is ignored",
        "csrc/host/managed.cpp",
        "page.prefetched = device;",
        "page.prefetched = 0 * device;",
        "MANAGED-05",
    ),
    _one(
        "the end of an advised range is ignored",
        "csrc/host/managed.cpp",
        "range.ranges.change(range.offset, size, apply);",
        "range.ranges.change(range.offset, range.record->size - range.offset, apply);",
        "MANAGED-09",
    ),
    _one(
        "registered memory stays registered",
        "csrc/host/registered.cpp",
        "        state.allocations.erase(*record);\n",
        "",
        "PINNED-07",
        "POINTER-08",
    ),
    _one(
        "a pointer inside an allocation is unknown",
        "csrc/host/pointer.cpp",
        "if (const auto record = state.allocations.holding(ptr)) {",
        "if (const auto record = state.allocations.starting_at(ptr)) {",
        "POINTER-02",
    ),
    _one(
        "the check for a capture is dropped",
        _HEADERS + "mr/detail/runtime_memory_resource.hpp",
        '        if (is_stream_ordered()) stream.refuse_capture("allocate");\n',
        "",
        "CAPTURE-03",
    ),
    _one(
        "a failed allocation leaves its error behind",
        _HEADERS + "rt/host/types.hpp",
        "    if (error != pmhSuccess && error != pmhErrorNotReady) (void)pmhGetLastError();\n",
        "",
        "ERROR-15",
    ),
    Defect(
        "a call that waits keeps the GIL",
        (
            Change(
                "csrc/python/gil.hpp",
                "hearing_(hearing), state_(detail::leave_python()) {}",
                "hearing_(hearing), state_(nullptr) {}",
            ),
            Change(
                "csrc/python/gil.hpp",
                "detail::stay_at_exit([this] { PyEval_RestoreThread(state_); });",
                "(void)state_;",
            ),
        ),
        ("THREAD-08",),
        hangs=True,
    ),
    _one(
        "a fork goes unnoticed",
        "csrc/core/fork.cpp",
        "forked.store(1, std::memory_order_relaxed);",
        "forked.store(0, std::memory_order_relaxed);",
        "PROCESS-04",
    ),
    _one(
        "a scope of the current resource stays after its end",
        "csrc/python/scope.cpp",
        "    set_open_scopes(py::tuple(after));\n",
        "",
        "ALLOC-19",
    ),
    _one(
        'a size such as "64 KiB" is read in thousands',
        "portamem/_sizes.py",
        '{f"{prefix}IB": 1024**power',
        '{f"{prefix}IB": 1000**power',
        "ALLOC-09",
    ),
)
