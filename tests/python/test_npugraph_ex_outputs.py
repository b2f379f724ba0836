"""Results of npugraph_ex: memory ownership, and that nothing overwrites them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from conftest import assert_same
from graph_counts import compiled, same_memory


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def function(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.t()).relu() + 1


@pytest.mark.parametrize("clone_output", [True, False])
@pytest.mark.parametrize("reuse", [True, False])
def test_case_15_and_16_an_output_is_never_overwritten(
    device: str, clone_output: bool, reuse: bool
) -> None:
    """The reference returns the same memory again unless clone_output is set."""
    fn = compiled(function, clone_output=clone_output, reuse_graph_pool_in_same_fx=reuse)
    a, b = torch.randn(2, 4, 3, device=device)
    first = fn(a)
    second = fn(b)
    assert not same_memory(first, second)
    assert_same([first, second], [function(a), function(b)])


def test_memory_of_a_dropped_output_is_used_again_without_a_copy(device: str) -> None:
    from graph_counts import count

    fn = compiled(lambda x: x * 2 + 1)
    x = torch.randn(1000, device=device)
    for _ in range(5):
        fn(x)
    assert count("bytes_copied") == 0


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y.view(-1), y[0] + 1


def test_case_17_outputs_share_memory_as_in_eager(device: str) -> None:
    fn = compiled(views, dynamic=True)
    for rows in (3, 4, 3):
        x = torch.randn(rows, 5, device=device)
        got = fn(x)
        assert_same(got, views(x))
        assert same_memory(got[0], got[1])
        assert not same_memory(got[0], got[2])


def test_cloned_outputs_share_no_memory_with_one_another(device: str) -> None:
    x = torch.randn(3, 5, device=device)
    got = compiled(views, clone_output=True)(x)
    assert_same(got, views(x))
    assert not same_memory(got[0], got[1])


def test_case_18_outputs_of_two_sizes_dropped_and_kept(device: str) -> None:
    fn = compiled(function, dynamic=True)
    inputs = [torch.randn(rows, 3, device=device) for rows in (4, 6, 4, 6)]
    for x in inputs:
        assert_same(fn(x), function(x))  # dropped at once
    kept = [fn(x) for x in inputs]
    for x in inputs:
        fn(x * 3)
    assert_same(kept, [function(x) for x in inputs])


def with_input(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x + 1


@pytest.mark.parametrize("clone_output", [True, False])
def test_case_19_and_20_a_returned_input_is_the_one_of_this_call(
    device: str, clone_output: bool
) -> None:
    fn = compiled(with_input, clone_output=clone_output)
    for _ in range(3):  # the reference goes on returning the first one
        x = torch.randn(3, device=device)
        same, more = fn(x)
        assert same_memory(same, x)
        assert not same_memory(more, x)
        assert_same([same, more], [x, x + 1])


def test_case_27_options_of_one_compile_reach_no_other(device: str) -> None:
    x = torch.randn(3, 5, device=device)
    cloned = compiled(lambda x: views(x), clone_output=True)(x)
    plain = compiled(lambda x: views(x))(x)
    assert not same_memory(cloned[0], cloned[1])
    assert same_memory(plain[0], plain[1])


def test_cloned_outputs_have_gradients(device: str) -> None:
    with torch.enable_grad():
        x = torch.randn(3, 5, device=device, requires_grad=True)
        got = compiled(views, clone_output=True)(x)
        (got[0].sum() + got[1].square().sum()).backward()
    assert_same(x.grad, 2 + 8 * x.detach())
