# SPDX-License-Identifier: MIT
"""Shows the clauses that are HIP's own, on AMD's devices and, where they hold there, on NVIDIA's."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from portamem import Error, _build
from portamem.conformance.checks.device_quirks import as_the_table_says
from portamem.conformance.checks.pinned import FLAGS
from portamem.conformance.kit import program
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import NotShown, NoWitness, Unsupported
from portamem.conformance.witness.base import Witness
from portamem.conformance.witness.facts import WitnessError

COHERENT, NON_COHERENT = 0x40000000, 0x80000000
"""Bits in the flags of pinned memory, as AMD numbers them."""

NBYTES = 64 * KIB


def needs_amd(env: Env) -> None:
    if env.platform.vendor != "amd":
        raise Unsupported(f"the devices of HIP are {env.platform.vendor}'s here")


@check("HIP-01", without_device=True)
def one_major(env: Env) -> None:
    pm = env.pm
    compiled, runtime = pm.version_text(pm.compiled_version()), pm.version_text(pm.runtime_version())
    if env.platform.vendor == "amd":
        expect_equal(runtime.split(".")[0], compiled.split(".")[0], "the major version that answers")
        library = _build.info()["backends"]["hip"]["library"]
        expect_equal(library.rpartition(".")[2], compiled.split(".")[0], "the major version of the library's name")
    expect(compiled.count(".") >= 1 and runtime.count(".") >= 1, f"the versions are {compiled!r} and {runtime!r}")


@check("HIP-02")
def kinds_of_memory(env: Env) -> None:
    for name, kind in (("device", "device"), ("pinned", "host"), ("async", "device"), ("managed", "managed")):
        with env.allocate(env.resource(name), 4 * KIB) as buf:
            env.device.synchronize()
            expect_equal(env.pm.pointer_info(buf).kind, kind, f"the kind of {name} memory")
            expect_equal(env.pm.pointer_info(buf.handle + 100).kind, kind, f"the kind of {name} memory, further in")
    with env.allocate(env.resource("system"), 4 * KIB) as buf:
        expect_equal(env.pm.pointer_info(buf).kind, "unregistered", "the kind of plain memory")
    expect_equal(env.pm.pointer_info(0).kind, "unregistered", "the kind of null")


@check("HIP-02")
def kinds_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    for name in ("device", "pinned", "managed", "system"):
        with env.allocate(env.resource(name), 4 * KIB) as buf:
            expect_equal(env.pm.pointer_info(buf).kind, witness.pointer(buf.handle).kind, f"the kind of {name} memory")


@check("HIP-03")
def frees_on_the_allocating_stream(env: Env) -> None:
    needs_amd(env)
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    told = [quirk.is_active for quirk in env.device.quirks if quirk.name == "free_on_other_stream"]
    expect_equal(told, [True], "the quirk free_on_other_stream")
    stream, other = env.stream(), env.stream()
    with env.pm.AsyncMemoryResource(env.device) as pool:
        buf = pool.allocate(MIB, stream=stream)
        stream.synchronize()
        held = env.latch(other)
        buf.close(stream=other)
        expect(not stream.query(), "the memory went back without its stream waiting for the other")
        held.release()
        stream.synchronize()
        expect_equal(pool.used, 0, "what the pool has out")
    env.emulated("memory of pools is freed on the stream that it came from")


QUIRKS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "free_on_other_stream": ((0, 0), (999, 0)),
    "tiny_pool_allocation": ((5, 7), (6, 0)),
    "pitched_copy_direction": ((5, 6), (6, 1)),
    "pinned_flags_drop_coherence": ((0, 0), (999, 0)),
    "release_threshold_ignored": ((0, 0), (999, 0)),
    "cached_blocks_fit_badly": ((0, 0), (7, 0)),
    "failed_allocation_keeps_memory": ((7, 2), (999, 0)),
}
"""The first runtime that has one, and the first that has not, as the threads have it."""


@check("HIP-04")
def quirks_of_this_runtime(env: Env) -> None:
    with as_the_table_says(env):
        told = {quirk.name: quirk for quirk in env.device.quirks}
    if env.platform.vendor != "amd":
        expect_equal(sorted(told), [], "the quirks of a device that is not AMD's")
        return
    version = env.platform.version
    wanted = {name for name, (first, fixed) in QUIRKS.items() if first <= version < fixed}
    expect_equal(set(told), wanted, f"the quirks of {env.device.arch} under HIP {version[0]}.{version[1]}")
    expect_equal({quirk.is_active for quirk in told.values()}, {True}, "their being on")


@check("HIP-05")
def non_coherent_memory(env: Env) -> None:
    needs_amd(env)
    expect_equal(env.device.capabilities.pinned_non_coherent, True, "pinned_non_coherent")
    stream = env.stream()
    for flags in FLAGS:
        with (
            env.pm.PinnedMemoryResource(env.device, coherence="non_coherent", **flags) as resource,
            resource.allocate(NBYTES) as buf,
            env.allocate(env.resource("device"), NBYTES) as far,
        ):
            with memoryview(buf) as seen:
                seen[:] = pattern(NBYTES)
            far.copy_from(buf, stream=stream)
            buf.fill(0, stream=stream)
            far.copy_to(buf, stream=stream)
            stream.synchronize()
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), pattern(NBYTES), f"non-coherent memory with {flags}")


@check("HIP-05")
def coherence_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_amd(env)
    for coherence, wanted in (("default", COHERENT), ("coherent", COHERENT), ("non_coherent", NON_COHERENT)):
        for flags in FLAGS:
            with (
                env.pm.PinnedMemoryResource(env.device, coherence=coherence, **flags) as resource,
                resource.allocate(4 * KIB) as buf,
            ):
                buf.fill(1)
                found = (witness.host_flags(buf.handle) or 0) & (COHERENT | NON_COHERENT)
                expect_equal(hex(found), hex(wanted), f"the runtime's flags with coherence={coherence!r} and {flags}")


@check("HIP-06")
def the_heap(env: Env) -> None:
    kind = env.device.capabilities.malloc_heap_kind
    expect_equal(kind, "initial" if env.platform.vendor == "amd" else "limit", "malloc_heap_kind")
    expect(env.device.malloc_heap_size > 0, "the heap begins with nothing")


@check("HIP-06")
def the_heap_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    expect_equal(env.device.malloc_heap_size, witness.limit("malloc_heap_size"), "malloc_heap_size")


@check("HIP-07")
def xnack(env: Env) -> None:
    for device in env.pm.devices():
        name, able = device.arch, device.capabilities
        wanted = True if "xnack+" in name else (False if "xnack-" in name else None)
        expect_equal(able.xnack, wanted, f"xnack of {name}")
        if env.platform.vendor == "amd":
            expect(name.startswith("gfx"), f"the architecture is {name!r}")
            expect(able.managed_mode != "migrating" or able.pageable_memory_access, "memory migrates without XNACK")


@check("HIP-07")
def xnack_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_amd(env)
    theirs: Any = witness
    try:
        name = theirs.arch
    except WitnessError as error:
        raise NoWitness(f"{witness.name} cannot be asked for the architecture: {error}") from None
    expect_equal(env.device.arch, name, "the architecture, which the witness sees too,")
    wanted = True if ":xnack+" in name else (False if ":xnack-" in name else None)
    expect_equal(env.device.capabilities.xnack, wanted, f"xnack of {name}")


@check("HIP-08")
def read_only_registration(env: Env) -> None:
    memory = bytearray(NBYTES)
    with refused(Error, name="NotSupported") as refusal:
        env.pm.HostRegistration(memory, device=env.device, read_only=True)
    expect_equal(getattr(refusal.error, "code", 0), 801, "the code")
    memory.extend(b"more")  # its buffer is not held
    with env.pm.HostRegistration(bytearray(NBYTES), device=env.device) as registered:
        env.pm.copy(registered, pattern(NBYTES))
        expect_bytes(env.read(registered), pattern(NBYTES), "memory that was registered afterwards")


TWO = """
    import ctypes, json, warnings
    when, path = sys.argv[1:]
    if when == "before":
        ctypes.CDLL(path)
    with warnings.catch_warnings(record=True) as at_load:
        warnings.simplefilter("always")
        import portamem.hip as hip, portamem
    if when == "after":
        ctypes.CDLL(path)
    class Foreign:
        ptr = 64
        def __cuda_stream__(self):
            return 0, 2
    calls = [lambda: hip.Stream.wrap(Foreign()), lambda: hip.Event.wrap(Foreign()), portamem.backends]
    with warnings.catch_warnings(record=True) as later:
        warnings.simplefilter("always")
        for call in calls:
            try:
                call()
            except portamem.Error:
                pass
    told = lambda all: [[each.category.__name__, str(each.message)] for each in all]
    print(json.dumps([told(at_load), told(later)]))
