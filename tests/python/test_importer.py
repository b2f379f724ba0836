"""The importer: what FX graphs become, run in the reference executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gex
from conftest import TORCH, Compile, assert_same, last_report


def test_mlp_is_all_native(compile_with: Compile) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(3, 8)
    with torch.no_grad():
        assert_same(compile_with(model)(x), model(x))
    assert last_report().native_share == 1.0
    assert last_report().native == 5


def test_dynamic_sizes_compile_once(compile_with: Compile) -> None:
    model = nn.Linear(8, 4)
    compiled = compile_with(model, dynamic=True)
    with gex.collect() as graphs, torch.no_grad():
        for rows in (3, 5, 17):
            x = torch.randn(rows, 8)
            assert_same(compiled(x), model(x))
    assert len(graphs) == 1


def test_constants_made_inside_the_function(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        nothing = torch.tensor([], dtype=x.dtype).reshape(0, 3)
        return torch.cat([nothing, x, torch.tensor([[1.0, 2.0, 3.0]])])

    x = torch.randn(2, 3)
    assert_same(compile_with(fn, dynamic=True)(x), fn(x))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_copies_of_an_input_in_another_layout(compile_with: Compile, dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return (
            x.clone(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last),
            y,
            y.clone(memory_format=torch.channels_last),
            x.clone(),
        )

    x = torch.randn(2, 3, 2, 5)
    assert_same(compile_with(fn, dynamic=dynamic)(x), fn(x))


def test_concatenating_a_matmul_with_something_else(compile_with: Compile) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        product = x @ w
        return torch.cat([product, y]), torch.cat([y, product]), torch.cat([product, y[:1] + 1])

    x, w, y = torch.randn(6, 4), torch.randn(4, 8), torch.randn(3, 8)
    assert_same(compile_with(fn)(x, w, y), fn(x, w, y))


def error_of(fn: Callable[..., Any], *args: Any) -> type[Exception] | None:
    try:
        fn(*args)
    except RuntimeError as error:
        return type(error)
    return None


def test_asserted_values_are_checked_at_each_run(compile_with: Compile) -> None:
    def fn(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        torch._check(bool((counts.sum() == 3).item()), lambda: "counts must add up to 3")
        torch._check(counts[0].item() == 1, lambda: "the first must be 1")
        return x + 1

    x = torch.randn(2)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = compile_with(fn)
        assert_same(compiled(x, torch.tensor([1, 2])), x + 1)
        assert last_report().eager_reason is None
        for counts, message in (([1, 3], "add up to 3"), ([2, 1], "first must be 1")):
            if torch.__version__ >= "2.13":
                with pytest.raises(RuntimeError, match=message):
                    compiled(x, torch.tensor(counts))
            else:  # drops a check, or its message, while it traces
                traced = torch.compile(fn, backend="aot_eager")
                raises = [error_of(f, x, torch.tensor(counts)) for f in (compiled, traced)]
                assert raises[0] == raises[1]


@pytest.mark.parametrize("shift", [0, 1])
def test_sizes_from_integer_arguments(compile_with: Compile, shift: int) -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.view(2, n, 4) + shift

    compiled = compile_with(fn, dynamic=True)
    for n in (3, 5):
        x = torch.randn(2 * n, 4)
        assert_same(compiled(x, n), fn(x, n))


def test_sizes_as_numbers(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return torch.arange(n) * n + (n + 7) // 8 - n % 3

    compiled = compile_with(fn, dynamic=True)
    for rows in (3, 5, 17):
        x = torch.randn(rows, 2)
        assert_same(compiled(x), fn(x))


def test_tensor_literal_with_dynamic_sizes(compile_with: Compile) -> None:
    def join_with_nothing(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tensor([], dtype=x.dtype), torch.tensor([2.0]), x])

    compiled = compile_with(join_with_nothing, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows)
        assert_same(compiled(x), join_with_nothing(x))


def test_integer_argument_that_is_not_a_size(compile_with: Compile) -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    compiled = compile_with(fn, dynamic=True)
    x = torch.randn(4)
    for n in (3, 5, 8):
        assert_same(compiled(x, n), fn(x, n))


def test_op_without_row_runs_as_a_call(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x + 1.0) * 2.0

    x = torch.eye(4) * 3
    assert_same(compile_with(fn)(x), fn(x))
    ops = [call.op for call in last_report().calls]
    assert ops[0] == "aten.linalg_inv_ex.default"
    assert ops[1:] == (["aten._linalg_check_errors.default"] if TORCH >= (2, 13) else [])
    assert "test_importer.py" in last_report().calls[0].location


def test_decomposition_of_an_op_without_tensors(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linspace(-1, 1, 7) * x

    x = torch.randn(7)
    assert_same(compile_with(fn)(x), fn(x))
    assert last_report().calls == []


@pytest.mark.skipif(TORCH < (2, 13), reason="tracing drops the check that raises")
def test_errors_of_calls_reach_the_user(compile_with: Compile) -> None:
    compiled = compile_with(torch.linalg.inv)
    compiled(torch.eye(3))
    with pytest.raises(torch.linalg.LinAlgError, match="singular") as error:
        compiled(torch.zeros(3, 3))
    if hasattr(error.value, "__notes__"):  # Python 3.11 and newer
        assert "_linalg_check_errors" in error.value.__notes__[0]
    assert_same(compiled(torch.eye(3) * 2), torch.linalg.inv(torch.eye(3) * 2))


def test_strict_refuses_calls_and_names_op_and_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x)

    compiled = torch.compile(fn, backend="gex", options={"strict": True})
    with pytest.raises(Exception, match=r"linalg_inv_ex.*test_importer\.py:\d+ in fn"):
        compiled(torch.eye(3))


def test_dropout_draws_eagers_numbers(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = nn.functional.dropout(x, 0.5, training=True)
        return a + nn.functional.dropout(x, 0.25, training=True)

    x = torch.randn(64, 4).t()
    torch.manual_seed(7)
    want = fn(x), torch.randn(3)
    torch.manual_seed(7)
    got = compile_with(fn)(x), torch.randn(3)
    assert_same(got, want)


def test_mutated_input_is_written_in_place(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    compiled = compile_with(fn)
    for _ in range(2):
        x, y = torch.ones(3), torch.ones(3)
        assert_same(compiled(x), fn(y))
        assert_same(x, y)


def test_output_strides_are_those_of_eager(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y[1:].select(1, 2), (x * 2).transpose(0, 2), (x * 3).expand(3, *x.shape)

    x = torch.randn(4, 5, 6)
    assert_same(compile_with(fn)(x), fn(x))


def test_channels_last_input_and_output(compile_with: Compile) -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    fn = torch.relu
    assert_same(compile_with(fn)(x), fn(x))


def test_output_that_views_an_input_shares_its_memory(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[1:, ::2], x + 1

    x = torch.randn(6, 8)[1:]
    view, _ = compile_with(fn)(x)
    assert_same(view, fn(x)[0])
    assert view.data_ptr() == x[1:, ::2].data_ptr()


def test_outputs_that_view_each_other_share_memory(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y.view(-1), y.t(), y[1]

    x = torch.randn(3, 4)
    flat, transposed, row = compile_with(fn)(x)
    assert_same((flat, transposed, row), fn(x))
    flat[4] = 100.0
    assert transposed[0, 1] == 100.0
    assert row[0] == 100.0


def test_outputs_in_every_form(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> tuple[object, ...]:
        y = x + 1
        return x, y, y, None, x.shape[0] + 1, 3, y.clone()

    x = torch.randn(4, 2)
    got, want = compile_with(fn, dynamic=True)(x), fn(x)
    assert_same(got, want)
    assert got[3:6] == want[3:6]
    assert got[0] is x
    assert got[6].data_ptr() != got[1].data_ptr()


@pytest.mark.skipif(TORCH < (2, 13), reason="Dynamo can't trace quantised tensors")
def test_quantised_tensors_run_through_pytorch_as_a_whole(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()

    x = torch.randn(3)
    assert_same(compile_with(fn)(x), fn(x))
    assert "quantised" in (last_report().eager_reason or "")


def test_backward_of_an_mlp(compile_with: Compile) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x, target = torch.randn(3, 8), torch.tensor([0, 3, 1])

    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), target)

    loss(x, target).backward()
    want = [p.grad for p in model.parameters()]
    model.zero_grad()
    compile_with(loss)(x, target).backward()
    assert_same([p.grad for p in model.parameters()], want)


def test_npugraphs_gives_eagers_bits() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    x = torch.randn(3, 8)
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="npugraphs")(x), model(x))


def test_explain_counts_and_names_calls() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x) + 1

    text = str(gex.explain(fn, torch.eye(3)))
    assert "call aten.linalg_inv_ex.default x1" in text


def test_condition_runs_one_branch(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,)) * 2

    compiled = compile_with(fn)
    for x in (torch.ones(3), -torch.ones(3)):
        assert_same(compiled(x), fn(x))
    assert not last_report().eager_reason


def test_symbolic_float_argument(compile_with: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * (x.shape[0] ** 0.5) + x.shape[0] / 3

    compiled = compile_with(fn, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 2)
        assert_same(compiled(x), fn(x))


def test_float_argument_changes_without_a_recompile(compile_with: Compile) -> None:
    def fn(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x * rate

    compiled = compile_with(fn, dynamic=True)
    x = torch.randn(3)
    with gex.collect() as graphs:
        for rate in (0.5, 0.25, 0.125):
            assert_same(compiled(x, rate), fn(x, rate))
    assert len(graphs) == 1
