"""Images with the channels last in memory, and what is read through views that repeat elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gex

OPERATIONS: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
    "conv": lambda: nn.Conv2d(12, 20, 3, padding=1),
    "conv without bias": lambda: nn.Conv2d(12, 20, 3, bias=False),
    "1x1": lambda: nn.Conv2d(12, 20, 1),
    "depthwise": lambda: nn.Conv2d(12, 12, 3, padding=1, groups=12),
    "groups": lambda: nn.Conv2d(12, 24, 3, groups=4, stride=2),
    "transposed": lambda: nn.ConvTranspose2d(12, 8, 4, stride=2),
    "conv and relu": lambda: nn.Sequential(nn.Conv2d(12, 20, 3), nn.ReLU()),
    "batch norm": lambda: nn.BatchNorm2d(12).eval(),
    "max pool": lambda: lambda x: F.max_pool2d(x, 3, 2, 1),
    "adaptive pool": lambda: lambda x: F.adaptive_avg_pool2d(x, 5),
    "bilinear": lambda: lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "reflect": lambda: lambda x: F.pad(x, (1, 2, 3, 4), "reflect"),
    "to rows": lambda: lambda x: x.contiguous() + 1,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_and_strides_are_those_of_eager(name: str) -> None:
    torch.manual_seed(0)
    function = OPERATIONS[name]()
    x = torch.randn(2, 12, 19, 21).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = function(x)
        result = gex.compile(function, (x,))(x)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    assert result.stride() == expected.stride()


def add_rows(x: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, rows[:, None].expand_as(values), values)


def test_repeated_indices_are_checked_once() -> None:
    x, rows, values = torch.randn(30, 20), torch.randint(0, 30, (50,)), torch.randn(50, 20)
    compiled = gex.compile(add_rows, (x, rows, values))
    torch.testing.assert_close(compiled(x, rows, values), add_rows(x, rows, values))
    rows[7] = 30
    with pytest.raises(IndexError):
        compiled(x, rows, values)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_one_length(mode: str) -> None:
    weight, ids = torch.randn(40, 12), torch.randint(0, 40, (9, 7))

    def bags(w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(i, w, mode=mode)

    compiled = gex.compile(bags, (weight, ids))
    torch.testing.assert_close(compiled(weight, ids), bags(weight, ids))
