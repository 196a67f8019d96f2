"""portamem over a stand-in for each generation of HIP, with a module compiled from the same headers.

Simulated: what holds here is that portamem reads each version's numbers as that version means them, and bridges what is
known to differ. No GPU takes part.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import elf
import pytest
from elftools.elf.elffile import ELFFile
from helpers.process import python_output, run_python
from helpers.standin import fake_root, reason_of
from helpers.standins import ABIS, StandIn, root, standin

pytestmark = pytest.mark.standins


@pytest.fixture(scope="module", params=ABIS)
def over(request: pytest.FixtureRequest) -> StandIn:
    return standin(request.param)


# The library itself.


def versions_of(path: Path) -> dict[str, str]:
    """A library's exports, each symbol with its version."""
    with path.open("rb") as file:
        image = ELFFile(file)
        names = {
            definition["vd_ndx"]: next(iter(auxiliaries)).name
            for definition, auxiliaries in image.get_section_by_name(".gnu.version_d").iter_versions()
        }
        indices = image.get_section_by_name(".gnu.version").iter_symbols()
        symbols = image.get_section_by_name(".dynsym").iter_symbols()
        return {
            symbol.name: names.get(index["ndx"], "")
            for symbol, index in zip(symbols, indices, strict=True)
            if symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
        }


def test_it_exports_the_vendors_names_alone(over: StandIn) -> None:
    exported = versions_of(over.library)
    assert exported.pop("portamem_standin") == "standin_mark"
    assert len(exported) > 100
    assert [name for name in exported if not name.startswith("hip")] == []
    assert {version for version in exported.values() if not version.startswith("hip_")} == set()
    newest = max(tuple(map(int, version[4:].split("."))) for version in exported.values())
    assert newest <= tuple(map(int, over.abi.split(".")))


def test_it_has_what_the_module_needs(over: StandIn) -> None:
    needed = elf.needed_versions(over.module, over.library.name)
    assert len(needed) > 50
    exported = versions_of(over.library)
    assert {name: exported.get(name) for name in needed} == needed


_DEAD_HANDLES = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
hip.hipGetErrorName.restype = ctypes.c_char_p
stream, event, flags = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
assert hip.hipStreamCreate(ctypes.byref(stream)) == hip.hipEventCreate(ctypes.byref(event)) == 0
assert hip.hipStreamDestroy(stream) == hip.hipEventDestroy(event) == 0
calls = [hip.hipStreamDestroy(stream), hip.hipStreamQuery(stream), hip.hipStreamSynchronize(stream)]
calls += [hip.hipEventDestroy(event), hip.hipEventQuery(event), hip.hipEventRecord(event, None)]
print(calls, hip.hipEventDestroy(None), *(hip.hipGetErrorName(code).decode() for code in (700, 709, 719, 1052)))
"""


def test_what_is_destroyed_is_a_context_that_is(over: StandIn) -> None:
    """AMD's answer to a stream or an event that is gone, and null is no handle; errors of kernels have names."""
    told = python_output(_DEAD_HANDLES, str(over.library)).split()
    names = ["hipErrorIllegalAddress", "hipErrorContextIsDestroyed", "hipErrorLaunchFailure", "hipErrorRuntimeMemory"]
    assert told == [*str([709] * 6).split(), "400", *names]


def test_versions_are_those_of_the_vendors_library() -> None:
    """Debian's own library is here to compare with; of the later ones the tables are."""
    real = Path("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5")
    if not real.exists():
        pytest.skip("Debian's libamdhip64 is not here")
    theirs, ours = versions_of(real), versions_of(standin("5.2").library)
    del ours["portamem_standin"]
    assert {name: theirs.get(name) for name in ours} == ours


def test_the_mark(over: StandIn) -> None:
    assert over.quirks()  # which asserts "simulated"
    assert "stand-in" in over.ask("import json, portamem.hip as pm; print(json.dumps(pm.Device(0).name))")


# portamem over it.


def test_portamem_is_ready(over: StandIn) -> None:
    done = run_python("from portamem.cli import main; main(['info', '--json'])", **over.environment())
    assert done.returncode == 0, done.stderr
    hip = json.loads(done.stdout)["backends"]["hip"]
    assert hip["reason"] is None
    assert len(hip["devices"]) == 2
    assert str(over.library) in hip["libraries"]
    assert hip["compiled_version"] == hip["runtime_version"]
    assert hip["runtime_version"].startswith(f"{over.abi}.")
    assert all(device["arch"] == "gfx90a:sramecc+:xnack-" for device in hip["devices"])
    assert len({device["uuid"] for device in hip["devices"]}) == 2


