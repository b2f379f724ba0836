"""gex uses as many threads as PyTorch, and results do not depend on their number."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch
from torch import nn

from gex import _gex


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
        torch.randn(300_000).sqrt()  # an operator of PyTorch's that uses its own threads
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


def test_the_number_of_threads_follows_pytorch():
    fn = torch.compile(lambda x: x.exp() + 1, backend="gex")
    x = torch.randn(8)
    torch.set_num_threads(1000)
    fn(x)
    most = _gex.thread_count()
    assert most <= len(os.sched_getaffinity(0))
    for asked in (1, 2, 1, most + 5):
        torch.set_num_threads(asked)
        fn(x)
        assert _gex.thread_count() == min(asked, most)


def test_a_call_from_another_thread_does_not_change_the_number_of_threads():
    fn = torch.compile(lambda x: x.exp() + 1, backend="gex")
    x = torch.randn(8)
    torch.set_num_threads(1)
    fn(x)
    other = threading.Thread(target=fn, args=(x,))
    other.start()
    other.join()
    fn(x)
    assert _gex.thread_count() == 1
