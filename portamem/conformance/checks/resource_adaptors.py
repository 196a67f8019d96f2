# SPDX-License-Identifier: MIT
"""Shows what each adaptor does beside what the resource below it does."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.threads import in_threads, on_a_thread
from portamem.errors import OutOfMemoryError

NBYTES = 64 * KIB


@check("RESOURCE-06")
def a_limit_is_kept(env: Env) -> None:
    below = env.resource("device")
    with env.pm.LimitingAdaptor(below, "1 MiB") as limiting:
        expect_equal((limiting.limit, limiting.allocated, limiting.available), (MIB, 0, MIB), "the limit's figures")
        live = [limiting.allocate(256 * KIB) for _ in range(4)]
        expect_equal((limiting.allocated, limiting.available), (MIB, 0), "what is out and what is left")
        with refused(OutOfMemoryError, saying="1 MiB") as refusal:
            limiting.allocate(1)
        error: Any = refusal.error
        expect_equal((error.asked, error.used, error.free), (1, MIB, 0), "asked, used and free, of the limit")
        expect_equal((limiting.live_buffers, below.live_buffers), (4, 4), "live buffers of both")
        limiting.allocate(0).close()
        live.pop().close()
        with limiting.allocate(256 * KIB) as again:
            env.write(again, pattern(256 * KIB))
            expect_bytes(env.read(again), pattern(256 * KIB), "memory within a limit")
        for buf in live:
            buf.close()
        expect_equal((limiting.allocated, below.live_buffers), (0, 0), "what is out")


@check("RESOURCE-06")
def of_many_threads(env: Env) -> None:
    with env.pm.LimitingAdaptor(env.resource("device"), 8 * 4096) as limiting:
        out, refusals = [], []
        over: list[int] = []

        def work(number: int) -> None:
            for _ in range(40):
                try:
                    with limiting.allocate(4096) as buf:
                        out.append(buf.nbytes)
                        if limiting.allocated > limiting.limit or limiting.live_bytes > limiting.limit:
                            over.append(limiting.allocated)
                        time.sleep(0)
                except OutOfMemoryError as error:
                    refusals.append(error)

        in_threads(work, 16)
        expect_equal(over, [], "what was out beyond the limit")
        expect_equal(len(out) + len(refusals), 16 * 40, "buffers and refusals")
        expect_equal((limiting.allocated, limiting.live_buffers), (0, 0), "what is out at the end")


@check("RESOURCE-06", backends=("host",))
def the_resource_below_is_not_asked(env: Env) -> None:
    with env.pm.LimitingAdaptor(env.resource("device"), 4096) as limiting:
        env.pm.knobs.fail_call("Malloc", 1, 999)
        try:
            with refused(OutOfMemoryError, saying="limit"):
                limiting.allocate(4097)
        finally:
            env.pm.knobs.reset()
        with limiting.allocate(4096) as buf:
            buf.fill(1)
            expect_bytes(env.read(buf), b"\x01" * 4096, "memory up to the limit")


@check("RESOURCE-07")
def a_limit_in_a_scope(env: Env) -> None:
    below = env.resource("device")
    with env.pm.LimitingAdaptor(below, 3 * NBYTES) as limiting, env.pm.using(limiting):
        kept = env.pm.zeros(NBYTES, "uint8", device=env.device)
        with refused(OutOfMemoryError, saying="limit"):
            env.pm.empty(3 * NBYTES, "uint8", device=env.device)
        with refused(OutOfMemoryError):
            env.pm.asarray(bytes(3 * NBYTES))
        expect(env.pm.current_resource(env.device) is limiting, "a refusal ended the scope")
        expect_equal((limiting.live_buffers, below.live_buffers), (1, 1), "live buffers of both")
        with env.pm.empty(2 * NBYTES, "uint8", device=env.device) as more:
            more.fill(7)
            expect_bytes(env.read(more), b"\x07" * 2 * NBYTES, "memory of a scope after a refusal")
        expect_bytes(env.read(kept), bytes(NBYTES), "memory from before the refusal")
        kept.close()
    expect_equal(below.live_buffers, 0, "live buffers")


@check("RESOURCE-08")
def statistics_count(env: Env) -> None:
    with env.pm.StatisticsAdaptor(env.resource("device")) as adaptor:
        first, second = adaptor.allocate(1000), adaptor.allocate(24)
        first.fill(1)
        first.close()
        adaptor.allocate(0).close()
        with refused(OutOfMemoryError):
            adaptor.allocate(1 << 50)
        counts = adaptor.counts
        found = (counts.current_bytes, counts.current_count, counts.peak_bytes, counts.peak_count)
        expect_equal(found, (24, 1, 1024, 2), "current and peak, bytes and buffers")
        expect_equal((counts.total_bytes, counts.failed_count), (1024, 1), "bytes in all, and refusals")
        adaptor.reset_peak()
        expect_equal((adaptor.counts.peak_bytes, adaptor.counts.peak_count), (24, 1), "the peak after a reset")
        with adaptor.scope() as outer:
            with adaptor.allocate(100) as buf, adaptor.scope() as inner:
                buf.fill(2)
                second.close()
                with adaptor.allocate(10):
                    pass
            after = adaptor.allocate(5)
        expect_equal((inner.counts.total_bytes, inner.counts.peak_bytes), (10, 0), "bytes in all and peak of a scope")
        expect_equal(inner.counts.current_bytes, -24, "current bytes of a scope that freed what was there before")
        expect_equal((outer.counts.total_bytes, outer.counts.current_bytes), (115, -19), "of the scope around it")
        after.close()
        expect_equal(adaptor.counts.current_bytes, 0, "current bytes at the end")


@check("RESOURCE-08")
def by_tag_and_by_thread(env: Env) -> None:
    with env.pm.StatisticsAdaptor(env.resource("device")) as adaptor:
        with env.pm.tag("solver"), env.pm.tag("setup") as name:
            expect_equal((name, env.pm.current_tag()), ("solver/setup", "solver/setup"), "the tag in full")
            tagged = adaptor.allocate(300)
        plain = adaptor.allocate(7)
        theirs, number = on_a_thread(lambda: (adaptor.allocate(50), threading.get_native_id()))
        by_tag = {tag: counts.current_bytes for tag, counts in adaptor.by_tag.items()}
        expect_equal(by_tag, {"solver/setup": 300, "": 57}, "current bytes by tag")
        by_thread = {thread: counts.total_bytes for thread, counts in adaptor.by_thread.items()}
        expect_equal(by_thread, {threading.get_native_id(): 307, number: 50}, "bytes in all by thread")
        for buf in (tagged, plain, theirs):
            buf.fill(1)
            buf.close()
        expect_equal(adaptor.by_tag["solver/setup"].current_bytes, 0, "current bytes of a tag whose memory is gone")


@check("RESOURCE-09")
def what_is_out_is_known(env: Env) -> None:
    stream = env.stream()
    with env.pm.TrackingAdaptor(env.resource("device")) as adaptor:
        expect_equal(adaptor.outstanding(), [], "what is out of a new adaptor")
        before = time.time()
        program: dict[str, Any] = {"__name__": "mesh", "adaptor": adaptor, "stream": stream}
        with env.pm.tag("mesh"):
            exec(compile("\n\nfirst = adaptor.allocate(1000, stream=stream)\n", "mesh.py", "exec"), program)
        first = program.pop("first")
        with adaptor.allocate(24) as second:
            second.fill(1)
            out = adaptor.outstanding()
            expect_equal([(each.ptr, each.nbytes) for each in out], [(first.handle, 1000), (second.handle, 24)], "out")
            told = out[0]
            found = (told.stream, told.stream_device, told.tag, told.thread)
            wanted = (stream.identity, env.ordinal, "mesh", threading.get_native_id())
            expect_equal(found, wanted, "stream, its device, tag and thread")
            expect(before - 5 <= told.time <= time.time() + 5, f"the time is {told.time}, and was {before}")
            expect_equal(told.site, "mesh.py:3", "the site")
            expect("mesh.py:3" in str(told) and "1000 bytes" in str(told), f"in words: {told}")
        with refused(BufferError, saying="mesh.py:3"):
            adaptor.close()
        first.close()
        expect_equal(adaptor.outstanding(), [], "what is out at the end")


@check("RESOURCE-09", own_process=True)
def beside_others_that_come_and_go(env: Env) -> None:
    for turn in range(4):
        env.pm.StatisticsAdaptor(env.resource("device")).close()
        with env.pm.TrackingAdaptor(env.resource("device")) as adaptor:
            program: dict[str, Any] = {"__name__": "mesh", "adaptor": adaptor}
            exec(compile("\nbuf = adaptor.allocate(1000)\n", "mesh.py", "exec"), program)
            with program.pop("buf") as buf:
                buf.fill(turn)
                sites = [each.site for each in adaptor.outstanding()]
                expect_equal(sites, ["mesh.py:2"], f"sites, after {turn + 1} adaptors that know none came and went")
                expect_bytes(env.read(buf), bytes([turn]) * 1000, "its memory")


LEFT_OUT = """
    tracking = pm.TrackingAdaptor(pm.DeviceMemoryResource(0))
    with pm.tag("mesh"):
        for nbytes in range(1000, 1000 + int(sys.argv[1])):
            tracking.allocate(nbytes).release()
    tracking.allocate(77).close()
    if sys.argv[2]:
        del tracking
