"""Reasons: what masks, nodes and a runtime's first answer mean, in words, with something to do about it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from helpers.process import python_output
from helpers.standin import fake_root

from portamem import _machine, reasons
from portamem._machine import GpuNodes, ShutNode, gpu_nodes, shut_node, uuids
from portamem._masks import Mask, cut_short, hiding, masks
from portamem.reasons import Built, Machine, Reason, from_import_error, from_probe

NVIDIA = GpuNodes(("/dev/nvidiactl", "/dev/nvidia-uvm"), ("/dev/nvidia0", "/dev/nvidia1"))
AMD = GpuNodes(("/dev/kfd",), ("/dev/dri/renderD128", "/dev/dri/renderD129"))
NO_DEVICE = 100
UUIDS = ("GPU-8a1b0000-1111-2222-3333-444455556666", "GPU-8a1c0000-1111-2222-3333-444455556666")


def reason(vendor: str, code: int = NO_DEVICE, *, environ: Mapping[str, str] | None = None, **facts: object) -> Reason:
    """The reason of a runtime's answer on a machine with two devices."""
    machine = {
        "driver_version": "13.0",
        "runtime_version": "13.0",
        "nodes": NVIDIA if vendor == "cuda" else AMD,
        "masks": masks(vendor, environ or {}),
        **facts,
    }
    return from_probe(vendor, code, "the vendor's words", Machine(**machine))


# Masks: which there are, in which order, and when one hides everything.


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"}, ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["HIP_VISIBLE_DEVICES"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["CUDA_VISIBLE_DEVICES"]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, ["CUDA_VISIBLE_DEVICES"]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": ""}, []),  # an empty one hides nothing from HIP
        ({"ROCR_VISIBLE_DEVICES": ""}, ["ROCR_VISIBLE_DEVICES"]),
        ({"GPU_DEVICE_ORDINAL": "0"}, []),  # OpenCL's
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
    ],
)
def test_the_masks_of_hip_in_order(environ: dict[str, str], names: list[str]) -> None:
    assert [mask.name for mask in masks("hip", environ)] == names


def test_the_masks_of_cuda_in_order() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "all"}
    assert [str(mask) for mask in masks("cuda", environ)] == ["NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES="]


HIDES = [
    ("", "empty"),
    ("-1", "negative"),
    ("-1,0", "negative"),
    ("2", "no device 2"),
    ("7,0", "no device 7"),
    ("NoDevFiles", "NoDevFiles"),
    ("none", "none"),
    ("GPU-9", "GPU-9"),
    ("GPU-8a1b0000-1111-2222-3333-444455556667", "GPU-8a1b0000"),
]


@pytest.mark.parametrize(("value", "why"), HIDES)
def test_a_mask_that_hides_all(value: str, why: str) -> None:
    hidden = hiding([Mask("CUDA_VISIBLE_DEVICES", value)], 2, UUIDS)
    assert hidden is not None
    assert why in hidden.why
    told = reason("cuda", environ={"CUDA_VISIBLE_DEVICES": value}, uuids=UUIDS)
    assert told.code == "hidden_by_mask"
    assert f"CUDA_VISIBLE_DEVICES={value}" in told.text
    assert "Unset CUDA_VISIBLE_DEVICES" in told.fix
    assert "nvidia-smi -L" in told.fix


@pytest.mark.parametrize(
    "value", ["0", "1", "1,0", "0,9", "1,-1", *UUIDS, "GPU-8a1c", "gpu-8A1C", "MIG-5f", "MIG-GPU-9/1/0"]
)
def test_a_mask_that_may_leave_some(value: str) -> None:
    assert hiding([Mask("CUDA_VISIBLE_DEVICES", value)], 2, UUIDS) is None


def test_a_mask_that_is_cut_short() -> None:
    """It works, for fewer devices than were meant: what follows a device that is not there does not count."""
    cut = cut_short([Mask("CUDA_VISIBLE_DEVICES", "0,7,1")], 2)
    assert [str(each) for each in cut] == [
        "CUDA_VISIBLE_DEVICES=0,7,1 ends before its entry 7: there is no device 7, as the driver has 2, from 0 on"
    ]
    assert cut_short([Mask("ROCR_VISIBLE_DEVICES", "1"), Mask("HIP_VISIBLE_DEVICES", "0,1")], 2)[0].entry == "1"
    assert "ends before its entry 2, which is empty" in str(cut_short([Mask("CUDA_VISIBLE_DEVICES", "0,,1")], 2)[0])
    for value in ("0,1", "1", "7,0", "-1", "GPU-1,GPU-2", "0,", "0, ,"):
        assert cut_short([Mask("CUDA_VISIBLE_DEVICES", value)], 2) == []


