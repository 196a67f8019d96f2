# SPDX-License-Identifier: MIT
"""Shows the clauses of machines without a device, in programs from which every device is hidden."""

from __future__ import annotations

import json

from portamem import reasons
from portamem.conformance.kit import absent_program, program
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal
from portamem.conformance.kit.outcome import NotShown, NoWitness
from portamem.conformance.kit.together import together

HIDDEN: dict[str, str | None] = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "ROCR_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "PORTAMEM_HOST_DEVICES": "0",
    "PORTAMEM_BACKEND": None,
    "PORTAMEM_REQUIRE": None,
}
SEEDS = 4
THERE = "there are devices all the same"

PREFACE = f"""
    import portamem
    if pm.device_count():
        print({THERE!r})
        sys.exit(0)
"""


def without(env: Env, source: str, *arguments: str, **environment: str | None) -> list[str]:
    """The lines that a program says from which every device is hidden, and that must end well and say nothing else."""
    return shown(env.run(PREFACE + source, *arguments, **{**HIDDEN, **environment}))


def shown(ended: program.Ended) -> list[str]:
    """The lines of a program; not shown where its devices would not be hidden."""
    lines = ended.output().splitlines()
    if lines == [THERE]:
        raise NotShown("the devices of this runtime cannot be hidden from a process")
    return lines


COUNTING = """
    answers = [pm.device_count(), pm.devices(), pm.held("host"), pm.probe()[0], pm.backend]
    print(json.dumps(answers))
    assert pm.compiled_version() > 0 and pm.version_text(pm.compiled_version())
    assert pm.runtime_version() >= 0 and pm.driver_version() >= 0
    info = pm.pointer_info(0) if pm.backend != "host" else None
    print(info.kind if info else "unregistered")
    count, code, text = pm.probe()
    assert code > 0 and text and isinstance(text, str)
"""


@check("ABSENT-01", without_device=True)
def what_needs_none(env: Env) -> None:
    answers, kind = without(env, COUNTING)
    expect_equal(json.loads(answers), [0, [], 0, 0, env.platform.backend], "count, devices, held, probe, name")
    expect_equal(kind, "unregistered", "the kind of address 0")


@check("ABSENT-02", "ABSENT-03", "ABSENT-04", "ABSENT-05", without_device=True)
def every_call(env: Env) -> None:
    for _, (first, last) in together(lambda seed: without(env, absent_program.SOURCE, str(seed)), range(SEEDS)):
        expect(int(last) > 250, f"{first} made {last} calls only")


@check("ABSENT-02", without_device=True)
def in_words(env: Env) -> None:
    name, code, backend, call, *words = without(
        env,
        """
    try:
        pm.Device(0)
    except portamem.Error as error:
        print(error.name, error.code, error.backend, error.call, error, sep=chr(10))
""",
    )
    text = " ".join(words)
    expect_equal((name, backend), ("NoDevice", env.platform.backend), "name and backend")
    expect(call and call in text and code in text, f"call and code are not in {text!r}")
    expect("portamem info" in text, f"it does not say where to look: {text!r}")
    if env.platform.backend == "host":
        expect("PORTAMEM_HOST_DEVICES" in text, f"it does not name the setting: {text!r}")


REASON = """
    def told():
        found = portamem.backends()[pm.backend]
        reason = found.reason
        return [found.is_ready, found.loadable, found.device_count, reason.code, reason.text, reason.fix]
    before = told()
    for call in (pm.Device, pm.Stream, lambda: pm.zeros(4), pm.current_resource):
        try:
            call()
        except portamem.Error as error:
            assert error.name == "NoDevice", error
        else:
            print("it went through")
    assert told() == before, (before, told())
    print(json.dumps(before))
"""


@check("ABSENT-06", without_device=True)
def the_reason(env: Env) -> None:
    (said,) = without(env, REASON)
    ready, loadable, count, code, text, fix = json.loads(said)
    expect_equal((ready, loadable, count), (False, True, 0), "is_ready, loadable, device_count")
    expect(code in reasons.CODES and code not in ("not_built", "library_missing", "crashed"), f"the code is {code!r}")
    expect(len(text) > 10 and len(fix) > 10 and "Traceback" not in text, f"the words are {text!r} and {fix!r}")


THEIRS = {
    "cuda": """
    from cuda.bindings import runtime
    if hasattr(runtime, "hip"):
        print("another package's cuda.bindings")
        sys.exit(0)
    error, count = runtime.cudaGetDeviceCount()
    print(json.dumps([int(error), count or 0]))
""",
    "hip": """
    from portamem.conformance.witness.amd import load_hip_python
    hip = load_hip_python()
    error, count = hip.hipGetDeviceCount()
    assert int(error) or not count, (error, count)
    assert int(hip.hipRuntimeGetVersion()[1]) == pm.runtime_version()
    assert int(hip.hipMalloc(16)[0]) != 0
    print(json.dumps([int(error), 0 if int(error) else int(count)]))
""",
}
OURS = """
    count, code, _ = pm.probe()
    print(json.dumps([code, count]))
"""