def test_another_majors_library_is_refused(tmp_path: Path, over: StandIn) -> None:
    """It goes by the name that the module asks for. A newer one has every symbol, an older one may not."""
    others = [standin(abi) for abi in ABIS if abi != over.abi]
    for other in others:
        folder = tmp_path / other.abi
        folder.mkdir()
        (folder / over.library.name).symlink_to(other.library)
        env = over.environment(LD_LIBRARY_PATH=str(folder))
        reason = reason_of("hip", root=fake_root(tmp_path, "kfd"), package=over.folder / "site-packages", **env)
        assert reason["code"] == ("library_wrong_major" if other.major > over.major else "library_too_old")
        assert over.library.name in reason["text"]


KINDS = """
    import ctypes, json
    import numpy as np
    import portamem.hip as pm
    plain = np.zeros(64, np.uint8)
    registered = pm.HostRegistration(np.zeros(4096, np.uint8))
    buffers = {
        "device": pm.DeviceMemoryResource(0).allocate(64),
        "pool": pm.AsyncMemoryResource(0).allocate(64, stream=pm.Device(0).default_stream),
        "pinned": pm.PinnedMemoryResource(0).allocate(64),
        "managed": pm.ManagedMemoryResource(0).allocate(64),
    }
    addresses = {name: buffer.handle for name, buffer in buffers.items()}
    addresses["registered"] = registered.handle
    addresses["plain"] = plain.ctypes.data
"""
"""Memory of every kind, by portamem; ``addresses`` says where."""


def test_kinds_of_memory(over: StandIn) -> None:
    """The numbers of the runtime, and the words that portamem makes of them."""
    answer = over.call(
        KINDS
        + """
    raw = {}
    for name, address in addresses.items():
        error, found = attributes(c_void_p(address))
        raw[name] = [error] if error else [found.type, found.is_managed]
    say([{name: pm.pointer_info(address).kind for name, address in addresses.items()}, raw])
    """
    )
    kinds, raw = answer
    assert kinds == {
        "device": "device",
        "pool": "device",
        "pinned": "host",
        "managed": "managed",
        "registered": "host",
        "plain": "unregistered",
    }
    if over.major < 6:
        host, device, managed, plain = [0, 0], [1, 0], [0, 1], [1]  # [1]: an error
    else:
        host, device, managed, plain = [1, 0], [2, 0], [3, 1], [0, 0]
    assert raw == {
        "device": device,
        "pool": device,
        "pinned": host,
        "managed": managed,
        "registered": host,
        "plain": plain,
    }


ORACLES = [("6.1", "6.2"), ("7.1", "7.2"), ("6.1", "10.0"), ("7.1", "10.0")]


@pytest.mark.parametrize(("abi", "oracle"), ORACLES)
def test_hip_python_sees_the_same(abi: str, oracle: str) -> None:
    """AMD's own bindings of the same major read the same memory, through structs and numbers of their own."""
    over = standin(abi)
    code = (
        KINDS
        + """
    from hip import hip
    from portamem import _libraries

    def attributes_of(address):
        try:
            error, found = hip.hipPointerGetAttributes(address)
        except TypeError:
            found = hip.hipPointerAttribute_t()
            error, = hip.hipPointerGetAttributes(found, address)
        assert error == 0, error
        return hip.hipMemoryType(found.type).name.removeprefix("hipMemoryType").lower()

    def arch_of(device):
        try:
            error, found = hip.hipGetDeviceProperties(device)
        except TypeError:
            found = hip.hipDeviceProp_t()
            error, = hip.hipGetDeviceProperties(found, device)
        assert error == 0, error
        name = found.gcnArchName
        return name if isinstance(name, str) else name.decode(), found.totalGlobalMem

    def number(name, device=0):
        error, value = hip.hipDeviceGetAttribute(getattr(hip.hipDeviceAttribute_t, "hipDeviceAttribute" + name), device)
        assert error == 0, error
        return value

    device = pm.Device(0)
    known = device.capabilities
    memory = device.memory_info()
    assert len(_libraries.amd_runtimes()) == 1
    print(json.dumps({
        "ours": [
            {name: pm.pointer_info(address).kind for name, address in addresses.items()},
            [device.arch, memory.total], [memory.free, memory.total],
            [known.warp_size, known.multi_processor_count, known.memory_pools, known.integrated,
             known.pageable_memory_access, known.concurrent_managed_access, known.host_register],
            pm.runtime_version(),
        ],
        "theirs": [
            {name: attributes_of(address) for name, address in addresses.items()},
            arch_of(0), hip.hipMemGetInfo()[1:],
            [number("WarpSize"), number("MultiprocessorCount"), *(bool(number(name)) for name in (
                "MemoryPoolsSupported", "Integrated", "PageableMemoryAccess", "ConcurrentManagedAccess",
                "HostRegisterSupported"))],
            hip.hipRuntimeGetVersion()[1],
        ],
    }))
    """
    )
    env = over.environment()
    env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{root() / f'hip-python-{oracle}'}"
    done = run_python(code, **env)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["theirs"] == answer["ours"]


