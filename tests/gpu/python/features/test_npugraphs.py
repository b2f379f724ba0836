"""Backend npugraphs: PyTorch's own kernels, one graph launch a call, eager's bits."""

from __future__ import annotations

import pytest
import torch
from cuda_models import Block, Gpt, compiled, mlp

from gex.captures.torch_graphs import CaptureFailed, CudaRecording, statistics

DEVICE = torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(autouse=True)
def fresh_statistics() -> None:
    statistics.clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@torch.no_grad()
def test_one_capture_and_eagers_bits(dtype: torch.dtype) -> None:
    for model, make in (
        (mlp().to(dtype), lambda: torch.randn(16, 64, device="cuda", dtype=dtype)),
        (Block().cuda().eval().to(dtype), lambda: torch.randn(2, 9, 64, device="cuda").to(dtype)),
        (Gpt().cuda().eval().to(dtype), lambda: torch.randint(0, 100, (2, 9), device="cuda")),
    ):
        statistics.clear()
        run = compiled(model, backend="npugraphs")
        inputs = [make() for _ in range(10)]
        kept = [run(x) for x in inputs]
        for x, got in zip(inputs, kept):
            assert torch.equal(got, model(x))
        assert statistics["replays"] == 9 and statistics["captures"] <= 2, statistics
        assert statistics["failures"] == 0


@torch.no_grad()
def test_random_numbers_are_eagers() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    x = torch.ones(1000, device="cuda")
    run = compiled(function, backend="npugraphs")
    torch.manual_seed(3)
    got = [run(x) for _ in range(6)] + [torch.rand(5, device="cuda")]
    torch.manual_seed(3)
    want = [function(x) for _ in range(6)] + [torch.rand(5, device="cuda")]
    assert all(torch.equal(a, b) for a, b in zip(got, want))


def test_a_failed_capture_leaves_random_numbers_and_memory_as_they_were() -> None:
    x = torch.randn(64, 64, device="cuda")

    def waits() -> list[torch.Tensor]:
        y = torch.nn.functional.dropout(x, 0.5)
        big = torch.empty(1 << 20, device="cuda")
        return [y * y.sum().item(), big]

    torch.manual_seed(7)
    want = torch.rand(4, device="cuda")
    for _ in range(3):
        torch.manual_seed(7)
        with pytest.raises(CaptureFailed):
            CudaRecording(waits, DEVICE)
        assert torch.equal(torch.rand(4, device="cuda"), want)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(10):
        with pytest.raises(CaptureFailed):
            CudaRecording(waits, DEVICE)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before
    recording = CudaRecording(lambda: [torch.nn.functional.dropout(x, 0.5)], DEVICE)
    recording.replay()
    assert 0.3 < float((recording.results[0] == 0).float().mean()) < 0.7


@torch.no_grad()
def test_a_graph_that_waits_for_the_device_runs_op_by_op() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x @ x.t()).sum() + x.sum()

    x = torch.randn(6, 6, device="cuda")
    run = compiled(function, backend="npugraphs")
    for _ in range(6):
        assert torch.equal(run(x), function(x))
    assert torch.rand(3, device="cuda").numel() == 3