def test_uuids_that_nobody_knows_are_believed() -> None:
    assert hiding([Mask("CUDA_VISIBLE_DEVICES", "GPU-9")], 2) is None
    assert hiding([Mask("CUDA_VISIBLE_DEVICES", "3")], 0) is None  # nor how many devices there are


def test_the_second_mask_counts_what_the_first_left() -> None:
    """Set twice for one purpose, by a batch system and by hand: each alone would do."""
    environ = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}
    told = reason("hip", environ=environ)
    assert told.code == "hidden_by_mask"
    assert "HIP_VISIBLE_DEVICES=1 hides every device" in told.text
    assert "ROCR_VISIBLE_DEVICES=1 leaves 1" in told.text
    assert hiding([Mask("ROCR_VISIBLE_DEVICES", "1,0"), Mask("HIP_VISIBLE_DEVICES", "1")], 2) is None
    assert hiding([Mask("ROCR_VISIBLE_DEVICES", "1,5,0"), Mask("HIP_VISIBLE_DEVICES", "1")], 2) is not None


def test_a_mask_under_which_the_driver_shows_nothing() -> None:
    """Not certain, but the likeliest by far: the devices are there and open, and a mask picks among them."""
    told = reason("cuda", environ={"CUDA_VISIBLE_DEVICES": "MIG-5f"}, uuids=UUIDS)
    assert told.code == "hidden_by_mask"
    assert "CUDA_VISIBLE_DEVICES=MIG-5f" in told.text
    assert reason("cuda", environ={"NVIDIA_VISIBLE_DEVICES": "all"}).code == "no_device"


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_a_container_that_was_started_without_gpus(value: str) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": value}
    told = reason("cuda", environ=environ, nodes=GpuNodes(("/dev/nvidiactl",)))
    assert told.code == "hidden_by_mask"
    assert "NVIDIA_VISIBLE_DEVICES=all" in told.fix
    told = reason("cuda", 35, environ=environ, driver_version="", nodes=GpuNodes())
    assert told.code == "no_driver"
    assert f"NVIDIA_VISIBLE_DEVICES={value}" in told.fix


# Facts that the machine shows.


def test_nodes_and_uuids(tmp_path: Path) -> None:
    root = fake_root(
        tmp_path,
        *(
            "nvidiactl",
            "nvidia-uvm",
            "nvidia0",
            "nvidia1",
            "nvidia-caps/nvidia-cap1",
            "kfd",
            "dri/card0",
            "dri/renderD128",
        ),
        files={
            "proc/driver/nvidia/gpus/0000:3b:00.0/information": f"Model: H200\nGPU UUID: \t {UUIDS[0]}\n",
            "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nunique_id 0\n",
            "sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 416\nunique_id 12345678901234567890\n",
        },
    )
    dev = root / "dev"
    assert gpu_nodes("cuda", root).devices == (str(dev / "nvidia0"), str(dev / "nvidia1"))
    assert gpu_nodes("cuda", root).driver == (str(dev / "nvidiactl"), str(dev / "nvidia-uvm"))
    assert gpu_nodes("hip", root) == GpuNodes((str(dev / "kfd"),), (str(dev / "dri/renderD128"),))
    assert gpu_nodes("host", root) == GpuNodes()
    assert uuids("cuda", root) == [UUIDS[0]]
    assert uuids("hip", root) == ["GPU-ab54a98ceb1f0ad2"]
    assert shut_node(gpu_nodes("cuda", root)) is None


def test_nothing_is_shown_by_an_empty_machine(tmp_path: Path) -> None:
    assert gpu_nodes("cuda", tmp_path) == gpu_nodes("hip", tmp_path) == GpuNodes()
    assert uuids("cuda", tmp_path) == uuids("hip", tmp_path) == []


# Permission.