"""


@check("RESOURCE-20")
def what_is_left_out_is_said(env: Env) -> None:
    for count, gone in ((0, ""), (3, ""), (3, "gone"), (30, "gone")):
        ended = env.run(LEFT_OUT, str(count), gone)
        expect_equal(ended.status, 0, f"the exit status, after {ended.stderr.strip()[-2000:]!r}")
        if not count:
            expect_equal(ended.stderr, "", "what is said where nothing is out")
            continue
        head, *told = ended.stderr.splitlines()
        expect(f"{count} allocation" in head, f"of {count} buffers in all it said {head!r}")
        shown = min(count, 20)
        for nbytes, line in zip(range(1000, 1000 + shown), told, strict=False):
            for words in (f"{nbytes} bytes of ", "tag mesh", "thread ", "stream "):
                expect(words in line, f"of {nbytes} bytes it said {line!r}")
        expect_equal(len(told), shown + (count > shown), f"lines for {count} buffers")


@check("RESOURCE-10")
def a_log_is_whole(env: Env) -> None:
    stream = env.stream()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.jsonl")
        with env.pm.LoggingAdaptor(env.resource("device"), path) as adaptor:
            expect_equal(adaptor.path, path, "the path")
            first, second = adaptor.allocate(1000, stream=stream), adaptor.allocate(24, stream=stream)
            addresses = [first.handle, second.handle]
            with refused(ValueError):
                env.pm.LoggingAdaptor(env.resource("device"), path)
            first.fill(1)
            first.close()
            adaptor.flush()
            with open(path, encoding="utf-8") as file:
                expect(len(file.readlines()) >= 3, "a log that was flushed lacks lines")
            second.close()
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        expect(len(lines) >= 6, f"four calls, a beginning and an end are {len(lines)} lines")
        text = [json.dumps(line) for line in lines]
        names = [line["class"] for line in lines if "class" in line]
        expect_equal(names, ["LoggingAdaptor"], "classes that the log names")
        for nbytes in (1000, 24):
            expect(any(str(nbytes) in line for line in text), f"no line tells of {nbytes} bytes")
        expect(len(set(addresses)) == 2, "two live buffers have one address")
        with refused(ValueError):
            env.pm.LoggingAdaptor(env.resource("device"), os.path.join(folder, "no", "such", "folder"))


@check("RESOURCE-10")
def a_log_is_of_its_own_calls(env: Env) -> None:
    """One logs over the other. Each has all calls, in their order, and none is deeper than another."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("lower.jsonl", "upper.jsonl")]
        lower = env.pm.LoggingAdaptor(env.resource("device"), paths[0])
        upper = env.pm.LoggingAdaptor(lower, paths[1])
        for nbytes in (100, 200, 300):
            upper.allocate(nbytes).close()
        upper.close()
        lower.close()
        for path in paths:
            with open(path, encoding="utf-8") as file:
                calls = [line for line in map(json.loads, file) if line.get("event") in ("alloc", "free")]
            what = [(line["event"], line["size"], line["depth"]) for line in calls]
            wanted = [(event, nbytes, 0) for nbytes in (100, 200, 300) for event in ("alloc", "free")]
            expect_equal(what, wanted, "calls, their bytes, and how deep they are")
            numbers, times = [line["seq"] for line in calls], [line["t"] for line in calls]
            expect_equal((numbers, times), (sorted(set(numbers)), sorted(times)), "numbers and times of the calls")


