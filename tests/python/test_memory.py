"""Memory ownership: parameters, moved and strided inputs, views, kept outputs."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same, last_report


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 5))


def test_parameter_changed_through_data() -> None:
    model, x = make_model(), torch.randn(4, 6)
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        compiled(x)
        model[0].weight.data.mul_(2)
        assert_same(compiled(x), model(x))


def test_parameter_replaced_through_data() -> None:
    model, x = make_model(), torch.randn(4, 6)
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        compiled(x)
        model[2].weight.data = torch.randn(5, 12)
        assert_same(compiled(x), model(x))


def test_parameter_replaced_by_one_with_other_strides() -> None:
    model, x = make_model(), torch.randn(4, 6)
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        compiled(x)
        model[2].weight.data = torch.randn(12, 5).t()
        assert_same(compiled(x), model(x))


def test_optimizer_steps_are_seen() -> None:
    model, x = make_model(), torch.randn(4, 6)
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="gex")
    for fn, module in ((compiled, model), (reference, reference)):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            fn(x).square().sum().backward()
            optimizer.step()
    assert_same(list(model.parameters()), list(reference.parameters()))
    assert_same(compiled(x), reference(x))


def test_loaded_state_is_seen() -> None:
    model, other, x = make_model(), make_model(), torch.randn(4, 6)
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        compiled(x)
        model.load_state_dict(other.state_dict())
        assert_same(compiled(x), other(x))


def test_moved_input() -> None:
    model = make_model()
    compiled = torch.compile(model, backend="gex")
    kept = []
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(4, 6)
            kept.append(x)
            assert_same(compiled(x), model(x))
    assert last_report().runner.counters["captures"] == 1


def test_non_contiguous_inputs() -> None:
    model = make_model()
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        for x in (
            torch.randn(6, 4).t(),
            torch.randn(8, 12)[::2, 3:9],
            torch.randn(1, 6).expand(4, 6),
        ):
            assert_same(compiled(x), model(x))


def test_output_that_is_a_view_of_an_input() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.t()[1:], y.view(-1), x + 1

    compiled = torch.compile(fn, backend="gex")
    for _ in range(2):
        x, y = torch.randn(3, 4), torch.randn(2, 2)
        got = compiled(x, y)
        assert_same(got, fn(x, y))
        x.zero_()
        y.zero_()
        assert got[0].count_nonzero() == 0
        assert got[1].count_nonzero() == 0


def test_view_of_an_input_that_starts_inside_its_storage() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x[1:]

    compiled = torch.compile(fn, backend="gex")
    for start in (0, 3, 5):
        x = torch.arange(20.0)[start : start + 6]
        assert_same(compiled(x), fn(x))
        assert compiled(x).data_ptr() == x[1:].data_ptr()


def test_a_clone_is_a_clone() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return x.clone(), y, y.clone(), x.t().contiguous()

    x = torch.randn(3, 3)
    got = torch.compile(fn, backend="gex")(x)
    assert_same(got, fn(x))
    assert len({t.data_ptr() for t in (x, *got)}) == 5


def test_old_value_of_a_mutated_input() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = x.clone()
        x.mul_(2).add_(1)
        return before, x * 3, x.view(-1)

    compiled = torch.compile(fn, backend="gex")
    for _ in range(2):
        x = torch.randn(2, 3)
        y = x.clone()
        got, want = compiled(x), fn(y)
        assert_same(got, want)
        assert_same(x, y)
        assert got[2].data_ptr() == x.data_ptr()


def test_mutated_value_is_also_returned() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        x.copy_(y)
        return y

    x, other = torch.randn(5), torch.randn(5)
    other.copy_(x)
    got = torch.compile(fn, backend="gex")(x)
    assert_same(got, fn(other))
    assert_same(x, other)
    got.zero_()
    assert_same(x, other)


def test_mutation_through_strides() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x[:, 1::2].add_(10)
        return x.sum()

    compiled = torch.compile(fn, backend="gex")
    base, other = torch.zeros(6, 8), torch.zeros(6, 8)
    assert_same(compiled(base.t()[::2]), fn(other.t()[::2]))
    assert_same(base, other)


def test_a_thousand_kept_outputs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    compiled = torch.compile(fn, backend="gex")
    inputs = [torch.full((3,), float(i)) for i in range(1000)]
    outputs = [compiled(x) for x in inputs]
    for x, y in zip(inputs, outputs):
        assert_same(y, fn(x))


def test_released_outputs_are_freed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ x.t() + torch.eye(4)) * 2

    compiled = torch.compile(fn, backend="gex")
    compiled(torch.randn(4, 4))

    def live_tensors() -> int:
        gc.collect()
        return sum(isinstance(o, torch.Tensor) for o in gc.get_objects())

    before = live_tensors()
    for _ in range(10):
        compiled(torch.randn(4, 4))
    assert live_tensors() <= before


def test_boxed_call_releases_inputs() -> None:
    compiled = torch.compile(lambda x: (x * 2).sum(), backend="gex")
    compiled(torch.randn(3))
    runner = last_report().runner
    arguments = [torch.randn(3)]
    runner(arguments)
    assert arguments == []


def test_an_argument_with_other_strides_is_copied() -> None:
    """Dynamo recompiles; some versions of PyTorch don't guard strides of parameters."""
    model, x = make_model(), torch.randn(4, 6)
    compiled = torch.compile(model, backend="gex")
    with torch.no_grad():
        compiled(x)
        runner = last_report().runner
        inputs = [model[0].weight, model[0].bias, x, model[2].weight, model[2].bias]
        assert_same(runner([*inputs])[0], model(x))
        transposed = [t.t().contiguous().t() for t in inputs]
        assert transposed[0].stride() != inputs[0].stride()
        assert_same(runner(transposed)[0], model(x))


def test_an_argument_that_is_written_or_viewed_is_never_copied() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1).sum()

    def view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[1:], x * 2

    for fn in (write, view):
        torch.compile(fn, backend="gex")(torch.zeros(3, 4))
        with pytest.raises(gex.UserError, match="stride 0 should be 4"):
            last_report().runner([torch.zeros(4, 3).t()])


def test_empty_tensors() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + x, x.sum(), x.reshape(-1, 64)

    x = torch.randn(0, 5, 1, 64)
    assert_same(torch.compile(fn, backend="gex")(x), fn(x))


def test_zero_dimensional_tensors() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    x = torch.tensor(3.0)
    assert_same(torch.compile(fn, backend="gex")(x), fn(x))
