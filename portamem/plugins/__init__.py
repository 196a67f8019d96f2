# SPDX-License-Identifier: MIT
"""portamem as the allocator of other libraries.

Each module here is named for a library, and imports it only when it is used: ``portamem.plugins.torch``, ``cupy``,
``numba``, ``warp``, ``nvmath``, ``tvm_ffi`` and ``cuda_core``. Its ``use(resource)`` has the library take memory from a
portamem resource, and returns a ``Plug``, whose ``undo()`` gives the library its own allocator back::

    import portamem as pm
    from portamem.plugins import cupy

    with cupy.use(pm.PoolMemoryResource(pm.DeviceMemoryResource())):
        ...  # arrays that CuPy makes here are the pool's

Without a resource, each allocation takes the current one of its device: that of ``portamem.using``, else
``portamem.default_resource``. Memory goes back to the resource that it came from, whatever is current then.
"""

from __future__ import annotations

from portamem.plugins._plug import Plug

__all__ = ["Plug"]
