"""A failure that a check of the conformance suite plants is met by the check's own call."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from portamem.conformance.checks.error_injected import failing
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.platform import platform_of
from portamem.errors import Error


class Cycle:
    """Garbage that only the collector finds, and that calls the runtime when it goes."""

    def __init__(self, resource: Any) -> None:
        self.itself, self.resource = self, resource

    def __del__(self) -> None:
        self.resource.allocate(16).close()


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.mark.host_only
@pytest.mark.usefixtures("eager_collector")
def test_garbage_does_not_meet_it(pm: ModuleType) -> None:
    """portamem.host.knobs makes the call in the block fail, though the collector has work there."""
    with pm.DeviceMemoryResource(pm.Device(0)) as resource:
        with failing(Env(pm, platform_of(pm)), "Malloc", 1, 999):
            Cycle(resource)
            kept = [[number] for number in range(10_000)]
            with pytest.raises(Error, match="Malloc"):
                resource.allocate(16)
        assert gc.isenabled()
        assert len(kept) == 10_000
        gc.collect()
        assert resource.live_buffers == 0
