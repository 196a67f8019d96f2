# SPDX-License-Identifier: MIT
"""Use every kind of memory from many threads and streams at once for a while, and see that nothing is lost.

    python tests/soak/soak.py [--backend host|cuda|hip] [--seconds 10] [--threads 4] [--streams 3] [--seed 0]

Threads allocate, fill, copy, hand memory to each other and close it, in random order, at random sizes, on random
streams. Every buffer holds a known pattern, which is read back by copies: memory that two of them were given, or that
was given back while a stream still used it, shows as a wrong byte. Between them one thread captures streams, and memory
is asked for that there is not.

It exits 0 only if every byte was right, no call failed that should not, portamem holds at the end what it held at the
start, and the device's free memory and this process's own are what they were. The first tenth of the time is a warm-up
by the same work, so that what a driver keeps for good is there before the start is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import math
import queue
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import portamem

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGEST = 8 * MIB
LIVE_PER_THREAD = 48 * MIB
MANAGED_PER_THREAD = 12 * MIB  # managed memory is never oversubscribed: with 16 threads this is 192 MiB
POOL_CAP = 64 * MIB
HANDED_OVER = 32
DEVICE_SLACK = 64 * MIB  # a driver keeps some for its streams
HOST_SLACK = 256 * MIB  # the C library keeps some for each thread; the work itself moves gigabytes

PATTERN = np.frombuffer(np.random.default_rng(7).bytes(2 * LARGEST), np.uint8)


@dataclass
class Item:
    """A live buffer, what it must hold, and the stream that used it last."""

    buf: Any
    expected: np.ndarray[Any, Any]
    stream: Any

    def on(self, stream: Any) -> Item:
        """Orders what comes on ``stream`` behind all earlier work on this memory."""
        if stream is not self.stream:
            stream.wait(self.stream)
            self.stream = stream
        return self


class Shared:
    """The common state of one device's threads: resources, handed-over memory, counts."""

    def __init__(self, pm: Any, device: Any, stack: contextlib.ExitStack) -> None:
        self.pm, self.device = pm, device
        self.kinds: dict[str, Any] = {
            "device": pm.DeviceMemoryResource(device),
            "pinned": pm.PinnedMemoryResource(device),
            "non_coherent": pm.PinnedMemoryResource(device, coherence="non_coherent"),
            "system": pm.SystemMemoryResource(device),
        }
        if device.capabilities.managed_mode != "none":
            self.kinds["managed"] = pm.ManagedMemoryResource(device)
        if device.capabilities.memory_pools:
            self.kinds["async"] = pm.AsyncMemoryResource(device)
            self.kinds["default_pool"] = pm.AsyncMemoryResource.default_pool(device)
        if device.capabilities.virtual_memory:
            self.kinds["virtual"] = pm.VirtualMemoryResource(device)
        for resource in self.kinds.values():
            stack.callback(close_when_empty, resource)
        # A pool takes its memory from the resource of that kind, and so it is closed before that.
        for name in [name for name in ("device", "pinned", "managed", "virtual") if name in self.kinds]:
            self.kinds[f"pool of {name}"] = pm.PoolMemoryResource(self.kinds[name])
            stack.callback(close_when_empty, self.kinds[f"pool of {name}"])
        self.passed_on: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.stop = threading.Event()
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()


def close_when_empty(resource: Any) -> None:
    """Closes a resource whose last buffers are on their way back behind declared work."""
    deadline = time.monotonic() + 20
    while resource.live_buffers and time.monotonic() < deadline:
        time.sleep(0.005)
    if hasattr(resource, "trim"):
        resource.trim()
    resource.close()


def write(pm: Any, buf: Any, data: np.ndarray[Any, Any]) -> None:
    """The host writes it, without a stream."""
    np.asarray(pm.View(buf, "uint8", data.size))[:] = data


