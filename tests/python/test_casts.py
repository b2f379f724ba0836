"""Conversion of floats to integers, including NaN, infinities and values out of range."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gex import es

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.9, -0.9, -1.5, 255.9, -129.0]


def values(dtype: torch.dtype) -> torch.Tensor:
    """All special values, both sides of every limit, and all orders of magnitude."""
    limits = [sign * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1)
              for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]  # fmt: skip
    drawn = torch.Generator().manual_seed(0)
    powers = torch.rand(400, generator=drawn, dtype=torch.float64) * 70
    signs = torch.randint(0, 2, (400,), generator=drawn) * 2 - 1
    return torch.cat([torch.tensor(SPECIAL + limits, dtype=torch.float64), signs * 2**powers]).to(
        dtype
    )


def as_eager_has_it(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """With PyTorch's vector code and, element by element, without: they agree."""
    whole = x.to(to)
    assert whole.tolist() == [element.to(to).item() for element in x]
    return whole


@pytest.mark.parametrize("executor", ["compiled", "interpreter"])
def test_floats_become_integers_as_in_eager(executor: str) -> None:
    xs = [values(dtype) for dtype in FLOATS]
    want = [as_eager_has_it(x, to) for x in xs for to in INTEGERS]

    def fn(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [x.to(to) for x in xs for to in INTEGERS]

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="gex", dynamic=True, options={"executor": executor})
    for part in (slice(-7, None), slice(-16, None), slice(None)):  # with and without whole vectors
        for got, all_of_it in zip(compiled(*(x[part].clone() for x in xs)), want):
            assert torch.equal(got, all_of_it[part]), got.dtype
    strided = torch.compile(fn, backend="gex", dynamic=True, options={"executor": executor})
    for got, all_of_it in zip(strided(*(x[::3] for x in xs)), want):
        assert torch.equal(got, all_of_it[::3]), got.dtype


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("repeats", [1, 10], ids=["small", "large"])
def test_folded_casts_equal_run_time_casts(repeats: int, to: torch.dtype) -> None:
    x = values(torch.float32).repeat(repeats)
    name = {"torch.uint8": "u8"}.get(str(to), str(to).replace("torch.int", "i"))
    builder = es.EsGraphBuilder("g")
    zero = builder.CreateInput(0, "zero", name, [1])
    graph = builder.Build([es.cast(builder.CreateConst(x.numpy()), dtype=name) + zero])
    program = graph.compile()
    if repeats == 1 or to.itemsize <= 4:
        assert "cast(" not in program.print("graph")
    (got,) = program.run([np.zeros(1, str(to).replace("torch.", ""))])
    np.testing.assert_array_equal(got, x.to(to).numpy())
