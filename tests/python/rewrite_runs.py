"""Inspects one compiled function: kernels, copies, bytes, values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import gex
from conftest import tensors


@dataclass
class Ran:
    """One compiled function after one call."""

    result: Any
    args: list[Any]
    report: gex.GraphReport
    runner: Any  # the report itself does not keep it alive

    @property
    def counters(self) -> dict[str, int]:
        return self.runner.counters

    @property
    def graph(self) -> str:
        return self.runner.text("graph")

    @property
    def program(self) -> str:
        return self.runner.text("program")

    @property
    def launches(self) -> list[str]:
        lines = self.program.splitlines()
        return [line.split('"')[1] for line in lines if line.startswith("  launch ")]

    def copies(self, why: str) -> tuple[int, int]:
        counters = self.counters
        return counters.get(f"copies.{why}", 0), counters.get(f"copied_bytes.{why}", 0)


def run(
    fn: Callable[..., Any],
    *args: torch.Tensor,
    tolerance: float = 1e-5,
    dynamic: bool | None = None,
    **options: Any,
) -> Ran:
    """Compiles, calls once and compares with eager: results, and arguments afterwards."""
    torch._dynamo.reset()
    mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
    compiled = torch.compile(
        fn, backend="npugraph_ex", fullgraph=True, dynamic=dynamic, options=options
    )
    with gex.collect() as graphs:
        result = compiled(*mine)
    expected = fn(*theirs)
    for got, want in zip(tensors((result, mine)), tensors((expected, theirs)), strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    return Ran(result, mine, graphs[0], graphs[0].runner)