class Worker:
    """One thread: its streams, its memory, and what it may do next."""

    def __init__(self, shared: Shared, number: int, streams: int, seed: int) -> None:
        self.shared, self.pm, self.device = shared, shared.pm, shared.device
        self.random = random.Random(f"{seed}.{number}")
        self.streams = [self.pm.Stream(self.device) for _ in range(streams)]
        self.items: list[Item] = []
        self.counts: Counter[str] = Counter()
        self.actions: list[Callable[[], None]] = []
        weighted: list[tuple[Callable[[], None], int]] = [
            (self.allocate, 40), (self.verify, 24), (self.close, 24), (self.duplicate, 16), (self.fill, 10),
            (self.hand_over, 10), (self.take_over, 10), (self.foreign_use, 10), (self.refused_close, 5),
            (self.temporary_stream, 4), (self.prefetch, 4), (self.registration, 2), (self.no_memory, 1),
            (self.staging, 10), (self.trim, 1),
        ]  # fmt: skip
        if number == 0:
            weighted.append((self.capture, 4))
        for action, weight in weighted:
            self.actions += [action] * weight

    def run(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                for stream in self.streams:
                    stack.callback(stream.close)
                for action in dict.fromkeys(self.actions):  # each once, however short the run
                    self.take(action)
                while not self.shared.stop.is_set():
                    self.take(self.random.choice(self.actions))
                while self.items:
                    self.verify_and_close(self.items.pop(self.random.randrange(len(self.items))))
                for stream in self.streams:
                    stream.synchronize()
        except BaseException:
            self.shared.faults.append(traceback.format_exc())
            self.shared.stop.set()
        finally:
            with self.shared.lock:
                self.shared.counts += self.counts

    def take(self, action: Callable[[], None]) -> None:
        action()
        self.counts[action.__name__] += 1

    # Choices at random.

    def stream(self) -> Any:
        return self.random.choice(self.streams)

    def item(self) -> Item | None:
        return self.random.choice(self.items) if self.items else None

    def some_bytes(self, nbytes: int) -> np.ndarray[Any, Any]:
        begin = self.random.randrange(PATTERN.size - nbytes + 1)
        return PATTERN[begin : begin + nbytes]

    def nbytes(self) -> int:
        """Small sizes as often as large ones, and seldom a round number."""
        return round(math.exp(self.random.uniform(0, math.log(LARGEST))))

    def live(self, kind: str | None = None) -> int:
        return sum(item.buf.nbytes for item in self.items if kind is None or item.buf.kind == kind)

    # The worker's acts.

    def make(self, nbytes: int, stream: Any) -> Any:
        name = self.random.choice(list(self.shared.kinds))
        if "managed" in name and self.live("managed") + nbytes > MANAGED_PER_THREAD:
            name = "device"
        self.counts[f"allocations: {name}"] += 1
        return self.shared.kinds[name].allocate(nbytes, stream=stream)

    def allocate(self) -> None:
        nbytes, stream = self.nbytes(), self.stream()
        if self.live() + nbytes > LIVE_PER_THREAD:
            return self.close()
        data = self.some_bytes(nbytes)
        buf = self.make(nbytes, stream)
        self.pm.copy(buf, data, stream=stream)
        self.items.append(Item(buf, data, stream))
        return None

    def check(self, item: Item, found: np.ndarray[Any, Any]) -> None:
        self.counts["bytes verified"] += found.size
        if not np.array_equal(found, item.expected):
            wrong = np.flatnonzero(found != item.expected)
            raise AssertionError(
                f"{item.buf.kind} memory of {item.buf.nbytes} bytes: {wrong.size} of them are wrong, first {wrong[0]}"
            )

    def read(self, item: Item, stream: Any) -> None:
        found = np.empty(item.buf.nbytes, np.uint8)
        done = self.pm.copy(found, item.on(stream).buf, stream=stream)
        done.synchronize()
        self.check(item, found)

    def verify(self) -> None:
        if item := self.item():
            self.read(item, self.stream())

    def close(self) -> None:
        if self.items:
            item = self.items.pop(self.random.randrange(len(self.items)))
            how = self.random.randrange(3)
            if how == 0:
                self.verify_and_close(item)
            elif how == 1:
                item.on(self.stream()).buf.close(stream=item.stream)
            else:
                item.buf.close()

    def verify_and_close(self, item: Item) -> None:
        self.read(item, self.stream())
        item.buf.close()

    def duplicate(self) -> None:
        """A copy into new memory on any stream; the first may go while it runs."""
        item, stream = self.item(), self.stream()
        if item is None or self.live() + item.buf.nbytes > LIVE_PER_THREAD:
            return
        buf = self.make(item.buf.nbytes, stream)
        self.pm.copy(buf, item.on(stream).buf, stream=stream)
        self.items.append(Item(buf, item.expected, stream))
        if self.random.random() < 0.3:
            self.items.remove(item)
            item.buf.close()

    def fill(self) -> None:
        if item := self.item():
            value = self.random.randrange(256)
            item.on(self.stream()).buf.fill(value, stream=item.stream)
            item.expected = np.full(item.buf.nbytes, value, np.uint8)

    def hand_over(self) -> None:
        if self.items and self.shared.passed_on.qsize() < HANDED_OVER:
            self.shared.passed_on.put(self.items.pop(self.random.randrange(len(self.items))))

    def take_over(self) -> None:
        with contextlib.suppress(queue.Empty):
            item = self.shared.passed_on.get_nowait()
            item.on(self.stream())
            self.items.append(item)

    def foreign_use(self) -> None:
        """Work of which portamem knows by record_stream only; the memory is closed at once behind it."""
        item, stream = self.item(), self.stream()
        if item is None:
            return
        self.items.remove(item)
        buf, found = item.on(stream).buf, np.empty(item.buf.nbytes, np.uint8)
        with self.shared.kinds["pinned"].allocate(buf.nbytes) as between:
            alias = self.pm.Buffer.from_handle(buf.handle, buf.nbytes, device=self.device, owner=item)
            self.pm.copy(between, alias, stream=stream)
            buf.record_stream(stream)
            buf.close(stream=self.stream())
            again = self.make(between.nbytes, self.stream())  # this one might take the memory too early
            again.fill(0, stream=again.stream)
            self.pm.copy(found, between, stream=stream).synchronize()
            again.close()
            self.check(item, found)
            alias.close()

    def staging(self) -> None:
        """The host writes memory that it reaches and gives it back while the copy from it runs: a thread that gets it
        next, and writes it too early, spoils the copy."""
        nbytes, stream = self.nbytes(), self.stream()
        if self.live() + nbytes > LIVE_PER_THREAD:
            return
        data, buf = self.some_bytes(nbytes), self.shared.kinds["device"].allocate(nbytes, stream=stream)
        between = self.shared.kinds[self.random.choice(["pinned", "pool of pinned"])].allocate(nbytes, stream=stream)
        write(self.pm, between, data)
        self.pm.copy(buf, between, stream=stream)
        between.close()
        self.items.append(Item(buf, data, stream))

    def trim(self) -> None:
        """Gives back unused memory, while other threads allocate."""
        self.shared.kinds["pool of device"].trim(self.random.choice([0, 8 * MIB]))

    def refused_close(self) -> None:
        if item := self.item():
            begin = self.random.randrange(item.buf.nbytes)
            part = item.buf[begin : begin + 1 + self.random.randrange(item.buf.nbytes - begin)]
            try:
                item.buf.close()
            except BufferError:
                part.close()
            else:
                raise AssertionError("a buffer with a live part was closed")

    def temporary_stream(self) -> None:
        """A stream that is closed with work still on it."""
        if item := self.item():
            own, value = self.stream(), self.random.randrange(256)
            with self.pm.Stream(self.device) as passing:
                item.on(passing).buf.fill(value, stream=passing)
                item.expected = np.full(item.buf.nbytes, value, np.uint8)
                item.on(own)

    def prefetch(self) -> None:
        managed = [item for item in self.items if item.buf.kind == "managed"]
        if managed and self.device.capabilities.concurrent_managed_access:
            item = self.random.choice(managed).on(self.stream())
            item.buf.prefetch(self.random.choice([self.device, "host"]), stream=item.stream)

    def registration(self) -> None:
        """A copy from and to memory that Python owns, page-locked meanwhile."""
        stream, nbytes = self.stream(), self.nbytes()
        data, found = np.array(self.some_bytes(nbytes)), np.empty(nbytes, np.uint8)
        with (
            self.pm.HostRegistration(data, device=self.device) as source,
            self.pm.HostRegistration(found, device=self.device) as target,
            self.shared.kinds["device"].allocate(nbytes) as buf,
        ):
            self.pm.copy(buf, source, stream=stream)
            self.pm.copy(target, buf, stream=stream)
            stream.synchronize()
            self.check(Item(buf, data, stream), found)

    def no_memory(self) -> None:
        """More than there is, and more than a pool may hold: refused in words, and the next request is served."""
        stream = self.stream()
        self.must_be_refused(self.shared.kinds["device"], self.device.memory_info().total + GIB, stream)
        if "async" not in self.shared.kinds:
            return
        # The size is a hint where the vendor's pools have none: then the device is what refuses.
        with self.pm.AsyncMemoryResource(self.device, max_size=POOL_CAP) as pool, contextlib.ExitStack() as stack:
            for _ in range(POOL_CAP // LARGEST):
                data = self.some_bytes(LARGEST)
                try:
                    buf = pool.allocate(LARGEST, stream=stream)
                except portamem.OutOfMemoryError:
                    break
                self.pm.copy(buf, data, stream=stream)
                stack.callback(self.verify_and_close, Item(buf, data, stream))
            try:
                pool.allocate(2 * POOL_CAP, stream=stream).close()
            except portamem.OutOfMemoryError:
                self.counts["out of memory, by a pool's size"] += 1
            self.must_be_refused(pool, self.device.memory_info().total + GIB, stream)
            stack.close()
            stream.synchronize()
            with pool.allocate(LARGEST, stream=stream) as buf:
                buf.fill(1, stream=stream)
            stream.synchronize()

    def must_be_refused(self, resource: Any, nbytes: int, stream: Any) -> None:
        try:
            resource.allocate(nbytes, stream=stream).close()
        except portamem.OutOfMemoryError:
            self.counts["out of memory"] += 1
        else:
            raise AssertionError(f"{nbytes} bytes were given")
        with self.shared.kinds["device"].allocate(4 * KIB, stream=stream) as buf:
            buf.fill(1, stream=stream)

    def capture(self) -> None:
        """A capture beside all that: what it forbids is refused, what is beside it works, and it stays valid."""
        beside = self.stream()
        with self.pm.Stream(self.device) as captured, self.shared.kinds["device"].allocate(LARGEST // 64) as buf:
            captured.begin_capture(self.random.choice(["global", "thread_local", "relaxed"]))
            try:
                try:
                    buf.fill(1, stream=captured)
                except (ValueError, portamem.Error):
                    pass
                else:
                    raise AssertionError("a fill went into a capture")
                with self.shared.kinds["device"].allocate(self.nbytes()) as other:
                    other.fill(2, stream=beside)
                if captured.capture_status != "active":
                    raise AssertionError(f"the capture is {captured.capture_status}")
            finally:
                captured.end_capture()


def resident_bytes() -> int:
    """Bytes that this process takes, without those that the C library keeps for its next request."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def figures(pm: Any, devices: list[Any]) -> dict[str, Any]:
    """The bytes that are held and free when nothing is queued."""
    for device in devices:
        device.synchronize()
    gc.collect()
    deadline = time.monotonic() + 4
    while any(pm.held(device) for device in devices) and time.monotonic() < deadline:
        time.sleep(0.01)
    return {
        "held": [pm.held("host"), *(pm.held(device) for device in devices)],
        "free": [device.memory_info().free for device in devices],
        "resident": resident_bytes(),
    }


def work(pm: Any, devices: list[Any], options: argparse.Namespace, seconds: float, seed: int) -> tuple[Any, list[str]]:
    """Everything at once for some seconds, on resources that are made before and closed after it."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with contextlib.ExitStack() as stack:
        everything = [Shared(pm, device, stack) for device in devices]
        threads = []
        for number in range(options.threads):
            worker = Worker(everything[number % len(devices)], number, options.streams, seed)
            threads.append(threading.Thread(target=worker.run, daemon=True))
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not any(shared.stop.is_set() for shared in everything):
            time.sleep(0.05)
        for shared in everything:
            shared.stop.set()
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                faults.append(f"{thread.name} did not come to its end")
        for shared in everything:
            counts += shared.counts
            faults += shared.faults
            while not shared.passed_on.empty():
                shared.passed_on.get().buf.close()
        if faults:
            stack.pop_all()  # closing under live memory would only hide the first fault
    return counts, faults


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Says what is not as it was."""
    found = []
    if after["held"] != before["held"]:
        found.append(f"portamem holds {after['held']} bytes (host, devices), and held {before['held']}")
    for ordinal, (was, now) in enumerate(zip(before["free"], after["free"], strict=True)):
        if was - now > DEVICE_SLACK:
            found.append(f"device {ordinal} has {now} bytes free, and had {was}")
    if after["resident"] - before["resident"] > HOST_SLACK:
        found.append(f"the process takes {after['resident']} bytes, and took {before['resident']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--streams", type=int, default=3, help="of each thread (default: %(default)s)")
    parser.add_argument("--devices", type=int, default=1, help="threads take turns on them (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the result as a part of a report of tools/report.py")
    options = parser.parse_args()

    pm = importlib.import_module(f"portamem.{options.backend}")
    devices = [pm.Device(ordinal) for ordinal in range(min(options.devices, pm.device_count()))]
    if not devices:
        sys.exit(f"soak: {options.backend} has no device")
    names = ", ".join(device.name for device in devices)
    print(f"{options.backend}: {names}; {options.threads} threads of {options.streams} streams")
    counts, faults = work(pm, devices, options, options.seconds / 10, options.seed)
    before = figures(pm, devices)
    if not faults:
        counts, faults = work(pm, devices, options, options.seconds * 9 / 10, options.seed + 1)
    after = figures(pm, devices)
    faults += differences(before, after) if not faults else []

    for what, count in sorted(counts.items()):
        print(f"{count:>16,}  {what}")
    for what in ("free", "resident"):
        print(f"{what} before and after: {before[what]} {after[what]}")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"soak: {'FAILED' if faults else 'all was right'} after {options.seconds:g} s")
    if options.json:
        row = {"what": "soak", "backend": options.backend, "result": "failed" if faults else "passed"}
        soak = {key: getattr(options, key) for key in ("seconds", "threads", "streams", "seed")}
        soak |= {"backend": options.backend, "counts": dict(sorted(counts.items())), "before": before, "after": after}
        soak["faults"] = faults
        options.json.write_text(json.dumps({"rows": [row], "soak": [soak]}), encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
