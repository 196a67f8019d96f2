# SPDX-License-Identifier: MIT
"""Shows the clauses that are CUDA's own. What a context is, cuda-python's driver calls tell."""

from __future__ import annotations

from typing import Any

from portamem import Error
from portamem.conformance.checks.pinned import FLAGS
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal, refused
from portamem.conformance.kit.kernel_words import Words
from portamem.conformance.kit.memory import KIB
from portamem.conformance.witness.base import Witness

LIBRARIES = r"""
    import re
    print(*sorted(set(re.findall(r"\S*lib(?:cudart|cuda)\.so\S*", open("/proc/self/maps").read()))))
    print(pm.compiled_version())
"""


@check("CUDA-01", without_device=True)
def it_brings_its_runtime(env: Env) -> None:
    opened, version = env.output(LIBRARIES).split("\n")[:2]
    expect_equal(opened.strip(), "", "the list of CUDA's libraries after the import")
    expect_equal(int(version), env.pm.compiled_version(), "the version of its headers")


DRIVER = """
    from cuda.bindings import driver
    def check(answer):
        error, *values = answer
        assert int(error) == 0, error
        return values[0] if values else None
    def is_active(ordinal):
        error, _, active = driver.cuDevicePrimaryCtxGetState(check(driver.cuDeviceGet(ordinal)))
        assert int(error) == 0, error
        return bool(active)
    def current():
        return int(check(driver.cuCtxGetCurrent()))
"""


def told(env: Env, source: str) -> list[str]:
    """The lines of a program that asks the driver by the witness's package, which decides: without it there is none."""
    _ = env.witness
    return env.output(DRIVER + source).splitlines()


NO_CONTEXT = """
    check(driver.cuInit(0))
    for device in pm.devices():
        device.name, device.arch, device.uuid, device.pci_bus_id, device.numa_node
        device.capabilities.as_dict(), device.quirks, repr(device)
    pm.device_count(), pm.probe(), pm.driver_version(), pm.pointer_info(0), pm.Device.current()
    print([is_active(ordinal) for ordinal in range(pm.device_count())], current())
    pm.Device(0).memory_info()
    print(is_active(0), [is_active(ordinal) for ordinal in range(1, pm.device_count())], current())
"""


@check("CUDA-02")
def no_context(env: Env) -> None:
    asked, used = told(env, NO_CONTEXT)
    count = env.pm.device_count()
    expect_equal(asked, f"{[False] * count} 0", "contexts and the current one after asking")
    expect_equal(used, f"True {[False] * (count - 1)} 0", "contexts and the current one after asking for free memory")


PRIMARY = """
    check(driver.cuInit(0))
    primary = int(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0)))))
    device = pm.Device(0)
    stream = pm.Stream(device)
    resources = [pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)]
    context = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT
    for resource in resources:
        buf = resource.allocate(4096)
        buf.fill(1, stream=stream)
        stream.synchronize()
        print(int(check(driver.cuPointerGetAttribute(context, buf.handle))) == primary, buf.kind)
        buf.close()
    print(int(check(driver.cuStreamGetCtx(stream.handle))) == primary, "stream")
"""


@check("CUDA-03")
def the_primary_context(env: Env) -> None:
    for line in told(env, PRIMARY):
        expect(line.startswith("True"), f"not in the primary context: {line.split()[-1]}")


THREADS = """
    import threading
    check(driver.cuInit(0))
    device = pm.Device(0)
    def work():
        before = current()
        with pm.Stream(device) as stream, pm.DeviceMemoryResource(device) as resource, resource.allocate(4096) as buf:
            buf.fill(1, stream=stream)
            stream.synchronize()
            out = bytearray(4096)
            buf.copy_to(out)
            device.memory_info(), device.synchronize(), pm.pointer_info(buf)
        print(before == current(), before != 0)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    check(driver.cuCtxPushCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))
    work()
    check(driver.cuCtxPopCurrent())
    print(current() == 0)
"""


