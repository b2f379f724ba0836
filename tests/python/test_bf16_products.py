"""Products of bf16 matrices: as close to exact ones as eager's, and subnormal numbers kept on
request."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

SIZES = [(9, 40, 33), (32, 1024, 1024), (32, 96, 3072), (130, 65, 257), (700, 300, 512)]


def error(y: torch.Tensor, exact: torch.Tensor) -> float:
    return float((y.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("rows, columns, depth", SIZES)
@pytest.mark.parametrize("frozen", [False, True])
def test_error_is_that_of_eager(rows: int, columns: int, depth: int, frozen: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(depth, columns, dtype=torch.bfloat16).eval()
    x = torch.randn(rows, depth, dtype=torch.bfloat16)
    compiled = torch.compile(
        layer, backend="npugraph_ex", dynamic=False, options={"frozen_parameter": frozen}
    )
    with torch.no_grad():
        exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
        ours, eager = compiled(x), layer(x)
    assert ours.dtype == torch.bfloat16
    assert error(ours, exact) <= 1.02 * error(eager, exact)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_subnormal_numbers_are_kept_on_request(backend: str) -> None:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    a = torch.full((40, 8), 2.0**-100, dtype=torch.bfloat16)
    b = torch.full((8, 40), 2.0**-30, dtype=torch.bfloat16)
    compiled = torch.compile(product, backend=backend, options={"keep_subnormals": True})
    assert torch.equal(compiled(a, b).double(), torch.full((40, 40), 8 * 2.0**-130).double())


PROGRAM = """
import torch
a = torch.full((40, 8), 2.0**-100, dtype=torch.bfloat16)
b = torch.full((8, 40), 2.0**-30, dtype=torch.bfloat16)
print(float(torch.compile(torch.mm, backend="gex")(a, b)[3, 4]) == 8 * 2.0**-130)
"""


@pytest.mark.parametrize("value, expected", [("1", "True"), ("yes", "must be 0 or 1")])
def test_the_variable_does_what_the_option_does(value: str, expected: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"GEX_KEEP_SUBNORMALS": value},
        capture_output=True,
        text=True,
    )
    assert expected in run.stdout + run.stderr
