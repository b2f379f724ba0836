"""Long sums and scans are at least as accurate as PyTorch's, measured against f64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
# Errors up to this many units in the last place of the largest result count as none: the result
# itself is rounded.
ULPS = 1.0
HUGE = pytest.param(100_000_000, marks=pytest.mark.slow)
LENGTHS = [100_003, 1_000_000, 20_000_000, HUGE]


def shifted(n: int) -> torch.Tensor:
    return torch.rand(n) + 1000


def tenths(n: int) -> torch.Tensor:
    return torch.full((n,), 0.1)


def mixed(n: int) -> torch.Tensor:
    return torch.randn(n)


DATA = {"shifted": shifted, "tenths": tenths, "mixed": mixed}


def error(actual: torch.Tensor, exact: torch.Tensor) -> float:
    return (actual.double() - exact).abs().max().item()


def check(
    fn: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
    dynamic: bool = False,
    floor: float | None = None,
    exact: torch.Tensor | None = None,
) -> None:
    if exact is None:
        exact = fn(*(x.double() if x.is_floating_point() else x for x in inputs))
    expected = fn(*inputs)
    actual = torch.compile(fn, backend="gex", dynamic=dynamic, fullgraph=True)(*inputs)
    assert actual.dtype == expected.dtype
    if floor is None:
        floor = ULPS * EPSILON[actual.dtype] * exact.abs().max().item()
    found, allowed = error(actual, exact), max(error(expected, exact), floor)
    assert found <= allowed, f"error {found:.3g}, PyTorch's {error(expected, exact):.3g}"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("data", list(DATA))
@pytest.mark.parametrize("length", LENGTHS)
def test_sum_of_everything(length: int, data: str, dynamic: bool) -> None:
    x = DATA[data](length)
    # Numbers of both signs cancel: the unit is that of the partial sums.
    floor = 4 * EPSILON[torch.float32] * math.sqrt(length) if data == "mixed" else None
    check(lambda x: x.sum(), x, dynamic=dynamic, floor=floor)


EQUAL = {
    "everything": ((300_000,), 0),
    "rows": ((3, 100_003), 1),
    "columns": ((100_003, 3), 0),
    "short rows": ((64, 1_000), 1),
    "both ends": ((300, 3, 1_003), (0, 2)),
}


@pytest.mark.parametrize("layout", list(EQUAL))
def test_sum_of_equal_numbers(layout: str) -> None:
    # Every block of equal numbers is rounded the same way, so the errors of blocks add up.
    shape, axes = EQUAL[layout]
    fold = torch.compile(lambda x: x.sum(axes), backend="gex")
    ours, eager = 0.0, 0.0
    for number in torch.linspace(0.1, 1, 20).tolist():
        x = torch.full(shape, number)
        exact = x.double().sum(axes)
        ours += error(fold(x), exact)
        eager += error(x.sum(axes), exact)
    assert ours <= eager, f"error {ours:.3g}, PyTorch's {eager:.3g}"


def squared_error(x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x, x.flip(0) * 0.5)


WHOLE = {
    "mean": lambda x: x.mean(),
    "nansum": lambda x: x.nansum(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "norm": lambda x: x.norm(),
    "norm1": lambda x: x.norm(1),
    "norm3": lambda x: x.norm(3),
    "logsumexp": lambda x: x.logsumexp(0),
    "mse": squared_error,
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
}


@pytest.mark.parametrize("name", list(WHOLE))
@pytest.mark.parametrize("length", [100_003, 3_000_000])
def test_folds_of_everything(length: int, name: str) -> None:
    check(WHOLE[name], torch.rand(length) + 1)


AXES = {
    "inner": ((40, 100_003), -1),
    "outer": ((100_003, 40), 0),
    "middle": ((3, 50_021, 5), 1),
    "both ends": ((300, 7, 2_003), (0, 2)),
    "short inner": ((200_003, 3), (0, 1)),
    "every second": ((40, 100_003, 2), 1),
}
ALONG = {
    "sum": lambda x, axes: x.sum(axes),
    "mean": lambda x, axes: x.mean(axes),
    "var": lambda x, axes: x.var(axes),
    "norm": lambda x, axes: torch.linalg.vector_norm(x, dim=axes),
    "logsumexp": lambda x, axes: x.logsumexp(axes),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", list(ALONG))
@pytest.mark.parametrize("layout", list(AXES))
def test_folds_along_axes(layout: str, name: str, dynamic: bool) -> None:
    shape, axes = AXES[layout]
    x = torch.rand(shape) + 1
    if layout == "every second":
        x = x[..., 0]
    check(lambda x: ALONG[name](x, axes), x, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["inner", "outer", "both ends"])
def test_low_floats_accumulate_wider(layout: str, dtype: torch.dtype) -> None:
    shape, axes = AXES[layout]
    x = (torch.rand(shape) * 0.01).to(dtype)
    for fold in (lambda x: x.sum(axes), lambda x: x.mean(axes), lambda x: x.var(axes)):
        check(fold, x)


@pytest.mark.parametrize("layout", ["inner", "outer", "both ends"])
def test_exact_folds(layout: str) -> None:
    shape, axes = AXES[layout]
    whole = torch.randint(-1000, 1000, shape)
    assert torch.equal(torch.compile(lambda x: x.sum(axes), backend="gex")(whole), whole.sum(axes))
    for x in (whole.float(), torch.rand(shape)):
        for fold in (lambda x: x.amax(axes), lambda x: x.amin(axes)):
            assert torch.equal(torch.compile(fold, backend="gex")(x), fold(x))
        if isinstance(axes, int):
            assert torch.equal(
                torch.compile(lambda x: x.argmax(axes), backend="gex")(x), x.argmax(axes)
            )


@pytest.mark.parametrize("axis", [0, 1])
def test_product(axis: int) -> None:
    x = 1 + torch.randn(100_003, 5).mul(1e-3)
    x = x if axis == 0 else x.t().contiguous()
    check(lambda x: x.prod(axis), x)


COLUMNS = [torch.float32, torch.float64, torch.int64, torch.int32]


@pytest.mark.parametrize("dtype", COLUMNS, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_products_of_columns(dynamic: bool, dtype: torch.dtype) -> None:
    # Widths around one and four vectors; powers of two, so that every order is exact.
    fn = torch.compile(lambda x: x.prod(0), backend="gex", dynamic=dynamic)
    for width in (1, 15, 16, 17, 63, 64, 65, 130):
        x = torch.tensor([1, -1, 2])[torch.randint(0, 3, (40, width))].to(dtype)
        assert torch.equal(fn(x), x.prod(0))


@pytest.mark.parametrize("length", LENGTHS)
def test_running_sum(length: int) -> None:
    ones = torch.ones(length)
    total = torch.compile(lambda x: x.cumsum(0), backend="gex")(ones)
    assert total[-1].item() == length
    check(lambda x: x.cumsum(0), torch.rand(length))


@pytest.mark.parametrize("shape", [(3, 200_003), (200_003, 3), (2, 100_003, 5)])
def test_scans_along_an_axis(shape: tuple[int, ...]) -> None:
    axis = shape.index(max(shape))
    check(lambda x: x.cumsum(axis), torch.rand(shape))
    check(lambda x: x.cumprod(axis), 1 + torch.randn(shape) * 1e-3)
    check(lambda x: x.logcumsumexp(axis), torch.randn(shape))


SCANS = {
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "cummax": lambda x: x.cummax(-1),
    "cummin": lambda x: x.cummin(-1),
}
SCANNED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8]


@pytest.mark.parametrize("dtype", SCANNED, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", list(SCANS))
def test_scans_of_rows_that_do_not_fill_vectors(name: str, dtype: torch.dtype) -> None:
    # Small integers: every prefix is exact in any order, and equal elements test which index wins.
    fn = torch.compile(SCANS[name], backend="gex", dynamic=True)
    for shape in [(1,), (15,), (16,), (17,), (3, 31), (2, 33), (5, 100), (2, 0)]:
        x = torch.randint(-1, 2, shape).to(dtype)
        torch.testing.assert_close(fn(x), SCANS[name](x), rtol=0, atol=0)


def test_scans_of_infinities_and_nans() -> None:
    x = torch.zeros(5, 70)
    for row, (column, value) in enumerate(
        [(3, math.inf), (20, -math.inf), (33, math.nan), (69, math.inf)]
    ):
        x[row, column:] = torch.tensor([value, -value]).repeat(35)[: 70 - column]
    for name, scan in SCANS.items():
        got = torch.compile(scan, backend="gex")(x)
        torch.testing.assert_close(got, scan(x), rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("length", [100_003, 3_000_000])
def test_running_log_sum(length: int) -> None:
    check(lambda x: x.logcumsumexp(0), torch.rand(length))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_running_log_sum_of_other_types(dtype: torch.dtype) -> None:
    x = torch.randn(1000).to(dtype)
    fn = torch.compile(lambda x: x.logcumsumexp(0), backend="gex")
    tolerance = 1e-14 if dtype == torch.float64 else EPSILON[dtype]
    torch.testing.assert_close(
        fn(x).double(), x.double().logcumsumexp(0), rtol=tolerance, atol=tolerance
    )


def test_running_log_sum_of_special_values() -> None:
    inf, nan = math.inf, math.nan
    rows = [
        [-inf, -inf, 1.0, -inf, 2.0],
        [-inf, -inf, -inf, -inf, -inf],
        [1.0, inf, 2.0, inf, -inf],
        [-inf, inf, inf, 0.0, nan],
        [nan, 1.0, -inf, inf, 2.0],
        [100.0, -100.0, 1e30, -1e30, 3e38],
        [0.0, 0.0, 0.0, 0.0, 0.0],
    ]
    fn = torch.compile(lambda x: x.logcumsumexp(1), backend="gex")
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor(rows, dtype=dtype)
        torch.testing.assert_close(fn(x), x.logcumsumexp(1), equal_nan=True)


@pytest.mark.parametrize("shape", [(64, 5, 128, 128), (100_003, 5)])
def test_batch_norm_with_a_large_mean(shape: tuple[int, ...]) -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)

    check(norm, torch.randn(shape) + 100)


def test_layer_norm_of_a_long_row() -> None:
    check(lambda x: F.layer_norm(x, x.shape[1:]), torch.randn(3, 1_000_003) + 10)


@pytest.mark.parametrize("length", [1_000_000, 10_000_000])
def test_products_with_a_long_inner_axis(length: int) -> None:
    a, b = torch.rand(length) + 1, torch.rand(length) + 1
    # Slices of the inner axis are added one after another in f32.
    floor = 16 * EPSILON[torch.float32] * 2.25 * length
    check(torch.dot, a, b, floor=floor)
    check(torch.mv, a.view(2, -1), b[: length // 2], floor=floor)
    check(torch.mm, a.view(4, -1), b.view(4, -1).t(), floor=floor)
    check(torch.mm, a.view(-1, 4).t(), b.view(-1, 4))