@check("CUDA-04")
def contexts_of_threads(env: Env) -> None:
    without, with_one, back = told(env, THREADS)
    expect_equal((without, with_one), ("True False", "True True"), "its being kept, its being there")
    expect_equal(back, "True", "the thread's having none in the end")


@check("CUDA-05")
def identity(env: Env, witness: Witness) -> None:
    theirs: Any = witness
    driver, runtime = theirs.driver, theirs.runtime
    for device in env.pm.devices():
        handle = _value(driver.cuDeviceGet(device.ordinal))
        uuid = _value(getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)(handle))
        expect_equal(device.uuid.replace("-", ""), bytes(uuid.bytes).hex(), "the uuid")
        name = _value(driver.cuDeviceGetName(256, handle)).split(b"\0")[0].decode()
        expect_equal(device.name, name, "the name")
        where = _value(runtime.cudaDeviceGetPCIBusId(32, device.ordinal)).split(b"\0")[0].decode()
        expect_equal(device.pci_bus_id, where.lower(), "the PCI address")
    expect_equal(env.pm.driver_version(), _value(runtime.cudaDriverGetVersion()), "the driver's version")


def _value(answer: tuple[Any, ...]) -> Any:
    error, value = answer
    expect_equal(int(error), 0, "the witness's own error")
    return value


@check("CUDA-06")
def handles(env: Env, witness: Witness) -> None:
    theirs: Any = witness
    for name in ("device", "async", "managed", "pinned"):
        with env.allocate(env.resource(name), 4 * KIB) as buf:
            env.device.synchronize()
            capable = env.pm.pointer_info(buf).ipc_capable
            expect(capable is not None, f"it is not known of {name} memory")
            expect(name == "device" or not capable, f"{name} memory is told to be fit for a handle")
            with witness.context():
                error, _ = theirs.runtime.cudaIpcGetMemHandle(buf.handle)
                theirs.runtime.cudaGetLastError()
            expect_equal(int(error) == 0, capable, f"the runtime's giving a handle for {name} memory")


@check("CUDA-07")
def one_kind_of_pinned_memory(env: Env, kernels: Witness) -> None:
    able = env.device.capabilities
    expect_equal((able.pinned_coherent, able.pinned_non_coherent), (True, False), "coherent, non-coherent")
    stream = env.stream()
    for flags in FLAGS:
        with (
            env.pm.PinnedMemoryResource(env.device, coherence="non_coherent", **flags) as resource,
            resource.allocate(4 * KIB) as buf,
            Words(kernels, buf, stream) as words,
        ):
            expect(words.kernel_is_seen(), f"the host does not see a running kernel's writes, with {flags}")
            expect(words.host_is_seen(), f"a running kernel does not see the host's writes, with {flags}")


@check("CUDA-08")
def no_word_for_it(env: Env) -> None:
    able = env.device.capabilities
    expect_equal((able.direct_host_access, able.xnack), (None, None), "direct_host_access, xnack")
    for coherence in ("fine_grained", "uncached"):
        with (
            env.pm.DeviceMemoryResource(env.device, coherence=coherence) as resource,
            refused(Error, name="NotSupported"),
        ):
            resource.allocate(4 * KIB)
    with env.allocate(env.resource("device"), 4 * KIB) as buf, refused(BufferError):
        memoryview(buf)
    with env.allocate(env.resource("managed"), 4 * KIB) as buf, refused(Error, name="NotSupported"):
        buf.range_attribute("coherency_mode")


@check("CUDA-09")
def the_heap_is_limited(env: Env) -> None:
    expect_equal(env.device.capabilities.malloc_heap_kind, "limit", "malloc_heap_kind")
    expect(env.device.malloc_heap_size >= 4 << 20, f"the heap is {env.device.malloc_heap_size} bytes")


@check("CUDA-09")
def the_heap_is_limited_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    expect_equal(env.device.malloc_heap_size, witness.limit("malloc_heap_size"), "the runtime's limit")
    second = witness.driver_limit("malloc_heap_size")
    if second is not None:
        expect_equal(env.device.malloc_heap_size, second, "the driver's limit")
