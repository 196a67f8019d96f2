"""The resource that a library is plugged into, and what tests of C functions share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from portamem import _loader


@pytest.fixture
def source(pm: ModuleType, device: Any) -> Iterator[Any]:
    """A pool whose memory is used again at once in stream order, on every backend."""
    made = pm.PoolMemoryResource(device=device, host_access=False)
    yield made
    gc.collect()
    made.close()


@pytest.fixture
def native(pm: ModuleType) -> ModuleType:
    """The module that has the hooks of the backend under test."""
    return _loader.load(pm.backend)


@pytest.fixture(scope="module")
def shared() -> dict[str, Any]:
    """The objects that the tests of a module share.

    A process has few sets of C functions, and each stays with its resource.
    """
    return {}