AS_NOBODY = """
    import grp, os, pwd, sys
    from pathlib import Path
    from portamem._machine import gpu_nodes, shut_node
    from portamem import reasons
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    nodes = gpu_nodes(sys.argv[1], Path(sys.argv[2]))
    shut = shut_node(nodes)
    print(reasons.from_probe(sys.argv[1], 100, "", reasons.Machine(nodes=nodes, shut=shut)) if shut else "open")
"""


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that any user may search, unlike a test's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def shut_root(folder: Path, mode: int, *nodes: str) -> Path:
    """A root whose nodes have a mode and, where this may be set, a group of their own."""
    root = fake_root(folder, *nodes)
    for node in nodes:
        path = root / "dev" / node
        if os.geteuid() == 0:
            os.chown(path, 0, 4242)
        path.chmod(mode)
    return root


@pytest.mark.parametrize(
    ("vendor", "node", "others"), [("hip", "kfd", ["dri/renderD128"]), ("cuda", "nvidiactl", ["nvidia0"])]
)
def test_a_node_of_another_group(anybodys: Path, vendor: str, node: str, others: list[str]) -> None:
    """The user is told which group to be in, and by its number where it has no name here."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to a group it is not in")
    root = shut_root(anybodys, 0o660, node, *others)
    told = python_output(AS_NOBODY, vendor, str(root))
    assert f"{root}/dev/{node} belongs to group 4242, and this process is not in it [no_permission]" in told
    assert "--group-add 4242" in told


def test_devices_that_are_all_closed(anybodys: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to a group it is not in")
    root = shut_root(anybodys, 0o660, "nvidiactl", "nvidia0", "nvidia1")
    (root / "dev/nvidiactl").chmod(0o666)
    assert "nvidia0 belongs to group 4242" in python_output(AS_NOBODY, "cuda", str(root))
    (root / "dev/nvidia1").chmod(0o666)
    assert python_output(AS_NOBODY, "cuda", str(root)) == "open\n"


def test_a_mode_that_keeps_everybody_out(anybodys: Path) -> None:
    root = shut_root(anybodys, 0o600, "kfd")
    if os.geteuid() != 0:
        (root / "dev/kfd").chmod(0)
    told = python_output(AS_NOBODY, "hip", str(root))
    assert "[no_permission]" in told
    assert "mode 0" in told


def shut(**facts: object) -> ShutNode:
    known = {"path": "/dev/kfd", "errno": errno.EACCES, "mode": 0o660, "gid": 109, "group": "render"}
    return ShutNode(**{**known, "is_in": False, "is_listed": False, **facts})


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (shut(), ["the group render", "Add this user to the group render", "log in again"]),
        (shut(group=None), ["group 109", "--group-add 109"]),
        (shut(is_listed=True), ["Log in again"]),
        (shut(is_in=True, errno=errno.EPERM), ["container", "--device"]),
        (shut(mode=0o600), ["mode 0600"]),
    ],
)
def test_no_permission_says_what_to_do(node: ShutNode, words: list[str]) -> None:
    told = reason("hip", shut=node)
    assert told.code == "no_permission"
    assert "/dev/kfd" in told.text
    for word in words:
        assert word in str(told)


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_a_node_with_no_driver_behind_it(tmp_path: Path, vendor: str) -> None:
    """A real device node whose number no driver serves: it is left when a kernel module did not load."""
    name = {"cuda": "nvidiactl", "hip": "kfd"}[vendor]
    (tmp_path / "dev").mkdir()
    try:
        os.mknod(tmp_path / "dev" / name, 0o020666, os.makedev(511, 255))
    except OSError as error:
        pytest.skip(f"device nodes cannot be made here: {error}")
    nodes = gpu_nodes(vendor, tmp_path)
    closed = shut_node(nodes)
    if closed is None or not closed.is_dead:
        pytest.skip(f"device nodes cannot be opened here: {closed}")
    told = reason(vendor, nodes=nodes, shut=closed)
    assert told.code == "no_driver"
    assert str(tmp_path / "dev" / name) in told.text


# Reasons by the vendors' codes.


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (35, "driver_too_old", ["CUDA 12.2", "CUDA 13.0", "driver 580 or later", "built with CUDA 12"]),
        (36, "driver_too_old", ["CUDA 12.2", "CUDA 13.0"]),
        (46, "busy", ["compute mode", "nvidia-smi -c 0"]),
        (802, "busy", ["fabricmanager"]),
        (803, "driver_too_old", ["Restart"]),
        (804, "driver_too_old", ["cuda-compat"]),
        (100, "no_device", ["driver's log"]),
        (999, "no_device", ["the vendor's words"]),
    ],
)
def test_the_codes_of_cuda(code: int, expected: str, words: list[str]) -> None:
    told = reason("cuda", code, driver_version="12.2", runtime_version="13.0")
    assert told.code == expected
    for word in words:
        assert word in str(told)


@pytest.mark.parametrize("code", [35, 36])
@pytest.mark.parametrize(("driver", "runtime"), [("12.2", ""), ("", "13.0"), ("", "")])
def test_a_driver_too_old_whose_version_nobody_knows(code: int, driver: str, runtime: str) -> None:
    told = reason("cuda", code, driver_version=driver, runtime_version=runtime)
    assert told.code == ("driver_too_old" if driver or code == 36 else "no_driver")
    assert "driver" in told.fix
    assert "the vendor's words" in told.text or told.code == "no_driver"
    assert "  " not in str(told)


def test_a_driver_module_that_is_not_loaded() -> None:
    told = reason("cuda", 999, nodes=GpuNodes(("/dev/nvidiactl",), ("/dev/nvidia0",)))
    assert told.code == "no_driver"
    assert "nvidia-uvm" in told.text
    assert "nvidia-modprobe" in told.fix


@pytest.mark.parametrize(("vendor", "word"), [("cuda", "/dev/nvidia0"), ("hip", "/dev/dri")])
def test_a_driver_without_devices(vendor: str, word: str) -> None:
    told = reason(vendor, nodes=GpuNodes((NVIDIA if vendor == "cuda" else AMD).driver))
    assert told.code == "no_device"
    assert word in str(told)


def test_no_amd_driver() -> None:
    assert reason("hip", nodes=GpuNodes()).code == "no_driver"


def test_every_code_that_is_told_is_listed() -> None:
    source = Path(reasons.__file__).read_text(encoding="utf-8")
    for code in reasons.CODES:
        assert f'Reason("{code}"' in source or f'"{code}", ' in source


def test_the_root_is_the_machines() -> None:
    assert Path("/") == _machine.ROOT


# A module that does not load.

HIP = Built("5.2.21153", "libamdhip64.so.5")
MODULE = "/site-packages/portamem/_hip.so"


@pytest.mark.parametrize(
    ("backend", "built", "message", "code", "words"),
    [
        (
            *("hip", HIP, f"/opt/rocm/lib/libamdhip64.so.5: version `hip_5.2' not found (required by {MODULE})"),
            *("library_too_old", ["/opt/rocm/lib/libamdhip64.so.5 is too old", "hip_5.2", "HIP 5.2.21153"]),
        ),
        (
            *("cuda", Built("13.0"), "/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by _cuda.so)"),
            *("library_too_old", ["/lib/libstdc++.so.6 is too old", "GLIBCXX_3.4.30", "from source"]),
        ),
        (
            *("hip", HIP, f"{MODULE}: undefined symbol: hipMallocAsync, version hip_5.2"),
            *("library_too_old", ["libamdhip64.so.5 is too old: it lacks hipMallocAsync"]),
        ),
        (
            *("hip", HIP, f"{MODULE}: undefined symbol: portamem_held"),
            *("library_missing", ["Install portamem again", "portamem_held"]),
        ),
        (
            *("cuda", Built("13.0"), "_cuda.so: undefined symbol: portamem_held"),
            *("library_missing", ["Install portamem again"]),
        ),
        (
            *("hip", HIP, "libhsa-runtime64.so.1: cannot open shared object file: No such file or directory"),
            *("library_missing", ["libhsa-runtime64.so.1 is not found, which the hip module needs"]),
        ),
        (
            *("hip", HIP, "/opt/rocm/lib/libamdhip64.so.5: file too short"),
            *("library_missing", ["file too short", "Install the vendor's runtime again"]),
        ),
        (
            *("host", Built("0.2.0"), "libportamem.so.0.2: cannot open shared object file: No such file or directory"),
            *("library_missing", ["libportamem.so.0.2", "Install portamem again"]),
        ),
        (
            *("host", Built("0.2.0"), "/opt/libportamem.so.0.2: version `PORTAMEM_0.2' not found (by _host.so)"),
            *("library_wrong_major", ["/opt/libportamem.so.0.2 is of another version", "LD_PRELOAD"]),
        ),
    ],
)
def test_what_the_loader_says(backend: str, built: Built, message: str, code: str, words: list[str]) -> None:
    told = from_import_error(backend, message, built)
    assert told.code == code
    for word in words:
        assert word in str(told)
