# SPDX-License-Identifier: MIT
"""Resources that keep memory of another one and give it out in parts."""

from __future__ import annotations

from typing import SupportsIndex

import portamem
from portamem.compat.rmm._sizes import align_up, nbytes_of, parse_bytes
from portamem.compat.rmm.pylibrmm import logger
from portamem.compat.rmm.pylibrmm.memory_resource._base import (
    DeviceMemoryResource,
    UpstreamResourceAdaptor,
    as_resource,
)


class PoolMemoryResource(UpstreamResourceAdaptor):
    """A pool of memory of an upstream. It grows by chunks as it needs them."""

    __slots__ = ("_pool",)

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        initial_pool_size: SupportsIndex | str | None = None,
        maximum_pool_size: SupportsIndex | str | None = None,
    ) -> None:
        """Makes a pool over ``upstream_mr``. ``initial_pool_size``: bytes that it takes of the upstream at once; None
        takes none. ``maximum_pool_size``: the most bytes of the upstream; None sets no bound.

        Raises RuntimeError for an initial size beyond the maximum, ValueError for a size that cannot be read, and
        MemoryError where the initial size cannot be had.
        """
        upstream = as_resource(upstream_mr, "upstream_mr")
        initial = 0 if initial_pool_size is None else parse_bytes(initial_pool_size)
        maximum = None if maximum_pool_size is None else parse_bytes(maximum_pool_size)
        if maximum is not None and initial > maximum:
            raise RuntimeError(f"Initial pool size exceeds the maximum pool size: {initial} bytes of {maximum}")
        self._pool = portamem.PoolMemoryResource(upstream.resource, limit=maximum, initial_size=initial)
        super().__init__(upstream, self._pool)

    def pool_size(self) -> int:
        """The bytes that the pool has of its upstream now."""
        return self._pool.stats().reserved


class ArenaMemoryResource(UpstreamResourceAdaptor):
    """A pool of bounded size."""

    __slots__ = ()

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        arena_size: SupportsIndex | str | None = None,
        dump_log_on_failure: bool = False,
    ) -> None:
        """Makes a pool over ``upstream_mr``, of ``arena_size`` bytes that it takes of the upstream at once. None: it
        takes them as it needs them, and at most half of what the device has free now.

        ``dump_log_on_failure``: a request that finds no memory logs every chunk of the pool, as an error. Raises
        MemoryError where the arena cannot be had.
        """
        upstream = as_resource(upstream_mr, "upstream_mr")
        if arena_size is None:
            limit, initial = max(align_up(upstream.resource.device.memory_info().free // 2), align_up(1)), 0
        else:
            limit = initial = align_up(parse_bytes(arena_size))
        pool = portamem.PoolMemoryResource(upstream.resource, limit=limit, initial_size=initial)
        dumping = portamem.FailureCallbackAdaptor(pool, _Dump(pool)) if dump_log_on_failure else pool
        super().__init__(upstream, dumping)


class _Dump:
    """Logs what a pool holds when it has no memory, and does not try again."""

    def __init__(self, pool: portamem.PoolMemoryResource) -> None:
        self._pool = pool

    def __call__(self, nbytes: int) -> bool:
        logger.log(logger.level_enum.error, f"the arena has no {nbytes} bytes: {self._pool.snapshot()}")
        return False


class FixedSizeMemoryResource(UpstreamResourceAdaptor):
    """Blocks of one size. An allocation of more raises MemoryError."""

    __slots__ = ("_blocks",)

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        block_size: SupportsIndex = 1 << 20,
        blocks_to_preallocate: SupportsIndex = 128,
    ) -> None:
        """Makes a resource over ``upstream_mr`` of blocks of ``block_size`` bytes. It takes ``blocks_to_preallocate``
        blocks of the upstream at a time, with the first allocation and whenever none is left."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        self._blocks = portamem.FixedSizeMemoryResource(
            upstream.resource, align_up(nbytes_of(block_size)), blocks_per_chunk=blocks_to_preallocate
        )
        super().__init__(upstream, self._blocks)

    def get_block_size(self) -> int:
        """The bytes of a block."""
        return self._blocks.block_size

    def _largest(self) -> int | None:
        return self._blocks.block_size
