"""Every row of every op against eager PyTorch, in the reference executor and as compiled code."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from row_cases import CASES, REFERENCES
from row_cases_order import equals
from row_check import ROWS, NoForm, RowCheck, run_row
from row_samples import Make

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]
OTHER_DTYPES = [
    torch.float64,
    torch.float16,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
]
# In f64 eager itself computes these with numbers of f32.
ROUNDED_BY_EAGER = frozenset(
    ("aten.hardsigmoid_backward.default", "aten._fused_rms_norm_backward.default")
)


def overload(name: str) -> Any:
    return operator.attrgetter(name)(torch.ops)


def calls_of(name: str, dtype: torch.dtype) -> list[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """Eager's result of each case; cases that eager rejects for the dtype are left out."""
    calls = []
    try:
        cases = CASES[name](Make(dtype))
    except RuntimeError:
        return []
    for case in cases:
        args, kwargs = (case[:-1], case[-1]) if isinstance(case[-1], dict) else (case, {})
        try:
            eager = REFERENCES.get(name, overload(name))
            calls.append((args, kwargs, eager(*args, **kwargs)))
        except (RuntimeError, NotImplementedError, IndexError, AssertionError):
            continue
    return calls


def test_every_row_has_a_case() -> None:
    assert set(CASES) == ROWS


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreter", "compiled"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_row_matches_eager(name: str, compiled: bool) -> None:
    check = RowCheck(scale=2, compiled=compiled)
    for dtype in DTYPES:
        for args, kwargs, result in calls_of(name, dtype):
            check.compare(overload(name), args, kwargs, result)
    assert not check.wrong, "\n".join(check.wrong)
    assert check.taken[name], f"the row took no call: {sorted(check.refused[name])}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_row_matches_eager_in_every_other_dtype(name: str) -> None:
    # Eager adds up the products of a convolution's gradient in f16 itself.
    scale = 16 if name == "aten.convolution_backward.default" else 2
    for dtype in OTHER_DTYPES:
        rounded = dtype == torch.float64 and name in ROUNDED_BY_EAGER
        check = RowCheck(scale=1000 if rounded else scale)
        for args, kwargs, result in calls_of(name, dtype):
            check.compare(overload(name), args, kwargs, result)
        assert not check.wrong, f"{dtype}\n" + "\n".join(check.wrong)


def test_rows_reject_unsupported_arguments() -> None:
    mask = torch.tensor([True, False, True])
    x = torch.randn(3, 4)
    beside = [mask, torch.tensor([0, 3])]
    result = torch.ops.aten.index.Tensor(x, beside)
    assert run_row(torch.ops.aten.index.Tensor, (x, beside), {}, result) == "not in this form"
    with pytest.raises(NoForm):
        run_row(torch.ops.aten.neg.default, (x + 1j,), {}, x + 1j)


def test_check_notices_a_wrong_result() -> None:
    check = RowCheck()
    x = torch.randn(3)
    check.compare(torch.ops.aten.neg.default, (x,), {}, x)
    assert len(check.wrong) == 1
    assert "aten.neg.default" in check.wrong[0]


def test_a_training_step_op_by_op() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 16),
        torch.nn.GELU(),
        torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 5),
    )
    check = RowCheck()
    with check:
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(2, 3, 6, 6)), torch.tensor([1, 4])
        )
        loss.backward()
    assert not check.wrong, "\n".join(check.wrong)
    assert len(check.taken) > 15


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_mode_returns_the_index_that_eager_returns(dtype: torch.dtype) -> None:
    mode = torch.ops.aten.mode.default
    for length in (17, 100, 3000):
        x = equals(Make(dtype), 3, length)
        expected = mode(x, 1)
        got = run_row(mode, (x, 1), {}, expected, compiled=True)
        assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_topk_selects_the_equal_elements_that_eager_selects(dtype: torch.dtype) -> None:
    t = Make(dtype)
    topk = torch.ops.aten.topk.default
    for shape, k in (((40, 8), 2), ((3, 200), 3), ((3, 200), 90), ((2, 5000), 60)):
        for largest in (True, False):
            x = equals(t, *shape)
            expected = topk(x, k, -1, largest)
            got = run_row(topk, (x, k, -1, largest), {}, expected, compiled=True)
            assert torch.equal(got[1], expected[1])
