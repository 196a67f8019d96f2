# SPDX-License-Identifier: MIT
"""Shows the clauses of processes: several at once, what importing does, and how programs end."""

from __future__ import annotations

import tempfile

import portamem
from portamem.conformance.kit import program
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal
from portamem.conformance.kit.outcome import NotShown
from portamem.conformance.kit.together import together

TOGETHER = 3

ONE_OF_SEVERAL = """
    import os, pathlib, random, time
    folder, me, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

    def meet(name):
        (folder / f"{name}-{me}").touch()
        deadline = time.monotonic() + 30
        while len(list(folder.glob(f"{name}-*"))) < count:
            assert time.monotonic() < deadline, "the others did not come"
            time.sleep(0.002)

    device = pm.Device(0)
    stream = pm.Stream(device)
    resources = [pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)]
    if device.capabilities.memory_pools:
        resources.append(pm.AsyncMemoryResource(device))
    buffers = [resource.allocate(size, stream=stream) for resource in resources for size in (1, 4096, 1 << 20)]
    stream.synchronize()
    written = [random.Random(f"{me} {i}").randbytes(buf.nbytes) for i, buf in enumerate(buffers)]
    meet("allocated")
    for buf, data in zip(buffers, written):
        pm.copy(buf, data)
    meet("written")
    for turn in range(3):
        for buf, data in zip(buffers, written):
            found = bytearray(buf.nbytes)
            pm.copy(found, buf)
            assert found == data, f"{buf.kind} memory of {buf.nbytes} bytes changed under another process"
    meet("read")
    for buf in buffers:
        buf.close()
    stream.synchronize()
    print("intact")
"""


@check("PROCESS-01")
def several_at_once(env: Env) -> None:
    with tempfile.TemporaryDirectory() as folder:
        many = range(TOGETHER)
        for _, said in together(lambda me: env.output(ONE_OF_SEVERAL, folder, str(me), str(TOGETHER)), many):
            expect_equal(said.strip(), "intact", "what a process found of its memory")


IMPORTS = """
    import re
    VENDORS = r"libcuda\\.|libnvidia|libhsa|libamdhip|portamem/_(host|cuda|hip)\\."
    import portamem
    portamem.Error, portamem.OutOfMemoryError, portamem.Buffer, portamem.__version__
    dir(portamem), isinstance(3, portamem.Stream)
    print(*sorted(set(re.findall(r"\\S*(?:%s)\\S*" % VENDORS, open("/proc/self/maps").read()))))
"""
BACKEND_ONLY = """
    import re
    print(*sorted(set(re.findall(r"\\S*(?:libcuda\\.|libnvidia|libhsa)\\S*", open("/proc/self/maps").read()))))
"""


@check("PROCESS-02", without_device=True)
def importing_opens_nothing(env: Env) -> None:
    ended = program.run("", IMPORTS, [], {})  # without the import of the backend that env.run begins with
    expect_equal(ended.output().strip(), "", "the list of libraries that importing portamem opened")


@check("PROCESS-02", without_device=True)
def importing_a_backend_calls_no_driver(env: Env) -> None:
    if env.platform.backend == "hip" and env.platform.vendor == "amd":
        raise NotShown("the HIP runtime brings its driver's library with it, called or not")
    expect_equal(env.output(BACKEND_ONLY).strip(), "", "the list of the driver's libraries after the import")


SIDE_BY_SIDE = """
    import importlib
    mine = pm
    for name in sys.argv[1].split():
        other = importlib.import_module(f"portamem.{name}")
        for module in (mine, other):
            for device in module.devices():
                resource = module.DeviceMemoryResource(device)
                with resource.allocate(4096) as buf:
                    buf.fill(len(name))
                    out = bytearray(4096)
                    buf.copy_to(out)
                    assert out == bytes([len(name)]) * 4096
                    assert isinstance(buf, importlib.import_module("portamem").Buffer)
                resource.close()
        for here, there in ((mine, other), (other, mine)):
            if here.device_count() and there.device_count():
                with here.DeviceMemoryResource(0) as resource, resource.allocate(16) as buf:
                    for call in (lambda: there.Stream(here.Device(0)), lambda: there.copy(buf, buf)):
                        try:
                            call()
                        except TypeError as error:
                            assert here.backend in str(error), error
                        else:
                            raise AssertionError("one backend took what is another's")
        print(name)
"""


