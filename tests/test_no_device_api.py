"""The whole Python API of the GPU backends on a machine with no device, in orders of chance.

Each seed runs in a process of its own, because a vendor's runtime sets itself up in its first call, whichever that is.
Devices that this machine may have are hidden.
"""

from __future__ import annotations

import random

import pytest
from helpers.process import run_python
from helpers.standin import needs

SEEDS = 5
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}

EVERY_CALL = '''
import itertools, random, sys
import portamem

backend, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
print("seed", seed, flush=True)
pm = getattr(portamem, backend)


class Foreign:
    """A stream or an event of another library."""

    ptr = 64

    def __cuda_stream__(self):
        return 0, 2


memory = bytearray(16)

# What needs no device, by the name of the call, and the answer to expect.
ANSWERS = {
    "device_count()": 0, "devices()": [], "held('host')": 0, "probe()[0]": 0, "pointer_info(0).kind": "unregistered",
    "compiled_version() > 0": True, "runtime_version() >= 0": True, "driver_version() >= 0": True,
    "version_text(compiled_version()) != ''": True, "backend": backend,
}

# What cannot be done without one, with arguments that would be right.
CALLS = [
    "held()", "held(0)", "Device()", "Device(0)", "Device.current()", "Stream()", "Stream(0, nonblocking=False)",
    "Stream.from_handle(0)", "Stream.from_handle(2, device=0)", "Stream.wrap(Foreign())", "Event()",
    "Event(0, timing=True)", "Event.from_handle(64)", "Event.wrap(Foreign())", "Buffer.from_handle(0, 0)",
    "Buffer.from_handle(address, 16)", "Buffer.from_handle(address, 16, device=0, owner=memory)",
    "DeviceMemoryResource()", "DeviceMemoryResource(0, coherence='fine_grained')", "PinnedMemoryResource()",
    "PinnedMemoryResource(0, write_combined=True)", "ManagedMemoryResource()", "ManagedMemoryResource(attach='host')",
    "SystemMemoryResource()", "AsyncMemoryResource()", "AsyncMemoryResource(0, release_threshold='1 MiB')",
    "AsyncMemoryResource.default_pool()", "AsyncMemoryResource.from_handle(4096, 0)", "HostRegistration(memory)",
    "HostRegistration(memory, read_only=True)", "pointer_info(address)", "copy(memory, bytes(16))",
    "copy(memory, bytes(16), stream=Foreign())", "copy_2d(memory, bytes(16), width=4, height=4)",
    "current_resource()", "current_resource(0)", "empty(4)", "zeros((2, 2), 'float32')", "asarray([1.0, 2.0])",
    "zeros(4, stream=Foreign())", "empty(0)",
]

# What is refused for its arguments, before any device is looked for.
MISUSE = [
    "using(None).__enter__()", "View(None)", "fill_2d(memory, 1)", "Device('gpu')", "Stream.wrap(7)", "Event.wrap(7)",
    "Buffer.from_handle(0, 16)", "DeviceMemoryResource(coherence='none such')",
]

names = vars(pm) | {"Foreign": Foreign, "memory": memory, "address": id(memory)}
public = [name for name in vars(pm) if not name.startswith("_") and callable(getattr(pm, name))]
# And every public name with arguments that may be anything.
arguments = ["", "0", "1", "-1", "'1 MiB'", "None", "4096, 16", "memory", "memory, memory", "Foreign()"]
anything = [f"{name}({given})" for name, given in itertools.product(public, arguments)]
order = [*ANSWERS, *CALLS, *CALLS, *MISUSE, *anything]
chance.shuffle(order)


def refusal(call):
    try:
        return eval(call, dict(names))
    except (portamem.Error, TypeError, ValueError) as error:
        return error


first = None
for call in order:
    answer = refusal(call)
    why = f"{call}: {answer!r}"
    if call in ANSWERS:
        assert answer == ANSWERS[call], why
    elif call in CALLS:
        assert isinstance(answer, portamem.Error), why
    elif call in MISUSE:
        assert isinstance(answer, (TypeError, ValueError, portamem.Error)), why
    if isinstance(answer, portamem.Error):
        assert (answer.name, answer.backend) == ("NoDevice", backend), why
        assert answer.code in (3, 35, 100, 101), why
        assert answer.call and "portamem info" in str(answer), why
reason = portamem.backends()[backend].reason
assert reason is not None and reason.code in ("no_driver", "no_device", "hidden_by_mask"), reason
print("calls", len(order))
'''


@pytest.mark.parametrize("name", ["cuda", "hip"])
@pytest.mark.parametrize("seed", [*range(SEEDS), random.randrange(1 << 30)], ids=lambda seed: f"seed{seed}")
def test_every_call_says_that_there_is_no_device(name: str, seed: int) -> None:
    needs(name)
    done = run_python(EVERY_CALL, name, str(seed), **HIDDEN)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert not done.stderr
    first, last = done.stdout.splitlines()
    assert first == f"seed {seed}"
    assert int(last.split()[1]) > 300


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_the_reason_is_the_same_before_and_after(name: str) -> None:
    """Nothing that was refused changes what the backend is said to be."""
    needs(name)
    code = f"""
        import portamem
        before = portamem.backends()[{name!r}]
        module = getattr(portamem, {name!r})
        for call in (module.Device, module.Stream, lambda: module.zeros(4)):
            try:
                call()
            except portamem.Error as error:
                print(error.name)
        assert portamem.backends()[{name!r}] == before
    """
    done = run_python(code, **HIDDEN)
    assert (done.returncode, done.stdout) == (0, "NoDevice\n" * 3), done.stderr
