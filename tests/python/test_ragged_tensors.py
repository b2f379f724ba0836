"""Nested tensors with a ragged axis (torch.jagged) as arguments and results."""

from __future__ import annotations

import pytest
import torch

from conftest import assert_same, last_report

# PyTorch warns that its nested tensors are a prototype.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def ragged(*lengths: int, requires_grad: bool = False) -> torch.Tensor:
    rows = [torch.linspace(-1, 1, 8 * n).view(n, 8) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=requires_grad)


def test_attention_over_sequences_of_several_lengths_and_its_gradient() -> None:
    def attention(x: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, [2, 4]).transpose(1, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return mixed.transpose(1, 2).flatten(-2).values().square().sum()

    compiled = torch.compile(attention, backend="gex")
    for lengths in ((2, 5), (3, 1, 4)):
        x = ragged(*lengths, requires_grad=True)
        (expected,) = torch.autograd.grad(attention(x), x)
        (got,) = torch.autograd.grad(compiled(x), x)
        assert_same(got.values(), expected.values())


def test_results_have_the_ragged_axis_of_their_operands() -> None:
    def two(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (a * b).sin(), a + 1

    a = ragged(2, 5)
    b = torch.nested.nested_tensor_from_jagged(torch.ones(7, 8), a.offsets())
    first, second = torch.compile(two, backend="gex")(a, b)
    assert first.shape == second.shape == a.shape
    assert_same((first + second).values(), sum(two(a, b)).values())


def test_a_ragged_size_is_a_result_itself() -> None:
    x = ragged(2, 5)
    doubled, size = torch.compile(lambda x: (x * 2, x.shape[1]), backend="gex")(x)
    assert size == x.shape[1]
    assert last_report().eager_reason is None
    assert_same(doubled.values(), x.values() * 2)
