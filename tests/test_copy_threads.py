"""PORTAMEM_COPY_THREADS: each test asks in a process of its own, where the setting is read once."""

from __future__ import annotations

from types import ModuleType

import pytest
from helpers.process import python_output

CODE = """
    import importlib, random, sys
    import numpy as np
    pm = importlib.import_module("portamem." + sys.argv[1])
    draw = random.Random(5)
    device = pm.Device(0)
    room = 40 << 20
    source = np.arange(room // 4, dtype=np.uint32).view(np.uint8)
    with pm.DeviceMemoryResource(device) as resource, resource.allocate(room) as memory, pm.Stream(device) as stream, \\
            pm.Stream(device) as other, pm.PinnedMemoryResource(device) as pinned, pinned.allocate(1 << 20) as busy:
        for turn in range(8):
            length = draw.choice((4 << 20, (16 << 20) + 1, draw.randrange(1 << 22, 1 << 25)))
            at, start = draw.randrange(room - length), draw.randrange(room - length)
            back = np.zeros(length + 2, np.uint8)
            memory.fill(0xEE)
            busy.copy_from(memory[: 1 << 20], stream=other)
            on = stream if turn % 2 else None
            with memory[at : at + length] as part:
                first = part.copy_from(source[start : start + length], stream=on)
                second = part.copy_to(back[1:-1], stream=on)
            if on is None:
                assert first is second is None
            else:
                second.synchronize()
            assert (back[1:-1] == source[start : start + length]).all() and back[0] == back[-1] == 0
            whole = np.empty(room, np.uint8)
            memory.copy_to(whole)
            assert (whole[:at] == 0xEE).all() and (whole[at + length :] == 0xEE).all()
        other.synchronize()
    print("done")
"""


@pytest.mark.parametrize("threads", ["off", "0", "1", "3", "64"])
def test_large_copies_arrive_whole(pm: ModuleType, threads: str) -> None:
    assert python_output(CODE, pm.backend, PORTAMEM_COPY_THREADS=threads) == "done\n"


SMALL = """
    import importlib, random, sys
    import numpy as np
    pm = importlib.import_module("portamem." + sys.argv[1])
    draw = random.Random(7)
    device = pm.Device(0)
    room = 256 << 10
    with pm.DeviceMemoryResource(device) as plain, plain.allocate(room) as memory, pm.Stream(device) as one, \\
            pm.Stream(device) as two:
        known = np.zeros(room, np.uint8)
        memory.fill(0)
        for turn in range(60):
            on, other = draw.sample((one, two), 2)
            for _ in range(draw.randrange(1, 20)):  # more bytes are on their way than there is pinned memory for them
                length = draw.choice((1, 63, 4096, draw.randrange(1, 1 << 16), 1 << 16))
                at = draw.randrange(room - length + 1)
                bytes_ = np.frombuffer(draw.randbytes(length), np.uint8)
                known[at : at + length] = bytes_
                with memory[at : at + length] as part:
                    part.copy_from(bytes_, stream=on)
                del bytes_
            length = draw.randrange(1, (1 << 16) + 1)
            at = draw.randrange(room - length + 1)
            back = np.zeros(length + 2, np.uint8)
            with memory[at : at + length] as part:
                if turn % 3 == 0:
                    part.copy_to(back[1:-1])
                else:
                    other.wait(on)
                    part.copy_to(back[1:-1], stream=other if turn % 3 == 1 else on).synchronize()
            assert (back[1:-1] == known[at : at + length]).all() and back[0] == back[-1] == 0
            other.wait(on)
    print("done")
"""


@pytest.mark.parametrize("threads", ["off", "2"])
def test_small_copies_arrive_whole(pm: ModuleType, threads: str) -> None:
    assert python_output(SMALL, pm.backend, PORTAMEM_COPY_THREADS=threads) == "done\n"


def test_a_source_may_go_once_it_has_been_read(pm: ModuleType) -> None:
    code = """
        import gc, importlib, sys
        import numpy as np
        pm = importlib.import_module("portamem." + sys.argv[1])
        with pm.DeviceMemoryResource() as resource, resource.allocate(24 << 20) as memory, pm.Stream() as stream:
            for turn in range(4):
                done = memory.copy_from(np.full(24 << 20, turn, np.uint8), stream=stream)
                gc.collect()
                done.synchronize()
                back = np.empty(24 << 20, np.uint8)
                memory.copy_to(back, stream=stream).synchronize()
                assert (back == turn).all()
        print(pm.held("host"))
        """
    assert python_output(code, pm.backend, PORTAMEM_COPY_THREADS="2") == "0\n"


