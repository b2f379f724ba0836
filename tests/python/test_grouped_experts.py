"""Training mixtures of experts whose rows are multiplied in groups, without calls into PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import gex

pytest.importorskip("transformers")

from transformers import MixtralConfig, MixtralForCausalLM

EXPERTS, WIDTH, HIDDEN = 4, 16, 32


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Experts(nn.Module):
    """Two grouped products with a gate in between; `chosen` says whose expert each row is."""

    def __init__(self, multiply: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        self.multiply = multiply
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * HIDDEN, dtype=dtype) / 4)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN, dtype=dtype) / 4)

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(chosen, stable=True)
        ends = torch.cumsum((chosen == torch.arange(EXPERTS)[:, None]).sum(1), 0).to(torch.int32)
        gate, value = self.multiply(x[order], self.up, ends).chunk(2, dim=1)
        y = self.multiply(nn.functional.silu(gate) * value, self.down.transpose(1, 2), ends)
        return torch.zeros_like(x).index_copy(0, order, y)


def gradients(
    module: nn.Module, call: Callable[..., torch.Tensor], *inputs: torch.Tensor
) -> list[torch.Tensor]:
    module.zero_grad()
    result = call(*inputs)
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(2))
    (result.float() * weights).sum().backward()
    return [result.detach(), *(p.grad.clone() for p in module.parameters())]


def fallback(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.ops.transformers.grouped_mm_fallback(x, weight, offs=ends)


@pytest.mark.parametrize("empty", [None, 0, 2, 3])
@pytest.mark.parametrize(
    ("multiply", "dtype", "tolerance"),
    [(fallback, torch.float32, 1e-5), (torch._grouped_mm, torch.bfloat16, 2e-2)],
    ids=["transformers", "torch"],
)
def test_gradients_of_experts_are_native(
    multiply: Callable[..., torch.Tensor], dtype: torch.dtype, tolerance: float, empty: int | None
) -> None:
    torch.manual_seed(0)
    module = Experts(multiply, dtype)
    x, chosen = torch.randn(40, WIDTH, dtype=dtype), torch.arange(40) % EXPERTS
    chosen = torch.where(chosen == empty, 1, chosen) if empty is not None else chosen
    want = gradients(module, module, x, chosen)
    with gex.collect() as graphs:
        compiled = torch.compile(module, backend="gex", fullgraph=True)
        got = gradients(module, compiled, x, chosen)
    assert len(graphs) == 2 and not any(g.calls or g.eager_reason for g in graphs)
    assert "grouped_weight_grad" in graphs[1].runner.text("graph")
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.abs().max()))
    if empty is not None:
        assert not got[1][empty].any() and not got[2][empty].any()


def test_other_numbers_of_rows_and_other_groups_need_no_new_graph() -> None:
    torch.manual_seed(0)
    module = Experts(fallback, torch.float32)
    compiled = torch.compile(module, backend="gex", fullgraph=True, dynamic=True)
    with gex.collect() as graphs:
        for rows, last in ((12, 4), (30, 2), (7, 1)):
            x, chosen = torch.randn(rows, WIDTH), torch.arange(rows) % last
            want = gradients(module, module, x, chosen)
            for a, b in zip(gradients(module, compiled, x, chosen), want, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert len(graphs) == 2


def test_the_gradient_of_mixtral_needs_no_calls() -> None:
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    model = MixtralForCausalLM(config)
    ids = torch.randint(0, 97, (2, 11))
    want = gradients(model, lambda x: model(x).logits, ids)
    with gex.collect() as graphs:
        compiled = torch.compile(model, backend="gex", fullgraph=True)
        got = gradients(model, lambda x: compiled(x).logits, ids)
    assert len(graphs) == 2 and not any(g.calls or g.eager_reason for g in graphs)
    assert graphs[1].runner.text("graph").count("grouped_weight_grad") == 2
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))


def test_the_traceable_operators_compute_the_same_eagerly() -> None:
    torch.manual_seed(0)
    x, ends = torch.randn(9, 8), torch.tensor([4, 4, 7], dtype=torch.int32)
    weight = torch.randn(3, 8, 6, requires_grad=True)
    want = fallback(x, weight, ends)
    (of_weight,) = torch.autograd.grad(want.square().sum(), weight)
    got = torch.ops.gex.grouped_mm(x, weight, ends)
    torch.testing.assert_close(got, want)
    (grad,) = torch.autograd.grad(got.square().sum(), weight)
    torch.testing.assert_close(grad, of_weight)
