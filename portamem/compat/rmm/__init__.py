# SPDX-License-Identifier: MIT
"""RMM's Python API over portamem: ``import portamem.compat.rmm as rmm`` in the place of ``import rmm``.

hipMM has the same API. The resources are portamem's, of the backend that portamem chooses, and the resource that is
current here is the one that all of portamem allocates from. docs/porting/rmm.md says what differs.

Importing this opens no vendor library and touches no driver.
"""

from __future__ import annotations

from portamem.compat.rmm import mr, statistics
from portamem.compat.rmm._cuda import gpu as _gpu  # noqa: F401  # programs write rmm._cuda.gpu
from portamem.compat.rmm._version import __git_commit__, __version__
from portamem.compat.rmm.mr import disable_logging, enable_logging, get_log_filenames
from portamem.compat.rmm.pylibrmm.device_buffer import DeviceBuffer
from portamem.compat.rmm.pylibrmm.logger import (
    flush_logger,
    get_flush_level,
    get_logging_level,
    level_enum,
    set_flush_level,
    set_logging_level,
    should_log,
)
from portamem.compat.rmm.rmm import (
    RMMError,
    is_initialized,
    register_reinitialize_hook,
    reinitialize,
    unregister_reinitialize_hook,
)

__all__ = [
    "DeviceBuffer",
    "RMMError",
    "__git_commit__",
    "__version__",
    "disable_logging",
    "enable_logging",
    "flush_logger",
    "get_flush_level",
    "get_log_filenames",
    "get_logging_level",
    "is_initialized",
    "level_enum",
    "mr",
    "register_reinitialize_hook",
    "reinitialize",
    "set_flush_level",
    "set_logging_level",
    "should_log",
    "statistics",
    "unregister_reinitialize_hook",
]