"""
HERE = "from portamem import _libraries; print(_libraries.amd_runtimes()[0])"


def runtime_here(env: Env) -> Path:
    """The file of the HIP runtime that the module loads."""
    needs_amd(env)
    return Path(env.output(HERE).strip())


def warned(when: str, path: Path) -> Any:
    """Category and text of the warnings at the import, and later."""
    ended = program.run("", TWO, [when, str(path)], {"PYTHONWARNINGS": None})
    return json.loads(ended.output())


def another_of(real: Path, folder: Path) -> Path:
    """A copy that goes by another name, as bundled ones do."""
    own = str(_build.info()["backends"]["hip"]["library"])
    name = own[:-1] + ("9" if own[-1] != "9" else "8")
    data = real.read_bytes()
    if own.encode() + b"\0" not in data:
        raise NotShown(f"{real.name} does not carry its own name: no copy can go by another")
    path = folder / name
    path.write_bytes(data.replace(own.encode() + b"\0", name.encode() + b"\0"))
    return path


@check("HIP-09", without_device=True)
def two_runtimes(env: Env) -> None:
    real = runtime_here(env)
    with tempfile.TemporaryDirectory() as folder:
        another = another_of(real, Path(folder))
        for when in ("before", "after"):
            at_load, later = warned(when, another)
            told = at_load if when == "before" else later
            expect_equal(
                (len(at_load) + len(later), len(told)), (1, 1), f"warnings of a second runtime that came {when}"
            )
            category, text = told[0]
            expect_equal(category, "RuntimeWarning", "the category")
            expect(str(real) in text and str(another) in text, f"it names not both: {text}")


@check("HIP-10", without_device=True)
def one_runtime(env: Env) -> None:
    real = runtime_here(env)
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / "libamdhip64.so"
        link.symlink_to(real)
        for when in ("before", "after"):
            expect_equal(warned(when, link), [[], []], f"the warnings of a second name that came {when}")
        copy = Path(folder) / str(_build.info()["backends"]["hip"]["library"])
        shutil.copyfile(real, copy)
        expect_equal(warned("before", copy), [[], []], "the warnings of a copy of the same name that came first")
