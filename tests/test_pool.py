"""Stream-ordered pools: thresholds, trim, figures, reuse policies, access, and pools that belong to others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, read_back

import portamem

MAXIMUM = 2**64 - 1


@pytest.fixture
def default_pool(make_resource: Any) -> Any:
    return make_resource("async-default_pool")


def test_a_pool_of_its_own_keeps_what_it_has(device: Any, stream: Any, pool: Any) -> None:
    assert pool.owns_pool
    assert pool.pool_handle != 0
    assert pool.release_threshold == MAXIMUM
    pool.allocate(8 * MIB, stream=stream).close()
    device.synchronize()
    assert pool.reserved >= 8 * MIB
    assert pool.used == 0


def test_figures(stream: Any, pool: Any) -> None:
    assert (pool.used, pool.reserved) == (0, 0)
    with pool.allocate(MIB, stream=stream), pool.allocate(2 * MIB, stream=stream):
        assert pool.used >= 3 * MIB
        assert pool.reserved >= pool.used
    stream.synchronize()
    assert pool.used == 0
    assert pool.used_high >= 3 * MIB
    assert pool.reserved_high >= 3 * MIB
    pool.reset_high()
    assert pool.used_high == 0
    assert pool.reserved_high == pool.reserved


def test_trim(device: Any, stream: Any, pool: Any) -> None:
    pool.allocate(8 * MIB, stream=stream).close()
    device.synchronize()
    pool.trim("64 MiB")
    assert pool.reserved >= 8 * MIB, "there was less than that to keep"
    pool.trim()
    assert pool.reserved == 0


def test_trim_leaves_what_is_in_use(pm: ModuleType, device: Any, stream: Any, pool: Any) -> None:
    with pool.allocate(MIB, stream=stream) as buf:
        buf.fill(3, stream=stream)
        device.synchronize()
        pool.trim()
        assert pool.used >= MIB
        assert read_back(pm, buf) == b"\x03" * MIB


def test_memory_whose_free_has_not_run_is_in_use(stream: Any, latch: Any, pool: Any) -> None:
    buf = pool.allocate(MIB, stream=stream)
    held = latch(stream)
    buf.close(stream=stream)
    pool.trim()
    assert pool.reserved >= MIB
    held.release()
    stream.synchronize()
    pool.trim()
    assert pool.reserved == 0


@pytest.mark.parametrize("threshold", [0, "16 MiB", MAXIMUM])
def test_the_release_threshold(pm: ModuleType, device: Any, stream: Any, threshold: Any) -> None:
    with pm.AsyncMemoryResource(device, release_threshold=threshold) as pool:
        expected = 16 * MIB if threshold == "16 MiB" else threshold
        assert pool.release_threshold == expected
        pool.allocate(64 * MIB, stream=stream).close()
        stream.synchronize()
        assert pool.reserved <= max(expected, 0) if expected < 64 * MIB else pool.reserved >= 64 * MIB
        pool.release_threshold = "1 GiB"
        assert pool.release_threshold == 1 << 30


@pytest.mark.parametrize(
    "policy",
    ["reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies"],
)
def test_reuse_policies(pool: Any, policy: str) -> None:
    assert getattr(pool, policy) is True
    setattr(pool, policy, False)
    assert getattr(pool, policy) is False
    setattr(pool, policy, True)
    assert getattr(pool, policy) is True
    with pytest.raises(TypeError):
        setattr(pool, policy, "yes")


def test_the_default_pool_is_left_alone(pm: ModuleType, device: Any, stream: Any, default_pool: Any) -> None:
    def settings(pool: Any) -> tuple[Any, ...]:
        return (
            pool.release_threshold,
            pool.reuse_follow_event_dependencies,
            pool.reuse_allow_opportunistic,
            pool.reuse_allow_internal_dependencies,
        )

    before = settings(default_pool)
    assert not default_pool.owns_pool
    with default_pool.allocate(MIB, stream=stream) as buf:
        buf.fill(1, stream=stream)
    stream.synchronize()
    with pm.AsyncMemoryResource.default_pool(device) as again:
        assert settings(again) == before
        assert again.pool_handle == default_pool.pool_handle
    with pm.AsyncMemoryResource(device):
        pass
    assert settings(default_pool) == before


def test_the_default_pool_changes_when_asked(default_pool: Any) -> None:
    before = default_pool.release_threshold
    try:
        default_pool.release_threshold = "8 MiB"
        assert default_pool.release_threshold == 8 * MIB
    finally:
        default_pool.release_threshold = before


def test_a_pool_that_belongs_to_another(pm: ModuleType, device: Any, stream: Any, pool: Any) -> None:
    with pm.AsyncMemoryResource.from_handle(pool.pool_handle, device, owner=pool) as borrowed:
        assert not borrowed.owns_pool
        assert borrowed.release_threshold == pool.release_threshold
        with borrowed.allocate(MIB, stream=stream):
            assert pool.used >= MIB
    stream.synchronize()
    with pool.allocate(MIB, stream=stream) as buf:
        buf.fill(1, stream=stream)
        stream.synchronize()


def test_a_stream_is_required(pool: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="stream"):
        pool.allocate(4096)


def test_access(pool: Any, device: Any) -> None:
    assert pool.access(device) == "read_write"


def test_access_of_a_peer(two_devices: tuple[Any, Any], pool: Any) -> None:
    first, second = two_devices
    assert pool.access(second) == "none"
    if not second.can_access_peer(first):
        pytest.skip("these two devices cannot reach each other")
    pool.set_access(second, "read_write")
    assert pool.access(second) == "read_write"
    pool.set_access(second, "none")
    assert pool.access(second) == "none"


def test_access_that_is_none(pool: Any, device: Any) -> None:
    with pytest.raises(ValueError, match="read_write"):
        pool.set_access(device, "write")


@pytest.mark.host_only
def test_a_pool_has_a_size(pm: ModuleType, device: Any, stream: Any) -> None:
    with pm.AsyncMemoryResource(device, max_size="4 MiB") as pool:
        with pool.allocate(3 * MIB, stream=stream), pytest.raises(portamem.OutOfMemoryError, match="4"):
            pool.allocate(3 * MIB, stream=stream)
        pool.allocate(3 * MIB, stream=stream).close()
        stream.synchronize()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"release_threshold": -1}, ValueError), ({"max_size": -1}, ValueError), ({"release_threshold": 1.5}, TypeError)],
)
def test_settings_that_are_none(pm: ModuleType, device: Any, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        pm.AsyncMemoryResource(device, **arguments)
