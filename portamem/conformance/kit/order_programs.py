# SPDX-License-Identifier: MIT
"""Programs for the order checker, each with one pair of uses that nothing orders.

These are on the lines that end with ``# first`` and ``# second``. The lines that begin with ``?`` order them; those
that begin with ``!`` are then left out.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

N = 8192
FILE = "program.py"


@dataclass(frozen=True)
class Program:
    """``at`` and ``nbytes``: the bytes of ``x`` that both touch."""

    kind: str
    source: str
    calls: tuple[str, str] = ("MemsetAsync", "MemcpyAsync")
    at: int = 0
    nbytes: int = N

    def lines(self, *, ordered: bool) -> list[str]:
        lines = textwrap.dedent(self.source).strip().splitlines()
        if ordered:
            lines = [line[2:] if line.startswith("? ") else line for line in lines]
            return [line for line in lines if not line.startswith("! ")]
        return [line[2:] if line.startswith("! ") else line for line in lines if not line.startswith("? ")]


RAW, WAW, WAR = "unordered read after write", "unordered write after write", "unordered write after read"
FILLED_TWICE = ("MemsetAsync", "MemsetAsync")

PROGRAMS = {
    "a stream that is not waited for": Program(
        RAW, "x.fill(1, stream=a)  # first\n? b.wait(a)\ny.copy_from(x, stream=b)  # second"
    ),
    "a wait for another stream": Program(
        RAW, "x.fill(1, stream=a)  # first\nb.wait(c)\n? b.wait(a)\ny.copy_from(x, stream=b)  # second"
    ),
    "an event that was recorded too early": Program(
        RAW,
        """
        ! a.record(e)
        x.fill(1, stream=a)  # first
        ? a.record(e)
        b.wait(e)
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "an event that was recorded again, elsewhere": Program(
        RAW,
        """
        x.fill(1, stream=a)  # first
        a.record(e)
        ! c.record(e)
        b.wait(e)
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "a chain with a link missing": Program(
        RAW,
        """
        x.fill(1, stream=a)  # first
        ? c.wait(a)
        z.fill(1, stream=c)
        b.wait(c)
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "a later write over an earlier one": Program(
        WAW, "x.fill(1, stream=a)  # first\n? b.wait(a)\nx.fill(2, stream=b)  # second", FILLED_TWICE
    ),
    "a write under a read": Program(
        WAR,
        "y.copy_from(x, stream=a)  # first\n? b.wait(a)\nx.fill(2, stream=b)  # second",
        ("MemcpyAsync", "MemsetAsync"),
    ),
    "a write under the second of two reads": Program(
        WAR,
        """
        y.copy_from(x, stream=a)
        z.copy_from(x, stream=c)  # first
        b.wait(a)
        ? b.wait(c)
        x.fill(2, stream=b)  # second
        """,
        ("MemcpyAsync", "MemsetAsync"),
    ),
    "halves that share a byte": Program(
        WAW,
        """
        x[: N // 2].fill(1, stream=a)  # first
        ! x[N // 2 - 1 :].fill(2, stream=b)  # second
        ? x[N // 2 :].fill(2, stream=b)
        """,
        FILLED_TWICE,
        at=N // 2 - 1,
        nbytes=1,
    ),
    "a part in the middle": Program(
        RAW,
        "x[256:512].fill(1, stream=a)  # first\n? b.wait(a)\ny.copy_from(x, stream=b)  # second",
        at=256,
        nbytes=256,
    ),
    "two parts, one of which was read since": Program(
        WAW,
        """
        x.fill(1, stream=a)  # first
        y[:1024].copy_from(x[:1024], stream=a)
        z[:1024].copy_from(x[:1024], stream=a)
        b.wait(a.record(e))
        x[1024:].fill(2, stream=a)  # first
        ? b.wait(a)
        x.fill(3, stream=b)  # second
        """.replace("x.fill(1, stream=a)  # first", "x.fill(1, stream=a)"),
        FILLED_TWICE,
        at=1024,
        nbytes=N - 1024,
    ),
    "columns that overlap": Program(
        WAW,
        """
        pm.copy_2d(x, y, width=16, height=4, dst_pitch=64, src_pitch=16, stream=a)  # first
        ! pm.copy_2d(x[15:], z, width=16, height=4, dst_pitch=64, src_pitch=16, stream=b)  # second
        ? pm.copy_2d(x[16:], z, width=16, height=4, dst_pitch=64, src_pitch=16, stream=b)
        """,
        ("Memcpy2DAsync", "Memcpy2DAsync"),
        at=15,
        nbytes=1,
    ),
    "slices that overlap": Program(
        WAW,
        """
        pm.copy_3d(x, y, width=8, height=2, depth=3, dst_pitch=32, dst_rows=8, stream=a)  # first
        ! pm.copy_3d(x[32 * 8 * 2 :], z, width=8, height=1, depth=3, dst_pitch=32, dst_rows=8, stream=b)  # second
        ? pm.copy_3d(x[32 * 8 * 3 :], z, width=8, height=1, depth=3, dst_pitch=32, dst_rows=8, stream=b)
        """,
        ("Memcpy3DAsync", "Memcpy3DAsync"),
        at=32 * 8 * 2,
        nbytes=8,
    ),
    "boxes that overlap": Program(
        WAW,
        """
        rt.do("Memcpy3DAsync", box(x, 0), a.handle)  # first
        ! rt.do("Memcpy3DAsync", box(x, 7), b.handle)  # second
        ? rt.do("Memcpy3DAsync", box(x, 8), b.handle)
        """,
        ("Memcpy3DAsync", "Memcpy3DAsync"),
        at=7,
        nbytes=1,
    ),
    "the default stream and a nonblocking one": Program(
        RAW, "x.fill(1, stream=default)  # first\n? a.wait(default)\ny.copy_from(x, stream=a)  # second"
    ),
    "a nonblocking stream and the default one": Program(
        RAW, "x.fill(1, stream=a)  # first\n? default.wait(a)\ny.copy_from(x, stream=default)  # second"
    ),
    "two blocking streams": Program(
        RAW, "x.fill(1, stream=p)  # first\n? z.fill(1, stream=default)\ny.copy_from(x, stream=q)  # second"
    ),
    "a blocking stream and a nonblocking one": Program(
        RAW, "x.fill(1, stream=p)  # first\n? a.wait(p)\ny.copy_from(x, stream=a)  # second"
    ),
    "the host, which waits for another stream": Program(
        RAW, "x.fill(1, stream=a)  # first\nc.synchronize()\n? a.synchronize()\ny.copy_from(x, stream=b)  # second"
    ),
    "the host, which asks an event": Program(
        RAW,
        """
        z.fill(1, stream=c)
        done = c.record()
        done = x.fill(1, stream=a)  # first
        ? eventually(done.query)
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "the host, which asks a stream": Program(
        RAW, "x.fill(1, stream=a)  # first\n? eventually(a.query)\ny.copy_from(x, stream=b)  # second"
    ),
    "the host, which waits for an event of before": Program(
        RAW,
        """
        a.record(e)
        x.fill(1, stream=a)  # first
        ? a.record(e)
        e.synchronize()
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "the host, which waits for another device": Program(
        RAW,
        """
        x.fill(1, stream=a)  # first
        ! pm.Device(1).synchronize()
        ? pm.Device(0).synchronize()
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "memory of a pool before it is there": Program(
        "use before allocation is ordered",
        """
        m = pool.allocate(N, stream=a)  # first
        ? b.wait(a)
        foreign(m).fill(1, stream=b)  # second
        address = m.handle
        b.synchronize()
        m.close()
        m = address
        """,
        ("MallocFromPoolAsync", "MemsetAsync"),
    ),
    "memory of a pool freed before it is there": Program(
        "free before allocation is ordered",
        """
        m = rt.get("MallocAsync", N, a.handle)  # first
        ? b.wait(a)
        rt.do("FreeAsync", m, b.handle)  # second
        """,
        ("MallocAsync", "FreeAsync"),
    ),
    "memory of a pool freed under a use": Program(
        "free while in use",
        """
        m = rt.get("MallocAsync", N, a.handle)
        b.wait(a)
        rt.do("MemsetAsync", m, 1, N, b.handle)  # first
        ? a.wait(b)
        rt.do("FreeAsync", m, a.handle)  # second
        """,
        ("MemsetAsync", "FreeAsync"),
    ),
    "plain memory freed under a read": Program(
        "free while in use",
        """
        m = rt.get("Malloc", N)
        rt.do("MemcpyAsync", x.handle, m, N, direction, a.handle)  # first
        ? a.synchronize()
        rt.do("Free", m)  # second
        """,
        ("MemcpyAsync", "Free"),
    ),
    "pinned memory freed under a write": Program(
        "free while in use",
        """
        m = rt.get("HostMalloc", N, 0)
        rt.do("MemcpyAsync", m, x.handle, N, direction, a.handle)  # first
        ? a.synchronize()
        rt.do("HostFree", m)  # second
        """,
        ("MemcpyAsync", "HostFree"),
    ),
    "memory of a pool after its free": Program(
        "use after free",
        """
        m = rt.get("MallocAsync", N, a.handle)
        ? rt.do("MemsetAsync", m, 1, N, a.handle)
        rt.do("FreeAsync", m, a.handle)  # first
        ! rt.answer("MemsetAsync", m, 1, N, a.handle)  # second
        rt.answer("GetLastError")
        """,
        ("FreeAsync", "MemsetAsync"),
    ),
    "reads of neighbours by two streams": Program(
        WAR,
        """
        y[:1024].copy_from(x[:1024], stream=a)
        z[:1024].copy_from(x[1024:2048], stream=c)  # first
        b.wait(a)
        ? b.wait(c)
        x[:2048].fill(2, stream=b)  # second
        """,
        ("MemcpyAsync", "MemsetAsync"),
        at=1024,
        nbytes=1024,
    ),
    "a stream that waited before the other did": Program(
        RAW,
        """
        x.fill(1, stream=a)  # first
        z.fill(1, stream=c)
        b.wait(c)
        ? c.wait(a)
        b.wait(c)
        y.copy_from(x, stream=b)  # second
        """,
    ),
    "memory that is prefetched before it is there": Program(
        WAR,
        """
        y.copy_from(x, stream=a)  # first
        managed.prefetch(device, stream=b)
        managed.fill(1, stream=a)
        managed.prefetch(device, stream=b)
        ? b.wait(a)
        x.fill(1, stream=b)  # second
        """,
        ("MemcpyAsync", "MemsetAsync"),
    ),
}
