# SPDX-License-Identifier: MIT
"""Shows the clauses of fork. Each program is a parent that forks once, and its child."""

from __future__ import annotations

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_equal

BEFORE = """
    import gc, os, threading, warnings
    import portamem
    warnings.simplefilter("ignore", DeprecationWarning)
    device = pm.Device(0)
    stream, event = pm.Stream(device), pm.Event(device)
    resource, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
    pool = pm.PoolMemoryResource(resource)
    pooled = pool.allocate(64, stream=stream)
    buf, host = resource.allocate(4096), pinned.allocate(4096)
    part, view, spare = buf[:16], host.view("float32"), resource.allocate(16)
    given = resource.allocate(16)
    filled, pending = pinned.allocate(4096), pinned.allocate(4096)
    before = {"here": pm.held(device), "host": pm.held("host"), "address": given.handle, "live": resource.live_buffers}
    registered = pm.HostRegistration(bytearray(4096))
    buf.fill(1, stream=stream)
    filled.fill(9, stream=stream)
    stream.synchronize()
    stream.record(event)
    other, shut = pm.Stream(device), threading.Event()
    other.launch_host_func(lambda: shut.wait(20))
    pending.fill(8, stream=other)
    sys.stdout.flush()
"""
FORKED = """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        shut.set()
        out = bytearray(4096)
        buf.copy_to(out)
        assert set(out) == {1}, set(out)
        buf.fill(2, stream=stream)
        buf.copy_to(out, stream=stream)
        stream.synchronize()
        assert set(out) == {2}, set(out)
        print("parent", os.waitstatus_to_exitcode(status), pm.pointer_info(buf).kind)
        sys.exit(0)
"""
PARENT = "parent 0 device"

CALLS = (
    *("pm.device_count()", "pm.Device(0)", "pm.Device.current()", "device.synchronize()", "device.memory_info()"),
    *("device.set_current()", "device.probe()", "device.quirks", "device.limit('stack_size')", "device.name"),
    *("device.capabilities", "device.malloc_heap_size", "pm.Stream(device)", "stream.synchronize()", "stream.query()"),
    *("stream.wait(event)", "stream.record()", "stream.launch_host_func(print)", "stream.begin_capture()"),
    *("stream.close()", "pm.Event(device)", "event.synchronize()", "event.record(stream)", "event.query()"),
    *("pm.DeviceMemoryResource(device)", "pm.PinnedMemoryResource(device)", "pm.AsyncMemoryResource(device)"),
    *("pm.ManagedMemoryResource(device)", "pm.SystemMemoryResource(device)", "resource.allocate(16)"),
    *("pinned.allocate(16)", "buf.fill(0)", "buf.fill(0, stream=stream)", "buf.copy_to(bytearray(4096))"),
    *("spare.close()", "pm.copy(host, buf)", "pm.copy(host, buf, stream=stream)", "view.to_numpy()"),
    *("pm.pointer_info(buf)", "pm.HostRegistration(bytearray(4096))", "registered.close()", "pm.zeros(4)"),
    *(
        "pm.empty(4)",
        "pm.current_resource()",
        "pm.devices()",
        "pm.held()",
        "pm.held(0)",
        "buf.device",
        "resource.close()",
    ),
    *("resource.deallocate(before['address'], 16)", "pm.Buffer.from_handle(before['address'], 16)", "event.is_done"),
    *("device.default_stream", "device.uuid", "device.set_limit('stack_size', 1 << 16)", "stream.priority"),
    *("view.__dlpack__()", "pm.StatisticsAdaptor(resource)", "pm.TrackingAdaptor(resource)"),
    *("pm.PoolMemoryResource(resource)", "pm.using(resource).__enter__()", "pm.runtime_version()"),
    *("pm.set_quirk('free_on_other_stream', True)", "memoryview(pending)"),
)
"""Calls that would reach the runtime, or wait for something that a thread of the parent may hold."""

