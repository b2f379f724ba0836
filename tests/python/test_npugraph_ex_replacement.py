"""register_replacement: user-defined patterns, matched by PyTorch's own matcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gex.fx_stage import replacements
from gex.npugraph_ex import register_replacement


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Patterns stay registered in a process; each test has its own registry."""
    monkeypatch.setattr(replacements, "_patterns", None)
    yield


def examples(count: int, *shape: int) -> list[torch.Tensor]:
    with FakeTensorMode():
        return [torch.empty(shape or (2, 8))] * count


def search(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b)


def replace(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b - 100  # shows that it ran


def compiled(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    torch._dynamo.reset()
    options = kwargs.pop("options", None)
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, options=options, **kwargs)(
        *args
    )


def test_case_50_an_extra_check_decides_by_the_actual_sizes(device: str) -> None:
    def ok(match: Any) -> bool:
        return match.kwargs["a"].meta["val"].shape[-1] == 7168

    register_replacement(search, replace, examples(2), extra_check=ok)
    for width, is_replaced in ((7168, True), (64, False)):
        a, b = torch.randn(2, width, device=device), torch.randn(2, width, device=device)
        expected = replace(a, b) if is_replaced else search(a, b)
        torch.testing.assert_close(compiled(search, a, b), expected)


def test_case_50_a_pattern_registered_twice_raises_unless_duplicates_are_skipped() -> None:
    register_replacement(search, replace, examples(2))
    with pytest.raises(RuntimeError, match="Duplicate pattern"):
        register_replacement(search, replace, examples(2))
    register_replacement(search, replace, examples(2), skip_duplicates=True)


def test_patterns_are_off_with_pattern_fusion_pass_off(device: str) -> None:
    register_replacement(search, replace, examples(2))
    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(search, a, b), replace(a, b))
    off = {"pattern_fusion_pass": False}
    torch.testing.assert_close(compiled(search, a, b, options=off), search(a, b))


@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_and_dtypes_need_not_be_those_of_the_examples(dynamic: bool, device: str) -> None:
    register_replacement(search, replace, examples(2))
    a = torch.randn(5, 3, 4, dtype=torch.float64, device=device)
    b = torch.randn(5, 3, 4, dtype=torch.float64, device=device)
    torch.testing.assert_close(compiled(search, a, b, dynamic=dynamic), replace(a, b))


def test_a_value_inside_with_another_user_prevents_a_match(device: str) -> None:
    register_replacement(search, replace, examples(2))

    def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = a + b
        return torch.relu(total), total

    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(fn, a, b), fn(a, b))


def test_a_scalar_of_the_graph_reaches_the_replacement(device: str) -> None:
    def scaled(a: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.sigmoid(a * factor)

    def other(a: torch.Tensor, factor: float) -> torch.Tensor:
        return a - factor

    register_replacement(scaled, other, examples(1), scalar_workaround={"factor": 0.123})
    a = torch.randn(2, 3, device=device)
    result = compiled(lambda a: torch.sigmoid(a * 7.0), a)
    torch.testing.assert_close(result, a - 7.0)


def test_a_scalar_that_is_not_a_parameter_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"'c' is not a parameter of search_fn, which has \['a'"):
        register_replacement(search, replace, examples(2), scalar_workaround={"c": 1.0})


def test_a_given_pattern_is_used_in_place_of_a_trace(device: str) -> None:
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg

    aten = torch.ops.aten
    pattern = CallFunction(
        aten.tanh.default,
        CallFunction(aten.mul.Tensor, KeywordArg("a"), KeywordArg("b")),
    )
    register_replacement(search, replace, examples(2), search_fn_pattern=pattern)
    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(lambda a, b: torch.tanh(a * b), a, b), replace(a, b))
    torch.testing.assert_close(compiled(search, a, b), search(a, b))


def test_identities_between_do_not_hide_a_pattern(device: str) -> None:
    register_replacement(search, replace, examples(2))

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu((a + b).view(2, 3)[:])

    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(fn, a, b), replace(a, b))


def test_several_results_are_replaced_together(device: str) -> None:
    def both(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = a + b
        return torch.relu(total), total

    def other(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a - b, a * b

    register_replacement(both, other, examples(2))
    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(both, a, b), other(a, b))


def test_an_operator_of_the_users_can_be_the_replacement(device: str) -> None:
    @torch.library.custom_op("gex_test::add_relu", mutates_args=())
    def add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a + b) + 1

    @add_relu.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(a)

    register_replacement(search, lambda a, b: add_relu(a, b), examples(2))
    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    torch.testing.assert_close(compiled(search, a, b), search(a, b) + 1)


def test_case_51_nodes_on_another_stream_are_not_matched(device: str) -> None:
    def relu_aside(gm: Any, example_inputs: Any, config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)
        ops = torch.ops.npugraph_ex
        with gm.graph.inserting_before(node):
            gm.graph.call_function(ops.scope_enter.default, (["_user_stream_label"], ["side"]))
        with gm.graph.inserting_after(node):
            gm.graph.call_function(ops.scope_exit.default)

    register_replacement(search, replace, examples(2))
    a, b = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    options = {"post_grad_custom_pre_pass": relu_aside}
    torch.testing.assert_close(compiled(search, a, b, options=options), search(a, b))
