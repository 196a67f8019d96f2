# SPDX-License-Identifier: MIT
"""One memory API for NVIDIA GPUs, AMD GPUs and the CPU.

``portamem.cuda``, ``portamem.hip`` and ``portamem.host`` each hold the whole API of one backend. The plain names
(``portamem.empty``, ``portamem.Stream``, ...) go to the backend that is chosen on first use: the one that
PORTAMEM_BACKEND names, else the first GPU that works, else the CPU.

Importing this opens no vendor library and touches no driver.
"""

from __future__ import annotations

from portamem.errors import BackendUnavailableError, Error, OrderError, OutOfMemoryError

TYPE_CHECKING = False  # type checkers take it for `typing`'s, without the milliseconds that importing that costs
if TYPE_CHECKING:
    from portamem import cuda as cuda
    from portamem import enums as enums
    from portamem import hip as hip
    from portamem import host as host
    from portamem._loader import BackendInfo
    from portamem.host import (
        AsyncMemoryResource,
        Buffer,
        CallbackMemoryResource,
        Capabilities,
        Device,
        DeviceMemoryResource,
        Event,
        FailureCallbackAdaptor,
        FallbackAdaptor,
        FixedSizeMemoryResource,
        GrowableBuffer,
        HostRegistration,
        LimitingAdaptor,
        LoggingAdaptor,
        ManagedMemoryResource,
        MemoryInfo,
        MemoryResource,
        MonotonicMemoryResource,
        PinnedMemoryResource,
        PitchedBuffer,
        PointerInfo,
        PoolMemoryResource,
        PrefaultedPinnedMemoryResource,
        PrefetchAdaptor,
        ProbedCapabilities,
        Quirk,
        Recommendation,
        ResourceAdaptor,
        StatisticsAdaptor,
        Stream,
        SystemMemoryResource,
        TrackingAdaptor,
        View,
        VirtualMemoryResource,
        asarray,
        backend,
        check,
        compiled_version,
        copy,
        copy_2d,
        copy_3d,
        current_resource,
        current_tag,
        deallocate,
        default_resource,
        device_count,
        devices,
        driver_version,
        empty,
        fill_2d,
        from_any,
        from_dlpack,
        held,
        load,
        pointer_info,
        recommend,
        resource_of,
        runtime_version,
        save,
        set_default_resource,
        set_quirk,
        size_of,
        tag,
        using,
        version_text,
        zeros,
    )
    from portamem.reasons import Reason

    __version__: str
else:
    from portamem import _types

    globals().update({cls.__name__: cls for cls in _types.TYPES})

    def __getattr__(name: str) -> object:
        """Finds a name that is not set yet: a backend, a name of the chosen backend, or something slow to import."""
        if name == "__version__":
            from portamem import _build

            return _build.version()
        if name in _SUBMODULES:
            import importlib

            return importlib.import_module(f"portamem.{name}")
        if name in ("BackendInfo", "Reason"):
            from portamem import _loader

            return getattr(_loader, name)
        if name in __all__:
            from portamem import _choice

            return _choice.take(name, globals())
        raise AttributeError(f"module 'portamem' has no attribute {name!r}")


__all__ = [
    "AsyncMemoryResource",
    "BackendInfo",
    "BackendUnavailableError",
    "Buffer",
    "CallbackMemoryResource",
    "Capabilities",
    "Device",
    "DeviceMemoryResource",
    "Error",
    "Event",
    "FailureCallbackAdaptor",
    "FallbackAdaptor",
    "FixedSizeMemoryResource",
    "GrowableBuffer",
    "HostRegistration",
    "LimitingAdaptor",
    "LoggingAdaptor",
    "ManagedMemoryResource",
    "MemoryInfo",
    "MemoryResource",
    "MonotonicMemoryResource",
    "OrderError",
    "OutOfMemoryError",
    "PinnedMemoryResource",
    "PitchedBuffer",
    "PointerInfo",
    "PoolMemoryResource",
    "PrefaultedPinnedMemoryResource",
    "PrefetchAdaptor",
    "ProbedCapabilities",
    "Quirk",
    "Reason",
    "Recommendation",
    "ResourceAdaptor",
    "StatisticsAdaptor",
    "Stream",
    "SystemMemoryResource",
    "TrackingAdaptor",
    "View",
    "VirtualMemoryResource",
    "__version__",
    "asarray",
    "backend",
    "backends",
    "check",
    "compiled_version",
    "copy",
    "copy_2d",
    "copy_3d",
    "current_resource",
    "current_tag",
    "deallocate",
    "default_resource",
    "device_count",
    "devices",
    "driver_version",
    "empty",
    "fill_2d",
    "from_any",
    "from_dlpack",
    "get_cmake_dir",
    "get_include",
    "held",
    "load",
    "pointer_info",
    "recommend",
    "resource_of",
    "runtime_version",
    "save",
    "set_default_resource",
    "set_quirk",
    "size_of",
    "tag",
    "using",
    "version_text",
    "zeros",
]


_SUBMODULES = ("cuda", "hip", "host", "conformance", "enums", "errors")


def __dir__() -> list[str]:
    """Lists the names that a program may write behind ``portamem.``, with the backends for this machine. Loads none."""
    from portamem import _loader

    return sorted(
        {*__all__, *_SUBMODULES} - {name for name in _loader.BACKENDS if not _loader.is_for_this_machine(name)}
    )


def backends() -> dict[str, BackendInfo]:
    """The state of every backend, by name, as a BackendInfo. For a backend that cannot be used it has the reason, and
    the call does not raise."""
    from portamem import _loader

    return _loader.backends()


def get_include() -> str:
    """The folder for a C++ compiler's include path: ``#include <portamem/portamem.hpp>``. Raises FileNotFoundError
    where this installation has no headers."""
    from portamem import _build

    return str(_build.include_dir())


def get_cmake_dir() -> str:
    """The folder of portamem-config.cmake, for CMake's ``find_package(portamem)``: pass it as ``-Dportamem_DIR=...``.
    Raises FileNotFoundError where this installation has none."""
    from portamem import _build

    return str(_build.cmake_dir())