GOES_ON = (
    *("buf.nbytes == 4096", "buf.handle != 0", "buf.kind == 'device'", "not buf.is_closed", "device.ordinal == 0"),
    *("pool.live_buffers == 1", "pool.live_bytes == 64", "'64 B out' in repr(pool)"),
    *("resource.live_buffers == before['live']", "pm.held(device) == before['here']"),
    *("pm.held('host') == before['host']", "memoryview(host).nbytes == 4096", "memoryview(view).shape == (1024,)"),
    *("buf[:16].nbytes == 16", "host.view('uint8').shape == (4096,)", "view[1:3].shape == (2,)"),
    *("set(memoryview(filled)) == {9}", "bytes(filled.view()[:2]) == b'\\x09\\x09'"),
    *("view.reshape(2, 512).shape == (2, 512)", "pm.LimitingAdaptor(resource, '1 MiB').limit == 1 << 20"),
    *("given.release() == before['address']", "given.is_closed", "part.close() is None", "view.close() is None"),
    *("part.is_closed and view.is_closed",),
)
"""Expressions that need the process's own memory alone, and are true."""

KNOBS = (
    *("pm.knobs.reset()", "pm.knobs.set_capacity(0, '1 GiB')", "pm.knobs.set_copy_delay(0)"),
    "pm.knobs.fail_call(None, 0, 2)",
)

EVERY_CALL = """
    for call in {!r}:
        try:
            eval(call)
            print("went through:", call)
        except portamem.Error as error:
            text = str(error)
            if "fork" not in text or "spawn" not in text or (error.name, error.backend) != ("Forked", pm.backend):
                print("other words of", call, "are", error.name, error.backend, text)
        except BaseException as error:
            print("another exception of", call, "is", repr(error))
    print(pm.probe()[0], "devices")
    sys.exit(0)
"""

EVERY_OTHER = f"""
    for call in {GOES_ON!r}:
        try:
            if eval(call) is not True:
                print("is not so:", call)
        except BaseException as error:
            print("the exception of", call, "is", repr(error))
    print("all of it")
    sys.exit(0)
"""


@check("PROCESS-04")
def every_call_says_so(env: Env) -> None:
    said = env.output(BEFORE + FORKED + EVERY_CALL.format(CALLS)).splitlines()
    expect_equal(said, ["0 devices", PARENT], "what the child and then the parent said")


@check("PROCESS-04", backends=("host",))
def every_knob_says_so(env: Env) -> None:
    said = env.output(BEFORE + FORKED + EVERY_CALL.format(KNOBS)).splitlines()
    expect_equal(said, ["0 devices", PARENT], "what the child and then the parent said")


@check("PROCESS-04")
def what_needs_no_runtime_goes_on(env: Env) -> None:
    said = env.output(BEFORE + FORKED + EVERY_OTHER).splitlines()
    expect_equal(said, ["all of it", PARENT], "what the child and then the parent said")


FINISHED = (
    "later.synchronize()",
    "while not later.query(): pass",
    "waited = filled.copy_to(bytearray(4096), stream=stream); waited.synchronize()",
    "stream.record().synchronize()",
    "while not stream.query(): pass",
    "set(memoryview(filled))",
    "device.synchronize()",
    "after = pm.Stream(device); after.wait(stream); after.synchronize()",
    "after = pm.Event(device); after.record(stream); other.wait(after); other.synchronize()",
    "filled.copy_to(bytearray(4096))",
    "stream.close(); later.synchronize()",
    "handle = pm.Stream.from_handle(stream.handle, device=device); handle.synchronize()",
)
"""Ways in which a parent may see that its work has run, or wait for it."""

READS = """
    import os, threading, warnings
    import portamem
    warnings.simplefilter("ignore", DeprecationWarning)
    device = pm.Device(0)
    stream, other, gate = pm.Stream(device), pm.Stream(device), threading.Event()
    filled, busy = (pm.PinnedMemoryResource(device).allocate(4096) for _ in range(2))
    later = filled.fill(9, stream=stream)
    {finish}
    if {is_busy} and not stream.is_closed:
        stream.launch_host_func(lambda: gate.wait(20))
        busy.fill(8, stream=stream)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for memory in (filled, busy):
            try:
                print(*set(memoryview(memory)))
            except portamem.Error as error:
                print(error.name)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    gate.set()
    print("parent", os.waitstatus_to_exitcode(status))
"""


