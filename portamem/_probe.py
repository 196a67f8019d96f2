# SPDX-License-Identifier: MIT
"""``python -m portamem._probe BACKEND``: what one backend is like here, as JSON.

It runs in a process of its own, because a vendor's library may abort, hang or print when it is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import asdict
from typing import Any

from portamem import _build, _libraries, _loader
from portamem.errors import Error

# A static runtime is in the module and has no line.
_LIBRARY = re.compile(r"/(?:libportamem|libcudart|libcuda|libamdhip64|libhsa-runtime64)[^/]*\.so[^/]*$")


def describe(backend: str, *, memory: bool, probe: bool) -> dict[str, Any]:
    """State, versions, devices and loaded libraries. Only ``memory`` and ``probe`` make the runtime create contexts."""
    info = _loader.info(backend)
    devices: list[dict[str, Any]] = []
    driver = None
    if info.loadable:
        native = _loader.load(backend)
        devices = [_device(native.Device(ordinal), memory=memory, probe=probe) for ordinal in range(info.device_count)]
        driver = native.version_text(native.driver_version()) if info.is_ready and backend != "host" else None
    module = _build.module_path(backend)
    return {
        "built": info.built,
        "loadable": info.loadable,
        "reason": asdict(info.reason) if info.reason else None,
        "compiled_version": info.compiled_version,
        "runtime_version": info.runtime_version,
        "driver_version": driver,
        "module": str(module) if module else None,
        "libraries": _libraries.loaded(_LIBRARY),
        "copies": _copies(native) if info.loadable else None,
        "devices": devices,
    }


def _copies(native: Any) -> dict[str, Any]:
    """How many threads carry a large copy between ordinary host memory and a device; 0: the runtime's own call does."""
    try:
        threads, from_bytes = native._staged_copies()
    except ValueError as error:  # PORTAMEM_COPY_THREADS cannot be read
        return {"error": str(error)}
    return {"threads": threads, "from_bytes": from_bytes}


def _device(device: Any, *, memory: bool, probe: bool) -> dict[str, Any]:
    described = {
        "ordinal": device.ordinal,
        "name": device.name,
        "arch": device.arch,
        "uuid": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "numa_node": device.numa_node,
        "capabilities": device.capabilities.as_dict(),
        "probed": device.probe().as_dict() if probe else None,
        "quirks": None,
    }
    try:
        described["quirks"] = [quirk.as_dict() for quirk in device.quirks]
    except ValueError as error:  # PORTAMEM_QUIRKS cannot be read
        described["quirks_error"] = str(error)
    if memory:
        try:
            figures = device.memory_info()
        except Error as error:  # the first call that needs a context, which another process may keep from us
            described["memory_error"] = str(error)
        else:
            described["memory"] = {name: getattr(figures, name) for name in ("free", "total", "held", "source")}
    return described


def main() -> None:
    parser = argparse.ArgumentParser(description="What one backend is like on this machine, as JSON.")
    parser.add_argument("backend", choices=_loader.BACKENDS)
    parser.add_argument("--memory", action="store_true", help="figures of memory too, which creates contexts")
    parser.add_argument("--probe", action="store_true", help="what is found by trying too, which creates contexts")
    options = parser.parse_args()
    answer = os.dup(1)
    os.dup2(2, 1)  # a library's output goes to stderr, and does not spoil the JSON
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump(describe(options.backend, memory=options.memory, probe=options.probe), out)


if __name__ == "__main__":
    main()