@check("RESOURCE-10")
def any_tag_is_in_the_log(env: Env) -> None:
    tags = ['"quoted"', "back\\slash", "tab\tand\nline", "\x01\x10\x1f", "größe", "\U0001f4be"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.jsonl")
        with env.pm.LoggingAdaptor(env.resource("device"), path) as adaptor:
            for value, tag in enumerate(tags):
                with env.pm.tag(tag), adaptor.allocate(100) as buf:
                    buf.fill(value)
                    expect_bytes(env.read(buf), bytes([value]) * 100, "its memory")
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        expect_equal([line["tag"] for line in lines if line.get("event") == "alloc"], tags, "tags of the log")


@check("RESOURCE-11")
def the_function_makes_room(env: Env) -> None:
    stream, asked = env.stream(), []
    pool = env.pm.PoolMemoryResource(env.pm.DeviceMemoryResource(env.device), limit=8 * MIB)
    cached = [pool.allocate(MIB, stream=stream) for _ in range(7)]

    def drop_one(nbytes: int) -> bool:
        asked.append(nbytes)
        if not cached:
            return False
        cached.pop().close()
        with pool.allocate(4096, stream=stream) as own:  # of the very pool that has no memory
            own.fill(1, stream=stream)
        return True

    with pool, env.pm.FailureCallbackAdaptor(pool, drop_one) as adaptor:
        with adaptor.allocate(4 * MIB, stream=stream) as buf:
            buf.fill(3, stream=stream)
            expect_bytes(env.read(buf[:4096]), b"\x03" * 4096, "memory that room was made for")
            expect(asked and set(asked) == {4 * MIB}, f"the function was told {asked}")
            expect(len(cached) < 7, "nothing was dropped")
        asked.clear()
        with refused(OutOfMemoryError):
            adaptor.allocate(9 * MIB, stream=stream)
        expect(asked and not cached, "the function was not asked until it said no")
        expect_equal((adaptor.live_buffers, pool.live_buffers), (0, 0), "live buffers")


@check("RESOURCE-11")
def a_function_that_is_none(env: Env) -> None:
    for wrong in (None, 3, "again"):
        with refused(TypeError):
            env.pm.FailureCallbackAdaptor(env.resource("device"), wrong)
    with env.pm.FailureCallbackAdaptor(env.resource("device"), lambda nbytes: False) as adaptor:
        with refused(OutOfMemoryError):
            adaptor.allocate(1 << 50)
        with adaptor.allocate(NBYTES) as buf:
            env.write(buf, pattern(NBYTES))
            expect_bytes(env.read(buf), pattern(NBYTES), "memory after a refusal")


@check("RESOURCE-26")
def what_does_not_fit_is_the_alternates(env: Env) -> None:
    stream, other = env.stream(), env.stream()
    first = env.pm.PoolMemoryResource(env.pm.DeviceMemoryResource(env.device), limit=4 * MIB, host_access=False)
    second = env.pm.PoolMemoryResource(env.pm.PinnedMemoryResource(env.device), limit=8 * MIB)
    with first, second, env.pm.FallbackAdaptor(first, second) as adaptor:
        expect((adaptor.upstream, adaptor.alternate) == (first, second), "it does not tell its resources")
        for _ in range(3):
            live = [adaptor.allocate(MIB + number, stream=stream) for number in range(6)]
            expect(0 < first.live_buffers < 6, f"{first.live_buffers} of 6 buffers are of a pool of 4 MiB")
            expect_equal(first.live_buffers + second.live_buffers, 6, "buffers of both resources")
            expect_equal(adaptor.alternate_live_buffers, second.live_buffers, "buffers of the alternate")
            expect_equal(adaptor.alternate_live_bytes, second.live_bytes, "their bytes")
            expect_equal(adaptor.live_bytes, first.live_bytes + second.live_bytes, "bytes that are out")
            for value, buf in enumerate(live):
                buf.fill(value, stream=stream)
                expect_equal(adaptor.size_of(buf.handle), MIB + value, "the size by the address")
            for value, buf in enumerate(live):
                expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, f"memory of buffer {value}")
                buf.close(stream=(stream, other)[value % 2])
            expect_equal((first.live_buffers, second.live_buffers), (0, 0), "buffers when all went back")
            expect_equal((adaptor.alternate_live_buffers, adaptor.alternate_live_bytes), (0, 0), "of the alternate")
        with refused(OutOfMemoryError, saying=str(4 * MIB)) as refusal:
            adaptor.allocate(16 * MIB, stream=stream)
        error: Any = refusal.error
        expect(str(8 * MIB) in str(error), f"the alternate's limit is not in {str(error)!r}")
        expect(error.asked >= 16 * MIB, f"{error.asked} is told as what was asked for")  # redzones count too
        adaptor.allocate(0, stream=stream).close()


