"""Data-dependent sizes and numbers, and the conditions that PyTorch puts on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conftest import TORCH, Compile, assert_same, last_report


@pytest.fixture(autouse=True)
def whole_graphs() -> Any:
    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        yield


def leading(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    size = n.item()
    torch._check(size >= 1)
    torch._check(size < 100)
    return torch.ones(size) * x.sum()


def test_item_becomes_a_size(compiling: Compile) -> None:
    compiled = compiling(leading)
    for size in (3, 7):
        x, n = torch.randn(4), torch.tensor(size)
        assert_same(compiled(x, n), leading(x, n))
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(100))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_item_of_a_narrow_integer(compiling: Compile, dtype: torch.dtype) -> None:
    compiled = compiling(leading)
    x, n = torch.randn(4), torch.tensor(5, dtype=dtype)
    assert_same(compiled(x, n), leading(x, n))


def test_conditions_on_sizes_need_no_calls() -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        return x[:size] * 2

    compiled = torch.compile(fn, backend="gex", fullgraph=True, options={"strict": True})
    for size in (2, 5):
        x, n = torch.randn(9), torch.tensor(size)
        assert_same(compiled(x, n), fn(x, n))
    assert last_report().calls == []
    with pytest.raises(RuntimeError):
        compiled(torch.randn(9), torch.tensor(10))


def test_assertion_on_data_still_fires(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "only positive numbers")
        return x * 2

    compiled = compiling(fn)
    x = torch.rand(3) + 1
    assert_same(compiled(x), fn(x))
    with pytest.raises(RuntimeError, match="only positive numbers"):
        compiled(-x)


def selected(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    chosen = x[x > 0]
    where = torch.nonzero(x)
    return chosen * 2, where + 1, chosen.view(1, -1)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(x, (x[:, 0].abs() * 3).long(), 0) * 2


def split(x: torch.Tensor) -> torch.Tensor:
    first = int((x > 0).sum().item())
    torch._check(first <= x.numel())
    left, right = torch.split(x.flatten(), [first, x.numel() - first])
    return left.sum() - right.sum()


@pytest.mark.parametrize("fn", [selected, repeated, split, torch.unique])
@pytest.mark.parametrize("dynamic", [None, True])
def test_data_dependent_sizes(
    compiling: Compile, fn: Callable[..., Any], dynamic: bool | None
) -> None:
    compiled = compiling(fn, dynamic=dynamic)
    for rows in (5, 5, 5 if dynamic is None else 8):
        x = torch.randn(rows, 4)
        assert_same(compiled(x), fn(x))
    assert last_report().eager_reason is None


def test_selections_by_mask_need_no_calls() -> None:
    """Also several with one count, which PyTorch treats as one size, and none at all."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = x > 0
        rows = x[mask[:, 0]]
        places = torch.nonzero(mask)
        return x[mask] * 2, (x + 1)[mask], rows @ x.t(), x[places[:, 0]].sum(), places

    compiled = torch.compile(fn, backend="gex", fullgraph=True, options={"strict": True})
    for scale in (1, 1, -1, 0, 1):
        x = torch.randn(6, 4) if scale == 1 else scale * torch.rand(6, 4)
        assert_same(compiled(x), fn(x))
    assert last_report().calls == []


def test_the_count_of_a_selection_is_a_result() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        chosen = x[x > 0]
        return chosen.sum(), chosen.shape[0] * 2

    compiled = torch.compile(fn, backend="gex", fullgraph=True, options={"strict": True})
    for x in (torch.randn(9), -torch.rand(3), torch.rand(3)):
        assert_same(compiled(x), fn(x))


def test_selections_inside_a_branch(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x.sum(), (x,))

    compiled = compiling(fn)
    for x in (torch.rand(5), -torch.rand(5)):
        assert_same(compiled(x), fn(x))


def test_broadcast_masked_select(compiling: Compile) -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.masked_select(x, mask) + 1

    compiled = compiling(fn)
    for mask in (torch.tensor([True, False, True, True]), torch.zeros(4, dtype=torch.bool)):
        x = torch.randn(3, 4)
        assert_same(compiled(x, mask), fn(x, mask))


