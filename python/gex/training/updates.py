"""The update rules of optimizers, with the arithmetic of PyTorch's own functions.

Numbers that depend on the step or the learning rate are scalars in f64, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gex.training.graph_terms import Term

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Moment:
    """Values shared by the parameters of a group: the learning rate and the number of this step."""

    rate: Term
    step: Term | None


State = dict[str, Term]
Update = Callable[[Term, Term, State, Settings, Moment], Term]


def sgd(p: Term, gradient: Term, state: State, settings: Settings, moment: Moment) -> Term:
    """The new parameter; new values of the state replace the old ones in `state`."""
    if settings["maximize"]:
        gradient = -gradient
    if settings["weight_decay"] != 0:
        gradient = gradient + p * settings["weight_decay"]
    momentum = settings["momentum"]
    if momentum != 0:
        sums = state["momentum_buffer"] * momentum + gradient * (1 - settings["dampening"])
        state["momentum_buffer"] = sums
        gradient = gradient + sums * momentum if settings["nesterov"] else sums
    return p - gradient * moment.rate


def adam(p: Term, gradient: Term, state: State, settings: Settings, moment: Moment) -> Term:
    assert moment.step is not None
    beta1, beta2 = settings["betas"]
    decay = settings["weight_decay"]
    if settings["maximize"]:
        gradient = -gradient
    if decay != 0 and settings["decoupled_weight_decay"]:
        p = p * (1.0 - moment.rate * decay)
    elif decay != 0:
        gradient = gradient + p * decay
    mean = state["exp_avg"] + (gradient - state["exp_avg"]) * (1 - beta1)
    square = state["exp_avg_sq"] * beta2 + gradient * gradient * (1 - beta2)
    state["exp_avg"], state["exp_avg_sq"] = mean, square
    if settings["amsgrad"]:
        square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].larger_of(square)
    size = moment.rate / (1.0 - beta1**moment.step)
    root = (1.0 - beta2**moment.step).sqrt()
    return p - (mean / (square.sqrt() / root + settings["eps"])) * size


@dataclass(frozen=True)
class Rule:
    update: Update
    settings: tuple[str, ...]  # that it reads, besides the learning rate
    state: Callable[[Settings], tuple[str, ...]]  # names of the tensors of a parameter
    counts: bool  # has a tensor `step`


def _adam_state(settings: Settings) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if settings["amsgrad"] else ()))


def _sgd_state(settings: Settings) -> tuple[str, ...]:
    return ("momentum_buffer",) if settings["momentum"] != 0 else ()


_SGD = ("maximize", "weight_decay", "momentum", "dampening", "nesterov")
_ADAM = ("maximize", "weight_decay", "betas", "eps", "amsgrad", "decoupled_weight_decay")

RULES: dict[type[torch.optim.Optimizer], Rule] = {
    torch.optim.SGD: Rule(sgd, _SGD, _sgd_state, False),
    torch.optim.Adam: Rule(adam, _ADAM, _adam_state, True),
    torch.optim.AdamW: Rule(adam, _ADAM, _adam_state, True),
}