@check("RESOURCE-26")
def frees_of_both_that_are_wrong(env: Env) -> None:
    first, second = env.resource("device"), env.resource("device")
    with env.pm.LimitingAdaptor(first, NBYTES + KIB) as full, env.pm.FallbackAdaptor(full, second) as adaptor:
        buffers = [adaptor.allocate(NBYTES) for _ in range(2)]
        expect_equal((full.live_buffers, second.live_buffers), (1, 1), "buffers of each")
        addresses = [buf.release() for buf in buffers]
        for address in addresses:
            with refused(ValueError):
                adaptor.deallocate(address, NBYTES + 1)
        for address in addresses[::-1]:
            adaptor.deallocate(address, NBYTES)
        with second.allocate(NBYTES) as foreign, adaptor.allocate(NBYTES), adaptor.allocate(NBYTES):
            expect(env.pm.resource_of(foreign) == second, "the alternate's own buffer is taken for the adaptor's")
            with refused(ValueError):
                adaptor.deallocate(foreign.handle, NBYTES)
        expect_equal((full.live_buffers, second.live_buffers), (0, 0), "buffers of each")


@check("RESOURCE-26")
def resources_that_stand_for_no_other(env: Env) -> None:
    pool = env.pm.PoolMemoryResource(env.pm.DeviceMemoryResource(env.device), host_access=False)
    plain, pinned = env.resource("device"), env.resource("pinned")
    for upstream, alternate in ((pool, plain), (plain, pool)):
        with refused(ValueError, saying="stream-ordered"):
            env.pm.FallbackAdaptor(upstream, alternate)
    if not plain.is_host_accessible:
        with refused(ValueError, saying="the host reaches"):
            env.pm.FallbackAdaptor(pinned, plain)
    if env.device.capabilities.managed_mode != "none":
        with refused(ValueError, saying="managed"):
            env.pm.FallbackAdaptor(env.resource("managed"), pinned)
    with refused(TypeError):
        env.pm.FallbackAdaptor(plain, None)
    closed = env.resource("device")
    closed.close()
    for upstream, alternate in ((closed, plain), (plain, closed)):
        with refused(ValueError, saying="closed"):
            env.pm.FallbackAdaptor(upstream, alternate)
    with env.pm.FallbackAdaptor(plain, pinned) as adaptor, refused(ValueError):
        adaptor.allocate(NBYTES, alignment=3)  # no reason to ask the alternate
    pool.close()


