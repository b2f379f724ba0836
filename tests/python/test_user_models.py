"""Results, buffers and gradients of users' models equal eager mode's, call after call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from user_models import MODELS, Model

SIZES = (5, 3, 5)
pytestmark = pytest.mark.filterwarnings("ignore::gex.FallbackWarning")


def built(model: Model) -> torch.nn.Module:
    torch.manual_seed(1)
    return model.build().train(model.trains)


def loss_of(leaves: list[torch.Tensor]) -> torch.Tensor:
    terms = [x.double().mul(k + 1).sum() for k, x in enumerate(leaves) if x.requires_grad]
    return torch.stack(terms).sum()


def history(model: Model, module: torch.nn.Module, run: Any) -> list[torch.Tensor]:
    """Each call's results and gradients, then the buffers."""
    found = []
    for n in SIZES:
        torch.manual_seed(n)
        inputs = model.inputs(n)
        module.zero_grad()
        with torch.set_grad_enabled(model.trains):
            leaves = tree_leaves(run(*inputs))
        found += [leaf.detach() for leaf in leaves]
        if model.trains:
            loss_of(leaves).backward()
            found += [p.grad.to_dense() for p in module.parameters() if p.grad is not None]
    return found + [buffer.clone() for buffer in module.buffers()]


@pytest.mark.parametrize("name", list(MODELS))
def test_user_model(name: str) -> None:
    model = MODELS[name]
    eager, module = built(model), built(model)
    backend, dynamic = ("gex", None) if model.trains else ("npugraph_ex", True)
    actual = history(model, module, torch.compile(module, backend=backend, dynamic=dynamic))
    expected = history(model, eager, eager)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * (1 + float(b.abs().max())))
