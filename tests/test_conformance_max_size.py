"""The check of POOL-11 fails where the versions say that a pool has a maximal size, and is unsupported before that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from portamem.conformance.checks.pool import max_size
from portamem.conformance.contract.clause import Platform
from portamem.conformance.kit.outcome import Failed, Unsupported


class Anything:
    """Resources, buffers and streams that take whatever they are told."""

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def allocate(self, nbytes: int, *, stream: object) -> Anything:
        return self

    def close(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def env_of(backend: str, vendor: str, headers: str, runtime: str, driver: str) -> Any:
    pm = SimpleNamespace(
        AsyncMemoryResource=lambda device, max_size: Anything(),
        compiled_version=lambda: headers,
        runtime_version=lambda: runtime,
        driver_version=lambda: driver,
        version_text=lambda version: version,
    )
    device = SimpleNamespace(capabilities=SimpleNamespace(memory_pools=True))
    return SimpleNamespace(
        pm=pm, device=device, platform=Platform(backend, vendor), need=lambda *_: None, stream=Anything
    )


@pytest.mark.parametrize(
    ("backend", "vendor", "headers", "runtime", "driver"),
    [
        ("cuda", "nvidia", "12.2", "12.2", "12.2"),
        ("cuda", "nvidia", "13.0", "13.0", "13.0"),
        ("hip", "nvidia", "5.2.21153", "13.0", "13.0"),
        ("hip", "amd", "6.4.43482", "6.4.43482", "6.4.43482"),
        ("host", "portamem", "0.1.0", "0.1.0", "0.1.0"),
    ],
)
def test_a_pool_that_takes_too_much_fails(backend: str, vendor: str, headers: str, runtime: str, driver: str) -> None:
    with pytest.raises(Failed, match="96 MiB"):
        max_size(env_of(backend, vendor, headers, runtime, driver))


@pytest.mark.parametrize(
    ("backend", "vendor", "headers", "runtime", "driver", "old"),
    [
        ("cuda", "nvidia", "12.0", "12.9", "12.9", "headers"),
        ("cuda", "nvidia", "12.9", "12.9", "12.1", "driver"),
        ("hip", "nvidia", "7.1.0", "12.0", "13.0", "runtime"),
        ("hip", "amd", "7.1.0", "6.1.40091", "7.1.0", "runtime"),
        ("hip", "amd", "5.2.21153", "7.1.0", "7.1.0", "headers"),
    ],
)
def test_versions_without_it_are_named(
    backend: str, vendor: str, headers: str, runtime: str, driver: str, old: str
) -> None:
    with pytest.raises(Unsupported, match=f"the {old} has"):
        max_size(env_of(backend, vendor, headers, runtime, driver))