def test_a_source_that_queued_work_writes(pm: ModuleType) -> None:
    """A copy without a stream is behind declared work, on any thread: only the first one hears signals in its waits."""
    code = """
        import importlib, sys, threading
        import numpy as np
        pm = importlib.import_module("portamem." + sys.argv[1])
        nbytes, seen = 12 << 20, []

        def work():
            plain, system, pinned = pm.DeviceMemoryResource(), pm.SystemMemoryResource(), pm.PinnedMemoryResource()
            with (
                plain.allocate(nbytes) as target,
                system.allocate(nbytes) as source,
                pinned.allocate(64) as small,
                plain.allocate(64) as other,
                pm.Stream() as stream,
            ):
                source.fill(1)
                target.fill(0)
                other.copy_from(small, stream=stream)  # takes a while on the CPU runtime
                source.fill(7, stream=stream)
                target.copy_from(source)
                back = np.empty(nbytes, np.uint8)
                target.copy_to(back)
                seen.append(bool((back == 7).all()))

        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print(seen)
        """
    said = python_output(code, pm.backend, PORTAMEM_COPY_THREADS="2", PORTAMEM_HOST_COPY_DELAY="100000")
    assert said == "[True, True]\n"


@pytest.mark.host_only
@pytest.mark.parametrize("between", [False, True])
def test_a_large_copy_tells_the_order_checker_of_no_other_stream(pm: ModuleType, between: bool) -> None:
    """The copy before it used the same pinned blocks, which the program does not know."""
    code = """
        import sys
        import numpy as np
        import portamem.host as pm
        nbytes = 8 << 20
        source = np.ones(nbytes, np.uint8)
        with pm.check(raises=False) as checked, pm.DeviceMemoryResource() as resource, pm.Stream() as first, \\
                pm.Stream() as second:
            a, b, c = (resource.allocate(nbytes) for _ in range(3))
            a.copy_from(source, stream=first)
            if BETWEEN:
                b.copy_from(source, stream=second)
            c.copy_from(a, stream=second)  # behind nothing
            for stream in (first, second):
                stream.synchronize()
            a.copy_from(source, stream=first)
            first.synchronize()
            b.copy_from(source[::-1][:nbytes], stream=second).synchronize()
            for memory in (a, b, c):
                memory.close()
        print([finding.kind for finding in checked.findings])
        """.replace("BETWEEN", str(between))
    said = python_output(code, PORTAMEM_COPY_THREADS="2", PORTAMEM_HOST_MODEL="discrete")
    assert said == "['unordered read after write']\n"


@pytest.mark.parametrize("way", ["copy_from", "copy_to"])
def test_a_signal_ends_a_copy_that_waits(pm: ModuleType, way: str) -> None:
    """Another thread's work on the stream holds the copy up."""
    code = """
        import importlib, os, signal, sys, threading, time
        import numpy as np
        pm = importlib.import_module("portamem." + sys.argv[1])
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        nbytes, released, sent = 256 << 20, threading.Event(), []
        with pm.DeviceMemoryResource() as resource, pm.Stream() as stream:
            memory, array = resource.allocate(nbytes), np.ones(nbytes, np.uint8)

            def hold_up():
                time.sleep(0.02)
                stream.launch_host_func(lambda: released.wait(20))
                time.sleep(0.3)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=hold_up)
            thread.start()
            try:
                while not sent:
                    getattr(memory, WAY)(array, stream=stream)
                time.sleep(20)
            except KeyboardInterrupt:
                print(time.monotonic() - sent[0] < 2)
            released.set()
            thread.join()
            stream.synchronize()
            memory.fill(7)
            memory.copy_to(array)
            print(bool((array == 7).all()))
            memory.close()
        """.replace("WAY", repr(way))
    assert python_output(code, pm.backend, PORTAMEM_COPY_THREADS="2") == "True\nTrue\n"


@pytest.mark.parametrize("wrong", ["many", "-1", "65", "2.5", "on"])
def test_a_setting_that_cannot_be_read(pm: ModuleType, wrong: str) -> None:
    code = """
        import importlib, sys
        pm = importlib.import_module("portamem." + sys.argv[1])
        with pm.DeviceMemoryResource() as resource, resource.allocate(8 << 20) as memory:
            if memory.is_host_accessible:
                print("nothing is staged")
                raise SystemExit
            memory[:100].copy_from(bytes(100))
            try:
                memory.copy_from(bytes(8 << 20))
            except ValueError as refused:
                print(refused)
        """
    said = python_output(code, pm.backend, PORTAMEM_COPY_THREADS=wrong).strip()
    expected = f"PORTAMEM_COPY_THREADS={wrong} is no number of threads: give a number from 0 to 64, or off"
    assert said in (expected, "nothing is staged")
