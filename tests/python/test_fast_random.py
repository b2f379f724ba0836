"""options={"random": "fast"}: numbers drawn inside kernels are repeatable, independent and of the
right distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gex

FAST = {"random": "fast"}
COUNT = 1 << 18


def compiled(fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="gex", options={**FAST, "strict": True}, **kwargs)


def is_uniform(sample: torch.Tensor) -> bool:
    """Chi-squared over 64 cells: 63 degrees of freedom, a deviation of about 11.2."""
    seen = torch.histc(sample.double(), bins=64, min=0, max=1)
    expected = sample.numel() / 64
    return bool(((seen - expected) ** 2 / expected).sum() < 63 + 5 * 11.2)


def test_uniform_numbers_fill_their_cells_evenly() -> None:
    torch.manual_seed(1)
    u = compiled(lambda x: torch.rand_like(x))(torch.empty(COUNT))
    assert float(u.min()) >= 0 and float(u.max()) < 1
    assert is_uniform(u)
    assert is_uniform(u[::2]) and is_uniform(u[1::4])
    neighbours = torch.corrcoef(torch.stack([u[:-1], u[1:]]))[0, 1]
    assert abs(float(neighbours)) < 5 / COUNT**0.5
    assert len(torch.unique(u)) > 0.98 * COUNT


def test_normal_numbers_have_the_moments_and_the_tails() -> None:
    torch.manual_seed(2)
    z = compiled(lambda x: torch.randn_like(x))(torch.empty(COUNT)).double()
    error = COUNT**-0.5
    assert abs(float(z.mean())) < 5 * error
    assert abs(float(z.var()) - 1) < 5 * error * 2**0.5
    assert abs(float((z**3).mean())) < 5 * error * 15**0.5
    assert abs(float((z**4).mean()) - 3) < 5 * error * 96**0.5
    assert is_uniform(torch.special.ndtr(z))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_share_it_should_and_scales_what_it_keeps(p: float) -> None:
    torch.manual_seed(3)
    x = torch.rand(COUNT) + 1
    y = compiled(lambda x: nn.functional.dropout(x, p))(x)
    kept = y != 0
    assert abs(float(kept.double().mean()) - (1 - p)) < 5 * (p * (1 - p) / COUNT) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))


def test_bernoulli_follows_each_elements_probability() -> None:
    torch.manual_seed(4)
    p = torch.linspace(0, 1, 5).repeat_interleave(COUNT // 4)
    drawn = compiled(lambda p: torch.bernoulli(p))(p).reshape(5, -1).mean(1)
    torch.testing.assert_close(drawn, torch.linspace(0, 1, 5), atol=5 * (1 / COUNT) ** 0.5, rtol=0)
    assert drawn[0] == 0 and drawn[4] == 1


def test_a_seed_repeats_and_calls_differ() -> None:
    fn = compiled(lambda x: (torch.rand_like(x), torch.rand_like(x)))
    x = torch.empty(1000)
    torch.manual_seed(5)
    first, second = fn(x), fn(x)
    torch.manual_seed(5)
    again = fn(x)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0], first[1]), "two draws of one graph are independent"


def test_numbers_do_not_depend_on_sizes_seen_before_or_threads() -> None:
    fn = compiled(lambda x: torch.rand_like(x), dynamic=True)
    torch.manual_seed(6)
    long = fn(torch.empty(5000))
    torch.manual_seed(6)
    short = fn(torch.empty(777))
    assert torch.equal(long[:777], short)


def test_dropout_is_fused_and_its_gradient_uses_the_same_mask() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(torch.nn.functional.gelu(x), 0.5) * 2

    x = torch.randn(64, 64, requires_grad=True)
    with gex.report.collect() as graphs:
        y = compiled(fn)(x)
    assert not any(g.calls for g in graphs)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(y == 0, x.grad == 0)


def test_training_with_fast_dropout_learns() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    step = compiled(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(64, 16)
    y = x[:, :4].argmax(1)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(step(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_eager_numbers_stay_the_default() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x)

    torch._dynamo.reset()
    x = torch.empty(100)
    torch.manual_seed(8)
    expected = fn(x)
    torch.manual_seed(8)
    assert torch.equal(torch.compile(fn, backend="gex")(x), expected)