@check("PROCESS-03", without_device=True)
def side_by_side(env: Env) -> None:
    others = [name for name, state in portamem.backends().items() if state.loadable and name != env.platform.backend]
    if not others:
        raise NotShown(f"{env.platform.backend} is the only backend that loads here")
    for order in (others, others[::-1]):
        expect_equal(env.output(SIDE_BY_SIDE, " ".join(order)).split(), order, "the backends beside it")


SETUP = """
    stream = pm.Stream(pm.Device(0))
    able = pm.Device(0).capabilities
    plain, pinned, system = pm.DeviceMemoryResource(0), pm.PinnedMemoryResource(0), pm.SystemMemoryResource(0)
    managed = pm.ManagedMemoryResource(0) if able.managed_mode != "none" else pinned
    pool = pm.AsyncMemoryResource(0) if able.memory_pools else plain
"""
ALIVE = {
    "buffers": """
    kept = [resource.allocate(4096) for resource in (plain, pinned, managed, system)]
    kept.append(pool.allocate(4096, stream=stream))
""",
    "a cycle": """
    class Node: pass
    node = Node()
    node.me, node.buf, node.stream, node.event = node, plain.allocate(4096), stream, stream.record()
""",
    "exports": """
    buf = pinned.allocate(4096)
    view, part, exported = buf.view("float32"), buf[:16], memoryview(buf)
""",
    "a scope": """
    scope = pm.using(plain)
    scope.__enter__()
    array = pm.zeros(100)
""",
    "a registration": """
    registered = pm.HostRegistration(bytearray(4096))
""",
    "thread-local scopes": """
    import threading
    ready, gate = threading.Event(), threading.Event()
    def work():
        scope = pm.using(pool)
        scope.__enter__()
        local = plain.allocate(4096)
        ready.set()
        gate.wait(30)
    threading.Thread(target=work, daemon=True).start()
    ready.wait(30)
""",
}
PENDING = {
    "copies": """
    src, dst = pinned.allocate(1 << 20), plain.allocate(1 << 20)
    for _ in range(50):
        dst.copy_from(src, stream=stream)
""",
    "a stream that is held until the end": """
    import atexit, threading
    gate = threading.Event()
    buf = pool.allocate(4096, stream=stream)
    stream.launch_host_func(lambda: gate.wait(5))
    buf.fill(1, stream=stream)
    buf.close()
    atexit.register(gate.set)
""",
    "a host function that nobody waits for": """
    stream.launch_host_func(lambda: None)
""",
    "a host copy of memory that nobody holds": """
    for _ in range(20):
        plain.allocate(1 << 16).copy_from(pinned.allocate(1 << 16), stream=stream)
""",
}


def end(env: Env, scenes: dict[str, str], status: int = 0, said: str = "") -> None:
    """Runs scenes that must end so, and say no more."""
    for name, ended in together(lambda name: env.run(SETUP + scenes[name]), scenes):
        expect_equal((ended.status, ended.stdout, ended.stderr), (status, said, ""), f"how a program ended with {name}")


@check("PROCESS-09")
def with_live_objects(env: Env) -> None:
    end(env, ALIVE)
    end(env, {"exports and a status of its own": ALIVE["exports"] + "    sys.exit(7)\n"}, status=7)


@check("PROCESS-10")
def with_pending_work(env: Env) -> None:
    end(env, PENDING)


@check("PROCESS-11")
def handlers_at_exit(env: Env) -> None:
    scene = """
    import atexit
    def last():
        with plain.allocate(4096) as buf, pinned.allocate(4096) as host:
            buf.fill(3, stream=stream)
            host.copy_from(buf, stream=stream)
            stream.synchronize()
            print(set(bytes(memoryview(host))))
    atexit.register(last)
"""
    end(env, {"a handler that uses memory": scene}, said="{3}\n")


@check("PROCESS-12")
def with_an_exception(env: Env) -> None:
    scene = """
    with plain.allocate(4096) as buf, pm.Stream(0) as own, pm.PinnedMemoryResource(0) as resource:
        host = resource.allocate(4096)
        part, view = buf[:16], host.view("float32")
        buf.fill(1, stream=own)
        raise LookupError("the program's own")
"""
    ended = env.run(SETUP + scene)
    expect_equal((ended.status, ended.stdout), (1, ""), "exit status and output")
    expect(ended.stderr.strip().endswith("LookupError: the program's own"), f"its last words are {ended.stderr!r}")
    # With the colon: from Python 3.13 on the line of the program that raised is told too.
    expect_equal(ended.stderr.count("Error:"), 1, "the number of errors that it told")
