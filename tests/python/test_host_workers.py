"""Small launches may be shared with PyTorch's own threads: nobody can tell from the results."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def torch_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def steps_of_training(step, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    results = []
    for _ in range(20):
        model.zero_grad()
        y = step(x)
        y.square().sum().backward()
        torch.randn(300_000).sqrt()  # an operator of PyTorch's that keeps its threads awake
        results = [y.detach(), *(p.grad for p in model.parameters())]
    return results


def test_results_have_the_same_bits_for_any_number_of_torch_threads():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    x = torch.randn(32, 128)
    step = torch.compile(model, backend="npugraph_ex")
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(steps_of_training(step, model, x))
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            assert torch.equal(one, other)
    torch.testing.assert_close(results[0][0], model(x).detach(), rtol=1e-4, atol=1e-5)


def test_a_forked_child_runs_without_its_parent_s_threads():
    torch.set_num_threads(2)
    model = nn.Linear(128, 256)
    x = torch.randn(32, 128)
    step = torch.compile(model, backend="npugraph_ex")
    expected = steps_of_training(step, model, x)[0]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a wait for threads that are not there would never end
        same = all(torch.equal(step(x), expected) for _ in range(50))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