def test_a_binding_of_another_major_misreads() -> None:
    """Why a module serves one major: to bindings of HIP 6 and later, HIP 5's device memory is host memory."""
    over = standin("5.2")
    env = over.environment()
    env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{root() / 'hip-python-10.0'}"
    type_of = "int(hip.hipPointerGetAttributes(addresses['device'])[1].type)"
    done = run_python(KINDS + f"\n    from hip import hip\n    print({type_of})", **env)
    assert done.stdout.strip() == "1", done.stderr


def test_last_error(over: StandIn) -> None:
    """Before 7.0 a success clears it; from then on it stays until it is read."""
    answer = over.call("""
        failed = hip.hipMalloc(byref(c_void_p()), c_size_t(1 << 50))
        malloc(64)
        kept = hip.hipPeekAtLastError()
        say([failed, kept, hip.hipGetLastError(), hip.hipGetLastError()])
    """)
    assert answer == ([2, 2, 2, 0] if over.major >= 7 else [2, 0, 0, 0])


def test_masks_and_knobs(over: StandIn) -> None:
    count = "import json, portamem.hip as pm; print(json.dumps([pm.device_count(), pm.Device(0).uuid]))"
    both = over.ask(count)
    assert both[0] == 2
    second = over.ask(count, HIP_VISIBLE_DEVICES="1")
    assert second[0] == 1
    assert second[1] != both[1]
    assert over.ask(count, ROCR_VISIBLE_DEVICES="1,0", HIP_VISIBLE_DEVICES="0") == second
    assert over.ask(count, STANDIN_DEVICES="3")[0] == 3
    # The host backend in the same process is another machine.
    answer = over.ask(
        "import json, portamem.hip as pm, portamem.host as host; print(json.dumps([pm.Device(0).memory_info().total, "
        "host.Device(0).memory_info().total]))",
        STANDIN_CAPACITY="64MiB",
        PORTAMEM_HOST_CAPACITY="32MiB",
    )
    assert answer == [64 << 20, 32 << 20]


def test_the_nth_call_fails(over: StandIn) -> None:
    code = "say([hip.hipMalloc(byref(c_void_p()), c_size_t(64)) for _ in range(3)])"
    assert over.call(code, STANDIN_FAIL="Malloc:2:719") == [0, 719, 0]


# portamem's answers with a quirk on.

ANSWERS: dict[str, tuple[str, Any]] = {
    "plain_host_pointer_refused": ("pm.pointer_info(np.zeros(8).ctypes.data).kind", "unregistered"),
    "null_pointer_refused": ("pm.pointer_info(0).kind", "unregistered"),
    "free_async_null_refused": ("empty(pm.AsyncMemoryResource(0), stream=stream)", 0),
    "async_zero_refused": ("empty(pm.AsyncMemoryResource(0), stream=stream)", 0),
    "managed_zero_refused": ("empty(pm.ManagedMemoryResource(0))", 0),
    "pinned_flags_drop_coherence": ("copied_by_event(pm.PinnedMemoryResource(0, portable=True, mapped=False))", 7),
    "register_overlap_allowed": ("register_again()", 712),
    "prefetch_ignores_foreign": ("prefetch_device_memory()", "ValueError"),
    "pools_not_supported": ("[pm.Device(0).capabilities.memory_pools, without_pools()]", [False, 801]),
    "pool_exhaustion_unseen": ("too_much()", "OutOfMemoryError"),
    "release_threshold_ignored": (
        "[pm.Device(0).probe().pool_threshold_accepted, pm.Device(0).probe().pool_threshold_effective]",
        [True, False],
    ),
    "free_on_other_stream": ("freed_on_another_stream()", 2),
    "failed_allocation_keeps_memory": ("too_much()", "OutOfMemoryError"),
}

