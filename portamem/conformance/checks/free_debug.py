# SPDX-License-Identifier: MIT
"""Shows the clause of redzones, in programs of their own: PORTAMEM_DEBUG is read once."""

from __future__ import annotations

from portamem.conformance.check import check
from portamem.conformance.env import Env
from portamem.conformance.expect import expect, expect_equal

# Every kind of resource in one process, since starting is most of what a process takes.
BESIDE = """
    import portamem
    from portamem.conformance.kinds import KINDS

    device = pm.Device(0)
    stream = device.default_stream

    def peek(address, nbytes):
        out = bytearray(nbytes)
        pm.copy(out, pm.Buffer.from_handle(address, nbytes, device=device, stream=stream))
        return bytes(out)

    def poke(address, data):
        pm.copy(pm.Buffer.from_handle(address, len(data), device=device, stream=stream), data)

    def look(name, resource, nbytes):
        good, before, behind = (resource.allocate(nbytes, stream=stream) for _ in range(3))
        assert peek(good.handle, nbytes) == b"\\xa5" * nbytes, f"{name}: fresh memory"
        data = bytes(i % 251 for i in range(nbytes))
        for buf in (good, before, behind):
            poke(buf.handle, data)
        poke(before.handle - 2, b"x")
        poke(behind.handle + nbytes + 1, b"xyz")
        assert all(peek(buf.handle, nbytes) == data for buf in (good, before, behind)), f"{name}: memory inside"
        good.close()
        for buf, words in ((before, "byte 2 before its start"), (behind, "bytes 2 to 4 behind its end")):
            try:
                buf.close()
            except portamem.Error as error:
                assert error.name == "Corrupted", f"{name}: {error.name}"
                assert words in str(error) and f"of {nbytes} bytes" in str(error), f"{name}: {error}"
            else:
                raise AssertionError(f"{name}: a write beside a buffer was not found, {words}")
            buf.close()
        stream.synchronize()
        if name != "default":
            resource.close()

    seen = 0
    for name, kind in KINDS.items():
        kind = kind.on(direct_host_access=bool(device.capabilities.direct_host_access))
        if kind.needs(device.capabilities):
            look(name, kind.make(pm, device), 1000)
            seen += 1
    default = pm.current_resource(device)
    look("default", default, 1000)
    print(seen, default.live_buffers)
"""


@check("FREE-15")
def a_write_beside_a_buffer_is_found(env: Env) -> None:
    ended = env.run(BESIDE, PORTAMEM_DEBUG="1")
    expect_equal(ended.status, 0, f"the exit status, after {ended.stderr.strip()[-2000:]!r}")
    seen, left = map(int, ended.stdout.split())
    expect(seen > 5, f"{seen} kinds of resources were looked at")
    expect_equal(left, 0, "live buffers of the default")
    expect("portamem: debug: memory was written outside" in ended.stderr, f"it said {ended.stderr!r}")