def test_narrow_from_a_place_in_a_tensor(compiling: Compile) -> None:
    def fn(x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.narrow(x, 0, start, 2) * 2, torch.narrow(x, 0, start, 2)

    compiled = compiling(fn)
    for start in (1, 3):
        x, at = torch.randn(5, 3), torch.tensor(start)
        assert_same(compiled(x, at), fn(x, at))


def test_numbers_among_the_results(compiling: Compile) -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> tuple[Any, ...]:
        rows, number = x.shape[0], n.item()
        return x * 2, rows * 3 + 1, rows // 2, rows / 2, rows > 4, number + 1, number * rows

    compiled = compiling(fn, dynamic=True)
    for rows in (3, 6):
        x, n = torch.randn(rows), torch.tensor(rows + 1)
        got, want = compiled(x, n), fn(x, n)
        assert_same(got, want)
        assert got[1:] == want[1:]
        assert [type(v) for v in got[1:]] == [type(v) for v in want[1:]]


def test_truth_taken_from_a_tensor(compiling: Compile) -> None:
    def fn(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return x * flag.item()

    compiled = compiling(fn)
    for flag in (True, False):
        x = torch.randn(3)
        assert_same(compiled(x, torch.tensor(flag)), fn(x, torch.tensor(flag)))
    assert last_report().eager_reason is None


def test_float_taken_from_a_tensor(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        largest = x.abs().max().item()
        return torch.full((3,), largest * 2) + torch.addcmul(x, x, x, value=largest)

    compiled = compiling(fn)
    for _ in range(2):
        x = torch.randn(3)
        assert_same(compiled(x), fn(x))
    assert last_report().eager_reason is None


def _runs_along_an_axis(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    runs, counts = torch.unique_consecutive(x, dim=1, return_counts=True)
    return runs * 2, runs.sum(0), counts + 1


def _places(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    places = x.nonzero()
    return places * 2, places.sum(1)


_promises_counts = pytest.mark.skipif(
    TORCH < (2, 13), reason="PyTorch promises counts in the dtype of the input"
)


@pytest.mark.parametrize("fn", [pytest.param(_runs_along_an_axis, marks=_promises_counts), _places])
def test_results_with_data_dependent_strides_are_read_in_place(
    compiling: Compile, fn: Callable[..., Any]
) -> None:
    compiled = compiling(fn)
    generator = torch.Generator().manual_seed(0)
    for most in (1, 2, 3):
        x = torch.randint(0, most, (5, 6, 4), generator=generator).float()
        for got, want in zip(compiled(x), fn(x), strict=True):
            assert torch.equal(got, want)  # strides are those of the promise


def distinct(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    rows, row_of = torch.unique(x, dim=0, return_inverse=True)
    runs, lengths = torch.unique_consecutive(x[:, 0], return_counts=True)
    again = torch.unique(x)  # as many as before, and PyTorch knows
    return values * 2, values[inverse] - x, counts / x.numel(), rows[row_of], runs, lengths, again


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_distinct_elements_need_no_calls(dtype: torch.dtype) -> None:
    compiled = torch.compile(distinct, backend="gex", fullgraph=True, options={"strict": True})
    for rows, kinds in ((9, 3), (9, 7), (40, 1), (5, 2), (1000, 9)):
        x = torch.randint(0, kinds, (rows, 3)).to(dtype)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(compiled(x), distinct(x))
    assert last_report().calls == []


def test_distinct_columns_and_runs_of_planes(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        columns, counts = torch.unique(x, dim=1, return_counts=True)
        planes, plane_of = torch.unique_consecutive(x, dim=0, return_inverse=True)
        # PyTorch infers dense results; eager's kernel returns others.
        return (columns + 1).contiguous(), counts, (planes * 2).contiguous(), plane_of

    compiled = compiling(fn)
    for seed in range(3):
        x = torch.randint(0, 2, (4, 6, 2), generator=torch.Generator().manual_seed(seed)).float()
        x[1] = x[0]
        assert_same(compiled(x), fn(x))
    assert last_report().calls == []


def test_gradients_of_masked_scatter_need_no_calls() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask, source).square().sum()

    compiled = torch.compile(fn, backend="gex", fullgraph=True, options={"strict": True})
    x, mask = torch.randn(4, 5), torch.arange(20).reshape(4, 5) % 3 == 1
    results = []
    for call in (fn, compiled):
        source = torch.arange(20.0).requires_grad_()
        call(x, mask, source).backward()
        results.append(source.grad)
    assert_same(results[1], results[0])
    assert last_report().calls == []


# --- sizes that the trace knows as others -----------------------------------------------------


def _asserted(x: torch.Tensor) -> torch.Tensor:
    places = torch.nonzero(x)
    torch._check(places.shape[0] == 3)
    return places.float() * 2


def _combined(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] + torch.arange(3.0)


def _combined_with_an_input(x: torch.Tensor) -> torch.Tensor:
    chosen = x[x > 0]
    torch._check(chosen.shape[0] == x.shape[0] // 2)
    return chosen + x[: x.shape[0] // 2]


def _of_another(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] + torch.nonzero(x < 0)[:, 0]


def _distinct(x: torch.Tensor) -> torch.Tensor:
    return torch.unique(x.sign()) + torch.arange(2.0)


def _repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(6), (x > 0).long() + (x < -9).long(), output_size=3)


def _number(x: torch.Tensor) -> torch.Tensor:
    number = (x > 0).sum().item()
    torch._check(number * 2 == x.shape[0])
    return torch.ones(number) + x.sum()


HALF = torch.tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0])
MORE = torch.tensor([1.0, -2.0, 3.0, -4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    "fn",
    [_combined, _combined_with_an_input, _of_another, _distinct, _repeated, _number],
    ids=lambda fn: fn.__name__[1:],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_found_in_data_must_be_those_of_the_trace(
    compiling: Compile, fn: Callable[..., Any], dynamic: bool
) -> None:
    compiled = compiling(fn, dynamic=dynamic)
    for _ in range(2):
        assert_same(compiled(HALF), fn(HALF))
    wrong = torch.arange(-3.0, 3.0) if fn is _distinct else MORE
    with pytest.raises(RuntimeError):
        fn(wrong)
    with pytest.raises(RuntimeError, match=r"the data gives a size of|assert|do not match"):
        compiled(wrong)
    assert_same(compiled(HALF), fn(HALF))


def test_an_asserted_count(compiling: Compile) -> None:
    compiled = compiling(_asserted)
    three = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0])
    assert torch.equal(compiled(three), _asserted(three))
    for x in (torch.ones(5), torch.zeros(5)):
        with pytest.raises(RuntimeError):
            compiled(x)
    assert torch.equal(compiled(three), _asserted(three))


def test_one_number_read_twice(compiling: Compile) -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        first, second = n.item(), n.item()
        torch._check(first > 0)
        torch._check(first <= x.shape[0])
        return x[:first] * 2 + x[:second]

    compiled = compiling(fn)
    for n in (2, 4):
        x = torch.randn(6)
        assert_same(compiled(x, torch.tensor(n)), fn(x, torch.tensor(n)))
