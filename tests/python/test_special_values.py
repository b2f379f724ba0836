"""Infinities, NaN, signed zeros, huge and tiny numbers: functions give what eager mode gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conftest import Compile

INFINITY, NAN = float("inf"), float("nan")
LARGEST = torch.finfo(torch.float32).max
VALUES = [0.0, -0.0, 1e-40, 0.5, -0.5, 1.0, -1.0, 20.0, -20.0, 1e5, -1e5, 1e8, 1e9, 1e20, -1e20]
SPECIAL = torch.tensor([*VALUES, LARGEST, -LARGEST, INFINITY, -INFINITY, NAN])

FUNCTIONS = (
    torch.sign,
    torch.sgn,
    torch.asinh,
    torch.acosh,
    torch.atanh,
    torch.sin,
    torch.tan,
    torch.asin,
    torch.atan,
    torch.sinh,
    torch.tanh,
    torch.erf,
    torch.expm1,
    torch.log1p,
    torch.exp,
    torch.log,
    torch.sqrt,
    torch.rsqrt,
    torch.reciprocal,
    torch.sigmoid,
    torch.round,
    torch.trunc,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_special_values(compiling: Compile, dtype: torch.dtype) -> None:
    def every(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for function in FUNCTIONS]

    x = SPECIAL.to(dtype)
    for function, got, expected in zip(FUNCTIONS, compiling(every)(x), every(x), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True, msg=function.__name__)
        same_sign = torch.signbit(got) == torch.signbit(expected)
        assert (same_sign | expected.isnan()).all(), function.__name__


Reduction = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize("function", [torch.max, torch.min, torch.argmax], ids=lambda f: f.__name__)
def test_no_extremum_of_an_empty_tensor(compiling: Compile, function: Reduction) -> None:
    with pytest.raises((RuntimeError, IndexError), match="Expected reduction dim"):
        compiling(lambda x: function(x) + 1)(torch.empty(0, 4))