@check("ABSENT-07", without_device=True)
def as_the_vendors_package_finds(env: Env) -> None:
    from importlib.util import find_spec

    package = "hip" if env.platform.vendor == "amd" else "cuda"
    if find_spec(package) is None:
        raise NoWitness(f"no witness: there is no package {package!r}")
    (ours,) = without(env, OURS)
    ended = env.run(PREFACE + OURS + THEIRS[package], **HIDDEN)
    if ended.status and ("No module named" in ended.stderr or "failed to dlopen" in ended.stderr):
        raise NoWitness(f"no witness: {ended.stderr.strip().splitlines()[-1]}")
    again, *theirs = shown(ended)
    if theirs == ["another package's cuda.bindings"]:
        raise NoWitness("no witness: cuda.bindings is not NVIDIA's here")
    expect_equal(again, ours, "code and count beside the vendor's package")
    env.decided_by = f"{package}-python"
    expect_equal(json.loads(theirs[0]), json.loads(ours), "the vendor's code and count")


INFO = """
    from portamem.cli import main
    sys.argv = ["portamem", *sys.argv[1:]]
    sys.exit(main())
"""


@check("ABSENT-08", without_device=True)
def masks_in_their_order(env: Env) -> None:
    name = "hip" if env.platform.vendor == "amd" else "cuda"
    set_here: dict[str, str | None] = {**HIDDEN, "NVIDIA_VISIBLE_DEVICES": None}
    found = json.loads(env.run(INFO, "info", "--json", **set_here).output())
    wanted = {"cuda": ["CUDA_VISIBLE_DEVICES"], "hip": ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]}[name]
    expect_equal([mask["name"] for mask in found["masks"][name]], wanted, "the masks")
    expect_equal({mask["value"] for mask in found["masks"][name]}, {"-1"}, "their values")
    text = env.run(INFO, "info", **set_here).output()
    for mask in wanted:
        expect(mask in text, f"{mask} is not in what portamem info says")


PLAIN_NAMES = """
    import json, sys, warnings
    import portamem
    warnings.simplefilter("ignore")
    try:
        portamem.Device()
        print("ran on", portamem.backend)
    except portamem.BackendUnavailableError as error:
        print("refused", error.reason.code, error.reason.text in str(error), error.reason.fix in str(error))
"""


@check("ABSENT-09", without_device=True)
def never_on_another(env: Env) -> None:
    backend = env.platform.backend
    without(env, "")  # or the devices cannot be hidden
    settings: list[dict[str, str | None]] = [{"PORTAMEM_BACKEND": backend}]
    if backend != "host":
        settings += [{"PORTAMEM_REQUIRE": backend}, {"PORTAMEM_REQUIRE": "gpu"}]
    for setting in settings:
        ended = program.run("", PLAIN_NAMES, [], {**HIDDEN, **setting})
        refused, code, *in_words = ended.output().split()
        expect_equal(
            (refused, in_words), ("refused", ["True", "True"]), f"what came of the plain names under {setting}"
        )
        expect(code in reasons.CODES, f"the code is {code!r}")


@check("ABSENT-10", without_device=True)
def the_command_line(env: Env) -> None:
    without(env, "")
    told = env.run(INFO, "info", **HIDDEN)
    expect_equal((told.status, told.stderr), (0, ""), "how portamem info ends")
    mine = next((line for line in told.stdout.splitlines() if line.startswith(env.platform.backend)), "")
    expect(mine and "ready" not in mine, f"of the backend it says {mine!r}")
    demo = env.run(INFO, "demo", "--backend", env.platform.backend, "--size", "1 KiB", **HIDDEN)
    expect(demo.status not in (0, -11, -6), f"the demo {demo.how}")
    expect("Traceback" not in demo.stderr + demo.stdout, f"the demo shows a traceback: {demo.stderr}")
    expect(f"portamem.{env.platform.backend} cannot be used" in demo.stderr, f"the demo says {demo.stderr!r}")


BESIDE = """
    import portamem.host as host
    for call in (pm.Device, pm.Stream, pm.DeviceMemoryResource, lambda: pm.zeros(4)):
        try:
            call()
        except portamem.Error as error:
            assert error.name == "NoDevice", error
        with host.zeros(16, "float32") as view:
            view.copy_from(bytes(range(64)))
            out = bytearray(64)
            view.copy_to(out)
            assert out == bytes(range(64))
    print(host.device_count() > 0)
"""


@check("ABSENT-11", without_device=True)
def beside_the_cpu(env: Env) -> None:
    expect_equal(without(env, BESIDE, PORTAMEM_HOST_DEVICES=None), ["True"], "the CPU's backend having devices")


THREADS = """
    import threading
    found, begin = [], threading.Barrier(8)
    def ask():
        begin.wait(30)
        for call in (pm.Device, pm.Stream, lambda: pm.DeviceMemoryResource(0), lambda: pm.zeros(4), pm.device_count):
            try:
                found.append(call())
            except portamem.Error as error:
                found.append((error.name, error.code))
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(found), len(set(found)), ("NoDevice", pm.probe()[1]) in found, 0 in found)
"""


@check("ABSENT-12", without_device=True)
def on_many_threads(env: Env) -> None:
    expect_equal(without(env, THREADS), ["40 2 True True"], "answers, different ones, the right ones")
