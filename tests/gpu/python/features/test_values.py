"""Indices out of range: reported at the next call, and the process continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cuda_models import close, compiled
from torch.nn import functional as F

import gex

_CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "embedding": lambda x, i: F.embedding(i, x),
    "index": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, 3)),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(3, 3, device="cuda")),
    "scatter": lambda x, i: x.scatter(0, i[:, None].expand(-1, 3), 9.0),
}


@pytest.mark.parametrize("bad", [4, 5_000_000_000])
@pytest.mark.parametrize("name", _CASES)
@torch.no_grad()
def test_an_index_out_of_range_is_reported_at_the_next_call(name: str, bad: int) -> None:
    function = _CASES[name]
    run = compiled(function)
    x, good = torch.randn(4, 3, device="cuda"), torch.tensor([3, 0, 1], device="cuda")
    for _ in range(3):
        close(run(x, good), function(x, good))
    run(x, torch.tensor([1, bad, 0], device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(gex.IndexOutOfRange, match=f"range from 0 to {bad}, .* has 4 elements"):
        run(x, good)
    close(run(x, good), function(x, good))
    run(x, torch.tensor([1, bad, 0], device="cuda"))
    with pytest.raises(IndexError, match="has 4 elements"):
        gex.synchronize()
    close(run(x, good), function(x, good))
