"""portamem over a stand-in of which one call fails at its n-th time: what portamem raises, and how it goes on.

Simulated, as the quirks are. The contract's own clauses about calls that fail bind the CPU runtime, which can be told
from call to call what fails; a stand-in is told once, before its process begins.
"""

from __future__ import annotations

import pytest
from helpers.standins import ABIS, StandIn, standin

pytestmark = pytest.mark.standins

ASKING = """
    import json, sys
    import portamem, portamem.hip as pm

    stream, held, NBYTES = pm.Stream(0), pm.held(0), 4096
    resources = {
        "plain": pm.DeviceMemoryResource(0), "pool": pm.AsyncMemoryResource(0), "pinned": pm.PinnedMemoryResource(0),
        "managed": pm.ManagedMemoryResource(0),
    }
    data = bytes(range(256)) * 16

    def allocated(kind):
        resource = resources[kind]
        return resource.allocate(NBYTES, stream=stream if resource.is_stream_ordered else None)

    def once(kind):
        # One call of each sort. True: the memory kept what was written.
        seen = bytearray(NBYTES)
        with allocated(kind) as buf:
            buf.fill(1, stream=stream).synchronize()
            pm.copy(buf, data, stream=stream).synchronize()
            pm.copy(seen, buf, stream=stream).synchronize()
        return bytes(seen) == data

    def registered(kind):
        with pm.HostRegistration(bytearray(data)) as near, allocated(kind) as far:
            far.copy_from(near, stream=stream).synchronize()
            return True

    def prefetched(kind):
        with allocated(kind) as buf:
            buf.prefetch("host", stream=stream).synchronize()
            return True

    def with_a_stream(kind):
        with pm.Stream(0) as own, pm.Event(0, timing=True) as event, allocated(kind):
            own.record(event)
            own.synchronize()
            return True

    def told(operation, kind):
        try:
            return operation(kind)
        except portamem.Error as error:
            is_memory = isinstance(error, portamem.OutOfMemoryError)
            return [error.backend, error.call, error.code, is_memory, error.call in str(error)]

    operation, kind, times = globals()[sys.argv[1]], sys.argv[2], int(sys.argv[3])
    answers = [told(operation, kind) for _ in range(times)]
    stream.synchronize()
    counters = [[resource.live_buffers, resource.live_bytes] for resource in resources.values()]
    for resource in resources.values():
        resource.close()
    print(json.dumps([answers, counters, pm.held(0) - held]))
"""
"""Does one operation several times. Says what each time answered or raised, what is out afterwards, and how many bytes
more are held than at the beginning."""

OUT_OF_MEMORY, LAUNCH_FAILURE = 2, 719

CALLS = [
    ("once", "plain", "Malloc", OUT_OF_MEMORY),
    ("once", "plain", "Malloc", LAUNCH_FAILURE),
    ("once", "plain", "Free", LAUNCH_FAILURE),
    ("once", "pool", "MallocFromPoolAsync", OUT_OF_MEMORY),
    ("once", "pool", "FreeAsync", LAUNCH_FAILURE),
    ("once", "pinned", "HostMalloc", OUT_OF_MEMORY),
    ("once", "managed", "MallocManaged", OUT_OF_MEMORY),
    ("once", "plain", "MemsetAsync", LAUNCH_FAILURE),
    ("once", "plain", "MemcpyAsync", LAUNCH_FAILURE),
    ("registered", "plain", "HostRegister", OUT_OF_MEMORY),
    ("prefetched", "managed", "MemPrefetchAsync", LAUNCH_FAILURE),
    ("with_a_stream", "plain", "StreamCreateWithPriority", OUT_OF_MEMORY),
    ("with_a_stream", "plain", "EventCreateWithFlags", OUT_OF_MEMORY),
]


@pytest.fixture(scope="module", params=ABIS)
def over(request: pytest.FixtureRequest) -> StandIn:
    return standin(request.param)


@pytest.mark.parametrize(("operation", "kind", "call", "code"), CALLS)
def test_portamem_raises_and_recovers(over: StandIn, operation: str, kind: str, call: str, code: int) -> None:
    answers, counters, more = over.ask(ASKING, operation, kind, "4", STANDIN_FAIL=f"{call}:3:{code}")
    assert [answer for answer in answers if answer is not True] == [["hip", call, code, code == OUT_OF_MEMORY, True]], (
        "one operation raises, with the call and its code, and the others work"
    )
    assert answers[-1] is True
    assert counters == [[0, 0]] * 4
    assert more == 0
