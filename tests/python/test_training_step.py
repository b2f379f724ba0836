"""gex.training_step against the same steps in eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gex


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))


def conv_net() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 5))


def eager_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, args: Any, max_norm: float | None = None
) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(*args[:-1]), args[-1])
    optimizer.zero_grad()
    loss.backward()
    if max_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.detach()


def assert_same_state(ours: torch.optim.Optimizer, theirs: torch.optim.Optimizer) -> None:
    a, b = ours.state_dict()["state"], theirs.state_dict()["state"]
    assert a.keys() == b.keys()
    for key, values in b.items():
        for name, value in values.items():
            if value is not None:
                torch.testing.assert_close(a[key][name], value, rtol=1e-4, atol=1e-6)


Make = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=True
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adam_decay": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, amsgrad=True),
    "maximize": lambda p: torch.optim.Adam(p, lr=1e-3, maximize=True, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "groups": lambda p: torch.optim.AdamW(
        [{"params": list(p)[:2], "lr": 1e-2}, {"params": list(p)[2:], "weight_decay": 0.0}], lr=1e-3
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_like_eager(name: str) -> None:
    model = mlp()
    other = copy.deepcopy(model)
    ours = OPTIMIZERS[name](list(model.parameters()))
    theirs = OPTIMIZERS[name](list(other.parameters()))
    step = gex.training_step(model, nn.functional.cross_entropy, ours)
    for k in range(6):
        torch.manual_seed(k)
        args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
        torch.testing.assert_close(step(*args), eager_step(other, theirs, args))
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    assert_same_state(ours, theirs)
    assert len(step.reports) == 1
    assert not step.reports[0].calls


def test_batch_norm_and_sizes() -> None:
    """Statistics are written; another batch size makes a graph of its own."""
    model = conv_net()
    other = copy.deepcopy(model)
    ours = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    step = gex.training_step(model, nn.functional.cross_entropy, ours)
    for batch in (4, 4, 4, 3):
        args = (torch.randn(batch, 3, 8, 8), torch.randint(0, 5, (batch,)))
        torch.testing.assert_close(step(*args), eager_step(other, theirs, args))
    for p, q in zip(model.state_dict().values(), other.state_dict().values()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    assert len(step.reports) == 2


class Tagger(nn.Module):
    """The two biases of a cell have one gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(6, 8, 2, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0]).flatten(0, 1)


def test_parameters_with_one_gradient() -> None:
    torch.manual_seed(0)
    model = Tagger()
    other = copy.deepcopy(model)
    ours, theirs = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, other))
    step = gex.training_step(model, nn.functional.cross_entropy, ours)
    for _ in range(4):
        args = (torch.randn(3, 7, 6), torch.randint(0, 5, (21,)))
        torch.testing.assert_close(step(*args), eager_step(other, theirs, args))
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    assert not step.reports[0].calls


def test_scheduler_and_clipping() -> None:
    model = mlp()
    other = copy.deepcopy(model)
    ours, theirs = (torch.optim.AdamW(m.parameters(), lr=0.1) for m in (model, other))
    plans = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (ours, theirs)]
    step = gex.training_step(model, nn.functional.cross_entropy, ours, max_norm=0.05)
    for _ in range(5):
        args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
        torch.testing.assert_close(step(*args), eager_step(other, theirs, args, 0.05))
        for plan in plans:
            plan.step()
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    assert len(step.reports) == 1
    assert not step.reports[0].calls


def test_loaded_state() -> None:
    """A loaded state replaces tensors of the optimizer; the next step uses the new ones."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = gex.training_step(model, nn.functional.cross_entropy, optimizer)
    args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
    for _ in range(3):
        step(*args)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    expected = [float(step(*args)) for _ in range(3)]
    model.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    assert [float(step(*args)) for _ in range(3)] == expected


def test_results_frozen_parameters_and_model_loss() -> None:
    model = mlp()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = gex.training_step(model, nn.functional.cross_entropy, optimizer, return_results=True)
    args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
    with torch.no_grad():
        expected = model(args[0])
    loss, results = step(*args)
    torch.testing.assert_close(results, expected)
    assert not loss.requires_grad
    assert torch.equal(model[0].weight, before)
    assert model[2].weight.grad is None

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.inner(x), y)

    whole = WithLoss()
    step = gex.training_step(whole, None, torch.optim.SGD(whole.parameters(), lr=0.1))
    first = float(step(*args))
    assert float(step(*args)) < first


def test_misuse() -> None:
    model = mlp()
    args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
    with pytest.raises(gex.UserError, match="no update rule for Adagrad"):
        gex.training_step(model, None, torch.optim.Adagrad(model.parameters()))
    alien = torch.optim.SGD(mlp().parameters(), lr=0.1)
    with pytest.raises(gex.UserError, match="none of the parameters"):
        gex.training_step(model, nn.functional.cross_entropy, alien)(*args)


def test_version_counters() -> None:
    """Autograd notices that a parameter it saved was written."""
    model = mlp()
    step = gex.training_step(
        model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    args = (torch.randn(7, 12), torch.randint(0, 5, (7,)))
    out = (model[2].weight * model[2].weight).sum()
    step(*args)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


@pytest.mark.parametrize("freezes", [False, True])
@pytest.mark.parametrize("name", ["momentum", "adam_decay", "adamw_fused", "groups"])
def test_graphs_of_several_shapes_share_the_optimizers_state(name: str, freezes: bool) -> None:
    model = mlp()
    other = copy.deepcopy(model)
    ours = OPTIMIZERS[name](list(model.parameters()))
    theirs = OPTIMIZERS[name](list(other.parameters()))
    step = gex.training_step(model, nn.functional.cross_entropy, ours)
    for k, rows in enumerate([7, 4, 7, 4, 3, 7, 4, 7]):
        torch.manual_seed(k)
        args = (torch.randn(rows, 12), torch.randint(0, 5, (rows,)))
        if freezes:  # some calls train only the second layer
            for trained in (model, other):
                trained.get_submodule("0").requires_grad_(rows != 4)
        torch.testing.assert_close(step(*args), eager_step(other, theirs, args))
        for mine, expected in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)
        assert_same_state(ours, theirs)


def test_a_parameter_without_a_gradient_is_an_error() -> None:
    model = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
    model.forward = lambda x: model[0](x).sum()  # type: ignore[method-assign]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = gex.training_step(model, None, optimizer)
    with pytest.raises(gex.UserError, match=r"does not depend on a parameter: .*requires_grad_"):
        step(torch.ones(2, 3))
