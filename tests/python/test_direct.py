"""gex.compile: modules and exported programs without Dynamo."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import gex
from conftest import assert_same


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(
        self, x: torch.Tensor, *, mask: torch.Tensor | None = None, scale: float = 1.0
    ) -> dict[str, torch.Tensor | tuple[torch.Tensor, ...]]:
        y = self.first(x) * scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return {"y": y, "parts": (self.second(x), x + 1)}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


@pytest.mark.parametrize("executor", ["interpreter", "compiled"])
def test_static_module(executor: str) -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = gex.compile(model, (x,), options={"executor": executor})
    for _ in range(3):
        x = torch.randn(3, 8)
        assert_same(compiled(x), model(x).detach())
    assert compiled.report.native_share == 1.0
    assert not compiled(x).requires_grad


def test_functions_without_a_signature() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(gex.compile(torch.relu, (x,))(x), torch.relu(x))


def test_dynamic_sizes_share_one_graph() -> None:
    model = mlp()
    compiled = gex.compile(model, (torch.randn(3, 8),), ({0: Dim("rows", min=2, max=64)},))
    for rows in (2, 5, 64):
        x = torch.randn(rows, 8)
        assert_same(compiled(x), model(x).detach())
    with pytest.raises(gex.UserError, match=r'"input".*dim 0 should be at most 64'):
        compiled(torch.randn(65, 8))


def test_nested_results_and_arguments_by_name() -> None:
    model, x = TwoHeads(), torch.randn(3, 8)
    mask = torch.rand(3, 4) > 0.5
    compiled = gex.compile(model, (x,), example_kwargs={"mask": mask, "scale": 2.0})
    expected = model(x, mask=mask, scale=2.0)
    for got in (compiled(x, scale=2.0, mask=mask), compiled(x=x, mask=mask, scale=2.0)):
        assert list(got) == ["y", "parts"] and isinstance(got["parts"], tuple)
        assert_same(got["y"], expected["y"].detach())
        assert_same(got["parts"][0], expected["parts"][0].detach())
        assert_same(got["parts"][1], expected["parts"][1])


def test_nested_arguments() -> None:
    def f(pair: tuple[torch.Tensor, torch.Tensor], more: dict[str, torch.Tensor]) -> list:
        return [pair[0] + pair[1], more["c"] * 2, None, 3]

    a, b, c = torch.randn(2), torch.randn(2), torch.randn(3)
    compiled = gex.compile(f, ((a, b), {"c": c}))
    got = compiled((b, b), {"c": c + 1})
    assert_same(got[0], b + b)
    assert_same(got[1], (c + 1) * 2)
    assert got[2:] == [None, 3]


def test_arrays_in_arrays_out() -> None:
    model = mlp()
    compiled = gex.compile(model, (np.zeros((3, 8), np.float32),))
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    result = compiled(x)
    assert isinstance(result, np.ndarray)
    assert_same(torch.from_numpy(result), model(torch.from_numpy(x)).detach())
    x.flags.writeable = False
    assert np.array_equal(compiled(x), result)
    assert np.array_equal(compiled(np.asfortranarray(x)), result)


def test_exported_program() -> None:
    model, x = TwoHeads(), torch.randn(3, 8)
    program = torch.export.export(model, (x,), {"mask": torch.zeros(3, 4, dtype=torch.bool)})
    compiled = gex.compile(program)
    mask = torch.rand(3, 4) > 0.5
    assert_same(compiled(x, mask=mask)["y"], model(x, mask=mask)["y"].detach())
    with pytest.raises(TypeError, match="pass it alone"):
        gex.compile(program, (x,))


def test_many_threads() -> None:
    model = mlp()
    compiled = gex.compile(model, (torch.randn(3, 8),), ({0: Dim("rows", min=2, max=64)},))

    def work(rows: int) -> bool:
        x = torch.full((rows, 8), float(rows))
        expected = model(x).detach()
        return all(torch.allclose(compiled(x), expected, atol=1e-5) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [2, 3, 5, 7] * 4))


def test_other_layouts_are_copied() -> None:
    model = nn.Conv2d(3, 4, 3).eval()
    compiled = gex.compile(model, (torch.randn(2, 3, 8, 8),))
    for x in (
        torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 8, 16)[..., ::2],
    ):
        assert_same(compiled(x), model(x).detach().contiguous())


def test_buffers_are_written_in_the_module() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    eager = copy.deepcopy(model)
    compiled = gex.compile(model, (torch.randn(5, 4),))
    assert_same(model.state_dict(), eager.state_dict())  # tracing writes nothing
    for _ in range(3):
        x = torch.randn(5, 4)
        assert_same(compiled(x), eager(x).detach())
        assert_same(model.state_dict(), eager.state_dict())
        assert_same(compiled.state["1.running_mean"], eager[1].running_mean)
    assert model[1].num_batches_tracked.item() == 3


def test_buffers_of_an_exported_program_are_copied() -> None:
    eager = nn.BatchNorm1d(4).train()
    program = torch.export.export(copy.deepcopy(eager), (torch.randn(3, 4),))
    compiled = gex.compile(program)
    for _ in range(3):
        x = torch.randn(3, 4)
        assert_same(compiled(x), eager(x).detach())
        assert_same(compiled.state["running_mean"], eager.running_mean)
    assert program.state_dict["num_batches_tracked"].item() == 0


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_copies_have_a_state_of_their_own(copied: Callable[[Any], Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    eager = copy.deepcopy(model)
    compiled = gex.compile(model, (torch.randn(5, 4),))
    x = torch.randn(5, 4)
    assert_same(compiled(x), eager(x).detach())
    # Later changes of the module do not affect what was compiled.
    model.eval()
    model[0].weight = nn.Parameter(torch.zeros(3, 4))
    before = {name: t.clone() for name, t in compiled.state.items()}
    other = copied(compiled)
    assert_same(other(x), eager(x).detach())
    assert_same(other.state, {name: dict(eager.named_buffers())[name] for name in other.state})
    assert_same(compiled.state, before)
    assert not model.training


def test_a_shallow_copy_shares_its_state() -> None:
    compiled = gex.compile(nn.BatchNorm1d(4).train(), (torch.randn(3, 4),))
    other = copy.copy(compiled)
    other(torch.randn(3, 4))
    assert other is not compiled
    assert compiled.state["num_batches_tracked"].item() == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_copies_of_compiled_exported_programs(copied: Callable[[Any], Any]) -> None:
    program = torch.export.export(nn.BatchNorm1d(4).train(), (torch.randn(3, 4),))
    compiled = gex.compile(program, options={"opt_level": 1})
    compiled(torch.randn(3, 4))
    other = copied(compiled)
    assert_same(other.state, compiled.state)
    x = torch.randn(3, 4)
    assert_same(other(x), compiled(x))
    assert_same(other.state, compiled.state)


def test_copies_keep_sizes_names_and_structure() -> None:
    rows = Dim("rows", min=2, max=64)
    examples = ({"a": torch.randn(4, 3)}, 2)
    sizes = {"x": {"a": {0: rows}}, "factor": None, "b": None}
    compiled = gex.compile(Scaled(), examples, sizes, example_kwargs={"b": torch.randn(3)})
    other = pickled(compiled)
    for n in (4, 9):
        x, b = torch.randn(n, 3), torch.randn(3)
        assert_same(other({"a": x}, 2, b=b), compiled({"a": x}, 2, b=b))


class Scaled(nn.Module):
    def forward(self, x: dict[str, torch.Tensor], factor: int, b: torch.Tensor) -> torch.Tensor:
        return x["a"] * factor + b


def test_a_function_without_a_name_can_be_copied_but_not_pickled() -> None:
    compiled = gex.compile(lambda x: x + 1, (torch.ones(2),))
    assert copy.deepcopy(compiled)(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(compiled)


@pytest.mark.parametrize("executor", ["compiled", "interpreter"])
def test_sizes_that_derive_from_others(executor: str) -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x[::2] + x[1::2], x.view(-1, 2, 3), y[1:] * 2, y.view(-1)

    half, rest = Dim("half", min=2, max=64), Dim("rest", min=2, max=9)
    compiled = gex.compile(
        Halves(),
        (torch.randn(8, 3), torch.randn(4, 2)),
        dynamic_shapes=({0: 2 * half}, {0: rest + 1}),
        options={"executor": executor},
    )
    for n, m in ((8, 4), (10, 10), (128, 3)):
        x, y = torch.randn(n, 3), torch.randn(m, 2)
        assert_same(compiled(x, y), Halves()(x, y))
    if executor == "interpreter":
        return  # says no more than that the size has no value
    for n, m in ((9, 4), (130, 4), (8, 11)):
        with pytest.raises(gex.UserError, match="dim 0 should be"):
            compiled(torch.randn(n, 3), torch.randn(m, 2))


def test_inputs_are_written_in_place() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    compiled = gex.compile(f, (torch.ones(2, 3),))
    for x in (torch.ones(2, 3), torch.ones(3, 2).T, np.ones((2, 3), np.float32)):
        assert compiled(x).tolist() == [[3, 3, 3]] * 2
        assert x.tolist() == [[2, 2, 2]] * 2


def test_parameters_are_bound_when_compiled() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = gex.compile(model, (x,))
    expected = model(x).detach()
    model[0].weight = nn.Parameter(torch.zeros(16, 8))
    assert_same(compiled(x), expected)


def test_compiled_before_the_first_call() -> None:
    compiled = gex.compile(mlp(), (torch.randn(3, 8),))
    assert compiled.report.runner.counters["calls"] == 0
    assert "launch" in compiled.report.runner.text("program")


def test_parameters_written_to_later_are_named() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = gex.compile(model, (x,))
    with torch.no_grad():
        model[0].weight.zero_()
    with pytest.warns(UserWarning, match=r"0\.weight was written to"):
        assert_same(compiled(x), model(x).detach())


def test_op_without_row_runs_as_a_call_without_gradients() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x)[1].abs()

    x = torch.randn(4, 4, requires_grad=True)
    compiled = gex.compile(f, (x,))
    result = compiled(x)
    assert_same(result, f(x).detach())
    assert not result.requires_grad and compiled.report.calls
    with pytest.raises(gex.CallNotAllowed):
        gex.compile(f, (x,), options={"strict": True})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3, 8, dtype=torch.float64),), r'"input".*expected f32.*convert it to f32'),
        ((torch.ones(4, 8),), r'"input".*dim 0 should be 3'),
        ((torch.ones(3, 8, 1),), r'"input".*should have 2 dims'),
        ((torch.ones(3, 8), torch.ones(1)), "too many positional arguments"),
        ((), "missing a required argument: 'input'"),
        ((1.5,), "input 'input' must be a tensor or an array, got 1.5"),
        (([torch.ones(3, 8)],), "a different structure than the examples"),
    ],
)
def test_wrong_inputs_are_named(arguments: tuple, message: str) -> None:
    compiled = gex.compile(mlp(), (torch.randn(3, 8),))
    with pytest.raises((gex.UserError, TypeError), match=message):
        compiled(*arguments)


def test_constants_are_fixed() -> None:
    compiled = gex.compile(TwoHeads(), (torch.randn(3, 8),), example_kwargs={"scale": 2.0})
    with pytest.raises(
        gex.UserError, match=r"'scale' was exported with the value 2.0 and is fixed"
    ):
        compiled(torch.randn(3, 8), scale=3.0)


def test_unsupported_programs_are_rejected() -> None:
    with pytest.raises(TypeError, match="example_inputs is missing"):
        gex.compile(mlp())
    with pytest.raises(TypeError, match="expected a module"):
        gex.compile(3, (torch.ones(2),))
    with pytest.raises(ValueError, match="unknown option 'strickt'; did you mean 'strict'"):
        gex.compile(mlp(), (torch.ones(2, 8),), options={"strickt": True})


def test_complex_inputs_and_buffers() -> None:
    class Rotation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(3), torch.arange(3.0)))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x * self.turn, self.turn, x, x.real + 1

    module, x = Rotation(), torch.randn(2, 3, dtype=torch.complex64)
    compiled = gex.compile(module, (x,))
    for got, want in zip(compiled(x), module(x)):
        torch.testing.assert_close(got, want)


def test_indices_in_a_buffer_are_checked():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ids", torch.arange(4))
            self.table = nn.Embedding(10, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.table(self.ids * 2)

    model, x = Positions().eval(), torch.randn(4, 3)
    torch.testing.assert_close(gex.compile(model, (x,))(x), model(x).detach())


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class MixedPrecision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(x)


@pytest.mark.parametrize(
    "module",
    [Branches(), MixedPrecision(), nn.BatchNorm1d(8), nn.LSTM(8, 4)],
    ids=lambda module: type(module).__name__,
)
def test_a_module_and_its_exported_program_become_the_same_program(module: nn.Module) -> None:
    x = torch.randn(3, 8)
    texts = []
    for given in ((module, (x,)), (torch.export.export(module, (x,)),)):
        compiled = gex.compile(*given)
        text = compiled.report.runner.text().replace(compiled.report.name, "")
        texts.append(re.sub(' at ".*?"', "", text))
    assert texts[0] == texts[1]


def test_a_scripted_module_is_refused() -> None:
    with pytest.raises(TypeError, match="ScriptModule"):
        gex.compile(torch.jit.script(nn.Linear(8, 8)), (torch.randn(3, 8),))


def test_a_size_may_be_all_that_the_export_promises() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)).eval()
    batch = Dim("batch")
    compiled = gex.compile(model, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    for rows in (1, 0, 2, 7):
        x = torch.randn(rows, 4)
        assert_same(compiled(x), model(x))
    several = gex.compile(
        model,
        (torch.randn(3, 4),),
        dynamic_shapes=({0: Dim("batch", min=2)},),
    )
    with pytest.raises(gex.UserError, match="at least 2"):
        several(torch.randn(1, 4))


def test_parameters_are_read_again_after_they_moved() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randn(3, 4)
    other = gex.compile(nn.Linear(4, 4), (x,))
    compiled = gex.compile(model, (x,))
    other(x), compiled(x)
    for of in (model, compiled):
        model[0].weight.data = torch.randn(8, 4)
        assert gex.refresh(of) == 1
        assert_same(compiled(x), model(x))


def test_a_returned_parameter_needs_no_gradient() -> None:
    class Returns(nn.Linear):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.weight, self.weight.t(), super().forward(x)

    model, x = Returns(3, 3), torch.randn(2, 3)
    results = gex.compile(model, (x,))(x)
    assert_same(results, [result.detach() for result in model(x)])
    assert not any(result.requires_grad for result in results)


def test_a_compiled_program_is_explained() -> None:
    x = torch.randn(3, 4)
    compiled = gex.compile(nn.Linear(4, 2), (x,))
    explained = gex.explain(compiled, x)
    assert explained.graphs == [compiled.report]
    assert len(explained.captures) == 1
    assert explained.seconds["import"] > 0
    assert "import: ATen to a Graph" in str(explained)


class Solves(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.linalg.solve(a, b), torch.linalg.inv(a) + 1, torch.linalg.cholesky(a @ a.mT)


def test_checks_of_linear_algebra_are_kept() -> None:
    a, b = torch.randn(3, 3) + 3 * torch.eye(3), torch.randn(3, 2)
    for source in (Solves(), torch.export.export(Solves(), (a, b))):
        examples = ((a, b),) if isinstance(source, nn.Module) else ()
        compiled = gex.compile(source, *examples)
        assert_same(compiled(a, b), Solves()(a, b))
        with pytest.raises(torch._C._LinAlgError, match="singular"):
            compiled(torch.zeros(3, 3), b)


def test_integers_that_determine_sizes_are_fixed() -> None:
    compiled = gex.compile(lambda x, rows: x.view(rows, -1) * rows, (torch.randn(6), 2))
    x = torch.randn(6)
    assert torch.equal(compiled(x, 2), x.view(2, -1) * 2)
    with pytest.raises(gex.UserError, match="exported with the value 2 and is fixed"):
        compiled(x, 3)


def test_objects_inside_a_program_are_refused_with_advice() -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3, generator=torch.Generator().manual_seed(5))

    with pytest.raises(gex.UserError, match=r"such as a torch\.Generator; make it outside"):
        gex.compile(drawn, (torch.randn(3),))


def test_marks_for_the_profiler_compute_nothing() -> None:
    def marked(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("outer"):
            with torch.autograd.profiler.record_function("inner"):
                y = x * 2
            return y + 1

    x = torch.randn(3)
    compiled = gex.compile(marked, (x,), options={"strict": True})
    assert torch.equal(compiled(x), marked(x))