@check("PROCESS-13")
def memory_that_the_parent_has_finished_with(env: Env) -> None:
    for finish in FINISHED:
        said = env.output(READS.format(finish=finish, is_busy=False)).splitlines()
        expect_equal((said[0], said[-1]), ("9", "parent 0"), f"what the child and the parent said after {finish}")


@check("PROCESS-13")
def memory_beside_work_that_goes_on(env: Env) -> None:
    for finish in FINISHED[:7]:
        said = env.output(READS.format(finish=finish, is_busy=True)).splitlines()
        expect_equal(said, ["9", "Forked", "parent 0"], f"what the child and the parent said after {finish}")


@check("PROCESS-05")
def the_child_ends_in_silence(env: Env) -> None:
    for ending in (
        "sys.exit(0)",
        "os._exit(0)",
        "del buf, host, part, view, registered, stream, event, resource, pinned; gc.collect(); sys.exit(0)",
    ):
        said = env.output(f"{BEFORE}{FORKED}\n    {ending}\n").splitlines()
        expect_equal(said, [PARENT], f"what was said where the child ends by {ending}")
    said = env.output(f"{BEFORE}{FORKED}\n    sys.exit(5)\n").splitlines()
    expect_equal(said, ["parent 5 device"], "what was said where the child's status is 5")


WITH_BLOCKS = """
    empty, own = pm.DeviceMemoryResource(device), pm.Stream(device)
    with part, view, registered, spare, event, empty, own, pm.using(resource):
        child = os.fork()
        if child == 0:
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        shut.set()
        print("parent", os.waitstatus_to_exitcode(status), "device")
"""


@check("PROCESS-05")
def it_leaves_blocks_in_silence(env: Env) -> None:
    expect_equal(env.output(BEFORE + WITH_BLOCKS).splitlines(), [PARENT], "what was said")


HELD = """
    gate = threading.Event()
    stream.launch_host_func(lambda: gate.wait(10))
    buf.fill(3, stream=stream)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert not stream.query()
    _, status = os.waitpid(child, 0)
    gate.set()
    shut.set()
    stream.synchronize()
    out = bytearray(4096)
    buf.copy_to(out)
    assert set(out) == {3}, set(out)
    print("parent", os.waitstatus_to_exitcode(status), pm.pointer_info(buf).kind)
"""


@check("PROCESS-06")
def the_parent_goes_on(env: Env) -> None:
    expect_equal(env.output(BEFORE + HELD).splitlines(), [PARENT], "what was said")


EXEC = """
    code = ("import sys; sys.path[:] = {path!r}; import portamem.{backend} as pm; r = pm.DeviceMemoryResource(0); "
            "b = r.allocate(16); b.fill(4); o = bytearray(16); b.copy_to(o); print(set(o))")
    os.execv(sys.executable, [sys.executable, "-c", code.format(path=sys.path, backend=pm.backend)])
"""


@check("PROCESS-07")
def another_program(env: Env) -> None:
    said = env.output(BEFORE + FORKED + EXEC).splitlines()
    expect_equal(said, ["{4}", PARENT], "what the other program and then the parent said")


REAPER = """
    import os, threading, time, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    going, gate, entered = threading.Event(), threading.Event(), threading.Event()
    class Slow(bytearray):
        def __del__(self):
            going.set()
            time.sleep(0.5)
    stream = pm.Stream(0)
    resource = pm.DeviceMemoryResource(0)
    buf = resource.allocate(4096)
    memory = Slow(4096)
    registered = pm.HostRegistration(memory)
    stream.launch_host_func(lambda: (entered.set(), gate.wait(10)))
    buf.copy_from(registered, stream=stream)
    del memory, registered
    entered.wait(10)
    gate.set()
    assert going.wait(10), "nothing let go of the memory of finished work"
    child = os.fork()
    if child == 0:
        sys.exit(0)
    deadline = time.monotonic() + 20
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    print(os.waitstatus_to_exitcode(status))
"""


@check("PROCESS-08")
def while_finished_work_is_let_go(env: Env) -> None:
    expect_equal(env.output(REAPER).strip(), "0", "the child's exit status")
