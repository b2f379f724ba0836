"""Parameters that are bound once: their contents are read on the device, copies stay there."""

from __future__ import annotations

import os
import subprocess
import sys

import torch
from cuda_models import close
from torch import nn

import gex

_FROZEN = {"frozen_parameter": True}


class _Model(nn.Module):
    """A convolution that takes over its batch norm, and weights that become one product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.q, self.k, self.v = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.q(x), self.k(x), self.v(x)


def _model() -> nn.Module:
    model = _Model()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    return model.cuda().eval()


@torch.no_grad()
def test_weights_written_just_before_the_first_call_are_read_after_it() -> None:
    model, x = _model(), torch.randn(5, 2, 4, 4, device="cuda")
    torch._dynamo.reset()
    with gex.collect() as graphs:
        run = torch.compile(model, backend="npugraph_ex", options=_FROZEN, fullgraph=True)
        large = torch.randn(4096, 4096, device="cuda")
        for _ in range(20):  # the GPU is busy while the parameters below wait for it
            large = large @ large * 1e-3
        for parameter in model.parameters():
            parameter.add_(0.25)
        got = run(x)
    close(got, model(x), 2e-4)
    (graph,) = graphs
    assert graph.runner.counters["folded_with_frozen"] > 0
    inputs = [line for line in graph.runner.text("program").splitlines() if line[:6] == "input "]
    assert len(inputs) == 1, inputs


@torch.no_grad()
def test_refresh_makes_the_copies_again() -> None:
    model, x = _model(), torch.randn(5, 2, 4, 4, device="cuda")
    torch._dynamo.reset()
    run = torch.compile(model, backend="npugraph_ex", options=_FROZEN, fullgraph=True)
    for _ in range(3):
        close(run(x), model(x), 2e-4)
    before = torch.cuda.memory_reserved()
    for _ in range(5):
        model.conv.weight.mul_(1.5)
        model.norm.running_mean.add_(0.5)
        gex.refresh(model)
        for _ in range(3):
            close(run(x), model(x), 2e-3)
    assert torch.cuda.memory_reserved() <= before + (8 << 20)


@torch.no_grad()
def test_an_exported_module_takes_one_graph_launch_and_no_parameters() -> None:
    model, x = _model(), torch.randn(5, 2, 4, 4, device="cuda")
    run = gex.compile(model, (x,))
    for _ in range(3):
        close(run(x), model(x), 2e-4)
    runner = run.report.runner
    before = runner.counters
    kept = [run(x) for _ in range(20)]
    after = runner.counters
    assert after["graph_launches"] - before["graph_launches"] == 20
    assert after["single_launches"] == before["single_launches"]
    for results in kept:
        close(results, model(x), 2e-4)


@torch.no_grad()
def test_contents_are_compared_on_request() -> None:
    """In a process of its own: the variable is read once."""
    code = """
import torch, gex, pytest
torch.set_grad_enabled(False)
model, x = torch.nn.Linear(8, 4).cuda(), torch.randn(3, 8, device="cuda")
run = torch.compile(model, backend="npugraph_ex", options={"frozen_parameter": True})
run(x)
model.weight.data.add_(1)
with pytest.raises(gex.UserError, match="contents of the frozen parameter"):
    run(x)
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"GEX_CHECK_FROZEN": "1"}
    )
