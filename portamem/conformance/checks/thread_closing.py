# SPDX-License-Identifier: MIT
"""Shows what becomes of the calls on a stream that another thread closes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect
from portamem.conformance.kit.threads import in_threads

NBYTES = 4096
TURNS = 20

CALLS: dict[str, Callable[[Env, Any, Any, Any], object]] = {
    "copy": lambda env, stream, buf, event: env.pm.copy(buf[:1024], buf[2048:3072], stream=stream),
    "copy to pageable memory": lambda env, stream, buf, event: env.pm.copy(bytearray(NBYTES), buf, stream=stream),
    "fill": lambda env, stream, buf, event: buf.fill(1, stream=stream),
    "Stream.wait, for an event": lambda env, stream, buf, event: stream.wait(event),
    "Stream.wait, for a stream": lambda env, stream, buf, event: stream.wait(env.device.default_stream),
    "Stream.record": lambda env, stream, buf, event: stream.record(),
    "Event.record": lambda env, stream, buf, event: event.record(stream),
    "Stream.launch_host_func": lambda env, stream, buf, event: stream.launch_host_func(lambda: None),
    "Stream.query": lambda env, stream, buf, event: stream.query(),
    "Stream.synchronize": lambda env, stream, buf, event: stream.synchronize(),
    "Stream.capture_status": lambda env, stream, buf, event: stream.capture_status,
}


def _until_refused(call: Callable[[], object], begun: threading.Event) -> str:
    try:
        while True:
            call()
            begun.set()
    except ValueError as refusal:
        return str(refusal)
    finally:
        begun.set()


@check("THREAD-19")
def closing_a_stream_against_calls(env: Env) -> None:
    plain = env.resource("device")
    for name, call in CALLS.items():
        for _ in range(TURNS):
            stream, event, begun = env.pm.Stream(env.device), env.pm.Event(env.device), threading.Event()
            buf = plain.allocate(NBYTES)
            met: list[str] = []

            def work(
                number: int, call: Any = call, at: Any = (stream, buf, event), begun: Any = begun, met: Any = met
            ) -> None:
                if number == 0:
                    begun.wait(10)
                    at[0].close()
                else:
                    met.append(_until_refused(lambda: call(env, *at), begun))

            in_threads(work, 2)
            expect("closed" in met[0], f"{name} on a stream that is being closed is refused with {met[0]!r}")
            buf.close()
            event.close()
    env.device.synchronize()
    expect(eventually(lambda: plain.live_buffers == 0), f"{plain.live_buffers} live buffers are left")


@check("THREAD-19")
def closing_a_stream_against_allocating(env: Env, resource: Any) -> None:
    for _ in range(TURNS):
        stream, begun = env.pm.Stream(env.device), threading.Event()
        met: list[str] = []

        def use(stream: Any = stream) -> None:
            buf = resource.allocate(NBYTES, stream=stream)
            try:
                buf.fill(1, stream=stream)
            finally:
                buf.close()

        def work(number: int, stream: Any = stream, begun: Any = begun, use: Any = use, met: Any = met) -> None:
            if number == 0:
                begun.wait(10)
                stream.close()
            else:
                met.append(_until_refused(use, begun))

        in_threads(work, 3)
        expect(all("closed" in text for text in met), f"refusals are {set(met)}")
    env.device.synchronize()
    expect(eventually(lambda: resource.live_buffers == 0), f"{resource.live_buffers} live buffers are left")


@check("THREAD-19")
def closing_a_stream_that_is_waited_for(env: Env) -> None:
    for _ in range(TURNS):
        stream = env.pm.Stream(env.device)
        met: list[str] = []
        with env.latch(stream) as held:
            begun = threading.Event()

            def wait(stream: Any = stream, begun: Any = begun, met: Any = met) -> None:
                begun.set()
                try:
                    stream.synchronize()
                except ValueError as refusal:
                    met.append(str(refusal))

            waiter = threading.Thread(target=wait, daemon=True)
            waiter.start()
            begun.wait(10)
            held.release_soon(0.01)  # runtimes may wait for the work as they destroy a stream
            stream.close()
            waiter.join(10)
            expect(not waiter.is_alive(), "a wait for a stream that another thread closes does not end")
            expect(not held.timed_out, "a close and a wait for the stream wait for each other")
        expect(stream.is_closed, "a stream is not closed after close")
        expect(all("closed" in text for text in met), f"refusals are {set(met)}")
