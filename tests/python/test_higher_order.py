"""Higher-order operators: native regions, calls, and the option `strict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_mutation,
)
from torch._higher_order_ops.while_loop import while_loop
from torch.fx.node import _side_effectful_functions
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import gex
from conftest import Compile, assert_same, last_report
from gex.dynamo import backends

Fn = Callable[..., Any]


def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


recorded: list[float] = []


def record(x: torch.Tensor) -> torch.Tensor:
    recorded.append(x.sum().item())
    return x * 2


@pytest.fixture(autouse=True, scope="module")
def custom_ops() -> Iterator[None]:
    with torch.library._scoped_library("gex_tests", "FRAGMENT") as library:
        library.define("add_one_(Tensor(a!) x) -> ()")
        library.define("add_and_double(Tensor(a!) x, Tensor y) -> Tensor")
        library.define("twice(Tensor x) -> Tensor")
        library.define("record(Tensor x) -> Tensor")
        library.define("record_and_write(Tensor(a!) x) -> Tensor")
        library.define("strides(Tensor x) -> Tensor", tags=(torch.Tag.needs_contiguous_strides,))
        library.impl("record", record, "CPU")
        library.impl("record", torch.empty_like, "Meta")
        library.impl("record_and_write", lambda x: record(x.add_(1)), "CPU")
        library.impl("record_and_write", torch.empty_like, "Meta")
        library.impl("strides", lambda x: torch.tensor(x.stride()), "CPU")
        library.impl("strides", lambda x: x.new_empty(x.dim(), dtype=torch.int64), "Meta")
        library.impl("add_one_", add_one_, "CompositeExplicitAutograd")
        library.impl("add_and_double", lambda x, y: x.add_(y) * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        yield


def check(compiling: Compile, fn: Fn, inputs: list[tuple[Any, ...]], **kwargs: Any) -> None:
    compiled = compiling(fn, **kwargs)
    for args in inputs:
        copies = [a.clone() for a in args]
        assert_same(compiled(*args), fn(*copies))
        assert_same(args, copies)  # what the function writes, too
    assert last_report().eager_reason is None


# --- cond ---------------------------------------------------------------------------------------


def choose(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,)) * 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_cond_is_native(compiling: Compile, dynamic: bool) -> None:
    inputs = [(torch.ones(3),), (-torch.ones(5 if dynamic else 3),)]
    check(compiling, choose, inputs, dynamic=dynamic)
    assert last_report().calls == []


def test_cond_on_a_size(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))

    check(compiling, fn, [(torch.randn(3),), (torch.randn(6),)], dynamic=True)
    assert last_report().calls == []


def test_cond_reads_operands_in_any_layout(compiling: Compile) -> None:
    def fn(flag: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = (y * 2).t()
        return torch.cond(flag, lambda a, b: a + b, lambda a, b: a - b[:1], (x, z)).t()

    for flag in (True, False):
        arguments = (torch.tensor(flag), torch.randn(4, 3).t(), torch.randn(4, 3))
        check(compiling, fn, [arguments])
    assert last_report().calls == []


def test_cond_inside_cond(compiling: Compile) -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x[0] > 1, lambda x: choose(x), lambda x: x * 3, (x,))

    check(compiling, outer, [(torch.tensor(v),) for v in ([2.0, 1.0], [2.0, -9.0], [0.0, 1.0])])
    assert last_report().calls == []


def test_cond_with_a_call_inside_is_a_call(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.linalg.det(x) * x, lambda x: x + 1, (x,))

    check(compiling, fn, [(torch.eye(3),), (-torch.eye(3),)])
    (call,) = last_report().calls
    assert call.op == "cond"
    assert "_linalg_det" in call.reason


def test_gradients_of_cond(compiling: Compile) -> None:
    for sign in (1.0, -1.0):
        x = (torch.ones(3) * sign).requires_grad_()
        y = x.detach().clone().requires_grad_()
        choose(x).sum().backward()
        compiling(lambda x: choose(x).sum())(y).backward()
        assert_same(y.grad, x.grad)


# --- loops --------------------------------------------------------------------------------------


def halve(i: torch.Tensor, x: torch.Tensor) -> Any:
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x / 2 + i), (i, x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_while_loop_is_native(compiling: Compile, dynamic: bool) -> None:
    inputs = [(torch.tensor(i), torch.randn(3 + 2 * i * dynamic)) for i in (0, 2, 7)]
    check(compiling, halve, inputs, dynamic=dynamic)
    assert last_report().calls == []


def test_while_loop_permutes_its_state(compiling: Compile) -> None:
    def fn(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        def step(i: Any, a: Any, b: Any) -> Any:
            return i + 1, b.clone(), (a.t() + c).contiguous()

        return while_loop(lambda i, a, b: i < 3, step, (i, a, b))

    square = [torch.randn(3, 3) for _ in range(2)]
    check(compiling, fn, [(torch.tensor(0), *square, torch.randn(3, 3).t())])


def accumulate(initial: torch.Tensor, x: torch.Tensor) -> Any:
    return scan(lambda carry, v: (carry + v, (carry * v).clone()), initial, x, dim=0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_scan(compiling: Compile, dynamic: bool) -> None:
    inputs = [(torch.randn(3), torch.randn(4 + 2 * k * dynamic, 3)) for k in range(2)]
    check(compiling, accumulate, inputs, dynamic=dynamic)
    assert [c.op for c in last_report().calls] == (["scan"] if dynamic else [])


@pytest.mark.slow
def test_long_scan_is_a_call(compiling: Compile) -> None:
    check(compiling, accumulate, [(torch.randn(3), torch.randn(40, 3))])
    assert "40 iterations" in last_report().calls[0].reason


@pytest.mark.parametrize("dynamic", [False, True])
def test_map(compiling: Compile, dynamic: bool) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_slices(lambda v, y: v.sin() + y, x, y)

    inputs = [(torch.randn(4 + 2 * k * dynamic, 3), torch.randn(3)) for k in range(2)]
    check(compiling, fn, inputs, dynamic=dynamic)
    assert [c.op for c in last_report().calls] == (["map_impl"] if dynamic else [])


@pytest.mark.slow
def test_associative_scan(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")

    check(compiling, fn, [(torch.randn(6, 3),)])


# --- operators of the user's --------------------------------------------------------------------


def writes_intermediate(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.ops.gex_tests.add_one_(y)
    return y + 1


def writes_view(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).t()
    torch.ops.gex_tests.add_one_(y[1])
    return y + 1


def writes_argument(x: torch.Tensor) -> torch.Tensor:
    torch.ops.gex_tests.add_one_(x)
    return x + 1


def writes_and_returns(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    result = torch.ops.gex_tests.add_and_double(y, x)
    return y + 1, result


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fn", [writes_intermediate, writes_view, writes_argument, writes_and_returns]
)
def test_custom_operator_that_writes(compiling: Compile, fn: Fn, dynamic: bool) -> None:
    check(compiling, fn, [(torch.randn(3 + k * dynamic, 4),) for k in range(2)], dynamic=dynamic)
    assert last_report().calls[0].op.startswith("gex_tests.add_")


def test_custom_operator(compiling: Compile) -> None:
    check(compiling, lambda x: torch.ops.gex_tests.twice(x + 1) * 3, [(torch.randn(3),)])
    assert [c.op for c in last_report().calls] == ["gex_tests.twice.default"]


@pytest.mark.parametrize("name", ["record", "record_and_write"])
def test_registered_effects_are_kept_in_order(compiling: Compile, name: str) -> None:
    """Although nothing reads the results."""
    op = getattr(torch.ops.gex_tests, name)
    torch.fx.node.has_side_effect(op.default)

    def fn(x: torch.Tensor) -> torch.Tensor:
        for factor in (3, 2, 1):
            op(x * factor)
        return x + 1

    try:
        compiled = compiling(fn)
        for _ in range(3):
            x, expected = torch.randn(3), []
            for call, kept in ((fn, expected), (compiled, [])):
                recorded.clear()
                assert_same(call(x), x + 1)
                kept += recorded
            assert len(kept) == 3
            assert kept == pytest.approx(expected)
    finally:
        _side_effectful_functions.discard(op.default)


def test_operands_of_an_operator_that_needs_contiguous_ones(compiling: Compile) -> None:
    compiled = compiling(lambda x: torch.ops.gex_tests.strides((x * 2).t()))
    assert compiled(torch.randn(3, 4)).tolist() == [3, 1]
    assert last_report().eager_reason is None


def test_print_keeps_its_place(compiling: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._higher_order_ops.print("first {n}", n=1)
        torch._higher_order_ops.print("second {n}", n=2)
        return x + 1

    x = torch.randn(3)
    assert_same(compiling(fn)(x), x + 1)
    assert capfd.readouterr().out.split() == ["first", "1", "second", "2"]


# --- attention, checkpoints, contexts -----------------------------------------------------------


# --- Triton kernels -----------------------------------------------------------------------------


class ScaledSum:
    """What PyTorch asks of a Triton kernel, in Python: result = (a + b) * factor."""

    __name__ = "scaled_sum"
    arg_names = ("a", "b", "result", "factor")

    def __getitem__(self, grid: Any) -> Fn:
        assert tuple(grid) == (2, 1, 1)
        return lambda a, b, result, factor: result.copy_((a + b) * factor)


def launching_a_kernel() -> torch.fx.GraphModule:
    """As Dynamo writes it for a function that launches a kernel on tensors of its own."""
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    doubled = graph.call_function(torch.mul, (x, 2))
    result = graph.call_function(torch.zeros_like, (x,))
    arguments = {
        "kernel_idx": kernel_side_table.add_kernel(ScaledSum()),
        "constant_args_idx": kernel_side_table.add_constant_args({"factor": 3}),
        "grid": [(2, 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"a": doubled, "b": y, "result": result},
    }
    graph.call_function(triton_kernel_wrapper_mutation, (), arguments)
    graph.output((graph.call_function(torch.add, (result, 1)),))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_a_triton_kernel_is_a_call_under_its_name() -> None:
    x, y = torch.randn(4), torch.randn(4)
    compiled = backends.gex(launching_a_kernel(), [x, y])
    for _ in range(2):
        before = x.clone(), y.clone()
        with torch.no_grad():
            (result,) = compiled(x, y)
        torch.testing.assert_close(result, (x * 2 + y) * 3 + 1)
        assert_same((x, y), before)
    assert [call.op for call in last_report().calls] == ["Triton kernel scaled_sum"]


def test_strict_names_the_triton_kernel() -> None:
    with pytest.raises(Exception, match="Triton kernel scaled_sum"):
        backends.gex(launching_a_kernel(), [torch.ones(4)] * 2, options={"strict": True})


def test_flex_attention(compiling: Compile) -> None:
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device="cpu")

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q + 1, k, v, lambda s, b, h, i, j: s + (i - j), block_mask=mask)

    qkv = tuple(torch.randn(1, 2, 128, 16) for _ in range(3))
    check(compiling, fn, [qkv])


def test_checkpoint_recomputes_in_the_backward(compiling: Compile) -> None:
    layer = nn.Linear(4, 4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: layer(x).relu().sin(), x, use_reentrant=False).sum()

    x, y = (torch.ones(3, 4, requires_grad=True) for _ in range(2))
    fn(x).backward()
    compiling(fn)(y).backward()
    assert_same(y.grad, x.grad)


def test_checkpoint_recomputes_the_same_mask(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        inner = lambda x: nn.functional.dropout(x.sin(), 0.5, True).sin()  # noqa: E731
        return checkpoint(inner, x, use_reentrant=False).sum()

    x, y = (torch.ones(30, 4, requires_grad=True) for _ in range(2))
    compiled = compiling(fn)
    after = []
    for run, argument in ((fn, x), (compiled, y)):
        torch.manual_seed(3)
        run(argument).backward()
        after.append(torch.rand(2))
    assert_same(y.grad, x.grad)
    assert_same(after[1], after[0])


def test_autocast_and_no_grad_inside_the_function(compiling: Compile) -> None:
    layer = nn.Linear(4, 4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        return y.float() + scale

    x, y = (torch.ones(3, 4, requires_grad=True) for _ in range(2))
    fn(x).sum().backward()
    got = compiling(fn)(y)
    got.sum().backward()
    assert_same(got, fn(x), tolerance=1e-2)
    assert_same(y.grad, x.grad, tolerance=1e-2)


# --- strict -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda x: torch.cond(x.sum() > 0, torch.linalg.det, torch.trace, (x,)), "cond"),
        (lambda x: accumulate(x[0], x.repeat(9, 1)), "scan"),
        (writes_intermediate, r"gex_tests\.add_one_\.default"),
        (lambda x: torch.ops.gex_tests.twice(x), r"gex_tests\.twice\.default"),
    ],
)
def test_strict_names_operator_and_line(fn: Fn, name: str) -> None:
    compiled = torch.compile(fn, backend="gex", options={"strict": True}, fullgraph=True)
    with pytest.raises(Exception, match=rf"{name} at .*test_higher_order\.py:\d+"):
        compiled(torch.eye(3))


def test_strict_takes_native_regions() -> None:
    compiled = torch.compile(choose, backend="gex", options={"strict": True}, fullgraph=True)
    assert_same(compiled(torch.ones(3)), choose(torch.ones(3)))
    assert gex.reports()[-1].calls == []