@check("RESOURCE-12")
def prefetched_memory(env: Env) -> None:
    stream = env.stream()
    if env.device.capabilities.managed_mode != "none":
        for location in (None, env.device, "host"):
            with (
                env.pm.PrefetchAdaptor(env.resource("managed"), location) as adaptor,
                adaptor.allocate(NBYTES, stream=stream) as buf,
            ):
                buf.fill(5, stream=stream)
                expect_bytes(env.read(buf), b"\x05" * NBYTES, f"memory that was prefetched to {location}")
    for kind in ("device", "pinned"):
        with refused(ValueError, saying=kind):
            env.pm.PrefetchAdaptor(env.resource(kind))


@check("RESOURCE-13")
def blocks(env: Env) -> None:
    below, streams = env.resource("device"), [env.stream(), env.stream()]
    with env.pm.FixedSizeMemoryResource(below, "4 KiB", blocks_per_chunk=8) as resource:
        expect_equal((resource.block_size, resource.blocks_per_chunk, resource.reserved), (4096, 8, 0), "its figures")
        for _ in range(3):
            live = [resource.allocate(1 + 200 * number, stream=streams[number % 2]) for number in range(20)]
            expect_equal(len({buf.handle for buf in live}), 20, "addresses of 20 live buffers")
            for value, buf in enumerate(live):
                buf.fill(value, stream=streams[value % 2])
            for value, buf in enumerate(live):
                expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, f"block {value}")
                buf.close(stream=streams[(value + 1) % 2])
        expect(resource.reserved <= 6 * 8 * 4096, f"{resource.reserved} bytes are reserved for 20 blocks at a time")
        expect_equal(below.live_bytes, resource.reserved, "bytes of the resource below")
        with refused(ValueError, saying="4096"):
            resource.allocate(4097, stream=streams[0])
        resource.trim()
        expect_equal((resource.reserved, below.live_buffers), (0, 0), "what is left after a trim")