ASKING = """
    import json, sys
    import numpy as np
    import portamem, portamem.hip as pm
    MIB = 1 << 20
    stream = pm.Stream(0)

    def empty(resource, **where):
        buffer = resource.allocate(0, **where)
        handle = buffer.handle
        buffer.close()
        return handle

    def copied_by_event(pinned):
        source, target = pm.DeviceMemoryResource(0).allocate(64), pinned.allocate(64)
        source.fill(7)
        pm.Device(0).synchronize()
        pm.copy(target, source, stream=stream).synchronize()
        return np.asarray(target)[63].item()

    def register_again():
        array = np.zeros(8192, np.uint8)
        with pm.HostRegistration(array):
            try:
                pm.HostRegistration(array[:4096])
            except portamem.Error as error:
                return error.code

    def raised(call):
        try:
            call()
        except Exception as error:
            return type(error).__name__

    def prefetch_device_memory():
        return raised(lambda: pm.DeviceMemoryResource(0).allocate(64).prefetch("host", stream=stream))

    def without_pools():
        try:
            pm.AsyncMemoryResource(0)
        except portamem.Error as error:
            return error.code

    def too_much():
        return raised(lambda: pm.AsyncMemoryResource(0).allocate("1 TiB", stream=stream))

    def freed_on_another_stream():
        second, third = pm.Stream(0), pm.Stream(0)
        resource = pm.AsyncMemoryResource(0)
        buffer = resource.allocate(MIB, stream=stream)
        for _ in range(2):
            buffer.fill(1, stream=stream)
        second.wait(stream)
        buffer.close(stream=second)
        again = resource.allocate(MIB, stream=third)
        again.fill(2, stream=third)
        for each in (stream, second, third):
            each.synchronize()
        host = np.zeros(MIB, np.uint8)
        pm.copy(host, again)
        return host[-1].item()

    print(json.dumps(eval(sys.argv[1])))
"""


def test_registration_where_unknown_memory_is_an_error(over: StandIn) -> None:
    """Registration asks whether the memory is registered already, by the query that the quirk is about."""
    register = "pm.HostRegistration(np.zeros(4096, np.uint8)).close()"
    assert over.ask(ASKING, register, STANDIN_QUIRKS="plain_host_pointer_refused") is None


@pytest.mark.parametrize("quirk", ANSWERS)
def test_portamem_is_right_with_a_quirk(over: StandIn, quirk: str) -> None:
    expression, expected = ANSWERS[quirk]
    env = {"STANDIN_COPY_DELAY": "200000"} if quirk == "free_on_other_stream" else {}
    assert over.ask(ASKING, expression, STANDIN_QUIRKS=quirk, **env) == expected


def test_the_quirk_policies_are_what_helps(over: StandIn) -> None:
    """Switched off, portamem's answers to three faults do not come."""
    expression = ANSWERS["free_on_other_stream"][0]
    env = {"STANDIN_QUIRKS": "free_on_other_stream", "STANDIN_COPY_DELAY": "200000"}
    assert over.ask(ASKING, expression, PORTAMEM_QUIRKS="free_on_other_stream=off", **env) == 1

    tiny = "raised(lambda: pm.AsyncMemoryResource(0).allocate(4, stream=stream))"
    env = {"STANDIN_QUIRKS": "tiny_pool_allocation"}
    assert over.ask(ASKING, tiny, **env) == "OutOfMemoryError"
    assert over.ask(ASKING, tiny, PORTAMEM_QUIRKS="tiny_pool_allocation=on", **env) is None

    rows = (
        "raised(lambda: pm.copy_2d(pm.PinnedMemoryResource(0).allocate(8192)[4096:], "
        "pm.DeviceMemoryResource(0).allocate(4096), width=64, height=64, dst_pitch=64, src_pitch=64))"
    )
    env = {"STANDIN_QUIRKS": "pitched_copy_direction"}
    assert over.ask(ASKING, rows, **env) == "Error"
    assert over.ask(ASKING, rows, PORTAMEM_QUIRKS="pitched_copy_direction=on", **env) is None


def test_a_gpu_run_is_not_claimed() -> None:
    """A library that is no stand-in has no mark: reports can tell."""
    real = Path("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5")
    if not real.exists():
        pytest.skip("Debian's libamdhip64 is not here")
    assert "portamem_standin" not in versions_of(real)
