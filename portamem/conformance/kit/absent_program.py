# SPDX-License-Identifier: MIT
"""A program that calls the whole API where there is no device, in an order of chance: a vendor's runtime sets itself up
in its first call, whichever that is."""

from __future__ import annotations

SOURCE = '''
    import itertools, random
    import portamem

    backend, seed = pm.backend, int(sys.argv[1])
    chance = random.Random(seed)
    print("seed", seed, flush=True)


    class Foreign:
        """A stream or an event of another library."""

        ptr = 64

        def __cuda_stream__(self):
            return 0, 2


    memory = bytearray(16)

    # What needs no device, by the name of the call, and the answer to expect.
    ANSWERS = {
        "device_count()": 0, "devices()": [], "held('host')": 0, "probe()[0]": 0, "compiled_version() > 0": True,
        "runtime_version() >= 0": True, "driver_version() >= 0": True, "version_text(compiled_version()) != ''": True,
        "backend": backend,
    }

    # What cannot be done without one, with arguments that would be right.
    CALLS = [
        "held()", "held(0)", "Device()", "Device(0)", "Device.current()", "Stream()", "Stream(0, nonblocking=False)",
        "Stream.from_handle(0)", "Stream.from_handle(2, device=0)", "Event()", "Event(0, timing=True)",
        "Event.from_handle(64)", "Buffer.from_handle(0, 0)", "Buffer.from_handle(address, 16)",
        "Buffer.from_handle(address, 16, device=0, owner=memory)", "DeviceMemoryResource()",
        "DeviceMemoryResource(0, coherence='fine_grained')", "PinnedMemoryResource()",
        "PinnedMemoryResource(0, write_combined=True)", "PrefaultedPinnedMemoryResource()",
        "ManagedMemoryResource()", "ManagedMemoryResource(attach='host')", "SystemMemoryResource()",
        "AsyncMemoryResource()", "AsyncMemoryResource(0, release_threshold='1 MiB')",
        "AsyncMemoryResource.default_pool()", "AsyncMemoryResource.from_handle(4096, 0)", "HostRegistration(memory)",
        "VirtualMemoryResource()", "VirtualMemoryResource(0, reserve='1 GiB')",
        "HostRegistration(memory, read_only=True)", "pointer_info(address)", "copy(memory, bytes(16))",
        "copy_2d(memory, bytes(16), width=4, height=4)",
        "copy_3d(memory, bytes(16), width=4, height=2, depth=2)", "current_resource()", "current_resource(0)",
        "default_resource()", "default_resource(0)", "set_default_resource(0, None)",
        "empty(4)", "zeros((2, 2), 'float32')", "asarray([1, 2])", "empty(0)",
    ]
    if backend != "host":
        ANSWERS["pointer_info(0).kind"] = "unregistered"
        CALLS += [
            "Stream.wrap(Foreign())", "Event.wrap(Foreign())", "copy(memory, bytes(16), stream=Foreign())",
            "zeros(4, stream=Foreign())",
        ]

    # What is refused for its arguments, before any device is looked for.
    MISUSE = [
        "using(None).__enter__()", "View(None)", "fill_2d(memory, 1)", "Buffer.from_handle(0, 16)",
        "DeviceMemoryResource(coherence='none such')", "PinnedMemoryResource(coherence='none such')",
        "ManagedMemoryResource(attach='none such')", "set_quirk('no_such_quirk', True)", "copy(memory)",
        "AsyncMemoryResource.default_pool(0, 1)", "copy(bytes(16), memory)", "version_text('13.0')",
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
        except (portamem.Error, TypeError, ValueError, FileNotFoundError) as error:  # load takes text for a path
            return error


    for call in order:
        answer = refusal(call)
        why = f"{call}: {answer!r}"
        if call in ANSWERS:
            assert answer == ANSWERS[call], why
        elif call in CALLS:
            assert isinstance(answer, portamem.Error), why
        elif call in MISUSE:
            assert isinstance(answer, (TypeError, ValueError)), why
        if isinstance(answer, portamem.Error):
            assert (answer.name, answer.backend) == ("NoDevice", backend), why
            assert answer.code in ((100,) if backend == "host" else (3, 35, 100, 101)), why
            assert answer.call and "portamem info" in str(answer), why
    print(len(order))
'''
