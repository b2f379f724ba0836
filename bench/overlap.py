"""Branches in order, as the estimate chooses, and on two streams: microseconds of a call.

    PYTHONPATH=build/python python bench/overlap.py

The minimum of many interleaved calls; needs a second idle processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from jobs import JOBS
from torch import nn

import gex


class TwoTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = self.tower(), self.tower()

    @staticmethod
    def tower() -> nn.Module:
        return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        return (self.users(user) * self.items(item)).sum(-1)


class Chains(nn.Module):
    """Two chains of small products."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(96, 96) for _ in range(20)])
        self.second = nn.ModuleList([nn.Linear(96, 96) for _ in range(20)])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        for layer in self.second:
            y = torch.tanh(layer(y))
        return x + y


def scans(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(torch.cumsum(a, 0) * 0.5, 0) + torch.cumsum(torch.cumsum(b, 0) * 0.25, 0)


def cases() -> list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]]:
    mmoe, inputs, _ = JOBS["mmoe"]()
    pair = (torch.randn(64, 256), torch.randn(64, 256))
    return [
        ("scans", scans, (torch.rand(1_000_000), torch.rand(1_000_000))),
        ("chains", Chains().eval(), (torch.randn(64, 96), torch.randn(64, 96))),
        ("two towers", TwoTower().eval(), pair),
        ("mmoe", mmoe, inputs[0]),
    ]


def measure(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    compiled = {}
    for name, streams in (("in order", 1), ("chosen", 0), ("two streams", 2)):
        torch._dynamo.reset()
        options = {"streams": streams}
        compiled[name] = torch.compile(function, backend="gex", dynamic=False, options=options)
        with gex.collect() as graphs:
            compiled[name](*inputs)
        for remark in graphs[0].runner.remarks:
            if remark.startswith("branches"):
                print(" ", remark)
    best = dict.fromkeys(compiled, float("inf"))
    for _ in range(300):
        for name, call in compiled.items():
            begin = time.perf_counter()
            call(*inputs)
            best[name] = min(best[name], time.perf_counter() - begin)
    print(" ", ", ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in best.items()))


def main() -> None:
    with torch.no_grad():
        for name, function, inputs in cases():
            print(name)
            measure(function, inputs)


if __name__ == "__main__":
    main()
