"""gex.regions: repeated blocks are traced once, or report why not; results equal eager's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gex
from conftest import assert_same, last_report
from gex.compat.dynamo_regions import REUSES_TRACES

WIDTH = 16


class Block(nn.Module):
    traces = 0  # times that Dynamo went through a forward

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = 0.5

    def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
        count_trace()
        y = torch.tanh(self.linear(self.norm(x))) * self.scale
        return x + y if shift is None else x + y + shift


@torch._dynamo.assume_constant_result
def count_trace() -> int:
    Block.traces += 1
    return 0


class Net(nn.Module):
    def __init__(self, block: type[nn.Module] = Block, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
            x = x[0] if isinstance(x, tuple) else x
        return self.head(x)


def forwards_of(model: Net) -> list[Any]:
    return [layer.__dict__.get("forward") for layer in model.layers]


# --- what is found --------------------------------------------------------------------------


def test_outermost_repeated_blocks_are_found() -> None:
    class Stage(nn.Module):
        def __init__(self, blocks: int) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))

    model = nn.ModuleDict({"a": Stage(2), "b": Stage(2), "c": Stage(3)})
    with gex.regions(model) as found:
        assert sorted(found.blocks) == ["a", "b", "c.blocks.0", "c.blocks.1", "c.blocks.2"]


def test_blocks_of_other_sizes_are_other_blocks() -> None:
    class Pair(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = nn.Linear(4, width)

    model = nn.ModuleList([Pair(4), Pair(5), Pair(4), Pair(6)])
    with gex.regions(model) as found:
        assert found.blocks == ["0", "2"]


def test_single_layers_are_not_blocks() -> None:
    found = gex.regions(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)))
    assert found.blocks == []
    assert str(found) == "no repeated blocks"


def test_only_modules_have_blocks() -> None:
    with pytest.raises(TypeError, match="takes a module"):
        gex.regions(torch.relu)


def test_undo_and_exit_leave_no_trace() -> None:
    model = Net()
    found = gex.regions(model)
    assert len(found.blocks) == 4
    found.undo()
    assert forwards_of(model) == [None] * 4
    with pytest.raises(ZeroDivisionError), gex.regions(model):
        assert None not in forwards_of(model)
        raise ZeroDivisionError
    assert forwards_of(model) == [None] * 4
    assert not any(name.startswith("__marked") for name in vars(Block.forward))


def test_a_replaced_forward_is_kept() -> None:
    model = Net()
    own = model.layers[1].forward
    model.layers[1].forward = own
    with gex.regions(model) as found:
        assert found.reasons == {"Block": "its forward was already replaced"}
    assert forwards_of(model) == [None, own, None, None]


# --- what is traced -------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_body_is_traced_once_and_kernels_are_shared(dynamic: bool) -> None:
    kernels = []
    for layers in (2, 6):
        model = Net(layers=layers)
        compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=dynamic)
        Block.traces = 0
        with gex.regions(model) as found:
            for length in (5, 5, 8) if dynamic else (5,):
                x, shift = torch.randn(length, WIDTH), torch.randn(length, WIDTH)
                assert_same(compiled(x, shift=shift), model(x, shift=shift))
        assert found.reasons == {}
        report = last_report()
        assert sum(report.regions.values()) == layers
        assert len(report.regions) == 1 or not REUSES_TRACES
        assert "traced once" in report.text()
        kernels.append(report.runner.text("program").count("\ncode "))
        traced = Block.traces - layers * (3 if dynamic else 1)  # less the eager calls
        assert traced == (1 if REUSES_TRACES else layers)
    assert kernels[0] == kernels[1] > 0


@torch.no_grad()
def test_calls_differ_by_which_arguments_are_the_same_tensor() -> None:
    model = Net()
    x = torch.randn(5, WIDTH)
    with gex.regions(model):
        got = torch.compile(model, backend="gex", fullgraph=True)(x, shift=x)
    assert_same(got, model(x, shift=x))
    assert list(last_report().regions.values()) == ([3] if REUSES_TRACES else [1, 3])


def train(model: nn.Module, forward: Any) -> list[Any]:
    steps = []
    for step in range(3):
        torch.manual_seed(step)
        loss = forward(torch.randn(5 + step, WIDTH)).square().mean()
        loss.backward()
        steps.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
        model.zero_grad()
    return steps


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_through_regions(dynamic: bool) -> None:
    model = Net()
    want = train(model, model)
    with gex.regions(model) as found, gex.collect() as graphs:
        got = train(model, torch.compile(model, backend="gex", fullgraph=True, dynamic=dynamic))
    assert found.reasons == {}
    assert_same(got, want)
    assert len(graphs) == (2 if dynamic else 6)
    assert all(graph.regions for graph in graphs)


def test_calls_through_pytorch_inside_a_region() -> None:
    class Rotates(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + x @ torch.linalg.matrix_exp(self.linear.weight)

    model = Net(Rotates)
    x = torch.randn(5, WIDTH)
    with torch.no_grad(), gex.regions(model):
        got = torch.compile(model, backend="gex", fullgraph=True)(x)
        assert_same(got, model(x), 1e-4)
    assert last_report().regions
    calls = last_report().calls
    assert [call.op for call in calls] == ["aten.linalg_matrix_exp.default"] * 4
    assert all(call.location.startswith(__file__) for call in calls)
    assert [call.location.split(" of ")[1] for call in calls] == [f"layers.{k}" for k in range(4)]


@pytest.mark.parametrize("random", ["eager", "fast"])
@torch.no_grad()
def test_each_call_of_a_region_draws_its_own_numbers(random: str) -> None:
    class Draws(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + nn.functional.dropout(torch.ones_like(x), 0.5).sign()

    layers = Net(Draws).layers

    def bits(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    with gex.regions(layers) as found:
        options = {"random": random}
        compiled = torch.compile(bits, backend="gex", fullgraph=True, options=options)
        torch.manual_seed(3)
        got = compiled(torch.zeros(8, WIDTH))
        assert found.reasons == {}
    assert len(got.unique()) == 16  # one bit from each of the four
    if random == "eager":
        torch.manual_seed(3)
        assert_same(got, bits(torch.zeros(8, WIDTH)))


def test_floats_stay_inputs_in_other_compilations() -> None:
    model = Net()
    x = torch.randn(3, WIDTH)
    with gex.regions(model), torch.no_grad():
        torch.compile(model, backend="gex", dynamic=True)(x)
    with gex.collect() as graphs:
        scaled = torch.compile(lambda x, rate: x * rate, backend="gex", dynamic=True)
        for rate in (0.5, 0.25, 0.75):
            assert_same(scaled(x, rate), x * rate)
    assert len(graphs) == 1


# --- what can't be a region -----------------------------------------------------------------


class Counts(Block):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


class Breaks(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return super().forward(x)


class TakesObject(Block):
    def forward(self, x: torch.Tensor, settings: object = None) -> torch.Tensor:
        return super().forward(x)


class Settings:
    pass


class ReturnsNone(Block):
    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x), None


class Numbered(Block):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        Numbered.made += 1
        self.number = Numbered.made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.number


class Normalises(Block):
    def __init__(self) -> None:
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.batch_norm(super().forward(x))


FALLBACKS = {
    Counts: "changes something outside itself",
    TakesObject: "arguments that are not tensors, numbers or modules",
    Breaks: "graph_break()",
    ReturnsNone: "returns a NoneType",
    Numbered: "every call differs",
    Normalises: "mutations",
}
# Reasons not to reuse a trace: no problem where Dynamo traces every block.
_OF_REUSE = (Counts, TakesObject)


@pytest.mark.parametrize("block", FALLBACKS, ids=lambda block: block.__name__)
def test_falls_back_and_reports_why(block: type[Block]) -> None:
    model = Net(block, layers=10 if block is Numbered else 3)
    args = (Settings(),) if block is TakesObject else ()
    twin = copy.deepcopy(model)
    x = torch.randn(5, WIDTH)
    with gex.regions(model) as found, gex.collect() as graphs:
        got = torch.compile(model, backend="gex")(x, *args)
    assert_same(got, twin(x, *args))
    assert_same(list(model.buffers()), list(twin.buffers()))
    if REUSES_TRACES or block not in _OF_REUSE:
        assert FALLBACKS[block] in found.reasons[block.__name__]
        assert FALLBACKS[block] in str(found)
        assert FALLBACKS[block] in graphs[0].text()
        assert found.blocks == []
    else:
        assert found.reasons == {}
    if block is Counts:
        assert [layer.calls for layer in model.layers] == [1, 1, 1]


class DrawsNumbers(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class Checkpointed(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


def loss_and_gradients(run: Any, model: nn.Module) -> list[torch.Tensor]:
    torch.manual_seed(5)
    loss = run(torch.linspace(-1, 1, 5 * WIDTH).view(5, WIDTH)).square().mean()
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def test_a_checkpoint_recomputes_the_numbers_that_a_block_drew() -> None:
    model = Checkpointed(DrawsNumbers, layers=3)
    expected = loss_and_gradients(model, model)
    with gex.regions(model) as found:
        got = loss_and_gradients(torch.compile(model, backend="gex"), model)
    assert_same(got, expected)
    assert "a checkpoint recomputes it" in found.reasons["DrawsNumbers"]
    model.eval()  # nothing is drawn: they may be regions
    with gex.regions(model) as found:
        got = loss_and_gradients(torch.compile(model, backend="gex"), model)
        assert len(found.blocks) == 3
    assert_same(got, loss_and_gradients(model, model))


def test_regions_of_the_users_in_a_checkpoint_draw_once() -> None:
    model = DrawsNumbers()

    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    def thrice(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = checkpoint(region, x, use_reentrant=False)
        return x

    expected = loss_and_gradients(thrice, model)
    with torch._dynamo.config.patch(specialize_float=True):
        got = loss_and_gradients(torch.compile(thrice, backend="gex"), model)
    assert_same(got, expected)


def test_a_copy_with_regions_falls_back_too() -> None:
    model = Net(ReturnsNone, layers=2)
    x = torch.randn(5, WIDTH)
    with gex.regions(model):
        twin = copy.deepcopy(model)
    assert_same(torch.compile(twin, backend="gex")(x), model(x))
    assert forwards_of(twin) == [None, None]


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_found_inside_a_region_called_twice() -> None:
    class Selects(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = torch.nonzero(x[:, 0] > 0).squeeze(1)
            return x.index_add(0, rows, super().forward(x[rows]))

    model = Net(Selects)
    x = torch.randn(6, WIDTH)
    with torch.no_grad(), gex.regions(model) as found, gex.collect() as graphs:
        got = torch.compile(model, backend="gex", fullgraph=True)(x)
        assert_same(got, model(x))
    assert list(found.reasons) == ["Selects"]
    assert len(graphs) == 1
