"""Products with weights of few bits: the product reads the weights as they are stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gex
from gex import report

INPUTS, OUTPUTS, GROUP = 256, 96, 32


class Weights(nn.Module):
    """A matrix of integers in the orders in which quantisers store it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        groups = INPUTS // GROUP
        self.bytes = nn.Buffer(torch.randint(-127, 128, (OUTPUTS, INPUTS), dtype=torch.int8))
        self.turned = nn.Buffer(self.bytes.T.contiguous())
        self.unsigned = nn.Buffer(torch.randint(0, 256, (OUTPUTS, INPUTS), dtype=torch.uint8))
        numbers = torch.randint(0, 16, (OUTPUTS, INPUTS), dtype=torch.uint8)
        self.halves = nn.Buffer(numbers[:, ::2] | numbers[:, 1::2] << 4)
        # GPTQ: eight inputs in a word.
        words = numbers.T.to(torch.int64).reshape(INPUTS // 8, 8, OUTPUTS)
        words = (words << torch.arange(0, 32, 4).reshape(8, 1)).sum(1)
        self.words = nn.Buffer(words.to(torch.int32))
        self.shifts = nn.Buffer(torch.arange(0, 32, 4, dtype=torch.int32).reshape(1, 8, 1))
        self.scale = nn.Buffer((torch.rand(OUTPUTS) * 0.01).to(dtype))
        self.group_scale = nn.Buffer((torch.rand(OUTPUTS, groups) * 0.1).to(dtype))
        self.group_zero = nn.Buffer(torch.randint(0, 16, (OUTPUTS, groups), dtype=torch.uint8))

    def unpacked(self) -> Tensor:
        return torch.stack((self.halves & 15, self.halves >> 4), -1).reshape(OUTPUTS, INPUTS)


Form = Callable[[Weights, Tensor], Tensor]


def scaled_outputs(w: Weights, x: Tensor) -> Tensor:
    return F.linear(x, w.bytes.to(x.dtype) * w.scale[:, None])


def scaled_columns(w: Weights, x: Tensor) -> Tensor:
    return x @ (w.turned.to(x.dtype) * w.scale)


def scaled_result(w: Weights, x: Tensor) -> Tensor:
    return (x @ w.bytes.T.to(x.dtype)) * w.scale


def scaled_groups(w: Weights, x: Tensor) -> Tensor:
    parts = w.bytes.unflatten(1, (-1, GROUP)).to(x.dtype) * w.group_scale[..., None]
    return x @ parts.flatten(1).T


def one_zero_point(w: Weights, x: Tensor) -> Tensor:
    return x @ ((w.unsigned.to(x.dtype) - 128) * w.scale[:, None]).T


def half_bytes(w: Weights, x: Tensor) -> Tensor:
    groups = w.unpacked().reshape(OUTPUTS, -1, GROUP).to(x.dtype)
    return F.linear(x, ((groups - 8) * w.group_scale[..., None]).flatten(1))


def half_bytes_with_zero_points(w: Weights, x: Tensor) -> Tensor:
    zero = w.group_zero.to(torch.int32).repeat_interleave(GROUP, 1)
    scale = w.group_scale.repeat_interleave(GROUP, 1)
    return F.linear(x, (w.unpacked().to(torch.int32) - zero) * scale)


def half_bytes_with_offsets(w: Weights, x: Tensor) -> Tensor:
    groups = w.unpacked().reshape(OUTPUTS, -1, GROUP).to(x.dtype)
    moved = (groups - 8) * w.group_scale[..., None] + w.group_zero.to(x.dtype)[..., None] * 0.01
    return F.linear(x, moved.flatten(1))


def words_of_eight(w: Weights, x: Tensor) -> Tensor:
    numbers = (w.words.unsqueeze(1) >> w.shifts) & 15
    groups = numbers.reshape(-1, GROUP, OUTPUTS).to(x.dtype) - 8
    return x @ (groups * w.group_scale.T[:, None]).reshape(INPUTS, OUTPUTS)


def int8_operator(w: Weights, x: Tensor) -> Tensor:
    rows = x.reshape(-1, INPUTS)
    return torch.ops.aten._weight_int8pack_mm(rows, w.bytes, w.scale).reshape(*x.shape[:-1], -1)


FORMS: list[Form] = [
    scaled_outputs,
    scaled_columns,
    scaled_result,
    scaled_groups,
    one_zero_point,
    half_bytes,
    half_bytes_with_zero_points,
    half_bytes_with_offsets,
    words_of_eight,
    int8_operator,
]


class Product(nn.Module):
    def __init__(self, form: Form, dtype: torch.dtype) -> None:
        super().__init__()
        self.weights = Weights(dtype)
        self.form = form

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.form(self.weights, x))


def check(compiled: Callable[[Tensor], Tensor], model: Product, x: Tensor) -> None:
    near = 2e-5 if x.dtype == torch.float32 else 2e-2  # of the largest result
    expected = model(x)
    limit = near * float(expected.float().abs().max())
    torch.testing.assert_close(compiled(x), expected, rtol=0, atol=limit)


def reads_quantised(program: str) -> bool:
    """Whether the product is one with quantised weights and nothing else is one."""
    return "quantised_matmul" in program and "matmul " not in program.replace(
        "quantised_matmul ", ""
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_form(form: Form, dtype: torch.dtype) -> None:
    if form is int8_operator and dtype == torch.float32:
        dtype = torch.float16
    model = Product(form, dtype).eval()
    for shape in ((1, INPUTS), (5, INPUTS), (2, 20, INPUTS)):
        x = torch.randn(shape).to(dtype)
        compiled = gex.compile(model, (x,))
        check(compiled, model, x)
        # Frozen weights are widened once where there are many rows; the operator stays as it is.
        expected = x.numel() // INPUTS <= 8 or form is int8_operator
        assert reads_quantised(compiled.report.runner.text("program")) == expected, shape


def test_dynamic_rows() -> None:
    model = Product(half_bytes, torch.bfloat16).eval()
    x = torch.randn(4, INPUTS).to(torch.bfloat16)
    compiled = gex.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    for rows in (1, 2, 3, 61, 200):
        check(compiled, model, torch.randn(rows, INPUTS).to(torch.bfloat16))
    assert reads_quantised(compiled.report.runner.text("program"))


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@pytest.mark.parametrize("form", [scaled_outputs, scaled_columns, half_bytes, scaled_result])
def test_backend(form: Form, backend: str) -> None:
    """Parameters are inputs there: only forms that need no other order of the weights."""
    torch._dynamo.reset()
    model = Product(form, torch.bfloat16).eval()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for rows in (3, 1, 40):
            check(compiled, model, torch.randn(rows, INPUTS).to(torch.bfloat16))
    assert reads_quantised(report.reports()[-1].runner.text("program"))


def test_scales_along_inputs_stay() -> None:
    """A scale for each input is no scale of a group."""
    w = torch.randint(-127, 128, (OUTPUTS, INPUTS), dtype=torch.int8)
    scale = torch.rand(INPUTS) * 0.01

    class PerInput(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, w.float() * scale)

    x = torch.randn(3, INPUTS)
    compiled = gex.compile(PerInput(), (x,))
    torch.testing.assert_close(compiled(x), PerInput()(x), rtol=1e-4, atol=1e-4)
    assert "quantised_matmul" not in compiled.report.runner.text("program")
