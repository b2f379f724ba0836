"""Acceptance cases that need devices which a CPU is not; listed in docs/npugraph_ex.md."""

from __future__ import annotations

import pytest
import torch

from conftest import assert_same
from graph_counts import compiled

needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
needs_one = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_two
@torch.no_grad()
def test_case_30_results_are_on_the_device_of_the_inputs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.t(), -1) + 1

    fn = compiled(function, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4, device="cuda:1")
        result = fn(x)
        assert result.device == torch.device("cuda:1")
        assert_same(result, function(x))


@needs_two
@torch.no_grad()
def test_limit_18_one_process_has_graphs_of_several_devices() -> None:
    fn = compiled(lambda x: x.exp() * 2)
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        x = torch.randn(4, device=device)
        assert_same(fn(x), x.exp() * 2)


@needs_one
@torch.no_grad()
def test_limit_18_numbers_and_pinned_tensors_of_the_host() -> None:
    def function(x: torch.Tensor, scale: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
        return x * scale + host.to(x.device, non_blocking=True)

    fn = compiled(function)
    for number in (2.0, 3.0):
        x, host = torch.randn(4, device="cuda"), torch.randn(4).pin_memory()
        assert_same(fn(x, torch.tensor(number), host), function(x, torch.tensor(number), host))
