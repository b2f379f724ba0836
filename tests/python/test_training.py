"""Training: forward and backward compiled, eager's loss curve."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gex
from conftest import Compile, assert_same


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(128, 256)
        self.out = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.hidden(x)))


def train(model: nn.Module, forward: object, steps: int) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    directions = torch.randn(128, 10, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 128, generator=generator)
        target = (x @ directions).argmax(-1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_mlp_has_eagers_loss_curve() -> None:
    model = Classifier()
    reference = copy.deepcopy(model)
    with gex.collect() as graphs:
        got = train(model, torch.compile(model, backend="gex"), 300)
    want = train(reference, reference, 300)
    assert len(graphs) == 2
    assert max(abs(a - b) for a, b in zip(got, want)) < 1e-3
    assert want[-1] < 0.5 * want[0]


def test_compiled_loss_and_optimizer() -> None:
    model = Classifier()
    reference = copy.deepcopy(model)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(x), torch.arange(8) % 10)
        loss.backward()
        return loss

    update = torch.compile(torch.optim.Adam.step, backend="gex")
    compiled_step = torch.compile(step, backend="gex")
    x = torch.randn(8, 128)
    ours = torch.optim.Adam(model.parameters())
    theirs = torch.optim.Adam(reference.parameters())
    for _ in range(4):
        loss = compiled_step(model, ours, x)
        update(ours)
        ours.zero_grad()
        expected = step(reference, theirs, x)
        theirs.step()
        theirs.zero_grad()
        assert_same(loss, expected, tolerance=1e-4)
    assert_same(list(model.parameters()), list(reference.parameters()), tolerance=1e-4)


def test_two_forwards_before_a_backward() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="gex")
    x, y = torch.randn(3, 4), torch.randn(3, 4)

    def gradients(fn: object) -> list[torch.Tensor]:
        model.zero_grad()
        a, b = fn(x), fn(y)
        (a.square().sum() + b.sum()).backward()
        return [p.grad.clone() for p in model.parameters()]

    assert_same(gradients(compiled), gradients(model))


def test_dynamic_batch_in_training() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="gex", dynamic=True)

    def gradients(fn: object, x: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad()
        x.grad = None
        fn(x).square().mean().backward()
        return [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]

    with gex.collect() as graphs:
        for rows in (3, 7, 5):
            x = torch.randn(rows, 4, requires_grad=True)
            assert_same(gradients(compiled, x), gradients(model, x), tolerance=1e-4)
    assert len(graphs) == 2


def test_dropout_in_training_draws_eagers_numbers() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="gex")
    x = torch.randn(3, 4)

    def run(fn: object) -> list[torch.Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        out = fn(x)
        out.sum().backward()
        return [out.detach(), torch.rand(2), *(p.grad.clone() for p in model.parameters())]

    assert_same(run(compiled), run(model))


@pytest.mark.parametrize("backend", ["gex", "npugraphs"])
def test_a_second_backward_through_the_same_graph(backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend=backend)
    x = torch.randn(3, 4)

    def gradients(fn: Callable[..., torch.Tensor], first_retains: bool) -> list[torch.Tensor]:
        model.zero_grad()
        if not first_retains:
            fn(x).sum().backward()
        loss = fn(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    for first_retains in (False, True):
        assert_same(gradients(compiled, first_retains), gradients(model, first_retains))


def test_a_backward_frees_what_the_forward_saved() -> None:
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers)
    x = torch.randn(2048, 256)  # 2 MiB
    with gex.collect() as graphs:
        torch.compile(model, backend="gex")(x).sum().backward()
    forward, backward = (graph.runner.counters for graph in graphs)
    assert forward["inputs_released"] == 0, "those are the caller's"
    assert backward["inputs_released"] >= 5
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert_same(gradients, [p.grad for p in model.parameters()], tolerance=1e-3)


def test_a_result_that_is_a_reshaped_intermediate() -> None:
    model = nn.Linear(4, 6)
    x = torch.randn(2, 3, 4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return model(x).flatten(0, 1)

    def gradients(fn: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        model.zero_grad()
        result = fn(x)
        result.square().sum().backward()
        return [result.detach(), *(p.grad.clone() for p in model.parameters())]

    compiled = torch.compile(fn, backend="gex")
    for _ in range(2):
        assert_same(gradients(compiled), gradients(fn))


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_a_first_layer_that_normalises(compile_with: Compile, needs_gradient: bool) -> None:
    """Its input may need no gradient, and PyTorch promises one all the same."""
    models = [nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4)]
    for model in models:
        torch._dynamo.reset()
        x = torch.randn(5, 4, requires_grad=needs_gradient)
        want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        got = torch.autograd.grad(compile_with(model)(x).square().sum(), list(model.parameters()))
        assert_same(got, want, 1e-4)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def kept_for_the_backward(
    model: nn.Module, fn: Callable[..., torch.Tensor], x: torch.Tensor
) -> tuple[int, list[torch.Tensor]]:
    """Bytes beside parameters, and the gradients."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = fn(x)
    result.sum().backward()
    for parameter in model.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(kept.values()), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(
    ("make", "wide_values"),
    [
        (lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)), 1),
        (Gated, 2),
        (lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)), 1),
    ],
    ids=["gelu", "gated", "relu"],
)
def test_an_activation_is_recomputed_if_its_argument_is_saved(
    make: Callable[[], nn.Module], wide_values: int
) -> None:
    model, x = make(), torch.randn(48, 32)
    in_eager, expected = kept_for_the_backward(model, model, x)
    compiled = torch.compile(model, backend="gex")
    compiled(x).sum().backward()
    kept, gradients = kept_for_the_backward(model, compiled, x)
    assert kept == (32 + wide_values * 64) * 48 * 4 <= in_eager
    assert_same(gradients, expected)


@pytest.mark.filterwarnings("ignore::gex.FallbackWarning")
@pytest.mark.parametrize(
    "loss",
    [
        lambda a: torch.linalg.det(a) * 3,
        lambda a: torch.linalg.slogdet(a.t() * 2)[1],
        lambda a: torch.linalg.solve(a.t() * 2, torch.arange(4.0)).dot(torch.arange(4.0)),
    ],
    ids=["det", "slogdet", "solve"],
)
def test_gradients_of_factored_matrices(loss: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """PyTorch factors the transpose of a contiguous matrix, and its backward counts on it."""
    matrix = torch.randn(4, 4)
    for start in (matrix, matrix.t()):
        eager = start.clone().requires_grad_()
        loss(eager).backward()
        torch._dynamo.reset()
        compiled = start.clone().requires_grad_()
        torch.compile(loss, backend="gex")(compiled).backward()
        assert_same(compiled.grad, eager.grad, 1e-4)
