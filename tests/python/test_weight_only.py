"""Products with weights of few bits: frozen weights stay as they are and products widen them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gex


class Bytes(nn.Module):
    """int8 weights with a scale for each output, or for each group of inputs."""

    def __init__(self, group: int | None, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Buffer(torch.randint(-127, 128, (96, 256), dtype=torch.int8))
        shape = (96, 1) if group is None else (96, 256 // group, 1)
        self.scale = nn.Buffer((torch.rand(shape) * 0.01).to(dtype))
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.group is None:
            return x @ (self.weight.to(x.dtype) * self.scale).T
        parts = self.weight.unflatten(1, (-1, self.group)).to(x.dtype) * self.scale
        return x @ parts.flatten(1).T


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("group", [None, 64])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_int8(rows: int, group: int | None, dtype: torch.dtype) -> None:
    model = Bytes(group, dtype).eval()
    x = torch.randn(rows, 256).to(dtype)
    compiled = gex.compile(model, (x,))
    near = 1e-5 if dtype == torch.float32 else 1e-2  # of the largest result
    expected = model(x)
    limit = near * float(expected.float().abs().max())
    torch.testing.assert_close(compiled(x), expected, rtol=0, atol=limit)


def test_few_rows_read_the_bytes() -> None:
    """Widened weights would be four times as many bytes."""
    model = Bytes(None, torch.float32).eval()
    programs = [gex.compile(model, (torch.randn(n, 256),)) for n in (1, 40)]
    few, many = (p.report.runner.text("program") for p in programs)
    assert "i8[96, 256]" in few
    assert "i8[96, 256]" not in many
