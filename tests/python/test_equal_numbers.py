"""Of equal elements the one that eager mode returns: gradients flow to it."""

from __future__ import annotations

import pytest
import torch

from conftest import Compile


def numbers(dtype: torch.dtype, length: int, seed: int) -> torch.Tensor:
    """A few values, often; NaN counts as larger than all of them."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, (3, length), generator=random).to(dtype)
    if dtype.is_floating_point and seed % 2:
        x[0, length // 2] = torch.nan
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_kthvalue(compiling: Compile, dtype: torch.dtype) -> None:
    for length in (1, 2, 3, 7, 20, 33, 1500):
        for k in {1, 2, length // 3 + 1, length // 2 + 1, length} - {length + 1}:
            if k > length:
                continue
            compiled = compiling(lambda x, k=k: x.kthvalue(k, 1))
            for seed in (2, 3):
                x = numbers(dtype, length, seed)
                got, want = compiled(x), x.kthvalue(k, 1)
                assert torch.equal(got.indices, want.indices), (length, k, seed)
                torch.testing.assert_close(got.values, want.values, rtol=0, atol=0, equal_nan=True)


def test_gradient_of_kthvalue(compiling: Compile) -> None:
    compiled = compiling(lambda x: x.kthvalue(9, 0, True).values)
    for x in (numbers(torch.float32, 20, 4).t(), numbers(torch.float32, 20, 6).t().contiguous()):
        want, got = x.clone().requires_grad_(), x.clone().requires_grad_()
        want.kthvalue(9, 0, True).values.sum().backward()
        compiled(got).sum().backward()
        assert torch.equal(got.grad, want.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_median(compiling: Compile, dtype: torch.dtype) -> None:
    compiled = compiling(lambda x: (x.median(1), x.nanmedian(1)))
    for seed in range(4):
        x = numbers(dtype, 30, seed)
        got, want = compiled(x), (x.median(1), x.nanmedian(1))
        for mine, eager in zip(got, want):
            assert torch.equal(mine.indices, eager.indices), seed
