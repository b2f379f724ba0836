"""Results and arguments that share memory, and what functions write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from conftest import Compile, assert_same, last_report

Fn = Callable[..., Any]


def run_both(compiling: Compile, fn: Fn, *args: torch.Tensor, **kwargs: Any) -> tuple[Any, Any]:
    """Results of compiled and eager code; what they wrote into their arguments is compared."""
    copies = [torch.empty_strided(a.size(), a.stride(), dtype=a.dtype).copy_(a) for a in args]
    got, want = compiling(fn, **kwargs)(*args), fn(*copies)
    assert_same(got, want)
    assert_same(args, copies)
    return got, want


def write_a_view(x: torch.Tensor) -> torch.Tensor:
    x[1:, ::2].mul_(3)
    return x.sum()


def write_a_row_by_index(x: torch.Tensor) -> torch.Tensor:
    x[torch.tensor([0, 2])] = 7.0
    return x * 2


def write_through_reshape(x: torch.Tensor) -> torch.Tensor:
    x.view(-1)[3:5].zero_()
    return x + 1


def swap(x: torch.Tensor) -> torch.Tensor:
    first = x[0].clone()
    x[0].copy_(x[1])
    x[1].copy_(first)
    return first


def write_and_return_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(1)
    return x[1:], x, x.t()


def fill_from_another_dtype(x: torch.Tensor) -> torch.Tensor:
    x.copy_(torch.arange(x.numel()).view(x.shape))
    return x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        write_a_view,
        write_a_row_by_index,
        write_through_reshape,
        swap,
        write_and_return_view,
        fill_from_another_dtype,
    ],
)
def test_arguments_that_are_written(compiling: Compile, fn: Fn, dynamic: bool) -> None:
    run_both(compiling, fn, torch.randn(4, 6), dynamic=dynamic)


def write_after_a_view(x: torch.Tensor, k: int) -> tuple[torch.Tensor, ...]:
    y = x[k:]
    x[0] = 1
    return y, x[k], x[x.shape[0] // 2], x[x.shape[0] // 2 :].t()


def scale_after_a_view(x: torch.Tensor, k: int) -> tuple[torch.Tensor, ...]:
    y = x[k:]
    x.mul_(2)
    return y, x[k], x.unbind(1)[-1][k:]


def copy_then_view(x: torch.Tensor, k: int) -> tuple[torch.Tensor, ...]:
    x.copy_(x * 3)
    return x[k:, 1:], x.unfold(0, 2, 1)[k]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda whole: whole[:7],
    "behind others": lambda whole: whole[1:],
    "transposed": lambda whole: whole.view(16, 8).t()[:7],
    "transposed, behind others": lambda whole: whole.view(16, 8).t()[1:],
    "every second": lambda whole: whole[:7, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", [write_after_a_view, scale_after_a_view, copy_then_view])
def test_views_with_symbolic_offsets_of_a_written_argument(
    compiling: Compile, fn: Fn, layout: str
) -> None:
    """Each result is the view of the argument that eager mode returns, whatever its layout."""
    compiled = compiling(fn, dynamic=True)
    for k in (3, 4):
        x, y = (LAYOUTS[layout](torch.arange(128.0).view(8, 16)) for _ in range(2))
        got, want = compiled(x, k), fn(y, k)
        assert_same(got, want)
        assert_same(x, y)
        assert [r.storage_offset() for r in got] == [r.storage_offset() for r in want]
        assert all(r.untyped_storage()._cdata == x.untyped_storage()._cdata for r in got)


def test_one_tensor_given_twice(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    compiled = compiling(fn)
    for same in (True, False):
        x, y = torch.ones(3), torch.ones(3)
        a, b = (x, x if same else torch.ones(3))
        c, d = (y, y if same else torch.ones(3))
        assert_same(compiled(a, b), fn(c, d))
        assert_same(x, y)


def test_overlapping_arguments(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sum() + y

    whole, other = torch.arange(6.0), torch.arange(6.0)
    assert_same(compiling(fn)(whole[:4], whole[2:]), fn(other[:4], other[2:]))
    assert_same(whole, other)


def test_results_share_memory_as_in_eager(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return x.t(), x[1], y, y.view(-1)[2:], y[:, 1], x.expand(2, *x.shape)

    x = torch.randn(3, 4)
    got, want = run_both(compiling, fn, x)
    bases = [r.untyped_storage().data_ptr() for r in got]
    expected = [r.untyped_storage().data_ptr() for r in want]
    same = [[a == b for b in bases] for a in bases]
    assert same == [[a == b for b in expected] for a in expected]
    assert bases[0] == x.untyped_storage().data_ptr()
    got[2][0, 2] = 50.0
    assert got[3][0] == 50.0


def test_result_of_an_earlier_call_is_not_overwritten(compiling: Compile) -> None:
    compiled = compiling(lambda x: (x + 1, (x + 1)[1:]))
    first = compiled(torch.zeros(3))
    kept = [t.clone() for t in first]
    compiled(torch.ones(3))
    assert_same(first, kept)


def test_batch_norm_statistics_in_training(compiling: Compile) -> None:
    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    eager, other = model(), model()
    compiled = compiling(other)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        eager(x).sum().backward()
        compiled(x).sum().backward()
        assert_same(dict(other.named_buffers()), dict(eager.named_buffers()))
    assert int(other[1].num_batches_tracked) == 3
    got, want = ([p.grad for p in m.parameters()] for m in (other, eager))
    assert_same(got, want, tolerance=1e-4)
    eager.eval(), other.eval()
    assert_same(compiled(x), eager(x))


def test_buffer_that_a_module_replaces(compiling: Compile) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = self.seen + x.sum(0)
            return x - self.seen

    eager, other = Counter(), Counter()
    compiled = compiling(other)
    for _ in range(3):
        x = torch.randn(5, 2)
        assert_same(compiled(x), eager(x))
        assert_same(other.seen, eager.seen)


def test_key_value_cache_is_written_in_place(compiling: Compile) -> None:
    def fn(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, at, new)
        return cache.sum(1)

    cache, at, new = torch.zeros(2, 8, 3), torch.tensor([5]), torch.randn(2, 1, 3)
    address = cache.data_ptr()
    run_both(compiling, fn, cache, at, new)
    assert cache.data_ptr() == address
    assert last_report().calls == []
