"""The npu shim mapped onto CUDA.

Runs inside the shim on a machine with a GPU: `python -m gex.npu -m pytest <this file>`.
"""

from __future__ import annotations

import io
import pickle

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

torch_npu = pytest.importorskip("torch_npu", reason="runs inside `python -m gex.npu`")
if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)


def test_devices_are_those_of_cuda() -> None:
    made = [
        torch.zeros(2, device="npu:0"),
        torch.empty(2).npu(),
        torch.empty(2).npu(0),
        torch.empty(2).to(torch.device("npu")),
        torch.nn.Linear(2, 2).npu().weight,
        torch.zeros_like(torch.ones(2), device="npu"),
    ]
    with torch.device("npu"):
        made.append(torch.zeros(2))
    for tensor in made:
        assert tensor.device == torch.device("cuda:0") and tensor.is_npu
    assert torch.npu.device_count() == torch.cuda.device_count()
    with pytest.raises(RuntimeError, match="does not exist: npu is mapped onto CUDA"):
        torch.ones(2, device=f"npu:{torch.npu.device_count()}")


def test_functions_take_npu_devices() -> None:
    torch.npu.set_device("npu:0")
    torch.npu.synchronize("npu:0")
    assert torch.npu.get_device_name("npu:0") == torch.cuda.get_device_name(0)
    with torch.npu.device("npu:0"):
        assert torch.npu.current_device() == 0
    before = torch.npu.memory_allocated("npu:0")
    x = torch.ones(2**20, device="npu")
    assert torch.npu.memory_allocated() - before == 4 * 2**20
    del x
    torch.npu.empty_cache()
    assert torch.npu.max_memory_allocated(torch.device("npu:0")) >= before + 4 * 2**20
    torch.npu.reset_peak_memory_stats()


def test_streams_and_events() -> None:
    side = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    x = torch.randn(512, 512, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        start.record()
        y = x @ x
        end.record()
    torch.npu.current_stream().wait_stream(side)
    y.record_stream(torch.npu.current_stream())
    torch.npu.synchronize()
    assert start.elapsed_time(end) > 0


def test_training_in_mixed_precision() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).npu()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.npu.amp.GradScaler()
    x, losses = torch.randn(16, 8).npu(), []
    for _ in range(20):
        with torch.npu.amp.autocast():
            out = checkpoint(model, x, use_reentrant=False)
            assert out.dtype == torch.float16
            loss = (out.float() - 1).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_seeds_and_checkpoints() -> None:
    torch.npu.manual_seed(1)
    a = torch.randn(3, device="npu")
    torch.cuda.manual_seed(1)
    assert torch.equal(torch.randn(3, device="cuda"), a)
    file = io.BytesIO()
    torch.save(a, file)
    file.seek(0)
    assert_close(torch.load(file, map_location="npu:0"), a)


def test_pinned_batches_reach_the_device() -> None:
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, pin_memory=True)
    total = sum(batch.to("npu", non_blocking=True).sum().item() for batch in loader)
    assert total == 28


def test_profiler_sees_the_device() -> None:
    x = torch.randn(64, 64).npu()
    activities = [torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU]
    with torch_npu.profiler.profile(activities=activities) as prof:
        x @ x
        torch.npu.synchronize()
    assert "aten::mm" in prof.key_averages().table(sort_by="npu_time_total")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_devices_inside_compiled_functions(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.ones(4, device="npu:0") + x.to(torch.device("npu", 0)) * 2

    x = torch.randn(4).npu()
    assert_close(torch.compile(f, backend=backend, fullgraph=True)(x), f(x))


def test_device_objects() -> None:
    device = torch.device(type="npu", index=0)
    assert device == torch.device("cuda:0") and isinstance(device, torch.device)
    assert pickle.loads(pickle.dumps(device)) == device
