# SPDX-License-Identifier: MIT
"""Shows the clauses of the order checker, which follows the CPU runtime's calls."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused
from portamem.conformance.kit.host_calls import DEFAULT_DIRECTION, Copy3D, Interface, Position, Volume
from portamem.conformance.kit.order_programs import FILE, PROGRAMS, WAW, N
from portamem.errors import OrderError


def _mapped(address: int, nbytes: int) -> int:
    """Memory of the system, at an address if that is free. It stays."""
    mmap = ctypes.CDLL(None, use_errno=True).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    read_write, private_anonymous = 3, 0x22
    found: int = mmap(address, nbytes, read_write, private_anonymous, -1, 0)
    return found


class World:
    """The objects that the programs work with: memory for all streams, streams of every kind, and no pending work."""

    def __init__(self, env: Env) -> None:
        from portamem.conformance.kit.expect import eventually

        pm, rt = env.pm, Interface(ctypes.PyDLL)  # with the GIL, so that a call's line is known
        home = env.stream()
        self.streams = {
            **{name: env.stream() for name in ("a", "b", "c")},
            **{name: env.stream(nonblocking=False) for name in ("p", "q")},
            "default": env.device.default_stream,
        }
        plain, self.pool = env.resource("device"), env.resource("async")
        self.memory = {name: plain.allocate(N, stream=home) for name in ("x", "y", "z")}
        self.memory["managed"] = env.resource("managed").allocate(N, stream=home)
        self.event = pm.Event(env.device)
        for memory in self.memory.values():
            for stream in self.streams.values():
                memory.record_stream(stream)
        env.device.synchronize()

        def foreign(memory: Any) -> Any:
            return pm.Buffer.from_handle(memory.handle, N, stream=self.streams["b"])

        def box(memory: Any, x: int) -> Any:
            return byref(parameters(memory, x))

        def parameters(memory: Any, x: int) -> Copy3D:
            return Copy3D(
                src=Volume(self.memory["y"].handle, 16, 16, 4),
                dst=Volume(memory.handle, 32, 32, 8),
                dst_at=Position(x, 0, 0),
                extent=Position(8, 2, 3),
                kind=DEFAULT_DIRECTION,
            )

        self.names = {
            "pm": pm,
            "rt": rt,
            "N": N,
            "direction": DEFAULT_DIRECTION,
            "device": env.device,
            "e": self.event,
            "pool": self.pool,
            "foreign": foreign,
            "box": box,
            "eventually": eventually,
            "mapped": _mapped,
            **self.streams,
            **self.memory,
        }

    def run(self, lines: list[str]) -> dict[str, Any]:
        names = dict(self.names)
        exec(compile("\n".join(lines) + "\n", FILE, "exec"), names)
        return names

    def close(self) -> None:
        for memory in self.memory.values():
            memory.close()
        self.event.close()


OFF = {"PORTAMEM_CHECK": "0"}
"""Settings of checks that begin and end order checks of their own: they go without where a whole program is checked."""


@check("HOST-24", environment=OFF)
def what_nothing_orders_is_found(env: Env) -> None:
    for name, program in PROGRAMS.items():
        world = World(env)
        lines = program.lines(ordered=False)
        with env.pm.check(raises=False) as checked:
            names = world.run(lines)
            env.device.synchronize()
        found = checked.findings
        expect_equal([each.kind for each in found], [program.kind], f"what is found in {name}")
        (one,) = found
        places = [
            f"{FILE}:{1 + next(i for i, line in enumerate(lines) if line.endswith(f'# {mark}'))}"
            for mark in ("first", "second")
        ]
        expect_equal([one.first.site, one.second.site], places, f"the places of {name}")
        expect_equal((one.first.call, one.second.call), program.calls, f"the calls of {name}")
        memory = names.get("m", world.memory["x"])
        address = getattr(memory, "handle", memory)
        expect_equal((one.address - address, one.nbytes), (program.at, program.nbytes), f"the bytes of {name}")
        expect_equal(one.count, 1, f"how often {name} was seen")
        for use, place in ((one.first, places[0]), (one.second, places[1])):
            expect(f"{use.call} at {place} on {use.stream}\n" in str(one), f"the text of {name} does not say: {use}")
        expect(one.advice and one.advice in str(one), f"no advice for {name}")
        world.close()


@check("HOST-25")
def what_is_ordered_is_not_reported(env: Env) -> None:
    for name, program in PROGRAMS.items():
        world = World(env)
        with env.pm.check(raises=False) as checked:
            world.run(program.lines(ordered=True))
            env.device.synchronize()
        expect_equal([str(each) for each in checked.findings], [], f"what is found in {name}, mended")
        world.close()


@check("HOST-25")
def orders_of_their_own(env: Env) -> None:
    for name, source in {
        "one stream": "x.fill(1, stream=a)\ny.copy_from(x, stream=a)\nx.fill(2, stream=a)",
        "reads side by side": "y.copy_from(x, stream=a)\nz.copy_from(x, stream=b)",
        "the default stream and a blocking one": "x.fill(1, stream=default)\ny.copy_from(x, stream=p)",
        "a blocking stream and the default one": "x.fill(1, stream=p)\ny.copy_from(x, stream=default)",
        "work that is done on return": "x.fill(1)\ny.copy_from(x, stream=a)\nz.copy_from(x, stream=b)",
        "a buffer that knows its uses": (
            "with pool.allocate(N, stream=a) as m:\n    m.fill(1, stream=b)\npool.allocate(N, stream=a).close()"
        ),
        "a write beside what only moves": "managed.prefetch(device, stream=a)\nmanaged.fill(1, stream=b)",
        "memory that another takes over": "pool.allocate(N, stream=a).close()\npool.allocate(N, stream=a).close()",
        "rows with padding behind the last": (
            "pm.copy_2d(x, y, width=16, height=4, dst_pitch=64, src_pitch=16, stream=a)\nx[208:].fill(2, stream=b)"
        ),
        "rows without padding": (
            "pm.copy_2d(x, y, width=64, height=4, dst_pitch=64, src_pitch=64, stream=a)\nx[256:].fill(2, stream=b)"
        ),
        "slices with padding between them": (
            "pm.copy_3d(x, y, width=8, height=2, depth=3, dst_pitch=32, dst_rows=8, stream=a)\n"
            "pm.copy_3d(x[64:], z, width=32, height=6, depth=2, dst_rows=8, stream=b)"
        ),
        "slices without padding": 'rt.do("Memcpy3DAsync", box(x, 0), a.handle)\nx[32 * 8 * 3 :].fill(2, stream=b)',
        "an address that is the system's by now": (
            'm = rt.get("Malloc", 65536)\nrt.do("Free", m)\ntaken = mapped(m, 65536)\n'
            'rt.do("MemcpyAsync", x.handle, taken, N, direction, a.handle)\ny.copy_from(x, stream=a)'
        ),
        "registered memory": "m = bytearray(N)\nwith pm.HostRegistration(m):\n    x.copy_from(m, stream=a)\n",
    }.items():
        world = World(env)
        with env.pm.check(raises=False) as checked:
            world.run(source.splitlines())
            env.device.synchronize()
        expect_equal([str(each) for each in checked.findings], [], f"what is found in {name}")
        world.close()


@check("HOST-26", environment=OFF)
def it_is_on_within_its_block(env: Env) -> None:
    is_on = Interface().library["portamem_order_is_on"]
    host, others = 2, (0, 1)
    expect_equal(is_on(host), 0, "whether order is checked")
    with env.pm.check():
        with env.pm.check():
            expect_equal([is_on(each) for each in (host, *others)], [1, 0, 0], "whether order is checked, by backend")
        expect_equal(is_on(host), 1, "whether order is checked after a check within a check")
    expect_equal(is_on(host), 0, "whether order is checked afterwards")


@check("HOST-26", environment=OFF)
def findings_are_counted_and_named(env: Env) -> None:
    world, pm = World(env), env.pm
    a, b, x = world.streams["a"], world.streams["b"], world.memory["x"]
    source = [
        "for _ in range(3):",
        "    x.fill(1, stream=a)",
        "    x.fill(2, stream=b)",
        "    b.wait(a)",
        "    a.wait(b)",
    ]
    with pm.check(raises=False) as outer:
        world.run(source)
        (one,) = outer.findings
        expect_equal((one.kind, one.count), (WAW, 3), "what is found in a loop")
        for use, stream in ((one.first, a), (one.second, b)):
            expect_equal((use.handle, use.device), (stream.handle, 0), "the stream of a use")
            expect(hex(stream.handle) in use.stream, f"{use.stream!r} does not name {stream!r}")
        expect("seen:   3 times" in str(one), f"the text does not count: {one}")
        with pm.check(raises=False) as inner:
            expect_equal(inner.findings, (), "what a check within a check has found")
            x.fill(1, stream=a)
            pm.Stream.from_handle(2, device=env.device).synchronize()
            x.fill(2, stream=world.streams["p"])
        expect_equal(len(inner.findings), 1, "what the inner check has found")
        a.synchronize()
        world.streams["p"].synchronize()
        expect_equal(len(outer.findings), 2, "what the outer check has found")
    x.fill(1, stream=a)
    x.fill(2, stream=b)
    env.device.synchronize()
    expect_equal(len(outer.findings), 2, "what was found of what came after")
    with pm.check() as again:
        x.fill(1, stream=default_of(env))
    expect_equal(again.findings, (), "what is found of what came before")
    with refused(OrderError, saying="1 unordered use of memory") as refusal, pm.check():
        x.fill(1, stream=default_of(env))
        x.fill(2, stream=a)
    told: Any = refusal.error
    (of_default,) = told.findings
    expect("legacy default stream of device 0" in of_default.first.stream, f"its stream is {of_default.first.stream!r}")
    expect_equal((of_default.first.handle, of_default.first.device), (0, 0), "handle and device of the default stream")
    with refused(KeyError), pm.check():
        x.fill(1, stream=a)
        x.fill(2, stream=b)
        world.names["a name that is none"]
    env.device.synchronize()
    with pm.check(raises=False) as freed:
        rt = Interface()
        address = rt.get("Malloc", N)
        rt.do("MemsetAsync", address, 1, N, a.handle)
        rt.do("Free", address)
        env.device.synchronize()
    (one,) = freed.findings
    expect_equal(
        (one.kind, one.second.stream, one.second.device), ("free while in use", "the host", -1), "a host's use"
    )
    world.close()


def default_of(env: Env) -> Any:
    return env.device.default_stream


PRINTED = """
    a, b = pm.Stream(0), pm.Stream(0)
    x = pm.DeviceMemoryResource(0).allocate(4096, stream=pm.Stream(0))
    x.record_stream(a), x.record_stream(b)
    pm.Device(0).synchronize()
    for _ in range(int(sys.argv[1])):
        x.fill(1, stream=a)
        x.fill(2, stream=b)
    pm.Device(0).synchronize()
"""


@check("HOST-26")
def a_whole_program_is_checked(env: Env) -> None:
    ended = env.run(PRINTED, "2", PORTAMEM_CHECK="1")
    expect_equal((ended.status, ended.stdout), (0, ""), "status and output")
    kinds = [line for line in ended.stderr.splitlines() if line.startswith("portamem: order check: ")]
    expect_equal(len(kinds), 3, f"the number of lines about order in {ended.stderr!r}")
    expect(all("unordered write after write: 4096 bytes at 0x" in line for line in kinds[:2]), f"it says {kinds[:2]}")
    expect_equal(kinds[2], "portamem: order check: 2 finding(s), seen 3 time(s) in all", "the last line")
    for count, variable in (("2", None), ("2", "0"), ("0", "1")):
        env_output = env.output(PRINTED, count, PORTAMEM_CHECK=variable)
        expect_equal(env_output, "", f"output of a program that is not checked, or has nothing to find ({variable})")
