"""DLPack out: what only a process of its own shows. The rest is in the contract."""

from __future__ import annotations

from types import ModuleType

import pytest
from helpers.process import python_output


def test_tensors_that_are_alive_at_exit(pm: ModuleType) -> None:
    """Deleters run when the interpreter is half gone, or never: neither may end the process with an error."""
    code = f"""
        import numpy as np
        import portamem.{pm.backend} as pm
        view = pm.PinnedMemoryResource(pm.Device(0)).allocate(4096).view("float32")
        array = np.from_dlpack(view)
        capsule = view.__dlpack__(max_version=(1, 0))
        imported = pm.from_dlpack(np.ones(16))
        class Node: pass
        node = Node()
        node.me, node.array = node, np.from_dlpack(view)
        np.kept = array, capsule, imported
        print(imported.to_numpy().sum())
    """
    assert python_output(code).strip() == "16.0"


def test_a_forked_child_is_refused(pm: ModuleType) -> None:
    code = f"""
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import portamem
        import portamem.{pm.backend} as pm
        view = pm.PinnedMemoryResource(pm.Device(0)).allocate(4096).view("float32")
        capsule = view.__dlpack__()
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            sys.exit(os.waitstatus_to_exitcode(status))
        try:
            view.__dlpack__(stream=-1)
        except portamem.Error as e:
            del capsule
            print(e.name)
    """
    assert python_output(code).strip() == "Forked"


@pytest.mark.host_only
def test_open_device_memory_is_the_cpus(pm: ModuleType) -> None:
    code = """
        import numpy as np
        import portamem.host as pm
        with pm.DeviceMemoryResource(pm.Device(0)).allocate(64) as buf, buf.view("int32") as view:
            buf.fill(1)
            array = np.from_dlpack(view)
            print(view.__dlpack_device__(), array.ctypes.data == view.handle, array.sum() == 16 * 0x01010101)
            del array
    """
    assert python_output(code, PORTAMEM_HOST_OPEN="1", PORTAMEM_HOST_GUARD=None).split() == [
        "(1,",
        "0)",
        "True",
        "True",
    ]
