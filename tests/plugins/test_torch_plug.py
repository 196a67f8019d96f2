"""PyTorch itself takes its memory from portamem. Each test is a process of its own: PyTorch takes an allocator once."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest
from helpers import partners
from helpers.process import python_output, run_python

START = """
import gc, sys, warnings
warnings.simplefilter("ignore")
import torch
import portamem as pm
from portamem.plugins import torch as plug

backend = getattr(pm, "hip" if torch.version.hip else "cuda")
MIB = 1 << 20

def make_pool(**options):
    return backend.PoolMemoryResource(backend.DeviceMemoryResource(), host_access=False, **options)
"""


def is_built_for(torch: Any, vendor: str) -> bool:
    return bool(torch.cuda.is_available()) and getattr(torch.version, vendor) is not None


@pytest.fixture(autouse=True)
def gpu(pm: ModuleType, device: Any) -> None:
    partners.of_the_gpu("torch", "PyTorch", pm, device, is_built_for)


def printed(code: str, **env: str | None) -> list[str]:
    return python_output(START + code, PYTHONPATH=os.environ.get("PYTHONPATH"), **env).split()


def test_a_block_takes_segments_from_the_resource() -> None:
    assert printed(
        """
pool = make_pool()
outside = torch.ones(MIB, device="cuda")
with plug.use(pool) as installed:
    assert installed.is_active
    kept = torch.full((MIB,), 7.0, device="cuda")
    assert pool.live_bytes >= 4 * MIB, pool.live_bytes
    before = pool.live_bytes
    torch.zeros(100, device="cuda").sum().item()
assert not installed.is_active
again = torch.ones(64 * MIB, device="cuda")
assert pool.live_bytes < 64 * MIB
assert kept.sum().item() == 7 * MIB
with plug.use(pool):
    more = torch.ones(1000, device="cuda")
    assert more.sum().item() == 1000
del kept, more
gc.collect()
torch.cuda.empty_cache()
print("ok")
"""
    ) == ["ok"]


def test_no_memory_in_a_block_is_torchs_own_error() -> None:
    assert printed(
        """
pool = make_pool(limit=64 * MIB)
with plug.use(pool):
    small = torch.ones(MIB, device="cuda")
    try:
        torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("refused")
    assert small.sum().item() == MIB
""",
    ) == ["refused"]


def test_every_tensor_is_the_resources_own() -> None:
    assert printed(
        """
pool = make_pool(limit=256 * MIB)
plug.replace_allocator(pool)
x = torch.ones(3, 1000, device="cuda")
assert pool.live_bytes == 12000, pool.live_bytes
assert pool.size_of(x.data_ptr()) == 12000
assert (x + x).sum().item() == 6000
try:
    torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as refused:
    print("refused", "asked" in str(refused) or "bytes" in str(refused))
side = torch.cuda.Stream()
y = torch.ones(MIB, device="cuda")
with torch.cuda.stream(side):
    side.wait_stream(torch.cuda.default_stream())
    torch.cuda._sleep(50_000_000)
    z = y * 2
y.record_stream(side)
address = y.data_ptr()
del y
w = torch.zeros(MIB, device="cuda")  # may have the same address, behind the side stream's work
torch.cuda.synchronize()
assert z.sum().item() == 2 * MIB
del x, z, w
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert pool.live_bytes == 0, pool.live_bytes
assert pool.stats().reserved == 0, pool.stats()
try:
    plug.replace_allocator(make_pool())
except RuntimeError as refused:
    print("once" in str(refused))
"""
    ) == ["refused", "True", "True"]


def test_after_first_use_the_allocator_stays() -> None:
    assert printed(
        """
torch.ones(3, device="cuda")
try:
    plug.replace_allocator(make_pool())
except RuntimeError as refused:
    print("first" in str(refused))
"""
    ) == ["True"]


def test_graphs_keep_their_memory() -> None:
    assert printed(
        """
pool = make_pool()
plug.replace_allocator(pool)
x = torch.zeros(1000, 1000, device="cuda")
w = torch.randn(1000, 1000, device="cuda")
warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(warm):
    for _ in range(2):
        y = (x @ w).relu() + x
torch.cuda.current_stream().wait_stream(warm)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = (x @ w).relu() + x
others = [torch.full((1000, 1000), float(i), device="cuda") for i in range(20)]
for turn in range(5):
    x.fill_(turn + 1)
    graph.replay()
    torch.cuda.synchronize()
    expected = (x @ w).relu() + x
    assert torch.allclose(y, expected, rtol=1e-3), turn
assert all((each == i).all().item() for i, each in enumerate(others))
del y, graph, expected, others, x, w
gc.collect()
torch.cuda.synchronize()
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.empty_cache()
print(pool.live_buffers)
"""
    ) == ["0"]


def test_graphs_in_a_block() -> None:
    assert printed(
        """
pool = make_pool()
with plug.use(pool):
    x = torch.zeros(1000, device="cuda")
    (x * 2 + 1).sum()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for turn in range(3):
        x.fill_(turn)
        graph.replay()
        assert y.sum().item() == 1000 * (2 * turn + 1)
print("ok")
"""
    ) == ["ok"]


def test_training_gives_the_same_numbers() -> None:
    code = """
import hashlib
torch.manual_seed(3)
torch.backends.cuda.matmul.allow_tf32 = False
{plugged}
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
step = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    x = torch.randn(128, 64, device="cuda")
    loss = net(x).square().mean()
    step.zero_grad()
    loss.backward()
    step.step()
print(f"{{loss.item():.9f}}")
"""
    own = printed(code.format(plugged=""))
    assert printed(code.format(plugged="plug.replace_allocator(make_pool())")) == own
    assert printed(code.format(plugged="installed = plug.use(make_pool())")) == own


def test_exit_with_tensors_out() -> None:
    for plugged in ("plug.replace_allocator(make_pool())", "installed = plug.use(make_pool())", "plug.use()"):
        done = run_python(
            START + plugged + "\nkept = [torch.ones(1000, device='cuda') for _ in range(10)]\nprint('end')"
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", ""), plugged


def test_threads_on_streams_of_their_own() -> None:
    assert printed(
        """
from threading import Thread
pool = make_pool()
plug.replace_allocator(pool)
wrong = []
def work(seed):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for turn in range(200):
            x = torch.full((1 + (turn * 7919 + seed) % 10000,), float(seed), device="cuda")
            if (x == seed).sum().item() != x.numel():
                wrong.append((seed, turn))
threads = [Thread(target=work, args=(seed,)) for seed in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
torch.cuda.synchronize()
print(len(wrong), pool.live_buffers)
"""
    ) == ["0", "0"]


def test_what_is_no_resource_for_torch_is_refused(pm: ModuleType) -> None:
    assert (
        printed(
            """
for given in (3, backend.DeviceMemoryResource(), pm.host.PoolMemoryResource(pm.host.PinnedMemoryResource())):
    for function in (plug.use, plug.mem_pool, plug.allocator, plug.replace_allocator):
        try:
            function(given)
        except (TypeError, ValueError) as refused:
            print(type(refused).__name__)
"""
        )
        == ["TypeError"] * 4 + ["ValueError"] * 8
    )
