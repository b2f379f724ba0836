"""NaN, infinities, signed zeros, huge numbers and the ends of integer ranges, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from row_check import run_row

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
FLOATS = [NAN, INF, -INF, -0.0, 0.0, 2.5, -1.0, 1.0, -0.5, 1e30, -1e30, 3e38, 1e-40, 88.0, -100.0]
WHOLE = [0, 1, -1, 2, -2, 7, -7, 127, -128, 3]

# gelu is left out: eager's own is NaN at infinity.
UNARY = """
    sign sgn asinh acosh atanh silu mish softplus sigmoid tanh erf exp expm1 log log1p log2
    log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh relu hardtanh hardswish hardsigmoid
    elu leaky_relu floor ceil round trunc frac abs neg reciprocal exp2 isnan isinf nan_to_num
    logical_not log_sigmoid_forward
"""
BINARY: dict[str, Any] = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "floor_divide": aten.floor_divide.default,
    "remainder": aten.remainder.Tensor,
    "fmod": aten.fmod.Tensor,
    "pow": aten.pow.Tensor_Tensor,
    "atan2": aten.atan2.default,
    "hypot": aten.hypot.default,
    "maximum": aten.maximum.default,
    "minimum": aten.minimum.default,
    "fmax": aten.fmax.default,
    "fmin": aten.fmin.default,
    "logaddexp": aten.logaddexp.default,
    "xlogy": aten.xlogy.Tensor,
    "lt": aten.lt.Tensor,
    "ne": aten.ne.Tensor,
    "logical_and": aten.logical_and.default,
    "bitwise_left_shift": aten.bitwise_left_shift.Tensor,
}
DIVISIONS = ("floor_divide", "remainder", "fmod")


def difference(op: Any, args: tuple[torch.Tensor, ...]) -> str:
    """Where the interpreter or compiled code differs from eager; "" if nowhere."""
    want = op(*args)
    first = want if isinstance(want, torch.Tensor) else want[0]
    tolerance = 3e-2 if first.dtype == torch.bfloat16 else 1e-5
    for compiled in (False, True):
        result = run_row(op, args, {}, want, compiled=compiled)
        assert not isinstance(result, str), result
        got = result[0]
        assert got.dtype == first.dtype
        close = torch.isclose(got.double(), first.double(), tolerance, 1e-30, equal_nan=True)
        wrong = ~(close | (got == first))
        if wrong.any():
            where = [a[wrong].tolist() for a in args]
            return f"{where}: {got[wrong].tolist()}, eager: {first[wrong].tolist()}"
    return ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_functions_of_one_number(dtype: torch.dtype) -> None:
    x = torch.tensor(FLOATS, dtype=dtype)
    found = {name: difference(getattr(aten, name).default, (x,)) for name in UNARY.split()}
    assert not {name: text for name, text in found.items() if text}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_functions_of_two_numbers(dtype: torch.dtype) -> None:
    # Without those by which eager's remainders overflow on the way.
    x = torch.tensor([f for f in FLOATS if f not in (1e-40, 3e38)], dtype=dtype)
    args = (x.repeat_interleave(len(x)), x.repeat(len(x)))
    whole = ("bitwise_left_shift",)
    found = {name: difference(op, args) for name, op in BINARY.items() if name not in whole}
    assert not {name: text for name, text in found.items() if text}


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
)
def test_whole_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor(WHOLE).to(dtype)
    found = {}
    for name, op in BINARY.items():
        a, b = x.repeat_interleave(len(x)), x.repeat(len(x))
        allowed = b != 0 if name in DIVISIONS else b >= 0 if name == "pow" else b == b
        args = (a[allowed], b[allowed])
        try:
            op(*args)
        except RuntimeError:
            continue  # not for this dtype
        if dtype == torch.bool and name in ("fmax", "fmin"):
            continue  # a call through PyTorch
        found[name] = difference(op, args)
    assert len(found) > 8
    assert not {name: text for name, text in found.items() if text}


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_ignored_samples_have_no_gradient_whatever_the_mean_is(reduction: int) -> None:
    scores = torch.randn(3, 4)
    target = torch.full((3,), -100)
    total = torch.zeros(())
    grad = torch.ones(3) if reduction == 0 else torch.ones(())
    args = (grad, scores, target, None, reduction, -100, total)
    op = aten.nll_loss_backward.default
    for compiled in (False, True):
        (got,) = run_row(op, args, {}, op(*args), compiled=compiled)
        assert torch.equal(got, torch.zeros(3, 4))