@check("RESOURCE-13")
def as_many_blocks_as_there_is_memory_for(env: Env) -> None:
    stream, most = env.stream(), (2**63 - 1) // 256
    with env.pm.LimitingAdaptor(env.resource("device"), MIB) as below:
        with refused(ValueError, saying=str(most + 1)):
            env.pm.FixedSizeMemoryResource(below, 256, blocks_per_chunk=most + 1)
        with env.pm.FixedSizeMemoryResource(below, 256, blocks_per_chunk=most) as resource:
            live = [resource.allocate(256, stream=stream) for _ in range(1024)]
            for number, buf in enumerate(live[::100]):
                buf.fill(number, stream=stream)
            for number, buf in enumerate(live[::100]):
                expect_bytes(env.read(buf), bytes([number]) * 256, "a block of memory that is short")
            expect(0 < resource.reserved <= MIB, f"{resource.reserved} bytes are reserved under a limit of 1 MiB")
            for buf in live:
                buf.close()


@check("RESOURCE-14")
def no_byte_twice(env: Env) -> None:
    below, stream = env.resource("device"), env.stream()
    with env.pm.MonotonicMemoryResource(below, initial_size=64 * KIB) as resource:
        for _ in range(2):
            seen: list[tuple[int, int]] = []
            for nbytes in (100, 5000, 70 * KIB, 1, 256):
                with resource.allocate(nbytes, stream=stream) as buf:
                    buf.fill(1, stream=stream)
                    clear = all(buf.handle >= end or buf.handle + nbytes <= start for start, end in seen)
                    expect(clear, f"memory of {nbytes} bytes was in use before")
                    seen.append((buf.handle, buf.handle + nbytes))
            with resource.allocate(16, stream=stream) as buf, refused(BufferError):
                resource.release()
            resource.release()
            expect_equal((resource.reserved, below.live_buffers), (0, 0), "what is left after a release")
